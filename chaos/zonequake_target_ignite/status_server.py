"""`python -m zonequake_target_ignite.status_server`: what one node says of itself, for the harness.

It runs beside the node, in the container that signals are sent from: the harness reaches pods by
HTTP alone, and Ignite tells by its client protocol which replica is primary. It asks its own node
on loopback, and so also one that is cut off.

    GET  /status   the newest `NodeSight`; 503 while the node does not answer
    GET  /live     503 if the node must be restarted: it is shut out for good
    POST /init     the body goes to the node's own REST, which begins the cluster
    POST /sql      {"statement": …}: definitions of zones and tables
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import re
import ssl
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from zonequake_load.errors import AttemptError
from zonequake_target_ignite.client.protocol.messages import (
    PRIMARIES_GET,
    SQL_EXEC,
    ServerAnswer,
    primaries_of,
    result_of,
    sql,
)
from zonequake_target_ignite.client.protocol.packed import packed
from zonequake_target_ignite.client.protocol.tuples import ColumnValue
from zonequake_target_ignite.client.wire import IgniteWire, WireTls, read_as
from zonequake_target_ignite.node_sight import CATCHING_UP, HEALTHY, NodeSight, ReplicaSight

EVERY_S = 0.1
COMPARE_S = 0.5
STALE_S = 2.0
"""A status that is older is none: the node has not answered since. That of a node whose process is
gone is none at once.
"""

ASK_TIMEOUT_S = 1.0
DEFINE_TIMEOUT_S = 60.0
EPOCH_S = 1_767_225_600
"""The beginning of 2026: terms are seconds since then."""

_SILENT = (
    *(aiohttp.ClientError, AttemptError, TimeoutError, OSError),
    *(msgspec.MsgspecError, LookupError, TypeError, ValueError),  # an answer of another form
)
"""The errors after which a node is asked again; meanwhile its status grows old."""

REPLICAS = "SELECT ZONE_REPLICAS FROM SYSTEM.ZONES WHERE ZONE_NAME = ?"
TABLE = "SELECT TABLE_ID FROM SYSTEM.TABLES WHERE TABLE_NAME = ?"


class Terms:
    """Says since when this node has been the primary of a partition, in whole seconds.

    Ignite tells no number of a lease. Each node dates only its own leases, and a new one can't
    begin before the old one has ended, some seconds after it began; so terms grow.
    """

    def __init__(self) -> None:
        self._since: dict[int, int] = {}

    def of(self, partition: int, *, primary: bool, now_s: float) -> int:
        if not primary:
            self._since.pop(partition, None)
            return 0
        return self._since.setdefault(partition, int(now_s) - EPOCH_S)


class ShutOut:
    """Says whether a node is shut out by all others until it is restarted.

    Nodes that didn't hear of a node for some seconds refuse it from then on, whatever it does: it
    `is stale` and `should be restarted`, as its log says. So does each of two halves say of the
    other; therefore a node counts as shut out only if it sees no other.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self.forget()

    def forget(self) -> None:
        """Forgets what was read: the process is gone, and the next one begins a new log."""
        self._read = 0
        self._told = False

    def look(self, node: str, *, physical: list[str]) -> bool:
        """Reads on in the node's log, and returns whether the node is shut out now."""
        with contextlib.suppress(OSError), self._log.open("rb") as file:
            if file.seek(0, io.SEEK_END) < self._read:  # of a process that began meanwhile
                self.forget()
            file.seek(self._read)
            new = file.read()
            whole = new.rfind(b"\n") + 1  # of a line that is being written, the rest comes later
            self._read += whole
            self._told |= is_refused(node, new[:whole].decode(errors="replace"))
        return self._told and physical == [node]


def is_refused(node: str, log: str) -> bool:
    """Returns whether a log says that others refuse the node until it is restarted."""
    return re.search(rf"Handshake rejected by \w+: {re.escape(node)}:\S+ is stale", log) is not None


def lagging(states: Iterable[Mapping[str, Any]], node: str) -> frozenset[int]:
    """Returns the partitions of a node that lack a hundred entries which another node has.

    Ignite says so only where it compares the nodes, and not if one is asked by its name alone.
    """
    return frozenset(
        int(each["partitionId"])
        for each in states
        if each["nodeName"] == node and each["state"] == CATCHING_UP
    )


