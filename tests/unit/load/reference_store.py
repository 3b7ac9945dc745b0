"""A linearizable store in memory that speaks the client protocol, with faults on request.

All nodes share one state, so it is linearizable by construction; leadership only decides who
answers. Run as a program it serves until SIGTERM and prints its addresses, one a line.
"""

from __future__ import annotations

import asyncio
import signal
import ssl
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

import msgspec

from tests.processes.store.ports import free_ports
from zonequake_protocol.client import (
    Append,
    Body,
    Cas,
    PartitionRoute,
    Read,
    Reply,
    ReplyStatus,
    Request,
    RequestId,
    Route,
    RouteReply,
    Transaction,
    Value,
    Write,
    partition_of,
)

ZONE = "z1"


class Fault(Enum):
    """What a node does with one request instead of answering it."""

    RESET_BEFORE_APPLY = auto()
    RESET_AFTER_APPLY = auto()
    SILENT_BEFORE_APPLY = auto()
    SILENT_AFTER_APPLY = auto()
    UNKNOWN = auto()
    OVERLOADED = auto()
    INVALID = auto()
    NOT_LEADER_WITHOUT_HINT = auto()
    FORGOTTEN = auto()
    FORGOTTEN_BEHIND_A_RESET = auto()
    GARBAGE = auto()


@dataclass(slots=True)
class Partition:
    leader: int
    term: int = 1
    index: int = 0
    data: dict[str, Value] = field(default_factory=dict)
    answers: dict[RequestId, tuple[Value, bool | None, int]] = field(default_factory=dict)
    applied: list[tuple[str, int | str]] = field(default_factory=list)


