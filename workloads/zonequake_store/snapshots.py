"""Snapshots between nodes: read from one applied index, sent in pieces, staged, swapped in.

    sender                                        receiver
    flush, read transaction at index i
    piece 0, 1, 2, … (window) ───────────────►    check CRC, stage under a new number, ack
    last piece carries SnapshotMeta of i ────►    all staged: step SNAPSHOT in the own core
    report_snapshot(ok) ◄──────── last ack        core agrees: Ready.snapshot → one log commit
                                                  points the replica at the staged cells

A piece that was lost with its connection is sent again; a receiver that was restarted does not know
the stream and refuses it, and the core asks for a new one. Until the log's commit the old state is
whole, after it the new one is: there is no moment between.
"""

from __future__ import annotations

import asyncio
import secrets
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from zonequake_store.data_store import MemoryCells, Overlay, Pair, View, from_pairs, state_in
from zonequake_store.errors import LogCorrupt, SnapshotRefused
from zonequake_store.log_writes import GroupRecord
from zonequake_store.partition import Partition
from zonequake_store.peer_protocol import (
    SnapshotAck,
    SnapshotPiece,
    decode_pairs,
    encode_frame,
    encode_pairs,
)
from zonequake_store.raft.api import SendSnapshot
from zonequake_store.raft.errors import RaftError
from zonequake_store.raft.messages import Kind, Message, Peer, SnapshotMeta
from zonequake_store.reading import read_in_thread
from zonequake_store.replica import LOG_ERRORS, Replica, Staging

if TYPE_CHECKING:
    from zonequake_store.host import Host

# Small enough that a heartbeat behind a few of them is not late on a slow network.
_PIECE_BYTES = 128 * 1024
_WINDOW_PIECES = 4
_RESEND_S = 1.0
_GIVE_UP_S = 15.0


@dataclass(slots=True, eq=False)
class _Sending:
    stream: int
    task: asyncio.Task[None] | None = None
    index: int = 0
    acknowledged: int = 0
    refused: str | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)