class WatchedNode:
    """Keeps the newest status of one node, whose client port speaks TLS if `tls`."""

    def __init__(self, *, zone: str, rest: str, client: str, log: Path, tls: bool = False) -> None:
        self._zone = zone
        self._rest = rest
        self._client = client
        self._wire = IgniteWire(_unverified() if tls else None)
        self._terms = Terms()
        self._table: int | None = None
        self._newest: NodeSight | None = None
        self._at_s = 0.0
        self._version = ""
        self._shut_out = ShutOut(log)
        self._lagging: frozenset[int] = frozenset()
        self._zone_replicas = 0
        self.shut_out = False

    @property
    def newest(self) -> NodeSight | None:
        """The status, if it is not too old."""
        return self._newest if time.monotonic() - self._at_s < STALE_S else None

    async def watch(self, session: aiohttp.ClientSession) -> None:
        """Asks the node again and again, as long as the program runs."""
        while True:
            try:
                self._newest = await self._look(session)
                self._at_s = time.monotonic()
            except _SILENT as error:
                self._table = None  # it may come back as another cluster's
                if _is_gone(error):
                    self._newest = None
                    self._shut_out.forget()
            await asyncio.sleep(EVERY_S)

    async def watch_others(self, session: aiohttp.ClientSession) -> None:
        """Compares the node with the others again and again, as long as the program runs."""
        while True:
            await self.compare(session)
            await self.look_at_zone()
            await asyncio.sleep(COMPARE_S)

    async def compare(self, session: aiohttp.ClientSession) -> None:
        """Asks which replicas lag. Ignite answers nothing while a node of the topology is dead."""
        node = self._newest.node if self._newest is not None else ""
        try:
            found = await self._get(session, f"recovery/zone/state/local?zoneNames={self._zone}")
            self._lagging = lagging(found["states"], node)
        except _SILENT:
            self._lagging = frozenset()

    async def look_at_zone(self) -> None:
        """Asks how many replicas the zone has now, which may be altered at any time."""
        with contextlib.suppress(*_SILENT):
            found = await self.define(REPLICAS, [self._zone], timeout_s=ASK_TIMEOUT_S)
            if found and isinstance(found[0][0], int):
                self._zone_replicas = found[0][0]

    async def _look(self, session: aiohttp.ClientSession) -> NodeSight:
        said = await self._get(session, "node/state")
        state, node = str(said["state"]), str(said["name"])
        physical = _names(await self._get(session, "cluster/topology/physical"))
        self.shut_out = self._shut_out.look(node, physical=physical)
        if state != "STARTED":
            return NodeSight(node=node, state=state, physical=physical)
        if not self._version:
            self._version = str((await self._get(session, "node/version"))["version"])
        logical: list[str] = []
        with contextlib.suppress(TimeoutError, aiohttp.ClientError):
            # Only a majority of the cluster's own group answers.
            logical = _names(await self._get(session, "cluster/topology/logical"))
        primaries = await self._primaries()
        replicas = []
        if primaries:
            path = f"recovery/zone/state/local?zoneNames={self._zone}&nodeNames={node}"
            found = await self._get(session, path)
            now_s = time.time()
            replicas = [
                self._replica(each, primaries, node=node, now_s=now_s) for each in found["states"]
            ]
        return NodeSight(
            node=node,
            state=state,
            version=self._version,
            replicas=replicas,
            primaries=primaries,
            physical=physical,
            logical=logical,
            zone_replicas=self._zone_replicas,
        )

    def _replica(
        self, said: Mapping[str, Any], primaries: list[str], *, node: str, now_s: float
    ) -> ReplicaSight:
        partition = int(said["partitionId"])
        primary = primaries[partition] == node
        state = str(said["state"])
        return ReplicaSight(
            partition=partition,
            state=CATCHING_UP if state == HEALTHY and partition in self._lagging else state,
            rows=int(said["estimatedRows"]),
            primary=primary,
            term=self._terms.of(partition, primary=primary, now_s=now_s),
        )

    async def _primaries(self) -> list[str]:
        """Returns the primary replicas' nodes, empty names where none is known."""
        if self._table is None:
            found = await self.define(TABLE, [self._zone], timeout_s=ASK_TIMEOUT_S)
            if not found or not isinstance(found[0][0], int):
                return []
            self._table = found[0][0]
        answer = await self._ask(PRIMARIES_GET, packed(self._table, 0), timeout_s=ASK_TIMEOUT_S)
        return read_as(primaries_of, answer.rest) or []

    async def define(
        self, statement: str, args: list[str | int | bytes], *, timeout_s: float
    ) -> list[list[ColumnValue]]:
        """Carries a statement out, and returns its first rows. Raises AttemptError."""
        answer = await self._ask(SQL_EXEC, sql(statement, args), timeout_s=timeout_s)
        return read_as(result_of, answer.rest).rows

    async def _ask(self, operation: int, values: bytes, *, timeout_s: float) -> ServerAnswer:
        connection = await self._wire.connection(self._client, timeout_s=timeout_s)
        return await self._wire.ask(connection, operation, values, timeout_s=timeout_s)

    async def _get(self, session: aiohttp.ClientSession, path: str) -> Any:  # noqa: ANN401
        url = f"{self._rest}/management/v1/{path}"
        async with session.get(url, timeout=aiohttp.ClientTimeout(ASK_TIMEOUT_S)) as response:
            response.raise_for_status()
            return msgspec.json.decode(await response.read())


