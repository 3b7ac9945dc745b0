"""The side that has what others lack: a leader's supplies to each peer that it doesn't push to.

    demand ──► counters unequal at the same index? ──► Dismissal, its replica is broken
           ──► is it supplied at all? ── no ──► Dismissal
           ──► the log reaches back? ── yes ──► Supply, while less than a window is unanswered
                                     └─ no, or it cannot be read ──► Piece, likewise

Sans-IO. A peer that does not ask is invited again and again while the core says that it is
supplied. One that is silent for long loses the snapshot that is kept open for it, because an open
one keeps old pages and old entries; it gets another.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Protocol

from zonequake_store.catch_up.messages import (
    Checkpoint,
    Demand,
    Dismissal,
    End,
    Invite,
    Piece,
    Supply,
)
from zonequake_store.catch_up.sessions import OpenSnapshot, SupplySession
from zonequake_store.errors import LogCorrupt
from zonequake_store.raft.core import Raft
from zonequake_store.raft.errors import LogCompacted, LogCorrupted
from zonequake_store.raft.messages import Message, Peer, SnapshotMeta

INVITE_TICKS = 10
"""A peer that did not ask for so long is invited (again)."""
FORGET_TICKS = 600
"""A snapshot is kept open for a silent peer for a minute: a pod is back sooner, and resumes."""
WINDOW_SUPPLIES = 32
"""Supplies on their way that the peer has not stored: while one half is in a commit, the other
half arrives. 8 MB cover a slow network and a slow disk."""
PIECE_BYTES = 256 * 1024
"""Small enough that a heartbeat after a window of them is not late on a slow network."""
WINDOW_PIECES = 12

UNREADABLE = (LogCompacted, LogCorrupted, LogCorrupt)

OutFrame = Invite | Supply | Piece | Dismissal


class SupplierEdge(Protocol):
    """The calls that a supplier makes to its surroundings. `snapshot` is a number that it gives."""

    def send(self, frame: OutFrame) -> bool:
        """Sends the frame; it may get lost. False: it was not taken, try later."""

    def open(self, to: Peer, snapshot: int) -> None:
        """Open the state of what is applied by now, for `read`; then call `Supplier.opened`, or
        `Supplier.lost` if that is not possible."""

    def read(self, to: Peer, snapshot: int, after: bytes, max_bytes: int) -> None:
        """Reads the pairs whose keys follow `after`, at least one if there is one, while they have
        less than `max_bytes`; then calls `Supplier.read`.
        """

    def close(self, to: Peer, snapshot: int) -> None:
        """Closes the state, which will not be read any more; it may not be open yet, or be being
        read.
        """


class Supplier:
    """One leadership's supplies.

    `checkpoint_at(index)`: this replica's own counters when it had applied that entry, if it knows
    them (any more). `may_judge()`: whether most members agree with them, for a damaged leader must
    not accuse another replica. `new_snapshot()` numbers snapshots; a number must never come twice,
    also not from another process: a demander that outlived it would mix two.
    """

    def __init__(
        self,
        *,
        group: str,
        me: Peer,
        raft: Raft,
        edge: SupplierEdge,
        checkpoint_at: Callable[[int], Checkpoint | None],
        may_judge: Callable[[], bool],
        new_snapshot: Callable[[], int],
    ) -> None:
        self._group = group
        self._me = me
        self._raft = raft
        self._edge = edge
        self._checkpoint_at = checkpoint_at
        self._may_judge = may_judge
        self._new_snapshot = new_snapshot
        self._sessions: dict[Peer, SupplySession] = {}

    @property
    def is_active(self) -> bool:
        """Returns whether any peer is supplied; otherwise a tick has nothing to do."""
        return bool(self._sessions)

    @property
    def lowest_index_needed(self) -> int:
        """Returns the index after which installations under way need the log."""
        return min(
            (each.snapshot.index for each in self._sessions.values() if each.snapshot is not None),
            default=1 << 62,
        )

    # what the core and the demanders say

    def begin(self, to: Peer) -> None:
        """Begins to supply `to`, as the core wants; by now this replica may not lead any more.

        After a change that was given up, the peer goes on with the snapshot that is still open.
        """
        if not self._raft.supply.is_open(to):
            self._end(to)
            return
        before = self._sessions.pop(to, None)
        session = self._sessions[to] = SupplySession(peer=to)
        if before is not None:
            session.round, session.snapshot = before.round, before.snapshot
        self._invite(session)

    def demanded(self, demand: Demand) -> None:
        """Handles a demand of a peer."""
        peer = demand.sender
        if self._is_unequal(demand):
            return
        if not self._raft.supply.is_open(peer):
            self._dismiss(demand)
            return
        if demand.term != self._raft.term:
            # From an earlier leadership: it must not end this one's supplies, which would not begin
            # again.
            self._dismiss(demand)
            return
        session = self._sessions.get(peer)
        if session is None:
            session = self._sessions[peer] = SupplySession(peer=peer)
        if demand.round < session.round:
            return
        session.silent_ticks = 0
        if demand.round > session.round:
            self._begin_round(session, demand)
        else:
            self._acknowledge(session, demand)
        self._serve(session)

    # what the edge says

    def opened(
        self,
        to: Peer,
        snapshot: int,
        *,
        meta: SnapshotMeta,
        pairs: int,
        size_bytes: int,
        checkpoint: Checkpoint,
    ) -> None:
        """Records that the state is open: that of `meta`, so many pairs and bytes
        (`demander.size_of`).
        """
        session, opened = self._find(to, snapshot)
        if session is not None and opened is not None:
            opened.index = meta.index
            opened.end = End(meta, pairs, size_bytes)
            opened.checkpoint = checkpoint
            self._serve(session)

    def lost(self, to: Peer, snapshot: int) -> None:
        """Records that the state could not be opened or read; the next demand tries another."""
        session, lost = self._find(to, snapshot)
        if session is not None and lost is not None:
            self._close(session)
            session.asked = False

    def read(
        self,
        to: Peer,
        snapshot: int,
        *,
        after: bytes,
        content: bytes,
        last: bytes,
        size_bytes: int,
        at_end: bool,
    ) -> None:
        """Takes the pairs that follow `after`, encoded: the last one's key (`after` if there is
        none), their `demander.size_of`, and whether they are the last.
        """
        session, source = self._find(to, snapshot)
        if session is None or source is None or source.end is None:
            return
        source.reading = False
        if not self._raft.supply.is_open(to):
            return  # it stopped leading, or gave the change up, while the edge was at work
        if after != source.after or source.whole:
            self._serve(session)  # the demander went back meanwhile
            return
        piece = Piece(
            self._group,
            to,
            self._me,
            self._raft.term,
            session.round,
            snapshot,
            source.sent,
            after,
            zlib.crc32(content),
            content,
            source.end if at_end else None,
        )
        if not self._edge.send(piece):
            return  # the tick reads it again
        source.sent += 1
        source.after = last
        source.sent_bytes += size_bytes
        source.whole = at_end
        self._raft.supply.piece_left(
            to,
            index=source.index,
            piece_bytes=len(content),
            sent_bytes=source.sent_bytes,
            total_bytes=source.end.size_bytes,
        )
        self._serve(session)

    # what the host says

    def advance(self) -> None:
        """Supplies entries by which the log may have grown."""
        for session in self._sessions.values():
            if session.asked and session.snapshot is None:
                self._serve(session)

    def tick(self) -> None:
        """Handles a tick of the core."""
        for session in list(self._sessions.values()):
            session.silent_ticks += 1
            if not self._raft.supply.is_open(session.peer):
                session.asked = False
                if session.snapshot is None or session.silent_ticks >= FORGET_TICKS:
                    self._end(session.peer)
                continue
            if not session.invited or session.silent_ticks % INVITE_TICKS == 0:
                self._invite(session)
            if session.silent_ticks >= FORGET_TICKS:
                self._close(session)
                session.asked = False
            self._serve(session)

    def close(self) -> None:
        """Ends all supplies: the replica no longer leads, or is gone."""
        for peer in list(self._sessions):
            self._end(peer)

    # inside

    def _is_unequal(self, demand: Demand) -> bool:
        """Breaks a demander whose counters are not ours at the same index."""
        found = demand.checkpoint
        session = self._sessions.get(demand.sender)
        snapshot = session.snapshot if session is not None else None
        if snapshot is not None and snapshot.index == found.index:
            expected = snapshot.checkpoint
        else:
            expected = self._checkpoint_at(found.index)
        if expected is None or expected == found or not expected.is_at(found):
            return False
        if not self._may_judge():
            return False
        self._dismiss(demand, (found, expected))
        return True

    def _dismiss(
        self, demand: Demand, unequal: tuple[Checkpoint, Checkpoint] | None = None
    ) -> None:
        self._edge.send(
            Dismissal(self._group, demand.sender, self._me, self._raft.term, demand.round, unequal)
        )

    def _begin_round(self, session: SupplySession, demand: Demand) -> None:
        session.round = demand.round
        session.asked = session.begun = True
        session.full = demand.full
        session.index, session.log_term = demand.index, demand.log_term
        session.in_flight.clear()
        snapshot, staged = session.snapshot, demand.staged
        if snapshot is None:
            return
        if staged is not None and staged.snapshot == snapshot.number:
            snapshot.sent = snapshot.acknowledged = staged.sequence
            snapshot.after = staged.after
            snapshot.sent_bytes = staged.size_bytes
            snapshot.whole = False
        elif snapshot.whole:
            self._close(session)  # what came of it was not what was announced: give another
        else:
            snapshot.sent = snapshot.acknowledged = snapshot.sent_bytes = 0
            snapshot.after = b""

    def _acknowledge(self, session: SupplySession, demand: Demand) -> None:
        in_flight = session.in_flight
        while in_flight and in_flight[0] <= demand.index:
            in_flight.popleft()
        if demand.index > session.index:
            # An earlier round's supply reached it after all.
            session.index, session.log_term = demand.index, demand.log_term
        snapshot, staged = session.snapshot, demand.staged
        if snapshot is not None and staged is not None and staged.snapshot == snapshot.number:
            snapshot.acknowledged = max(snapshot.acknowledged, staged.sequence)

    def _serve(self, session: SupplySession) -> None:
        """Send what the peer may be sent now."""
        if not session.asked or not self._raft.supply.is_open(session.peer):
            return
        if len(session.in_flight) >= WINDOW_SUPPLIES:
            return
        if not session.full:
            try:
                append = self._next(session)
            except UNREADABLE:
                append = None
            if append is not None:
                self._close(session)
                self._send_entries(session, append)
                return
        self._send_state(session)

    def _next(self, session: SupplySession) -> Message | None:
        return self._raft.supply.next_append(
            session.peer, index=session.index, log_term=session.log_term
        )

    def _send_entries(self, session: SupplySession, append: Message | None) -> None:
        """Sends the entries. The first message of a round leaves even if it is empty: its answer
        tells the core how far the peer is, which it does not know if all earlier answers were lost.
        """
        while append is not None and (append.entries or session.begun):
            peer = session.peer
            if not self._edge.send(Supply(self._group, peer, self._me, session.round, append)):
                return
            self._raft.supply.append_left(append)
            session.begun = False
            if not append.entries:
                return
            last = append.entries[-1]
            session.index, session.log_term = last.index, last.term
            session.in_flight.append(last.index)
            if len(session.in_flight) >= WINDOW_SUPPLIES:
                return
            try:
                append = self._next(session)
            except UNREADABLE:
                return  # the next demand finds out

    def _send_state(self, session: SupplySession) -> None:
        peer, snapshot = session.peer, session.snapshot
        if snapshot is None:
            snapshot = session.snapshot = OpenSnapshot(number=self._new_snapshot())
            self._edge.open(peer, snapshot.number)
            return
        if snapshot.index == 0 or snapshot.reading or snapshot.whole:
            return
        if snapshot.sent - snapshot.acknowledged >= WINDOW_PIECES:
            return
        allowance = self._raft.supply.allowance(peer)
        if allowance:
            snapshot.reading = True
            self._edge.read(peer, snapshot.number, snapshot.after, min(PIECE_BYTES, allowance))

    def _invite(self, session: SupplySession) -> None:
        session.invited = self._edge.send(
            Invite(self._group, session.peer, self._me, self._raft.term, session.round + 1)
        )

    def _find(self, to: Peer, snapshot: int) -> tuple[SupplySession | None, OpenSnapshot | None]:
        session = self._sessions.get(to)
        if session is None or session.snapshot is None or session.snapshot.number != snapshot:
            return None, None
        return session, session.snapshot

    def _close(self, session: SupplySession) -> None:
        snapshot, session.snapshot = session.snapshot, None
        if snapshot is not None:
            self._edge.close(session.peer, snapshot.number)

    def _end(self, peer: Peer) -> None:
        session = self._sessions.pop(peer, None)
        if session is not None:
            self._close(session)
