"""Rules for the messages between suppliers and demanders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from zonequake_simulation.violation import require
from zonequake_store.catch_up.messages import (
    Demand,
    Dismissal,
    End,
    Invite,
    Piece,
    Position,
    Staging,
    Supply,
    decode_pairs,
)
from zonequake_store.network.peer_protocol import CatchUpFrame
from zonequake_store.raft.api import RaftRole, RaftSettings
from zonequake_store.raft.catch_up import ENTRY_OVERHEAD_BYTES
from zonequake_store.raft.core import Raft
from zonequake_store.raft.messages import Peer


@dataclass(slots=True)
class _Snapshot:
    """A snapshot as its pieces describe it. `positions`: the positions at which a piece may
    begin.
    """

    positions: set[tuple[int, bytes]] = field(default_factory=lambda: {(0, b"")})
    pairs: dict[bytes, bytes] = field(default_factory=dict)
    end: End | None = None


@dataclass(slots=True)
class _Spent:
    """The bytes that a leader has sent beyond its rate."""

    raft: Raft
    over_bytes: float = 0.0
    largest_bytes: int = 0
    at_us: int = 0


class CatchUpRules:
    """The catch-up rules of one group. They check what is sent, not what arrives."""

    def __init__(self, settings: RaftSettings) -> None:
        self._rate = settings.catch_up_bytes_per_second
        self._tick_s = settings.tick_s
        self._ends: dict[tuple[Peer, Peer, int], int] = {}
        """(supplier, demander, round) → the last entry that was demanded or supplied."""
        self._snapshots: dict[tuple[Peer, int], _Snapshot] = {}
        self._spent: dict[Peer, _Spent] = {}

    def sent(
        self,
        raft: Raft,
        frame: CatchUpFrame,
        now_us: int,
        stored: Callable[[], dict[str, Staging]] | None,
    ) -> None:
        """Checks a frame that leaves a replica. `stored`: the snapshots on its disk, if it has
        one.
        """
        if isinstance(frame, Invite | Supply | Piece):
            require(
                raft.status().role is RaftRole.LEADER,
                "only a leader supplies",
                peer=frame.sender,
                frame=type(frame).__name__,
            )
        match frame:
            case Demand():
                self._reached(frame.to, frame.sender, frame.round, frame.index)
                if stored is not None and frame.staged is not None:
                    self._is_staged(frame.sender, frame.staged, stored().get(frame.group))
            case Supply():
                self._supplied(frame)
                entries = frame.append.entries
                size_bytes = sum(len(each.data) + ENTRY_OVERHEAD_BYTES for each in entries)
                self._spend(raft, frame.to, size_bytes, now_us)
            case Piece():
                self._piece(frame)
                self._spend(raft, frame.to, len(frame.content), now_us)
            case Dismissal():
                require(
                    frame.unequal is None,
                    "sound copies have equal counters",
                    peer=frame.to,
                    unequal=frame.unequal,
                )
            case _:
                pass

    def recovered(self, staging: Staging, pairs: int) -> None:
        """Checks a process that starts with a snapshot and a number of its pairs on disk."""
        require(
            pairs == staging.pairs,
            "a snapshot and how far it is are stored together",
            staging=staging,
            pairs=pairs,
        )

    def _is_staged(self, peer: Peer, said: Position, stored: Staging | None) -> None:
        require(
            stored is not None
            and stored.snapshot == said.snapshot
            and stored.sequence >= said.sequence,
            "a piece is stored before it is reported as staged",
            peer=peer,
            said=said,
            stored=stored,
        )

    def _reached(self, supplier: Peer, demander: Peer, round_: int, index: int) -> None:
        link = supplier, demander, round_
        self._ends[link] = max(index, self._ends.get(link, 0))

    def _supplied(self, supply: Supply) -> None:
        append = supply.append
        require(
            append.index <= self._ends.get((supply.sender, supply.to, supply.round), -1),
            "a supply follows what was demanded or supplied",
            supplier=supply.sender,
            demander=supply.to,
            begins_behind=append.index,
        )
        if append.entries:
            indexes = [entry.index for entry in append.entries]
            require(
                indexes == list(range(append.index + 1, append.index + 1 + len(indexes))),
                "entries of a supply follow each other",
                supplier=supply.sender,
                behind=append.index,
                entries=indexes,
            )
            self._reached(supply.sender, supply.to, supply.round, indexes[-1])

    def _piece(self, piece: Piece) -> None:
        snapshot = self._snapshots.setdefault((piece.sender, piece.snapshot), _Snapshot())
        require(
            (piece.sequence, piece.after) in snapshot.positions,
            "a piece follows another of its snapshot",
            supplier=piece.sender,
            sequence=piece.sequence,
            after=piece.after,
        )
        pairs = decode_pairs(piece.content)
        last = pairs[-1][0] if pairs else piece.after
        snapshot.positions.add((piece.sequence + 1, last))
        for key, value in pairs:
            require(
                snapshot.pairs.setdefault(key, value) == value,
                "a snapshot is of one state",
                supplier=piece.sender,
                key=key,
            )
        if piece.end is not None:
            end = snapshot.end = snapshot.end or piece.end
            require(
                piece.end == end and end.pairs == len(snapshot.pairs),
                "a snapshot is of one state",
                supplier=piece.sender,
                announced=piece.end,
                pairs=len(snapshot.pairs),
            )

    def _spend(self, raft: Raft, to: Peer, size_bytes: int, now_us: int) -> None:
        """Checks that catching-up peers get no more than the rate; a clock may be 5 % too fast."""
        leadership = raft._replica.leadership
        if not self._rate or not size_bytes:
            return
        if leadership is None or not leadership.progress[to].catching_up:
            return
        spent = self._spent.get(raft._replica.me)
        if spent is None or spent.raft is not raft:
            spent = self._spent[raft._replica.me] = _Spent(raft, at_us=now_us)
        passed_s = (now_us - spent.at_us) / 1e6
        spent.at_us = now_us
        spent.over_bytes = max(0.0, spent.over_bytes - passed_s * self._rate * 1.05)
        # A bucket holds a tick's share, may be refilled at once, and may be overdrawn by one
        # message for each peer: a read for several peers at a time was allowed for each of them.
        spent.largest_bytes = max(spent.largest_bytes, size_bytes)
        peers = sum(each.catching_up for each in leadership.progress.values())
        allowed_bytes = 2 * self._rate * self._tick_s + (peers - 1) * spent.largest_bytes
        require(
            spent.over_bytes <= allowed_bytes,
            "catch-up keeps to its rate",
            supplier=raft._replica.me,
            over_bytes=spent.over_bytes,
            allowed_bytes=allowed_bytes,
        )
        spent.over_bytes += size_bytes
