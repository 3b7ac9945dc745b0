"""The Kubernetes API, wrapped once: its objects, and what goes through it to pods.

Answers stay JSON until `zonequake_kube.objects` gives them types.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import quote

import aiohttp

from zonequake_kube.connection import REQUEST_TIMEOUT_S, ApiConnection
from zonequake_kube.errors import ClusterError, NotFound
from zonequake_kube.execution import PROTOCOL, ExecResult, Execution, named_errors
from zonequake_kube.objects import Json

WATCH_TIMEOUT_S = 240
_WATCH_LATE_S = 30.0
"""After that time the server would have ended a watch: its connection is dead, without a word."""

FIELD_MANAGER = "zonequake-chaos"
_PART_BYTES = 1024 * 1024
"""Bytes of a download in memory at once."""

_KINDS = {
    "Pod": ("/api/v1", "pods"),
    "Service": ("/api/v1", "services"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "Secret": ("/api/v1", "secrets"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "Event": ("/api/v1", "events"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "DistributionZone": ("/apis/zonequake.io/v1alpha1", "distributionzones"),
    "Partition": ("/apis/zonequake.io/v1alpha1", "partitions"),
    "Table": ("/apis/zonequake.io/v1alpha1", "tables"),
    "LogicalTopology": ("/apis/zonequake.io/v1alpha1", "logicaltopologies"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvent:
    """One line of a watch: `ADDED`, `MODIFIED`, `DELETED`, and the object."""

    kind: str
    object: Json


class Kube(ApiConnection):
    """The calls of one connection; each raises ClusterError where it isn't answered."""

    # Objects -----------------------------------------------------------------------------------

    def path(self, kind: str, name: str | None = None, *parts: str) -> str:
        """Returns the API path of a kind's collection in the namespace, or of one object (and
        below).
        """
        prefix, plural = _KINDS[kind]
        tail = "/".join(quote(part, safe="") for part in ((name,) if name else ()) + parts)
        return f"{prefix}/namespaces/{self.namespace}/{plural}" + (f"/{tail}" if tail else "")

    async def get(self, kind: str, name: str) -> Json:
        """One object. Raises NotFound."""
        return await self._json("GET", self.path(kind, name))

    async def has(self, kind: str, name: str) -> bool:
        """Returns whether there is an object of that name. Its content isn't sent."""
        headers = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
        try:
            await self._bytes("GET", self.path(kind, name), headers=headers)
        except NotFound:
            return False
        return True

    async def find(self, kind: str, labels: str = "") -> list[Json]:
        """Lists the namespace's objects of a kind with these labels."""
        return (await self.snapshot(kind, labels))[0]

    async def snapshot(self, kind: str, labels: str = "") -> tuple[list[Json], str]:
        """Returns what `find` lists, and the resource version from which a watch goes on."""
        found = await self._json("GET", self.path(kind), params={"labelSelector": labels})
        return list(found["items"]), str(found["metadata"]["resourceVersion"])

    async def create(self, manifest: Json) -> Json:
        """Creates an object. Raises Conflict if there is one of that name."""
        return await self._json("POST", self.path(manifest["kind"]), body=manifest)

    async def apply(self, manifest: Json) -> Json:
        """Server-side apply, ours wins."""
        return await self._json(
            "PATCH",
            self.path(manifest["kind"], manifest["metadata"]["name"]),
            params={"fieldManager": FIELD_MANAGER, "force": "true"},
            body=manifest,
            content_type="application/apply-patch+yaml",
        )

    async def try_write(self, manifest: Json, *, replaces: bool) -> Json:
        """Returns the object as the server would store it, with its defaults; writes nothing.
        Raises ClusterError with the server's reason if it would refuse.
        """
        name = manifest["metadata"]["name"] if replaces else None
        return await self._json(
            "PUT" if replaces else "POST",
            self.path(manifest["kind"], name),
            params={
                "dryRun": "All",
                "fieldManager": FIELD_MANAGER,
                "fieldValidation": "Strict",  # else an unknown field is left out silently
            },
            body=manifest,
        )

    async def patch(self, kind: str, name: str, change: Json, *parts: str) -> Json:
        """JSON merge patch of one object, or of its subresource `parts`."""
        return await self._json(
            "PATCH",
            self.path(kind, name, *parts),
            body=change,
            content_type="application/merge-patch+json",
        )

    async def delete(
        self, kind: str, name: str, *, uid: str | None = None, grace_s: int | None = None
    ) -> None:
        """Deletes one object; with `uid` only that one. Raises NotFound, Conflict."""
        body: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        await self._json("DELETE", self.path(kind, name), body=body)

    async def delete_all(self, kind: str, labels: str, *, name: str = "") -> None:
        """Deletes every object of a kind with these labels; only the one named so, if it is.

        By name too it needs no other right than that to delete collections.
        """
        params = {"labelSelector": labels} | (
            {"fieldSelector": f"metadata.name={name}"} if name else {}
        )
        await self._json("DELETE", self.path(kind), params=params)

    async def nodes(self) -> list[Json]:
        """Lists the cluster's nodes; an account for one namespace may not."""
        return list((await self._json("GET", "/api/v1/nodes"))["items"])

    async def namespace_labels(self) -> Mapping[str, str]:
        """Labels of the namespace itself. Raises NotFound."""
        found = await self._json("GET", f"/api/v1/namespaces/{self.namespace}")
        return dict(found["metadata"].get("labels") or {})

    async def ensure_namespace(self, labels: Mapping[str, str]) -> None:
        """Sees to it that the namespace exists and carries these labels."""
        await self._json(
            "PATCH",
            f"/api/v1/namespaces/{self.namespace}",
            params={"fieldManager": FIELD_MANAGER, "force": "true"},
            body={
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": self.namespace, "labels": dict(labels)},
            },
            content_type="application/apply-patch+yaml",
        )

    async def account_token(self, account: str, *, lifetime_s: int) -> str:
        """Requests a token of a ServiceAccount; a server may shorten its life. Raises NotFound."""
        answer = await self._json(
            "POST",
            self.path("ServiceAccount", account, "token"),
            body={
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": lifetime_s},
            },
        )
        return str(answer["status"]["token"])

    async def version(self) -> str:
        """Returns the API server's version."""
        return str((await self._json("GET", "/version"))["gitVersion"])

    async def served_versions(self, group: str) -> list[str]:
        """Returns the versions of an API group that are served; empty if there is no such group."""
        try:
            found = await self._json("GET", f"/apis/{quote(group, safe='.')}")
        except NotFound:
            return []
        return [str(version["version"]) for version in found["versions"]]

    async def is_refused(self) -> bool:
        """Returns whether no process listens at the API server's address."""
        try:
            await self.version()
        except ClusterError as error:
            return isinstance(error.__cause__, aiohttp.ClientConnectorError) and isinstance(
                error.__cause__.os_error, ConnectionRefusedError
            )
        return False

    async def watch(
        self, kind: str, *, labels: str, resource_version: str
    ) -> AsyncIterator[WatchEvent]:
        """Changes after `resource_version`, until the server ends the watch. Raises ClusterError,
        also if the server doesn't end it in time.
        """
        params = {
            "watch": "true",
            "labelSelector": labels,
            "timeoutSeconds": str(WATCH_TIMEOUT_S),
            "resourceVersion": resource_version,
        }
        timeout_s = WATCH_TIMEOUT_S + _WATCH_LATE_S
        call = self._request("GET", self.path(kind), params=params, timeout_s=timeout_s)
        async with call as response:
            buffer = b""
            async for chunk in response.content.iter_any():
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    yield WatchEvent(kind=event["type"], object=event["object"])

    # Pods --------------------------------------------------------------------------------------

    async def pod_proxy(
        self,
        pod: str,
        port: int,
        path: str,
        *,
        method: str = "GET",
        body: bytes | None = None,
        params: Mapping[str, str] | None = None,
        scheme: str = "http",
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> bytes:
        """Makes an HTTP call to a pod's port, through the API server, which verifies no certificate
        of a pod.
        """
        return await self._bytes(
            method,
            self._pod_path(pod, port, path, scheme=scheme),
            body=body,
            params=params,
            timeout_s=timeout_s,
        )

    async def pod_download(
        self,
        pod: str,
        port: int,
        path: str,
        sink: Callable[[bytes], object],
        *,
        start: int = 0,
        timeout_s: float,
    ) -> None:
        """Gives what a pod answers to `sink`, in parts, in a thread: all of it from the byte
        `start` on. Raises ClusterError, also if the pod doesn't know parts, and what `sink` raises.
        """
        call = self.path("Pod", f"{pod}:{port}", "proxy") + path
        headers = {"Range": f"bytes={start}-"} if start else {}
        async with self._request("GET", call, headers=headers, timeout_s=timeout_s) as response:
            if start and response.status != HTTPStatus.PARTIAL_CONTENT:
                raise ClusterError(
                    f"GET {call}: found status {response.status}, expected 206, a part of the file"
                )
            async for part in response.content.iter_chunked(_PART_BYTES):
                await asyncio.to_thread(sink, part)

    def _pod_path(self, pod: str, port: int, path: str, *, scheme: str) -> str:
        prefix = "https:" if scheme == "https" else ""
        return self.path("Pod", f"{prefix}{pod}:{port}", "proxy") + path

    async def pod_date(self, pod: str, port: int, path: str, *, scheme: str) -> datetime:
        """Returns the time by a pod's HTTP server: the header `Date` of an answer, whole seconds.
        Raises ClusterError, also if there is none.
        """
        call = self._pod_path(pod, port, path, scheme=scheme)
        async with self._request("GET", call) as response:
            await response.read()
            said = response.headers.get("Date")
        try:
            return parsedate_to_datetime(said or "")
        except ValueError as error:
            raise ClusterError(f"GET {call}: found Date {said!r}, expected an HTTP date") from error

    async def service_proxy(
        self,
        service: str,
        port: int,
        path: str,
        *,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> bytes:
        """Makes an HTTP call to a service's port, through the API server."""
        return await self._bytes(
            method,
            self.path("Service", f"{service}:{port}", "proxy") + path,
            body=body,
            headers=headers,
            timeout_s=timeout_s,
        )

    async def logs(self, pod: str, container: str, *, previous: bool = False) -> bytes:
        """Reads a container's log so far, or that of its last life."""
        params = {"timestamps": "true", "container": container}
        params |= {"previous": "true"} if previous else {}
        return await self._bytes("GET", self.path("Pod", pod, "log"), params=params)

    async def follow_logs(self, pod: str, container: str) -> AsyncIterator[bytes]:
        """Yields the lines of a container's log as they come. Raises ClusterError."""
        params = {"follow": "true", "container": container}
        path = self.path("Pod", pod, "log")
        async with self._request("GET", path, params=params, timeout_s=None) as response:
            buffer = b""
            async for chunk in response.content.iter_any():
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    yield line
            if buffer:
                yield buffer

    async def execute(
        self, pod: str, container: str, command: list[str], *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> ExecResult:
        """Runs a command in a container and waits for its end. Raises ClusterError."""
        async with self.executing(pod, container, command, timeout_s=timeout_s) as execution:
            return await execution.result()

    @contextlib.asynccontextmanager
    async def executing(
        self,
        pod: str,
        container: str,
        command: list[str],
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        stdin: bool = False,
    ) -> AsyncIterator[Execution]:
        """Runs a command in a container; if left early, ends its standard input.

        Raises ClusterError.
        """
        query = [("command", word) for word in command]
        query += [("container", container), ("stdout", "true"), ("stderr", "true")]
        query += [("stdin", "true")] if stdin else []
        with named_errors(pod, container, timeout_s):
            async with asyncio.timeout(timeout_s):
                socket = await self._session.ws_connect(
                    self._host + self.path("Pod", pod, "exec"),
                    params=query,
                    headers=await self._credentials(),
                    protocols=(PROTOCOL,),
                )
        async with socket:
            yield Execution(socket, pod=pod, container=container, timeout_s=timeout_s)
