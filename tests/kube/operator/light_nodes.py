"""Data nodes that are no more than their answers: pods and Leases at a real API server, and one
thread that answers for all of them. A lost one leaves its callers without an answer, as a pod's
address does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from tests.kube.operator.addresses import address
from tests.kube.operator.losses_in_a_row import request
from tests.kube.operator.machine import LABELS
from zonequake_protocol.admin import (
    NodeIdentity,
    OrderBatch,
    OrderReplies,
    OrderReply,
    OrderStatus,
    ReplicasReport,
)

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer

ADMIN_PORT = 8080
LEASE_S = 600
ORDINAL = web.AppKey("ordinal", int)


class LightNodes:
    """The ordinals 0 to `count` - 1, which answer until they hang."""

    def __init__(self, api: ApiServer, count: int) -> None:
        self.api = api
        self.hanging: set[int] = set()
        self._uids: dict[int, str] = {}
        self._runners: list[web.AppRunner] = []
        self._over = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        for ordinal in range(count):
            self._make(ordinal)
        self._do(self._serve())

    def ended(self, ordinal: int) -> dict[str, Any]:
        """A pod's status once its container has ended."""
        return self._status(ordinal, {"terminated": {"exitCode": 137}})

    def path(self, ordinal: int) -> str:
        """Of a pod's status."""
        return f"{self._base}/pods/zq-default-{ordinal}/status"

    def close(self) -> None:
        """Closes the ports."""
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        self._over.set()
        for runner in self._runners:
            await runner.cleanup()

    @property
    def _base(self) -> str:
        return f"/api/v1/namespaces/{self.api.namespace}"

    def _make(self, ordinal: int) -> None:
        name = f"zq-default-{ordinal}"
        container = {"name": "store", "image": "none"}
        meta = {"name": name, "labels": LABELS}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
        with request(
            self.api, "POST", f"{self._base}/pods", body | {"spec": {"containers": [container]}}
        ) as answer:
            self._uids[ordinal] = msgspec.json.decode(answer.read())["metadata"]["uid"]
        request(
            self.api,
            "PATCH",
            self.path(ordinal),
            {"status": self._status(ordinal, {"running": {}})},
        ).close()
        spec = {"holderIdentity": name, "leaseTransitions": 1, "leaseDurationSeconds": LEASE_S}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{self.api.namespace}/leases"
        request(self.api, "POST", leases, {**lease, "spec": spec}).close()

    def _status(self, ordinal: int, state: dict[str, Any]) -> dict[str, Any]:
        container = {
            "name": "store",
            "image": "none",
            "imageID": "none",
            "ready": "running" in state,
            "restartCount": 0,
            "state": state,
        }
        ip = address(ordinal)
        return {
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "containerStatuses": [container],
        }

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _serve(self) -> None:
        for ordinal in self._uids:
            application = web.Application()
            application[ORDINAL] = ordinal
            application.router.add_get("/admin/v1/replicas", self._replicas)
            application.router.add_post("/admin/v1/orders", self._orders)
            runner = web.AppRunner(application)
            await runner.setup()
            self._runners.append(runner)
            await web.TCPSite(runner, address(ordinal), ADMIN_PORT).start()

    async def _replicas(self, asked: web.Request) -> web.Response:
        ordinal = asked.app[ORDINAL]
        await self._hang(ordinal)
        name = f"zq-default-{ordinal}"
        identity = NodeIdentity(
            name=name,
            process_incarnation=name,
            storage_incarnation=name,
            pod_uid=self._uids[ordinal],
            attributes={},
            peer_address="",
            client_address="",
            lease_session=1,
        )
        return web.Response(body=msgspec.json.encode(ReplicasReport(node=identity, replicas=[])))

    async def _orders(self, asked: web.Request) -> web.Response:
        await self._hang(asked.app[ORDINAL])
        batch = msgspec.json.decode(await asked.read(), type=OrderBatch)
        replies = OrderReplies(
            process_incarnation=f"zq-default-{asked.app[ORDINAL]}",
            replies=[OrderReply(status=OrderStatus.RECEIVED) for _ in batch.orders],
        )
        return web.Response(body=msgspec.json.encode(replies))

    async def _hang(self, ordinal: int) -> None:
        if ordinal in self.hanging:
            await self._over.wait()


@contextmanager
def light_nodes(api: ApiServer, count: int) -> Iterator[LightNodes]:
    """As many, until the block ends."""
    nodes = LightNodes(api, count)
    try:
        yield nodes
    finally:
        nodes.close()
