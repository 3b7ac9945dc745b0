"""The side that lacks something: asks, checks what comes, stages, and asks on. Sans-IO.

    IDLE ──invited──► ASKING ──Supply──► the core appended it? ──► ask on from what is stored
      ▲                 │ ▲                └─ no ──► ask from where the logs may agree
      └──dismissed, ────┘ └── Piece ──► staged ──► whole? ──► SNAPSHOT ──► installed ──► ask on
         another leader                              └─ it is not what was announced: from its start

A demand that brings nothing for a while is repeated in a new round.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Protocol

import msgspec

from zonequake_store.catch_up.messages import (
    Checkpoint,
    Demand,
    Dismissal,
    Invite,
    Pairs,
    Piece,
    Staging,
    Supply,
    decode_pairs,
)
from zonequake_store.raft.core import Raft
from zonequake_store.raft.messages import Message, MessageKind, Peer

REPEAT_TICKS = 10
"""A demand is repeated after a second: nothing that is alive is silent for so long, except a
supplier that has nothing to supply."""
GIVE_UP_TICKS = 150
"""A demand is given up after so long without an answer from a leader; the next leader will send an
invitation.
"""
REFUSALS = 8
"""After so many refusals by the core in a row, or two at the same point, which may contradict what
it has applied in another lineage, the state is asked for instead.
"""


class DemanderEdge(Protocol):
    """The calls that a demander makes to its surroundings."""

    def send(self, frame: Demand) -> bool:
        """Sends the frame; it may get lost. False: it was not taken, try later."""

    def checkpoint(self) -> Checkpoint:
        """Returns the replica's counters as of what it has applied."""

    def step(self, message: Message) -> bool:
        """Give the replica's own core a message; False: the replica is broken now."""

    def new_number(self) -> int:
        """Returns a number under which the pairs of another snapshot can be kept."""

    def stage(self, staging: Staging, pairs: Pairs) -> None:
        """Store pairs under `staging.number` and `staging` itself, durably, in one commit; then
        call `Demander.staged(staging)`. The pairs of a number come in the order of their keys."""

    def discard(self, staging: Staging) -> None:
        """Forget what is staged under its number, after what was asked before."""

    def state_of(self, staging: Staging) -> tuple[int, int]:
        """(index, term) of the entry after which the staged state is, as it says itself."""

    def break_down(self, reason: str) -> None:
        """Stops the replica, which must not go on."""


