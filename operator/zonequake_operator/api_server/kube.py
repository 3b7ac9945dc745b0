"""The Kubernetes API, wrapped once: JSON in, JSON out, our errors, a time-out on every call.

Nothing else imports the client. Reads and compare-and-swaps may be repeated, so they are, on
throttling, server errors and broken connections; a lost reply to a compare-and-swap ends as
KubeConflict, upon which the caller reads again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import msgspec
from kubernetes.aio import client, config
from kubernetes.aio.client.exceptions import ApiException
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential_jitter,
)
from tenacity.wait import wait_base

from zonequake_operator.api_server.rendering import render_topology
from zonequake_operator.errors import (
    KubeConflict,
    KubeError,
    KubeForbidden,
    KubeInvalid,
    KubeNotFound,
    NoLongerLeader,
)
from zonequake_operator.resources.rights import Right
from zonequake_operator.resources.stored_shapes import (
    GROUP,
    TOPOLOGY_NAME,
    VERSION,
    ZONE_LABEL,
    Object,
)

REQUEST_TIMEOUT_S = 10.0
ATTEMPTS = 4
MAX_RETRY_AFTER_S = 10.0
"""The longest Retry-After that is respected: another call, or another operator, may get through."""
PAGE = 500
FIELD_MANAGER = "zonequake-operator"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

_MACHINES = "/api/v1/nodes"
"""Reading machines may be refused: nothing depends on it."""
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
"""Reviews are posted, but change nothing."""

_BY_STATUS: dict[int, type[KubeError]] = {
    403: KubeForbidden,
    404: KubeNotFound,
    409: KubeConflict,
    422: KubeInvalid,
}


class NamespaceApi:
    """One namespace of one cluster."""

    pauses: wait_base = wait_exponential_jitter(multiplier=0.1, max=2)
    """Between the attempts of one call."""

    def __init__(self, api: client.ApiClient, namespace: str, release: str) -> None:
        self._api = api
        self._namespace = namespace
        self._release = release
        self.may_write: Callable[[], bool] = lambda: True
        """Asked right before each write leaves."""
        self.reads_nodes = False
        """Node objects are cluster-wide: they are read only if the account has the right."""
        self.on_refusal: Callable[[], None] = lambda: None
        """Called when the API server refused something that is needed."""

    @classmethod
    async def connect(cls, namespace: str, release: str) -> NamespaceApi:
        """Connects with the pod's service account, or else the current kubeconfig context."""
        try:
            config.load_incluster_config()  # type: ignore[no-untyped-call]
        except config.ConfigException:
            await config.load_kube_config()  # type: ignore[no-untyped-call]
        return cls(client.ApiClient(), namespace, release)

    async def close(self) -> None:
        """Close all connections."""
        await self._api.close()  # type: ignore[no-untyped-call]

    # ------------------------------------------------------------------------- custom resources

    async def get_zone(self, name: str) -> Object:
        """One DistributionZone."""
        return await self._call("GET", f"{self._custom('distributionzones')}/{name}")

    async def list_zones(self) -> list[Object]:
        """All DistributionZones."""
        return await self._list(self._custom("distributionzones"))

    async def list_tables(self) -> list[Object]:
        """All Tables. Raises KubeNotFound if the cluster doesn't know the kind."""
        return await self._list(self._custom("tables"))

    async def list_partitions(self, zone: str) -> list[Object]:
        """Returns all Partitions of a zone's name, with any owner."""
        return await self._list(self._custom("partitions"), label_selector=f"{ZONE_LABEL}={zone}")

    async def create_partition(self, body: Object) -> Object:
        """Raises KubeConflict if there is one of that name."""
        return await self._call("POST", self._custom("partitions"), body=body)

    async def delete_partition(self, name: str) -> None:
        """Delete a Partition; it may be gone already."""
        try:
            await self._call("DELETE", f"{self._custom('partitions')}/{name}")
        except KubeNotFound:
            return

    async def write_status(
        self, plural: str, kind: str, name: str, resource_version: str, status: Object
    ) -> str:
        """Compare-and-swap of a whole status; returns the new resourceVersion.

        Raises:
            KubeConflict: the object isn't at `resource_version` any more.
        """
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": self._namespace,
                "resourceVersion": resource_version,
            },
            "status": status,
        }
        written = await self._call("PUT", f"{self._custom(plural)}/{name}/status", body=body)
        return str(written["metadata"]["resourceVersion"])

    async def create_event(self, body: Object) -> None:
        """Raises KubeConflict if there is one of that name."""
        await self._call("POST", f"/api/v1/namespaces/{self._namespace}/events", body=body)

    async def get_or_create_topology(self) -> Object:
        """Returns the namespace's LogicalTopology; creates it if there is none."""
        path = self._custom("logicaltopologies")
        try:
            return await self._call("GET", f"{path}/{TOPOLOGY_NAME}")
        except KubeNotFound:
            return await self._call("POST", path, body=render_topology(self._namespace))

    # ------------------------------------------------------------------------------ pods and others

    async def list_pods(self) -> list[Object]:
        """All data node pods of the release."""
        return await self._list(
            f"/api/v1/namespaces/{self._namespace}/pods", label_selector=self._selector
        )

    async def list_stateful_sets(self) -> list[Object]:
        """All node pools of the release."""
        return await self._list(
            f"/apis/apps/v1/namespaces/{self._namespace}/statefulsets",
            label_selector=self._selector,
        )

    async def list_machines(self) -> list[Object]:
        """All Node objects; an empty list where we aren't to read them, or may not."""
        if not self.reads_nodes:
            return []
        try:
            return await self._list(_MACHINES)
        except KubeForbidden:
            return []

    async def list_leases(self) -> list[Object]:
        """Lists the Leases of all data nodes of the namespace."""
        return await self._list(self._leases, label_selector="app.kubernetes.io/component=store")

    async def get_lease(self, name: str) -> Object:
        """One Lease. Raises KubeNotFound."""
        return await self._call("GET", f"{self._leases}/{name}")

    async def create_lease(self, body: Object) -> Object:
        """Raises KubeConflict if there is one of that name."""
        return await self._call("POST", self._leases, body=body)

    async def replace_lease(self, body: Object) -> Object:
        """Write a Lease over its resourceVersion. Raises KubeConflict, KubeNotFound."""
        return await self._call("PUT", f"{self._leases}/{body['metadata']['name']}", body=body)

    async def delete_lease(self, name: str, *, uid: str, resource_version: str) -> None:
        """Delete this very Lease as it was read; it may be gone already. Raises KubeConflict."""
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        try:
            await self._call(
                "DELETE", f"{self._leases}/{name}", body={"preconditions": preconditions}
            )
        except KubeNotFound:
            return

    async def set_pod_condition(self, name: str, uid: str, condition: Object) -> None:
        """Set one condition of a pod (its readiness gate).

        Raises KubeConflict or KubeInvalid if another pod has its name by now.
        """
        await self._call(
            "PATCH",
            f"/api/v1/namespaces/{self._namespace}/pods/{name}/status",
            body={"metadata": {"uid": uid}, "status": {"conditions": [condition]}},
            content_type=STRATEGIC_PATCH,
        )

    async def may(self, right: Right) -> bool:
        """Returns whether this account has a right in its namespace. Every account may ask."""
        resource, _, below = right.resource.partition("/")
        asked = {"namespace": self._namespace, "verb": right.verb, "group": right.group}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {**asked, "resource": resource, "subresource": below}},
        }
        answer = await self._call("POST", _REVIEWS, body=review)
        return bool(answer["status"]["allowed"])

    # -------------------------------------------------------------------------------------- calls

    @property
    def _leases(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases"

    @property
    def _selector(self) -> str:
        return f"app.kubernetes.io/component=store,app.kubernetes.io/instance={self._release}"

    def _custom(self, plural: str) -> str:
        return f"/apis/{GROUP}/{VERSION}/namespaces/{self._namespace}/{plural}"

    async def _list(self, path: str, *, label_selector: str | None = None) -> list[Object]:
        items: list[Object] = []
        query: dict[str, str] = {"limit": str(PAGE)}
        if label_selector is not None:
            query["labelSelector"] = label_selector
        while True:
            page = await self._call("GET", path, query=query)
            items += page.get("items", [])
            more = page["metadata"].get("continue")
            if not more:
                return items
            query["continue"] = more

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = "application/json",
    ) -> Object:
        retrying = AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=self._pause_s,
            retry=retry_if_exception(_may_be_repeated),
            reraise=True,
        )
        async for attempt in retrying:
            with attempt:
                return await self._call_once(method, path, query, body, content_type)
        raise AssertionError("tenacity either returns or raises")

    def _pause_s(self, state: RetryCallState) -> float:
        """Before the next attempt: ours, or the longer one that the server asked for."""
        failed = state.outcome.exception() if state.outcome is not None else None
        asked_s = failed.retry_after_s if isinstance(failed, KubeError) else 0.0
        return max(self.pauses(state), min(asked_s, MAX_RETRY_AFTER_S))

    async def _call_once(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Object | None,
        content_type: str,
    ) -> Object:
        is_write = method != "GET" and path != _REVIEWS
        if is_write and not self.may_write():
            raise NoLongerLeader(f"{method} {path}")
        parameters = list((query or {}).items())
        if method != "GET":
            parameters.append(("fieldManager", FIELD_MANAGER))
        request = await self._api.param_serialize(
            method=method,
            resource_path=path,
            query_params=parameters if method not in ("GET", "DELETE") or query else [],
            header_params={"Accept": "application/json", "Content-Type": content_type},
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            response = await self._api.call_api(*request, _request_timeout=REQUEST_TIMEOUT_S)
            data = await response.read()  # type: ignore[no-untyped-call]
        except ApiException as error:
            raise error_of(f"{method} {path}", error.status or 0, str(error.reason)) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise KubeError(f"{method} {path}", 0, f"{type(error).__name__} {error}") from error
        if response.status == 403 and path != _MACHINES:
            self.on_refusal()
        if response.status >= 400:
            asked_s = _seconds(response.headers.get("Retry-After"))
            raise error_of(
                f"{method} {path}", response.status, _message(data), retry_after_s=asked_s
            )
        try:
            decoded: Object = msgspec.json.decode(data)
        except msgspec.DecodeError as error:
            raise KubeError(
                f"{method} {path}",
                response.status,
                f"found {data[:100]!r}, expected JSON; does something else answer there? {error}",
            ) from None
        return decoded


def error_of(call: str, status: int, reason: str, *, retry_after_s: float = 0.0) -> KubeError:
    """Returns the error for an answer's status."""
    return _BY_STATUS.get(status, KubeError)(call, status, reason, retry_after_s=retry_after_s)


def _seconds(retry_after: str | None) -> float:
    """Returns the seconds of a Retry-After header; the API server sends whole seconds, never a
    date.
    """
    return float(retry_after) if retry_after and retry_after.isdecimal() else 0.0


def _message(data: bytes) -> str:
    try:
        decoded: Any = msgspec.json.decode(data)
        return str(decoded["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return data[:200].decode(errors="replace")


def _may_be_repeated(error: BaseException) -> bool:
    return isinstance(error, KubeError) and (error.status in (0, 429) or error.status >= 500)
