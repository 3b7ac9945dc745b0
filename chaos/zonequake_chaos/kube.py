"""The Kubernetes API, wrapped once: the only module of this package that knows its client.

The generated client reads the kubeconfig and authenticates; requests go over one aiohttp session
with a time-out each, and answers stay JSON until `zonequake_chaos.objects` gives them types.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import aiohttp
from kubernetes.aio import client as kube_client
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, load_kube_config

from zonequake_chaos.errors import ClusterError, Conflict, NotFound, UsageError

REQUEST_TIMEOUT_S = 15.0
WATCH_TIMEOUT_S = 240
FIELD_MANAGER = "zonequake-chaos"

Json = dict[str, Any]

_KINDS = {
    "Pod": ("/api/v1", "pods"),
    "Service": ("/api/v1", "services"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "Event": ("/api/v1", "events"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "DistributionZone": ("/apis/zonequake.io/v1alpha1", "distributionzones"),
    "Partition": ("/apis/zonequake.io/v1alpha1", "partitions"),
    "LogicalTopology": ("/apis/zonequake.io/v1alpha1", "logicaltopologies"),
}
_CONFLICTS = {409, 422}
_EXEC_STDOUT, _EXEC_STDERR, _EXEC_STATUS = 1, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """What a command in a container printed, and its exit code."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvent:
    """One line of a watch: `ADDED`, `MODIFIED`, `DELETED`, and the object."""

    kind: str
    object: Json


class Kube:
    """One connection to one cluster and namespace."""

    def __init__(
        self,
        *,
        session: aiohttp.ClientSession,
        configuration: kube_client.Configuration,
        namespace: str,
    ) -> None:
        self._session = session
        self._configuration = configuration
        self._host = str(configuration.host).rstrip("/")
        self.namespace = namespace

    @classmethod
    async def open(cls, *, kubeconfig: Path | None, context: str | None, namespace: str) -> Self:
        """Connects as a kubeconfig says. Raises UsageError if it can't be read."""
        configuration = kube_client.Configuration()
        try:
            await load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(kubeconfig) if kubeconfig else None,
                context=context,
                client_configuration=configuration,
                persist_config=False,
            )
        except (ConfigException, OSError) as error:
            raise UsageError(
                f"no usable kubeconfig: {error}; give --kubeconfig and --context, "
                "or start a cluster with: zonequake cluster up"
            ) from error
        connector = aiohttp.TCPConnector(
            ssl=RESTClientObject(configuration).ssl_context, limit=0, keepalive_timeout=60
        )
        session = aiohttp.ClientSession(connector=connector)
        return cls(session=session, configuration=configuration, namespace=namespace)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()

    # Objects -----------------------------------------------------------------------------------

    def path(self, kind: str, name: str | None = None, *parts: str) -> str:
        """The API path of a kind's collection in the namespace, or of one object (and below)."""
        prefix, plural = _KINDS[kind]
        tail = "/".join(quote(part, safe="") for part in ((name,) if name else ()) + parts)
        return f"{prefix}/namespaces/{self.namespace}/{plural}" + (f"/{tail}" if tail else "")

    async def get(self, kind: str, name: str) -> Json:
        """One object. Raises NotFound."""
        return await self._json("GET", self.path(kind, name))

    async def find(self, kind: str, labels: str = "") -> list[Json]:
        """The namespace's objects of a kind with these labels."""
        return (await self.snapshot(kind, labels))[0]

    async def snapshot(self, kind: str, labels: str = "") -> tuple[list[Json], str]:
        """The same, and the resource version from which a watch goes on."""
        found = await self._json("GET", self.path(kind), params={"labelSelector": labels})
        return list(found["items"]), str(found["metadata"]["resourceVersion"])

    async def apply(self, manifest: Json) -> Json:
        """Server-side apply, ours wins."""
        return await self._json(
            "PATCH",
            self.path(manifest["kind"], manifest["metadata"]["name"]),
            params={"fieldManager": FIELD_MANAGER, "force": "true"},
            body=manifest,
            content_type="application/apply-patch+yaml",
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

    async def delete_all(self, kind: str, labels: str) -> None:
        """Deletes every object of a kind with these labels."""
        await self._json("DELETE", self.path(kind), params={"labelSelector": labels})

    async def namespace_labels(self) -> Mapping[str, str]:
        """Labels of the namespace itself. Raises NotFound."""
        found = await self._json("GET", f"/api/v1/namespaces/{self.namespace}")
        return dict(found["metadata"].get("labels") or {})

    async def version(self) -> str:
        """The API server's version."""
        return str((await self._json("GET", "/version"))["gitVersion"])

    async def watch(
        self, kind: str, *, labels: str, resource_version: str
    ) -> AsyncIterator[WatchEvent]:
        """Changes after `resource_version`, until the server ends the watch."""
        params = {
            "watch": "true",
            "labelSelector": labels,
            "timeoutSeconds": str(WATCH_TIMEOUT_S),
            "resourceVersion": resource_version,
        }
        async with self._request(
            method, path, params=params, body=body, headers=headers, timeout_s=timeout_s
        ) as response:
            return await response.read()

    async def _json(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Json | None = None,
        content_type: str = "application/json",
    ) -> Json:
        data = await self._bytes(
            method,
            path,
            params=params,
            body=None if body is None else json.dumps(body).encode(),
            headers={"Accept": "application/json", "Content-Type": content_type},
        )
        found = json.loads(data)
        assert isinstance(found, dict)
        return found


def _error(method: str, path: str, status: int, text: str) -> ClusterError:
    try:
        message = str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        message = text.strip()
    sentence = f"{method} {path}: HTTP {status}: {message}"
    if status == 404:
        return NotFound(sentence, status=status)
    if status in _CONFLICTS:
        return Conflict(sentence, status=status)
    return ClusterError(sentence, status=status)


def _exit_code(status: bytes, pod: str) -> int:
    """The exit code in exec's status channel (a metav1.Status)."""
    if not status:
        raise ClusterError(f"exec in pod {pod} ended without a status: the container is gone")
    found = json.loads(status)
    if found.get("status") == "Success":
        return 0
    for cause in (found.get("details") or {}).get("causes") or []:
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise ClusterError(f"exec in pod {pod}: {found.get('message')}")
