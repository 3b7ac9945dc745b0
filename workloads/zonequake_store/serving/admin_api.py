"""The admin API: HTTP and JSON for the operator, the chaos runner and Prometheus."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Set
from typing import Protocol

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from zonequake_protocol.admin import (
    DumpEntry,
    DumpHeader,
    InspectReplica,
    NodeIdentity,
    Order,
    OrderBatch,
    OrderReplies,
    OrderReply,
    OrderStatus,
    ReplicaSize,
    ReplicasReport,
    ReplicaStatus,
)
from zonequake_protocol.terms import number_of
from zonequake_store.catch_up.demander import size_of
from zonequake_store.errors import StateCorrupt, StorageError
from zonequake_store.lease.clock import boottime_s
from zonequake_store.lease.rules.node_lease import NodeLease
from zonequake_store.replica.host import ReplicaHost
from zonequake_store.replica.replica import Replica
from zonequake_store.replica.status import replica_status, resting_status
from zonequake_store.serving.journal import EventJournal
from zonequake_store.serving.storage_health import StorageHealth
from zonequake_store.state.encoding import cells_of
from zonequake_store.state.partition import decode_cell, digest
from zonequake_store.state.replies import on_wire
from zonequake_store.storage.cells import View
from zonequake_store.storage.log_writes import GroupRecord
from zonequake_store.storage.threads import read_in_thread

_log = logging.getLogger(__name__)

DRAIN_TIMEOUT_S = 10.0
_MAX_ORDERS_BYTES = 16 << 20
_LINES_PER_WRITE = 500
_DUMP = "/admin/v1/replicas/{group}/dump"

_encode = msgspec.json.encode
_orders_decoder = msgspec.json.Decoder(OrderBatch)


class AdministeredHost(ReplicaHost, Protocol):
    """The host that is shown to the operator, and drained by it."""

    @property
    def name(self) -> str:
        """The node's name."""

    @property
    def lease(self) -> NodeLease:
        """The rule by which the node holds its Lease."""

    @property
    def lease_unrenewed_since_ms(self) -> int:
        """Unix ms of the latest renewal's request."""

    @property
    def draining(self) -> bool:
        """Whether leaderships are refused."""

    @property
    def watch(self) -> StorageHealth:
        """Says whether anything is stored now."""

    @property
    def journal(self) -> EventJournal:
        """The events of the node."""

    @property
    def waiting(self) -> Mapping[str, GroupRecord]:
        """The replicas on disk that wait for a start order, by group."""

    @property
    def broken(self) -> Mapping[str, tuple[GroupRecord, str]]:
        """The replicas that could not go on, and why, by group."""

    @property
    def lost(self) -> Set[str]:
        """The groups of the broken ones that could not be started from what is stored."""

    async def view(self, replica: Replica) -> View:
        """Opens the replica's state of now or later; the caller closes it. Raises StorageError."""

    async def drain(self, timeout_s: float) -> bool:
        """Hands over every leadership and refuses new ones; True if none was left in time."""


class OrderTaker(Protocol):
    """Carries the operator's orders out."""

    async def execute(self, orders: list[Order]) -> list[OrderReply]:
        """Carries out orders in their order."""