class Snapshots:
    """All snapshots that a node sends and receives."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._sending: dict[tuple[str, Peer], _Sending] = {}
        # Never a number of an earlier process: a receiver that outlived it would mix two snapshots.
        self._streams = secrets.randbits(62)
        self.rates: dict[str, int] = {}
        """Bytes per second to a catching-up peer, by group; 0 or absent: unlimited."""

    # ── sending ──────────────────────────────────────────────────────────────────────────────

    def send(self, replica: Replica, request: SendSnapshot) -> None:
        """Begin to stream the replica's state to a peer, in place of an older stream to it."""
        key = (replica.group, request.to)
        older = self._sending.pop(key, None)
        if older is not None and older.task is not None:
            older.task.cancel()
        self._streams += 1
        sending = _Sending(self._streams)
        self._sending[key] = sending
        sending.task = asyncio.create_task(
            self._send(replica, request, sending), name=f"snapshot of {key[0]} to {key[1].node}"
        )

    def stop_sending(self, replica: Replica) -> None:
        """The replica does not lead any more, or is gone."""
        for key, sending in list(self._sending.items()):
            if key[0] == replica.group:
                del self._sending[key]
                if sending.task is not None:
                    sending.task.cancel()

    def lowest_index_sent(self, replica: Replica) -> int:
        """The log is needed from here on by those that install a snapshot right now."""
        return min(
            (s.index for key, s in self._sending.items() if key[0] == replica.group),
            default=1 << 62,
        )

    async def close(self) -> None:
        """Stop every stream."""
        tasks = [s.task for s in self._sending.values() if s.task is not None]
        self._sending.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, replica: Replica, request: SendSnapshot, sending: _Sending) -> None:
        ok = False
        try:
            view = await self.view(replica)
            try:
                sending.index = view.state.index
                await self._stream(replica, request, sending, view)
                ok = True
            finally:
                view.close()
        except (SnapshotRefused, RaftError):
            ok = False  # the core hears of it below, and asks again when it wants
        except LOG_ERRORS as error:
            self._host.break_down(replica, str(error))
        finally:
            if self._sending.get((replica.group, request.to)) is sending:
                del self._sending[replica.group, request.to]
                if not replica.stopped:
                    replica.raft.report_snapshot(request.to, ok)
                    self._host.wake(replica)

    async def view(self, replica: Replica) -> View:
        """The replica's state as of now or later; the caller closes it."""
        cells = replica.cells
        if isinstance(cells, MemoryCells):
            return cells.view(replica.partition)
        await self._host.flushed(replica)
        cells = replica.cells
        assert isinstance(cells, Overlay), "a replica never changes between durable and volatile"
        return self._host.storage.data.view(cells.number)

    async def _stream(
        self, replica: Replica, request: SendSnapshot, sending: _Sending, view: View
    ) -> None:
        loop = asyncio.get_running_loop()
        meta = replica.raft.snapshot_meta(view.state.index)
        total_bytes = await read_in_thread(lambda: _size_bytes(view))
        rate = self.rates.get(replica.group, 0) if self._is_limited(replica, request.to) else 0
        unacknowledged: deque[tuple[int, bytes]] = deque()
        begun_s = loop.time()
        sent_bytes = 0
        pieces = _pieces(view)
        following: list[Pair] | None = next(pieces)
        sequence = 0
        while following is not None:
            content = encode_pairs(following)
            following = next(pieces, None)
            piece = SnapshotPiece(
                replica.group,
                request.to,
                replica.me,
                sending.stream,
                sequence,
                zlib.crc32(content),
                content,
                request.term,
                None if following is not None else meta,
            )
            sequence += 1
            if rate:
                due_s = begun_s + sent_bytes / rate
                await asyncio.sleep(max(0.0, due_s - loop.time()))
            unacknowledged.append((sequence, encode_frame(piece)))
            self._host.transport.send(request.to.node, unacknowledged[-1][1])
            sent_bytes += len(content)
            await self._window(request.to, sending, unacknowledged, _WINDOW_PIECES - 1)
            replica.raft.report_snapshot_progress(
                request.to, index=meta.index, sent_bytes=sent_bytes, total_bytes=total_bytes
            )
        await self._window(request.to, sending, unacknowledged, 0)

    async def _window(
        self,
        to: Peer,
        sending: _Sending,
        unacknowledged: deque[tuple[int, bytes]],
        allowed: int,
    ) -> None:
        """Wait until at most `allowed` pieces are unacknowledged; send again what seems lost."""
        silent_s = 0.0
        while True:
            if sending.refused is not None:
                raise SnapshotRefused(f"{to.node} refused the snapshot: {sending.refused}")
            while unacknowledged and unacknowledged[0][0] <= sending.acknowledged:
                unacknowledged.popleft()
                silent_s = 0.0
            if len(unacknowledged) <= allowed:
                return
            sending.news.clear()
            try:
                async with asyncio.timeout(_RESEND_S):
                    await sending.news.wait()
            except TimeoutError:
                silent_s += _RESEND_S
                if silent_s >= _GIVE_UP_S:
                    raise SnapshotRefused(
                        f"{to.node} did not acknowledge a snapshot piece for {silent_s:.0f} s"
                    ) from None
                for _, frame in unacknowledged:
                    self._host.transport.send(to.node, frame)

    def _is_limited(self, replica: Replica, to: Peer) -> bool:
        """A member that lags behind is not slowed down: it is missing from the quorum."""
        configuration = replica.raft.status().configuration
        return configuration is None or to not in configuration.members

    def acknowledged(self, ack: SnapshotAck) -> None:
        """A receiver answered."""
        sending = self._sending.get((ack.group, ack.sender))
        if sending is None or sending.stream != ack.stream:
            return
        sending.acknowledged = max(sending.acknowledged, ack.following)
        sending.refused = ack.refused
        sending.news.set()

    # ── receiving ────────────────────────────────────────────────────────────────────────────

    def received(self, piece: SnapshotPiece) -> None:
        """Stage a piece and acknowledge it once it is stored."""
        replica = self._host.replicas.get(piece.group)
        if replica is None or replica.me != piece.to:
            self._acknowledge(piece, 0, "there is no such replica here")
            return
        staging = replica.staging
        if staging is None or (staging.stream, staging.sender) != (piece.stream, piece.sender):
            if replica.raft.pending_snapshot is not None:
                return  # what is staged is being installed; the sender will try again
            if piece.sequence != 0:
                self._acknowledge(piece, 0, "the beginning of this stream is not here")
                return
            staging = self._begin(replica, piece)
        if piece.sequence != staging.submitted:
            self._acknowledge(piece, staging.following, None)
            return
        if zlib.crc32(piece.content) != piece.crc:
            self._acknowledge(piece, 0, f"piece {piece.sequence} was damaged on its way")
            return
        pairs = decode_pairs(piece.content)
        staging.submitted += 1
        if replica.is_volatile:
            staging.pairs += pairs
            self._staged(replica, staging, piece)
        else:
            data, number = self._host.storage.data, staging.number
            self._host.storage.write_data(
                lambda: data.stage(number, pairs),
                lambda: self._staged(replica, staging, piece),
            )

    def _begin(self, replica: Replica, piece: SnapshotPiece) -> Staging:
        self.discard(replica)
        replica.staging = Staging(
            stream=piece.stream,
            sender=piece.sender,
            number=0 if replica.is_volatile else self._host.storage.new_number(),
            pairs=[],
        )
        return replica.staging

    def discard(self, replica: Replica) -> None:
        """Forget a staged snapshot that was not installed."""
        staging, replica.staging = replica.staging, None
        if staging is not None and staging.number:
            self.erase(staging.number)

    def erase(self, number: int) -> None:
        """Delete cells that no replica owns any more."""
        data = self._host.storage.data
        self._host.storage.write_data(lambda: data.erase(number), lambda: None)

    def _staged(self, replica: Replica, staging: Staging, piece: SnapshotPiece) -> None:
        if replica.stopped or replica.staging is not staging:
            return
        staging.following += 1
        if piece.meta is not None:
            refused = self._staged_all(replica, staging, piece, piece.meta)
            if refused is not None:
                self.discard(replica)
                self._acknowledge(piece, 0, refused)
                return
        self._acknowledge(piece, staging.following, None)

    def _staged_all(
        self, replica: Replica, staging: Staging, piece: SnapshotPiece, meta: SnapshotMeta
    ) -> str | None:
        """Tell the core of a whole snapshot; the answer is why not."""
        if replica.is_volatile:
            state = state_in(staging.pairs)
        else:
            state = self._host.storage.data.state(staging.number)
        if (state.index, state.term) != (meta.index, meta.term):
            return (
                f"its state is that of index {state.index}, term {state.term}; announced were "
                f"{meta.index}, {meta.term}"
            )
        staging.meta = meta
        try:
            replica.raft.step(
                Message(
                    kind=Kind.SNAPSHOT,
                    to=replica.me,
                    sender=piece.sender,
                    term=piece.term,
                    snapshot=meta,
                )
            )
        except LOG_ERRORS as error:
            self._host.break_down(replica, str(error))
            return f"the replica is broken: {error}"
        self._host.wake(replica)
        return None

    def _acknowledge(self, piece: SnapshotPiece, following: int, refused: str | None) -> None:
        ack = SnapshotAck(piece.group, piece.sender, piece.to, piece.stream, following, refused)
        self._host.transport.send(piece.sender.node, encode_frame(ack))

    # ── installing ───────────────────────────────────────────────────────────────────────────

    def record_of_staged(self, replica: Replica, meta: SnapshotMeta) -> GroupRecord:
        """The replica's record when it owns the staged cells. Raises LogCorrupt."""
        staging = replica.staging
        if staging is None or staging.meta != meta:
            raise LogCorrupt(
                f"the core installs a snapshot of index {meta.index} that was not staged here"
            )
        return msgspec.structs.replace(replica.record, data_number=staging.number)

    def install(self, replica: Replica) -> None:
        """The log begins behind the snapshot now: swap the state too."""
        staging = replica.staging
        assert staging is not None, "record_of_staged or the core looked at it before"
        cells: Overlay | MemoryCells
        if isinstance(replica.cells, Overlay):
            data = self._host.storage.data
            state, clients = data.state(staging.number), data.clients(staging.number)
            transactions = data.transactions(staging.number)
            old = replica.cells.number
            cells = Overlay(data, staging.number)
            self.erase(old)
        else:
            contents, clients, transactions, state = from_pairs(staging.pairs)
            cells = MemoryCells(contents)
        replica.replace_state(
            cells,
            Partition(
                cells,
                clients=clients,
                transactions=transactions,
                state=state,
                deduplicate=replica.partition.deduplicate,
            ),
        )


def _pieces(view: View) -> Iterator[list[Pair]]:
    """The view in pieces of about _PIECE_BYTES; at least one, even if it is empty."""
    piece: list[Pair] = []
    size_bytes = 0
    for pair in view.pairs():
        piece.append(pair)
        size_bytes += len(pair[0]) + len(pair[1])
        if size_bytes >= _PIECE_BYTES:
            yield piece
            piece, size_bytes = [], 0
    yield piece


def _size_bytes(view: View) -> int:
    return sum(len(key) + len(value) for key, value in view.pairs())