def _unverified() -> WireTls:
    """Returns a TLS that verifies nothing: the node is the one beside it, on loopback."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return WireTls(context=context, host_of=lambda address: address.rpartition(":")[0])


def _is_gone(error: Exception) -> bool:
    """Returns whether no process answered at all, as one that is only slow would: its connection
    was refused, or has ended. Nothing that it said before is its status then.
    """
    return isinstance(error, aiohttp.ClientConnectionError) and not isinstance(error, TimeoutError)


def _names(nodes: list[dict[str, Any]]) -> list[str]:
    return sorted(str(each["name"]) for each in nodes)


def application(watched: WatchedNode, *, rest: str) -> web.Application:
    """Returns the server; it watches as long as it runs."""

    async def status(_: web.Request) -> web.Response:
        newest = watched.newest
        if newest is None:
            return web.Response(status=503, text="the node does not answer")
        return web.Response(body=msgspec.json.encode(newest), content_type="application/json")

    async def live(_: web.Request) -> web.Response:
        if watched.shut_out:
            return web.Response(status=503, text="the node is shut out until it is restarted")
        return web.Response(text="not shut out")

    async def init(request: web.Request) -> web.Response:
        async with aiohttp.ClientSession() as session:
            url = f"{rest}/management/v1/cluster/init"
            headers = {"Content-Type": "application/json"}
            async with session.post(url, data=await request.read(), headers=headers) as response:
                return web.Response(status=response.status, body=await response.read())

    async def define(request: web.Request) -> web.Response:
        statement = str((await request.json())["statement"])
        try:
            rows = await watched.define(statement, [], timeout_s=DEFINE_TIMEOUT_S)
        except AttemptError as error:
            return web.Response(status=500, text=str(error))
        return web.json_response({"rows": rows})

    async def watching(app: web.Application) -> Any:  # noqa: ANN401 - aiohttp's own type of contexts
        async with aiohttp.ClientSession() as session:
            tasks = [
                asyncio.create_task(watched.watch(session)),
                asyncio.create_task(watched.watch_others(session)),
            ]
            yield
            for task in tasks:
                task.cancel()

    app = web.Application()
    app.add_routes(
        [
            web.get("/status", status),
            web.get("/live", live),
            web.post("/init", init),
            web.post("/sql", define),
        ]
    )
    app.cleanup_ctx.append(watching)
    return app


def main() -> None:
    parser = argparse.ArgumentParser(description="Tell the harness what one Ignite node says.")
    parser.add_argument("--zone", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rest", required=True, help="URL of the node's REST")
    parser.add_argument("--client", required=True, help="HOST:PORT of its client port")
    parser.add_argument("--tls", action="store_true", help="its client port speaks TLS")
    parser.add_argument("--log", required=True, type=Path, help="file of its log")
    given = parser.parse_args()
    watched = WatchedNode(
        zone=given.zone, rest=given.rest, client=given.client, log=given.log, tls=given.tls
    )
    web.run_app(application(watched, rest=given.rest), port=given.port, access_log=None)


if __name__ == "__main__":
    main()
