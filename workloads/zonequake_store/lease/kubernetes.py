"""The node's Lease object at the API server (coordination.k8s.io/v1), over plain HTTP.

One object is read and replaced here, so a Kubernetes client, tens of megabytes of it, would be too
much. Each write carries the resourceVersion that it goes over: a compare-and-swap. The token is
read again for each call, because the kubelet replaces it.
"""

from __future__ import annotations

import ssl
import time
from datetime import UTC, datetime
from typing import Any

import aiohttp
import msgspec

from zonequake_store.errors import StoreError
from zonequake_store.lease.rules.node_lease import LeaseRecord, PutLease
from zonequake_store.settings import NodeSettings

FENCED = "zonequake.io/fenced"
LABELS = {"app.kubernetes.io/component": "store", "app.kubernetes.io/part-of": "zonequake"}


class LeaseCallFailed(StoreError):
    """A call came to nothing that is known: which, why, and what to look at."""


class LeaseObjects:
    """Calls for the Lease of one node, named like it. They raise LeaseCallFailed."""

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None

    async def read(self, timeout_s: float) -> tuple[LeaseRecord, str] | None:
        """Reads the Lease and its version; None: there is none."""
        status, body = await self._call("GET", self._url(self._settings.name), None, timeout_s)
        if status == 404:
            return None
        self._expect(status, body, 200)
        return record_of(body), str(body["metadata"]["resourceVersion"])

    async def put(self, put: PutLease, timeout_s: float) -> str | None:
        """Write the Lease; its new version, or None if it is not at the version named."""
        settings = self._settings
        body = object_of(
            put,
            name=settings.name,
            namespace=settings.namespace,
            duration_s=settings.lease_s,
            now_ns=time.time_ns(),
        )
        if put.version is None:
            status, answer = await self._call("POST", self._url(""), body, timeout_s)
        else:
            status, answer = await self._call("PUT", self._url(settings.name), body, timeout_s)
        if status in (404, 409):
            return None
        self._expect(status, answer, 200, 201)
        return str(answer["metadata"]["resourceVersion"])

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _url(self, name: str) -> str:
        settings = self._settings
        if not settings.api_server or not settings.namespace:
            raise LeaseCallFailed(
                "ZQ_API_SERVER (or KUBERNETES_SERVICE_HOST) and ZQ_NAMESPACE are "
                f"{settings.api_server!r} and {settings.namespace!r}; expected both, because "
                "replicas of HighAvailability zones need a Lease"
            )
        path = f"/apis/coordination.k8s.io/v1/namespaces/{settings.namespace}/leases"
        return f"{settings.api_server}{path}/{name}" if name else f"{settings.api_server}{path}"

    async def _call(
        self, method: str, url: str, body: dict[str, Any] | None, timeout_s: float
    ) -> tuple[int, dict[str, Any]]:
        try:
            if self._session is None:
                self._session = self._connect()
            token = (self._settings.credentials_dir / "token").read_text().strip()
            async with self._session.request(
                method,
                url,
                data=None if body is None else msgspec.json.encode(body),
                headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
                timeout=aiohttp.ClientTimeout(total=timeout_s),
            ) as response:
                decoded = msgspec.json.decode(await response.read(), type=dict[str, Any])
                return response.status, decoded
        except (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError) as error:
            await self.close()  # the next call begins with the certificates that are there then
            raise LeaseCallFailed(f"{method} {url}: {type(error).__name__} {error}") from error

    def _connect(self) -> aiohttp.ClientSession:
        if not self._settings.api_server.startswith("https:"):
            return aiohttp.ClientSession()
        context = ssl.create_default_context(cafile=self._settings.credentials_dir / "ca.crt")
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))

    def _expect(self, status: int, body: dict[str, Any], *expected: int) -> None:
        if status not in expected:
            raise LeaseCallFailed(
                f"the API server answered {status}: {body.get('message', 'no reason given')}"
            )


def record_of(body: dict[str, Any]) -> LeaseRecord:
    """Returns the record in a Lease object."""
    spec = body.get("spec") or {}
    annotations = body["metadata"].get("annotations") or {}
    return LeaseRecord(
        holder=spec.get("holderIdentity") or "",
        session=spec.get("leaseTransitions") or 0,
        fenced=annotations.get(FENCED),
    )


def object_of(
    put: PutLease, *, name: str, namespace: str, duration_s: int, now_ns: int
) -> dict[str, Any]:
    """Returns the Lease object to write. Its times are for people: no decision depends on them."""
    moment = datetime.fromtimestamp(now_ns / 1e9, UTC)
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "labels": LABELS}
    if put.version is not None:
        metadata["resourceVersion"] = put.version
    if put.record.fenced is not None:
        metadata["annotations"] = {FENCED: put.record.fenced}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            "holderIdentity": put.record.holder,
            "leaseDurationSeconds": duration_s,
            "leaseTransitions": put.record.session,
            "renewTime": f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z",
        },
    }
