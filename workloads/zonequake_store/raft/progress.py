"""The leader's view of one peer, and the limits of sending to it.

PROBE ──accepted──▶ REPLICATE        PROBE: one APPEND, then wait for its answer or a
  ▲ ◀──rejected, lost──┘ │           heartbeat's. REPLICATE: APPENDs follow each other, up to
  │         log too short│           a limit. SUPPLIED: nothing is pushed; the peer asks the
  └───joined── SUPPLIED ◀┘           host's supplier for what it lacks, until it can follow.

A catching-up peer is SUPPLIED from its beginning until it is a member. A member is while our log
does not reach back to it.
"""

from __future__ import annotations

import enum
from collections import deque

from zonequake_store.raft.messages import Peer


class Flow(enum.Enum):
    PROBE = "probe"
    REPLICATE = "replicate"
    SUPPLIED = "supplied"


class ReplicationProgress:
    """One peer, or the leader itself (`match`: what it has stored)."""

    __slots__ = (
        "acked_round",
        "active",
        "catching_up",
        "echo_commit",
        "echo_stamp",
        "ended",
        "flow",
        "in_flight",
        "match",
        "next",
        "offered_stamp",
        "peer",
        "poke",
        "stamp",
        "waiting",
    )

    def __init__(self, peer: Peer, *, next_index: int, catching_up: bool) -> None:
        self.peer = peer
        self.match = 0
        """Stored at the peer and equal to our log, up to here."""
        self.next = next_index
        self.flow = Flow.SUPPLIED if catching_up else Flow.PROBE
        self.waiting = False
        """A probe is under way."""
        self.poke = True
        """An APPEND is due even if it has no entries: it finds out where the peer is."""
        self.in_flight: deque[int] = deque()
        """Last index of each unanswered APPEND."""
        self.active = False
        """Whether the peer was heard since the last check of the quorum."""
        self.ended = False
        """Whether its process has ended, and nothing was heard of it since."""
        self.acked_round = 0
        """Highest read index round that it has confirmed."""
        self.stamp = 0
        """The last one that it sent, if that came after the last round; see `raft.freshness`."""
        self.offered_stamp = 0
        """The one that was here when the running round began."""
        self.echo_stamp = self.echo_commit = 0
        self.catching_up = catching_up

    def accepted(self, index: int, first_index: int) -> bool:
        """Records that the peer has all entries up to `index`; returns whether that is news."""
        self.waiting = False
        news = index > self.match
        if news:
            self.match = index
        if self.flow is Flow.REPLICATE:
            in_flight = self.in_flight
            while in_flight and in_flight[0] <= index:
                in_flight.popleft()
            if self.next <= index:
                self.next = index + 1
        elif index >= self.match and (
            self.flow is Flow.PROBE or (not self.catching_up and index + 1 >= first_index)
        ):
            self.flow = Flow.REPLICATE
            self.next = self.match + 1
            self.in_flight.clear()
        return news

    def rejected(self, index: int, hint: int) -> None:
        """Records that the peer has no matching entry `index`; it should go on after `hint`."""
        if self.flow is Flow.SUPPLIED or index <= self.match:
            return  # late
        if self.flow is Flow.PROBE:
            if index != self.next - 1:
                return  # late: of an older probe
            self.next = max(min(index, hint + 1), self.match + 1)
            self.waiting = False
        else:
            self.probe()
        self.poke = True

    def probe(self) -> None:
        """Finds out after a loss where the peer is, from what it certainly has."""
        self.flow = Flow.PROBE
        self.next = self.match + 1
        self.waiting = False
        self.poke = True
        self.in_flight.clear()

    def joined(self) -> None:
        """Records that a configuration names the peer: it is fed like every member, from what it
        has.
        """
        if self.catching_up:
            self.catching_up = False
            self.probe()

    def sent(self, last: int) -> None:
        """Records that an APPEND left whose last entry is `last` (`next` - 1 if it has none)."""
        self.poke = False
        if self.flow is Flow.PROBE:
            self.waiting = True
        elif last >= self.next:
            self.next = last + 1
            self.in_flight.append(last)

    def needs_supply(self) -> None:
        self.flow = Flow.SUPPLIED
        self.in_flight.clear()
        self.waiting = self.poke = False