class AdminApi:
    """The routes of docs/interfaces.md, "Admin protocol". `is_ready()` answers /readyz.

    `guarded`: `application` answers questions only; requests that change something go to
    `guarded_application`, which is served where only the operator is admitted. So are dumps, which
    are the data itself, unless they are `open_dumps`.
    """

    def __init__(
        self,
        host: AdministeredHost,
        orders: OrderTaker,
        *,
        identity: NodeIdentity,
        registry: CollectorRegistry,
        guarded: bool,
        open_dumps: bool = False,
    ) -> None:
        self._host = host
        self._orders = orders
        self._identity = identity
        self._registry = registry
        self.is_ready = False
        questions = [
            web.get("/healthz", self._healthz),
            web.get("/readyz", self._readyz),
            web.get("/metrics", self._metrics),
            web.get("/admin/v1/node", self._node),
            web.get("/admin/v1/replicas", self._replicas),
            web.get("/admin/v1/replicas/{group}/size", self._size),
            web.get("/admin/v1/replicas/{group}/inspection", self._inspection),
            web.get("/admin/v1/events", self._events),
        ]
        dump = self._dump if open_dumps or not guarded else _not_in_plain
        changes = {"/admin/v1/orders": self._execute, "/admin/v1/drain": self._drain}
        self.guarded_application = web.Application(client_max_size=_MAX_ORDERS_BYTES)
        self.guarded_application.add_routes([*questions, web.get(_DUMP, self._dump)])
        self.application = web.Application(client_max_size=_MAX_ORDERS_BYTES)
        self.application.add_routes([*questions, web.get(_DUMP, dump)])
        for path, change in changes.items():
            self.guarded_application.router.add_post(path, change)
            self.application.router.add_post(path, _elsewhere if guarded else change)

    def identity(self) -> NodeIdentity:
        """Returns the present identity of this node."""
        host = self._host
        trouble = host.lease.trouble(boottime_s())
        return msgspec.structs.replace(
            self._identity,
            draining=host.draining,
            storage_problem=host.watch.problem,
            lease_session=host.lease.session,
            lease_problem=host.lease.problem,
            lease_trouble=trouble,
            lease_unrenewed_since_ms=host.lease_unrenewed_since_ms if trouble else 0,
        )

    def statuses(self) -> list[ReplicaStatus]:
        """Every replica, running or on disk."""
        host = self._host
        found = [replica_status(replica) for replica in host.replicas.values()]
        found += [resting_status(group, record, None) for group, record in host.waiting.items()]
        found += [
            resting_status(group, record, reason, lost=group in host.lost)
            for group, (record, reason) in host.broken.items()
        ]
        return found

    async def _healthz(self, _: web.Request) -> web.Response:
        watch = self._host.watch
        if watch.failure is not None:
            return web.Response(status=503, text=f"the storage has failed: {watch.failure}\n")
        return web.Response(text="alive\n" if watch.problem is None else f"{watch.problem}\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        if self.is_ready:
            return web.Response(text="ready\n")
        return web.Response(status=503, text="not ready: the listeners are not open yet\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    async def _node(self, _: web.Request) -> web.Response:
        return _json(self.identity())

    async def _replicas(self, _: web.Request) -> web.Response:
        return _json(ReplicasReport(node=self.identity(), replicas=self.statuses()))

    async def _execute(self, request: web.Request) -> web.Response:
        try:
            batch = _orders_decoder.decode(await request.read())
        except (msgspec.DecodeError, RecursionError) as error:
            raise web.HTTPBadRequest(
                text=f"the body is not an OrderBatch: {error}; see docs/interfaces.md\n"
            ) from error
        replies = await self._orders.execute(batch.orders)
        return _json(
            OrderReplies(process_incarnation=self._identity.process_incarnation, replies=replies)
        )

    async def _drain(self, _: web.Request) -> web.Response:
        if await self._host.drain(DRAIN_TIMEOUT_S):
            return web.Response(text="no leadership is left here\n")
        return web.Response(
            status=503,
            text=f"leaderships are left after {DRAIN_TIMEOUT_S:.0f} s; the others took none\n",
        )

    async def _events(self, request: web.Request) -> web.StreamResponse:
        text = request.query.get("after", "0")
        if not text.isdecimal():
            raise web.HTTPBadRequest(text=f"after is {text!r}; expected an event's seq\n")
        lines = b"".join(self._host.journal.after(int(text)))
        return web.Response(body=lines, content_type="application/x-ndjson")

    async def _dump(self, request: web.Request) -> web.StreamResponse:
        replica = self._named(request)
        with self._reading(replica):
            return await self._dumped(request, replica)

    async def _size(self, request: web.Request) -> web.Response:
        replica = self._named(request)
        with self._reading(replica):
            view = await self._host.view(replica)
            try:
                state_bytes = await read_in_thread(lambda: size_of(view.pairs()))
            finally:
                view.close()
        return _json(
            ReplicaSize(
                group=replica.group,
                index=view.state.index,
                state_bytes=state_bytes,
                log_bytes=replica.core_now().supply.whole_log_bytes,
            )
        )

    async def _inspection(self, request: web.Request) -> web.Response:
        """Answers the order InspectReplica as a query, for clients that may read but not give
        orders.
        """
        group = request.match_info["group"]
        (reply,) = await self._orders.execute([InspectReplica(group=group)])
        if reply.replica is not None:
            return _json(reply.replica)
        if reply.status is OrderStatus.NOT_HERE:
            raise web.HTTPNotFound(text=f"no replica of {group!r} is here\n")
        raise web.HTTPServiceUnavailable(text=f"{reply.error}\n")

    def _named(self, request: web.Request) -> Replica:
        group = request.match_info["group"]
        replica = self._host.replicas.get(group)
        if replica is None:
            raise web.HTTPNotFound(text=f"no replica of {group!r} runs here\n")
        return replica

    @contextlib.contextmanager
    def _reading(self, replica: Replica) -> Iterator[None]:
        """Damage that is found on the way breaks the replica, and nothing else."""
        try:
            yield
        except StateCorrupt as error:
            self._host.break_down(replica, str(error))
            raise web.HTTPServiceUnavailable(
                text=f"the replica of {replica.group!r} is broken: {error}\n"
            ) from error
        except StorageError as error:
            raise web.HTTPServiceUnavailable(text=f"the state is not stored: {error}\n") from error

    async def _dumped(self, request: web.Request, replica: Replica) -> web.StreamResponse:
        view = await self._host.view(replica)
        try:
            keys, content = await read_in_thread(lambda: _judge(view))
            header = DumpHeader(
                group=replica.group,
                node=self._host.name,
                incarnation=replica.me.incarnation,
                applied=view.state.index,
                term=number_of(view.state.term),
                lineage=view.state.lineage,
                digest=content,
                keys=keys,
                lwm=view.state.lwm,
                hwm=view.state.hwm,
                ranges=list(view.state.ranges),
            )
            response = web.StreamResponse()
            response.content_type = "application/x-ndjson"
            await response.prepare(request)
            await response.write(_encode(header) + b"\n")
            chunks = _chunks(view)
            while chunk := await read_in_thread(lambda: next(chunks, b"")):
                await response.write(chunk)
            await response.write_eof()
        finally:
            view.close()
        return response


async def _elsewhere(request: web.Request) -> web.Response:
    _log.warning("refused %s %s of %s: not here", request.method, request.path, request.remote)
    return web.Response(
        status=403,
        text="this port changes nothing: orders and drains are taken by the orders port "
        "(7003), over TLS, from the operator alone\n",
    )


async def _not_in_plain(request: web.Request) -> web.Response:
    _log.warning("refused %s %s of %s: not here", request.method, request.path, request.remote)
    return web.Response(
        status=403,
        text="this port authenticates no client, and a dump is the data: the operator reads it by "
        "the orders port (7003); the chart's value harness.dumps opens it here\n",
    )


def _judge(view: View) -> tuple[int, str]:
    """Counts a state's keys and computes its digest, in one walk."""
    keys = 0

    def counted() -> Iterator[tuple[str, bytes]]:
        nonlocal keys
        for pair in cells_of(view.pairs()):
            keys += 1
            yield pair

    content = digest(counted())
    return keys, content


def _chunks(view: View) -> Iterator[bytes]:
    """Yields the dump's lines, many at once."""
    lines: list[bytes] = []
    for key, encoded in cells_of(view.pairs()):
        cell = decode_cell(encoded)
        entry = DumpEntry(
            key=key,
            value=on_wire(cell.value),
            index=cell.index,
            filler_bytes=len(cell.filler),
        )
        lines.append(_encode(entry) + b"\n")
        if len(lines) >= _LINES_PER_WRITE:
            yield b"".join(lines)
            lines.clear()
    if lines:
        yield b"".join(lines)


def _json(value: object) -> web.Response:
    return web.Response(body=_encode(value), content_type="application/json")
