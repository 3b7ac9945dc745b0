"""One data node in this process, on real LMDB files, whose peers are played by the test."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import cast

from zonequake_protocol.admin import Bootstrap, OrderStatus, PeerName, StartReplica
from zonequake_protocol.client import Reply, Write
from zonequake_store.lease.rules.node_lease import NodeLease
from zonequake_store.network.framing import FrameFlush
from zonequake_store.network.peer_protocol import Frame, Messages, decode_frame, encode_frame
from zonequake_store.network.transport import Transport
from zonequake_store.node.host import Host
from zonequake_store.node.orders import Orders
from zonequake_store.raft.messages import Entry, EntryKind, Message, MessageKind, Peer
from zonequake_store.replica.replica import Replica
from zonequake_store.serving.journal import EventJournal, JournalClock
from zonequake_store.settings import HEARTBEAT_TICKS, NodeSettings
from zonequake_store.state.commands import Command, SetCommand, encode_command
from zonequake_store.storage.directory import Storage

GROUP = "z.00000000.0"
MAP_BYTES = 64 << 20


class Line:
    """A transport that keeps what the node sends; `on_sent` sees each frame at once."""

    has_names = True

    def __init__(self) -> None:
        self.sent: list[Frame] = []
        self.on_sent: Callable[[Frame], None] | None = None

    def send(self, _node: str, frame: bytes) -> bool:
        self.sent.append(decode_frame(frame))
        if self.on_sent is not None:
            self.on_sent(self.sent[-1])
        return True

    def send_messages(self, node: str, messages: Messages) -> bool:
        return self.send(node, encode_frame(messages))

    def told(self, _addresses: dict[str, str]) -> None:
        """Addresses mean nothing here."""

    def greet(self, _node: str) -> None:
        """No other node is here."""

    def client_address(self, _node: str) -> str | None:
        return None

    def client_addresses(self) -> dict[str, str]:
        return {}


def storage_of(directory: Path) -> Storage:
    """What a node "n0" opens in this directory, with small maps."""
    settings = NodeSettings(
        name="n0", data_dir=directory, log_map_bytes=MAP_BYTES, data_map_bytes=MAP_BYTES
    )
    return Storage(settings, fresh_incarnation="00")


class OneNode:
    """A node "n0" and its replicas. `failures`: what would have ended the process."""

    def __init__(self, directory: Path) -> None:
        self.failures: list[Exception] = []
        self.line = Line()
        ticks = itertools.count(1)
        self.journal = EventJournal(
            directory / "events.jsonl",
            JournalClock(monotonic_ns=lambda: next(ticks), wall_ns=lambda: 7, name="boot"),
        )
        self.storage = storage_of(directory)
        self.storage.start(observe_log_s=lambda _: None, observe_data_s=lambda _: None)
        self.host = Host(
            name="n0",
            storage=self.storage,
            transport=cast("Transport", self.line),
            frame_flush=FrameFlush(),
            journal=self.journal,
            heartbeat_ticks=HEARTBEAT_TICKS,
            lease=NodeLease(holder="p0", duration_s=10),
            append_delay_s=0.0,
            flushes=True,
        )
        self.orders = Orders(self.host, random=lambda n: n // 2, planted_fault=None)

    async def __aenter__(self) -> OneNode:
        asyncio.get_running_loop().set_exception_handler(self._unexpected)
        return self

    def _unexpected(self, _: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        unknown = RuntimeError(str(context.get("message")))
        self.failures.append(error if isinstance(error, Exception) else unknown)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        async with asyncio.timeout(60):
            await self.host.close()
        self.storage.close()
        self.journal.close()
        await asyncio.sleep(0)

    async def start(self, *, token: int = 1, volatile: bool = False, fsync: bool = True) -> Replica:
        """A replica that waits for its first configuration or a leader."""
        order = StartReplica(
            group=GROUP,
            zone="z",
            partition=0,
            partitions=1,
            token=token,
            volatile=volatile,
            fsync=fsync,
        )
        (reply,) = await self.orders.execute([order])
        assert reply.status is OrderStatus.RECEIVED, reply
        return self.host.replicas[GROUP]

    async def lead(self, *, volatile: bool = False) -> Replica:
        """A replica that leads its group alone."""
        return await self.let_lead(await self.start(volatile=volatile))

    async def let_lead(self, replica: Replica) -> Replica:
        """Bootstrap a replica's group as its alone, and wait until it leads it."""
        me = PeerName("n0", replica.me.incarnation)
        await self.orders.execute([Bootstrap(group=GROUP, token=1, peers=[me])])
        while not replica.leads:
            replica.core_now().tick()
            self.host.wake(replica)
            await asyncio.sleep(0.002)
        await until(lambda: replica.partition.index > 0)
        return replica

    async def bootstrap(self, peers: list[PeerName]) -> None:
        """Bootstrap a group of which only this member runs, so that no member leads it."""
        (reply,) = await self.orders.execute([Bootstrap(group=GROUP, token=1, peers=peers)])
        assert reply.status is OrderStatus.RECEIVED, reply

    async def append_from(
        self, leader: str, *, commands: int, bookkeeping: Sequence[Command] = ()
    ) -> None:
        """Let a leader of term 3 that the test plays append commands behind entry 1: so many of a
        client, and then its own."""
        replica = self.host.replicas[GROUP]
        appended = [*[SetCommand("k", 1)] * commands, *bookkeeping]
        replica.core_now().step(
            Message(
                kind=MessageKind.APPEND,
                to=replica.me,
                sender=Peer(leader, "b"),
                term=3,
                index=1,
                log_term=1,
                entries=tuple(
                    Entry(3, index, EntryKind.COMMAND, encode_command(command))
                    for index, command in enumerate(appended, 2)
                ),
            )
        )
        self.host.wake(replica)
        await until(lambda: replica.log.last_index == 1 + len(appended))

    async def propose(self, *commands: Command) -> None:
        """Let the leading replica write entries that no client asked for, and apply them."""
        replica = self.host.replicas[GROUP]
        last = replica.log.last_index + len(commands)
        replica.core_now().propose([encode_command(command) for command in commands])
        self.host.wake(replica)
        await until(lambda: replica.partition.index == last)

    def offer(self, replica: Replica, key: str, value: int) -> asyncio.Future[Reply]:
        """Write; the future is the answer."""
        answered: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if replica.offer(1, Write(GROUP, key, value), answered.set_result):
            self.host.wake(replica)
        return answered


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition. Raises TimeoutError after a minute."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  there is no event to wait for
            await asyncio.sleep(0.002)
