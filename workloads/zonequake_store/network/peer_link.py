"""The outgoing connection to one node, opened again and again while it is used."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections import deque
from typing import Protocol

from zonequake_store.network.endings import EndDetector, Failure
from zonequake_store.network.framing import FrameConnection, FrameFlush
from zonequake_store.network.heartbeat_slots import SentSlots
from zonequake_store.network.peer_protocol import Hello, Messages, decode_frame, encode_frame
from zonequake_store.raft.messages import MessageKind

# A restarted peer should be found within a heartbeat or two; a peer that is gone for good should
# cost nothing.
_FIRST_BACKOFF_S = 0.1
_LONGEST_BACKOFF_S = 1.0
# A process that dies may take a last connection, which dies with it.
_PAUSES_AT_END_S = (0.001, 0.002, 0.005, 0.01, 0.02)
_LONGEST_END_S = 0.1
_BACKOFF_AFTER_END_S = 0.005
# A peer that ends connections as fast as they are opened is not asked at that speed.
_LASTING_S = 1.0
_CONNECT_TIMEOUT_S = 2.0
# A peer behind a dead network says nothing: the kernel gives up its bytes after this.
_USER_TIMEOUT_MS = 3_000
# A link that was unused for so long is closed: its peer left the configurations.
_UNUSED_S = 60.0
# What waits for a connection: of all groups, as long as an election may wait for it.
_MOST_WAITING_FRAMES = 256
_WAITING_S = 0.5
_OF_ELECTIONS = frozenset(
    {
        MessageKind.PRE_VOTE,
        MessageKind.PRE_VOTE_REPLY,
        MessageKind.VOTE,
        MessageKind.VOTE_REPLY,
        MessageKind.TIMEOUT_NOW,
    }
)
# Why a connection is gone of which its peer may know nothing: the network took nothing any more.
_BY_THE_NETWORK = frozenset(
    {
        errno.ETIMEDOUT,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.EHOSTDOWN,
        errno.ENETDOWN,
        errno.ENONET,
    }
)


class OutgoingConnection(FrameConnection):
    """`greeting` is set when the other side has sent its Hello."""

    def __init__(self, frame_flush: FrameFlush) -> None:
        super().__init__(frame_flush)
        loop = asyncio.get_running_loop()
        self.said = SentSlots()
        self.greeting: asyncio.Future[Hello] = loop.create_future()
        self.gone = asyncio.Event()
        self.opened_s = loop.time()
        self.was_ended_by_peer = False
        self._ends_here = False

    def frame_received(self, frame: memoryview) -> None:
        decoded = decode_frame(frame)
        if isinstance(decoded, Hello) and not self.greeting.done():
            self.greeting.set_result(decoded)
        else:
            self.close()

    def close(self) -> None:
        self._ends_here = True
        super().close()

    def abort(self) -> None:
        self._ends_here = True
        super().abort()

    def connection_lost(self, exc: Exception | None) -> None:
        by_the_network = isinstance(exc, OSError) and exc.errno in _BY_THE_NETWORK
        self.was_ended_by_peer = not (self._ends_here or by_the_network)
        super().connection_lost(exc)

    def closed(self) -> None:
        self.gone.set()
        if not self.greeting.done():
            self.greeting.cancel()


class LinkOwner(Protocol):
    """The calls that a link makes to its owner."""

    def hello(self) -> Hello:
        """Returns this node's Hello."""

    def addresses_of(self, node: str) -> list[str]:
        """Returns the addresses to try, best first."""

    async def dial(self, host: str, port: int) -> tuple[asyncio.BaseTransport, OutgoingConnection]:
        """Connect. Raises OSError."""

    def renew_after_s(self) -> float | None:
        """Returns how long a connection is used; None: forever."""

    def learn(self, hello: Hello) -> None:
        """Stores a peer's identity and address."""

    def disbelieve(self, node: str, address: str) -> None:
        """Is called when an address did not lead to the node."""

    def found_ended(self, node: str, process: str | None) -> None:
        """Records that a process of this node was proven to have ended, if it isn't None."""

    def forget(self, link: PeerLink) -> None:
        """Is called when a link was not used for long."""