class Demander:
    """One replica's demands. `staging`: what an earlier process has staged durably, if anything.

    A volatile replica's edge keeps what it stages in memory, and calls `staged` at once.
    """

    def __init__(
        self,
        *,
        group: str,
        me: Peer,
        raft: Raft,
        edge: DemanderEdge,
        staging: Staging | None = None,
    ) -> None:
        self.staging = staging
        """The part of a snapshot that is stored."""
        self._group = group
        self._me = me
        self._raft = raft
        self._edge = edge
        self._supplier: Peer | None = None
        """Without one, only `invited` and `staged` have any effect."""
        self._term = 0
        self._round = 0
        self._silent_ticks = 0
        self._demanded = (0, 0)
        self._left = True
        """The last demand was taken by the edge."""
        self._asked = 0
        self._agreement: tuple[int, int] | None = None
        """Position at which the supplier's log may agree with ours, if not at our end."""
        self._refusals = 0
        self._full = False
        self._received: Staging | None = staging
        """The value of `staging` once all that arrived is stored."""
        self._arrived: Pairs = []
        self._storing = False
        self._again = False
        """Something is wrong with what arrived: a new round is due when nothing is being stored."""

    @property
    def is_installing(self) -> bool:
        """The core has taken the whole snapshot; its installation is under way."""
        return self._raft.pending_snapshot is not None

    @property
    def is_storing(self) -> bool:
        """`DemanderEdge.stage` has not come to its end."""
        return self._storing

    # what a supplier says

    def invited(self, invite: Invite) -> None:
        """Handles the invitation of a leader that is ready to supply."""
        if invite.term < max(self._raft.term, self._term):
            return  # of an earlier leadership
        leads_on = (self._supplier, self._term) == (invite.sender, invite.term)
        if leads_on and invite.round <= self._round:
            return  # late or doubled
        self._supplier = invite.sender
        self._term = invite.term
        self._round = max(self._round, invite.round - 1)
        self._forget_refusals()
        self._silent_ticks = 0
        self._begin_round()

    def supplied(self, supply: Supply) -> None:
        """Entries came."""
        append = supply.append
        if not self._is_current(supply.sender, supply.round):
            if supply.sender == self._supplier and append.entries:
                # It crossed our repeated demand. At a rate that lets one entry through as often as
                # we repeat, each would, and nothing would ever arrive in its own round.
                self._edge.step(append)
            return
        if not self._edge.step(append):
            return
        last, last_term = append.index + len(append.entries), append.log_term
        if append.entries:
            last_term = append.entries[-1].term
        self._silent_ticks = 0
        if self._raft.holds(last, last_term):
            # An empty one for less than was asked, as under a spent rate, brings nothing: what was
            # refused before still was.
            if append.entries or last >= self._demanded[0]:
                self._forget_refusals()
                self.discard()
            return
        agreement = self._raft.may_agree_at(append.index, append.log_term)
        if append.index <= self._asked:  # else what comes before it was lost
            self._refusals += 1
            self._full = agreement == self._agreement or self._refusals >= REFUSALS
        self._agreement = agreement
        self._begin_round()

    def piece(self, piece: Piece) -> None:
        """Handles a piece of a snapshot. Raises ProtocolError if its content is no pairs."""
        if not self._is_current(piece.sender, piece.round) or self.is_installing or self._again:
            return
        received = self._received
        if received is None or (received.snapshot, received.supplier) != (
            piece.snapshot,
            piece.sender,
        ):
            if piece.sequence != 0 or piece.after:
                self._ask_again()
                return
            if self._storing:
                return  # of the older one; this one will be sent again
            self.discard()
            received = Staging(self._edge.new_number(), piece.sender, piece.snapshot)
        if piece.sequence < received.sequence:
            return  # doubled
        if received.end is not None:
            # The snapshot was whole when this replica stopped asking, or its process ended, and is
            # still the one that the supplier gives.
            if not self._storing:
                self._take_whole(received)
            return
        if (piece.sequence, piece.after) != (received.sequence, received.after):
            self._ask_again()
            return
        if zlib.crc32(piece.content) != piece.crc:
            self._ask_again()
            return
        pairs = decode_pairs(piece.content)
        self._silent_ticks = 0
        self._arrived += pairs
        self._received = msgspec.structs.replace(
            received,
            sequence=received.sequence + 1,
            after=pairs[-1][0] if pairs else received.after,
            pairs=received.pairs + len(pairs),
            size_bytes=received.size_bytes + size_of(pairs),
            end=piece.end,
        )
        if not self._storing:
            self._store()

    def dismissed(self, dismissal: Dismissal) -> None:
        """Handles a dismissal: the supplier has nothing for this replica."""
        if not self._is_current(dismissal.sender, dismissal.round):
            return
        if dismissal.unequal is not None:
            found, expected = dismissal.unequal
            self._edge.break_down(unequal_counters(found, self._me, expected, dismissal.sender))
            return
        self.stop()
        self.discard()

    # what the host says

    def staged(self, staging: Staging) -> None:
        """Continues once the staging given to `DemanderEdge.stage` is stored."""
        self._storing = False
        received = self._received
        if received is None or received.number != staging.number:
            if self._again:
                self._begin_round()  # it was discarded meanwhile
            return
        self.staging = staging
        if self._supplier is None:
            self._received, self._arrived = staging, []
        elif received is not staging:
            self._store()  # what came meanwhile, in one commit
            self._demand()
        elif staging.end is not None:
            self._take_whole(staging)
        elif self._again:
            self._begin_round()
        else:
            self._demand()

    def progressed(self) -> None:
        """Demands further after a turn of the replica, if it has stored more."""
        if (
            self._supplier is not None
            and self._received is None
            and self._agreement is None
            and not self.is_installing
            and self._raft.stored_position != self._demanded
        ):
            self._demand()

    def installed(self) -> None:
        """Records that the staged state is the replica's now."""
        self.staging = self._received = None
        self._forget_refusals()
        if self._supplier is not None:
            self._begin_round()

    def tick(self) -> None:
        """Handles a tick of the core."""
        if self._supplier is None or self._storing or self.is_installing:
            return
        if self._raft.term > self._term:
            self.stop()
            return
        self._silent_ticks += 1
        if self._silent_ticks % REPEAT_TICKS:
            if not self._left:
                self._demand()
            return
        if self._silent_ticks >= GIVE_UP_TICKS and self._raft.leader != self._supplier:
            self.stop()
        else:
            self._begin_round()

    def stop(self) -> None:
        """Stops demanding until the next invitation; what is staged stays."""
        self._supplier = None
        self._again = False
        self._agreement = None
        if not self._storing:
            self._received, self._arrived = self.staging, []

    # inside

    def _forget_refusals(self) -> None:
        self._agreement = None
        self._refusals = 0
        self._full = False

    def _is_current(self, sender: Peer, round_: int) -> bool:
        return sender == self._supplier and round_ == self._round

    def _begin_round(self) -> None:
        self._round += 1
        self._again = False
        self._demand()

    def _ask_again(self) -> None:
        self._again = True
        if not self._storing:
            self._begin_round()

    def _demand(self) -> None:
        assert self._supplier is not None, "only a replica with a supplier demands"
        self._demanded = self._raft.stored_position
        index, log_term = self._agreement or self._demanded
        self._asked = index
        staging = self.staging
        if staging is not None and staging.supplier != self._supplier:
            staging = None
        self._left = self._edge.send(
            Demand(
                self._group,
                self._supplier,
                self._me,
                self._term,
                self._round,
                index,
                log_term,
                self._edge.checkpoint(),
                staging.position if staging is not None else None,
                self._full,
            )
        )

    def _store(self) -> None:
        assert self._received is not None, "something arrived"
        self._storing = True
        pairs, self._arrived = self._arrived, []
        self._edge.stage(self._received, pairs)

    def _take_whole(self, staging: Staging) -> None:
        """All pieces are stored: give the snapshot to the core, if it is what was announced."""
        end = staging.end
        assert end is not None, "it is whole"
        assert self._supplier is not None, "staged() looked"
        whole = (staging.pairs, staging.size_bytes) == (end.pairs, end.size_bytes)
        if not whole or self._edge.state_of(staging) != (end.meta.index, end.meta.term):
            self.discard()
            self._begin_round()
            return
        message = Message(
            kind=MessageKind.SNAPSHOT,
            to=self._me,
            sender=self._supplier,
            term=self._term,
            snapshot=end.meta,
        )
        if not self._edge.step(message):
            return
        if self._raft.pending_snapshot != end.meta:
            self.discard()  # the log has all of it, or another leader is followed
            self._forget_refusals()
            self._begin_round()

    def discard(self) -> None:
        """Forget what is staged, unless the core has taken it: its record may name it already."""
        if self.is_installing:
            return
        if self._received is not None:
            self._edge.discard(self._received)
        self.staging = self._received = None
        self._arrived = []


def size_of(pairs: Iterable[tuple[bytes, bytes]]) -> int:
    """Bytes of a state, or of a piece of it: what suppliers and demanders count."""
    return sum(len(key) + len(value) for key, value in pairs)


def unequal_counters(found: Checkpoint, mine: Peer, expected: Checkpoint, other: Peer) -> str:
    """Returns why a replica is broken whose counters are not those of another at the same index."""
    return (
        f"at entry {found.index} the update counters are unequal: {found} on {mine.node} "
        f"(incarnation {mine.incarnation}), but {expected} on {other.node} (incarnation "
        f"{other.incarnation}); stop and erase this replica, it comes back from its peers"
    )