class Node:
    """One listener. `script` is asked for a fault for each request but routes."""

    def __init__(self, store: ReferenceStore, number: int) -> None:
        self.store = store
        self.number = number
        self.name = f"zq-default-{number}"
        (self.port,) = free_ports(1)
        self.requests: list[Body] = []
        self.paused = False
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        return self._server is not None

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=tls)

    async def kill(self) -> None:
        """As a SIGKILL: listener and connections go at once."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            writer.transport.abort()  # it was killed before this connection had its turn
            return
        self._writers.add(writer)
        decoder = msgspec.msgpack.Decoder(Request)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                request = decoder.decode(await reader.readexactly(size))
                if self.paused:
                    continue
                reply = self._answer(request, writer)
                if reply is not None:
                    payload = msgspec.msgpack.encode(reply)
                    writer.write(len(payload).to_bytes(4, "big") + payload)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    def _answer(self, request: Request, writer: asyncio.StreamWriter) -> Reply | None:
        body = request.body
        if isinstance(body, Route):
            return Reply(request.id, ReplyStatus.OK, route=self.store.route(body.zone))
        self.requests.append(body)
        fault = self.store.script(self, body)
        match fault:
            case None:
                return self.store.apply(self, request.id, body)
            case Fault.RESET_BEFORE_APPLY:
                writer.transport.abort()
                return None
            case Fault.RESET_AFTER_APPLY:
                self.store.apply(self, request.id, body)
                writer.transport.abort()
                return None
            case Fault.SILENT_BEFORE_APPLY:
                return None
            case Fault.SILENT_AFTER_APPLY:
                self.store.apply(self, request.id, body)
                return None
            case Fault.UNKNOWN:
                self.store.apply(self, request.id, body)
                return Reply(request.id, ReplyStatus.UNKNOWN, error="leadership lost")
            case Fault.OVERLOADED:
                return Reply(request.id, ReplyStatus.OVERLOADED)
            case Fault.INVALID:
                return Reply(request.id, ReplyStatus.INVALID, error="not a register")
            case Fault.NOT_LEADER_WITHOUT_HINT:
                return Reply(request.id, ReplyStatus.NOT_LEADER)
            case Fault.FORGOTTEN:
                return Reply(request.id, ReplyStatus.FORGOTTEN, index=40, error="forgotten")
            case Fault.FORGOTTEN_BEHIND_A_RESET:
                return Reply(request.id, ReplyStatus.FORGOTTEN, lineage=3, index=7)
            case Fault.GARBAGE:
                writer.write(b"\x00\x00\x00\x01\xc1")
                return None


class ReferenceStore:
    """`script` decides on faults; by default there are none."""

    def __init__(self, *, nodes: int, partitions: int) -> None:
        self.nodes = [Node(self, number) for number in range(nodes)]
        self.partitions = [Partition(leader=n % nodes) for n in range(partitions)]
        self.script: Callable[[Node, Body], Fault | None] = lambda node, body: None
        self.routes_follow_leader = True

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        for node in self.nodes:
            await node.start(tls)

    async def stop(self) -> None:
        for node in self.nodes:
            await node.kill()

    @property
    def addresses(self) -> list[str]:
        return [node.address for node in self.nodes]

    def elect(self, partition: int, leader: int) -> None:
        self.partitions[partition].leader = leader
        self.partitions[partition].term += 1

    def leader_of(self, key: str) -> Node:
        return self.nodes[self.partitions[partition_of(key, len(self.partitions))].leader]

    def route(self, zone: str) -> RouteReply:
        if zone != ZONE:
            return RouteReply(zone, 0, [], {})
        return RouteReply(
            zone=zone,
            partitions=len(self.partitions),
            routes=[
                PartitionRoute(
                    partition=n,
                    group=group_of(n),
                    members=[node.name for node in self.nodes],
                    leader=self.nodes[partition.leader].name,
                    leader_address=self.nodes[partition.leader].address,
                    term=partition.term,
                )
                for n, partition in enumerate(self.partitions)
            ]
            if self.routes_follow_leader
            else [],
            nodes={node.name: node.address for node in self.nodes},
        )

    def apply(self, node: Node, number: int, body: Body) -> Reply:
        assert not isinstance(body, Route | Transaction)
        which = partition_of(body.key, len(self.partitions))
        if body.group != group_of(which):
            return Reply(
                number, ReplyStatus.WRONG_PARTITION, error=f"{body.key} is not of {body.group}"
            )
        partition = self.partitions[which]
        if partition.leader != node.number:
            leader = self.nodes[partition.leader]
            return Reply(
                number,
                ReplyStatus.NOT_LEADER,
                leader=leader.name,
                leader_address=leader.address,
                term=partition.term,
            )
        value, applied, index = self._do(partition, body)
        return Reply(
            number, ReplyStatus.OK, value=value, applied=applied, term=partition.term, index=index
        )

    def _do(self, partition: Partition, body: Body) -> tuple[Value, bool | None, int]:
        assert not isinstance(body, Route | Transaction)
        if isinstance(body, Read):
            held = partition.data.get(body.key)
            return (list(held) if isinstance(held, list) else held), None, partition.index
        if body.request_id in partition.answers:
            return partition.answers[body.request_id]
        partition.index += 1
        value: Value = None
        applied: bool | None = None
        match body:
            case Write():
                partition.data[body.key] = body.value
            case Cas():
                held = partition.data.get(body.key)
                applied = held == body.expected
                if applied:
                    partition.data[body.key] = body.value
                else:
                    value = held
            case Append():
                partition.data.setdefault(body.key, []).append(body.value)  # type: ignore[union-attr]
        if applied is not False:
            partition.applied.append((body.key, body.value))
        if body.request_id is not None:
            partition.answers[body.request_id] = (value, applied, partition.index)
        return value, applied, partition.index


def group_of(partition: int) -> str:
    return f"{ZONE}.0a1b2c3d.{partition}"


async def _main(nodes: int, partitions: int) -> None:
    store = ReferenceStore(nodes=nodes, partitions=partitions)
    await store.start()
    print("\n".join(store.addresses), flush=True)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    await store.stop()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), int(sys.argv[2])))