class PeerLink:
    """The outgoing connection to one node, opened again and again while it is used."""

    def __init__(self, owner: LinkOwner, node: str) -> None:
        self._owner = owner
        self.node = node
        self.incarnation: str | None = None
        self.connection: OutgoingConnection | None = None
        self.trying: str | None = None
        self.ending = EndDetector()
        self.used_s = asyncio.get_running_loop().time()
        self._waiting: deque[tuple[float, Messages]] = deque(maxlen=_MOST_WAITING_FRAMES)
        self._called_meanwhile = False
        self._hurry = asyncio.Event()
        self.task = asyncio.create_task(self._keep_connected(), name=f"link to {node}")

    def call_back(self) -> None:
        """Closes the old connection and connects at once: the peer has a new process or address."""
        if self.connection is not None:
            self.connection.close()
        self._hurry.set()

    def called(self) -> None:
        """Records that the peer is there, where an attempt leads that is under way: should that
        have come too early, the next one follows at once.
        """
        self._called_meanwhile = True

    def keep(self, frame: Messages) -> None:
        """Keeps the frame's election messages until there is a connection, and connects at once."""
        groups = [
            (group, [each for each in messages if each.kind in _OF_ELECTIONS])
            for group, messages in frame.groups
        ]
        groups = [(group, messages) for group, messages in groups if messages]
        if groups:
            self._waiting.append((asyncio.get_running_loop().time(), Messages(groups)))
            if self.trying is None:
                self._hurry.set()

    async def _keep_connected(self) -> None:
        loop = asyncio.get_running_loop()
        backoff_s = _FIRST_BACKOFF_S
        while loop.time() - self.used_s < _UNUSED_S:
            self._hurry.clear()
            self._called_meanwhile = False
            connection = self.connection = await self._connect_to_any()
            if connection is not None:
                backoff_s = _FIRST_BACKOFF_S
                self._send_what_waits(connection)
                last = await self._use_up(connection)
                self.connection = None
                self.ending.lost(by_peer=last.was_ended_by_peer)
                if last.was_ended_by_peer and loop.time() - last.opened_s >= _LASTING_S:
                    backoff_s = _BACKOFF_AFTER_END_S
                    continue
            if self._called_meanwhile:
                backoff_s = min(backoff_s, _FIRST_BACKOFF_S / 2)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(backoff_s):
                    await self._hurry.wait()
                backoff_s = min(backoff_s, _FIRST_BACKOFF_S / 2)
            backoff_s = min(2 * backoff_s, _LONGEST_BACKOFF_S)
        self._owner.forget(self)

    def _send_what_waits(self, connection: OutgoingConnection) -> None:
        now_s = asyncio.get_running_loop().time()
        while self._waiting:
            since_s, frame = self._waiting.popleft()
            if now_s - since_s <= _WAITING_S:
                connection.send(encode_frame(connection.said.shortened(frame)))

    async def _use_up(self, connection: OutgoingConnection) -> OutgoingConnection:
        """Waits until the connection, and those that replace it when their time is up, are gone;
        returns the last one.
        """
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._owner.renew_after_s()):
                    await connection.gone.wait()
                    return connection
            fresh = None
            self._hurry.clear()  # what the peer said of itself is known by now
            if loop.time() - self.used_s < _UNUSED_S:
                fresh = await self._connect_to_any()
                if fresh is None:
                    continue  # the old one does as long as it lives
                self.connection = fresh
            connection.close()
            if fresh is None:
                return connection
            connection = fresh

    async def _connect_to_any(self) -> OutgoingConnection | None:
        """Connects to the first address that leads to the peer; None: none does, or it called
        meanwhile.

        A pod's old address answers nothing at all. A peer that calls from a new one while an
        attempt still waits there is called back before that is given up.
        """
        attempt = asyncio.create_task(self._try_all())
        called = asyncio.create_task(self._hurry.wait())
        try:
            await asyncio.wait((attempt, called), return_when=asyncio.FIRST_COMPLETED)
            return await attempt if attempt.done() else None
        finally:
            attempt.cancel()
            called.cancel()

    async def _try_all(self) -> OutgoingConnection | None:
        try:
            lost = self.ending.lost_address
            connection = await self._try_where_it_was(lost) if lost is not None else None
            for address in self._owner.addresses_of(self.node):
                if connection is not None:
                    break
                if address != lost:
                    self.trying = address
                    connection = await self._connect(address)
            return connection
        finally:
            self.trying = None

    async def _try_where_it_was(self, address: str) -> OutgoingConnection | None:
        """Again and again while connections are opened that end at once: that process is dying."""
        loop = asyncio.get_running_loop()
        self.trying = address
        for pause_s in _PAUSES_AT_END_S:
            begun_s = loop.time()
            connection = await self._connect(address)
            if connection is not None or self.ending.lost_address is None:
                return connection
            if loop.time() - begun_s > _LONGEST_END_S:
                break
            await asyncio.sleep(pause_s)
        return None

    async def _connect(self, address: str) -> OutgoingConnection | None:
        host, _, port = address.rpartition(":")
        connection: OutgoingConnection | None = None
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                transport, connection = await self._owner.dial(host, int(port))
                raw = transport.get_extra_info("socket")
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)
                connection.send(encode_frame(self._owner.hello()))
                hello = await connection.greeting
        except (OSError, ValueError, TimeoutError) as error:
            hello = None
            self._owner.found_ended(self.node, self.ending.failed(address, _failure_of(error)))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                if connection is not None:
                    connection.close()
                raise
            hello = None  # the other side closed before it greeted
        if hello is not None and hello.node == self.node and connection is not None:
            self.incarnation = hello.process_incarnation
            where = _text_of(transport.get_extra_info("peername"))
            ended = self.ending.greeted(where, hello.process_incarnation)
            self._owner.found_ended(self.node, ended)
            self._owner.learn(hello)
            return connection
        if connection is not None:
            connection.close()
        self._owner.disbelieve(self.node, address)
        return None


def _failure_of(error: Exception) -> Failure:
    if isinstance(error, ConnectionRefusedError):
        return Failure.REFUSED
    by_the_network = isinstance(error, OSError) and error.errno in _BY_THE_NETWORK
    return Failure.UNREACHABLE if by_the_network else Failure.SILENT


def _text_of(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"
