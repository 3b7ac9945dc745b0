"""The state of a replica in every role: term, vote, leader, log, and outgoing messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from zonequake_protocol.terms import lineage_of, term_of
from zonequake_store.raft.api import (
    LeaderChanged,
    RaftEvent,
    RaftRole,
    RaftSettings,
    ReadState,
    SupplyPeer,
)
from zonequake_store.raft.catch_up import CatchUpLimit
from zonequake_store.raft.errors import NotLeader
from zonequake_store.raft.freshness import Freshness
from zonequake_store.raft.log import RaftLog
from zonequake_store.raft.messages import Configuration, HardState, Message, Peer

if TYPE_CHECKING:
    from zonequake_store.raft.leader import Leader


class PendingReady:
    """The content of the next Ready."""

    __slots__ = ("aborted_reads", "after_store", "events", "messages", "reads", "supplies")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        """Messages that may leave at once."""
        self.after_store: list[Message] = []
        """Depend on the term, vote or log as they are now."""
        self.reads: list[ReadState] = []
        self.aborted_reads: list[int] = []
        self.supplies: list[SupplyPeer] = []
        self.events: list[RaftEvent] = []


class RaftState:
    """State that all roles share, and the one transition that can happen in any: to follow."""

    __slots__ = (
        "asked_by_leader",
        "catch_up_limit",
        "elapsed_ticks",
        "ended_node",
        "forced",
        "freshness",
        "had_leader",
        "leader",
        "leadership",
        "log",
        "me",
        "out",
        "place",
        "random",
        "read_request",
        "read_round",
        "refused_pre_vote",
        "refusing",
        "role",
        "settings",
        "term",
        "timeout_ticks",
        "urgent",
        "vote",
        "votes",
    )

    def __init__(
        self,
        *,
        me: Peer,
        settings: RaftSettings,
        log: RaftLog,
        hard_state: HardState,
        random: Callable[[int], int],
    ) -> None:
        self.me = me
        self.settings = settings
        self.log = log
        self.random = random
        self.term = hard_state.term
        self.vote = hard_state.vote
        self.role = RaftRole.FOLLOWER
        self.leader: Peer | None = None
        self.leadership: Leader | None = None
        self.votes: dict[Peer, bool] = {}
        """Votes of the running (pre-)election."""
        self.asked_by_leader = False
        """Whether the leader, handing over, asked for the running election."""
        self.urgent = False
        """Whether the leader's process has certainly ended, and no other leader was heard since."""
        self.ended_node = ""
        """The node of that leader: no process there votes."""
        self.place = 0
        """The others that stand before this one then, by lot."""
        self.refused_pre_vote: Message | None = None
        """The last pre-vote request left unanswered because a leader was heard."""
        self.forced: Configuration | None = None
        """The configuration of the reset that this candidate carries out as soon as its vote is
        stored.
        """
        self.freshness = Freshness(random)
        self.had_leader = False
        self.refusing = False
        self.out = PendingReady()
        self.catch_up_limit = CatchUpLimit(
            bytes_per_second=settings.catch_up_bytes_per_second, tick_s=settings.tick_s
        )
        self.read_request = 0
        self.read_round = 0
        """Never reset: an acknowledgement of an older leadership must not count in a newer."""
        self.elapsed_ticks = 0
        """Ticks since the leader was heard, or the election began."""
        self.timeout_ticks = 0
        self.restart_election_timer()
        if self.abstains:
            log.forget_commits()

    @property
    def hard_state(self) -> HardState:
        return HardState(self.term, self.vote, self.log.commit)

    @property
    def is_member(self) -> bool:
        """Returns whether this replica, in this incarnation, votes in its newest configuration."""
        configuration = self.log.configuration
        return configuration is not None and self.me in configuration.members

    @property
    def abstains(self) -> bool:
        """Returns whether this replica knows of a reset whose configuration its log doesn't have;
        see `raft.reset`. A passive one, without any configuration, has nothing to abstain from.

        Compares lineages, not configuration indexes: an old majority that lived on apart can reach
        a higher index than the reset (design §3, hole 12).
        """
        configuration = self.log.configuration
        return configuration is not None and configuration.lineage < lineage_of(self.term)

    @property
    def may_campaign(self) -> bool:
        """Returns whether this replica may campaign: members may, and a replica that is removed
        only by an entry not known to be committed (thesis §4.2.2; its own vote doesn't count then).

        a, b, c change to c alone; leader b stores the final entry, c doesn't get it, a is gone.
        c needs b's vote for the joint configuration, but b's log is longer: only b can be elected.
        """
        return not self.abstains and self.log.may_contain(self.me)

    @property
    def hears_leader(self) -> bool:
        """Returns whether a vote now would only disturb (thesis §4.2.3)."""
        if self.leadership is not None:
            return True  # check-quorum ends a leadership that is none
        return self.leader is not None and self.elapsed_ticks < self.settings.election_ticks

    def restart_election_timer(self) -> None:
        self.elapsed_ticks = 0
        ticks = self.settings.election_ticks
        if self.urgent:
            ticks = max(1, ticks // 2)
        self.timeout_ticks = ticks + self.random(ticks)

    def become_follower(self, term: int, leader: Peer | None, reason: str) -> None:
        """Follow in `term` ≥ the present one; `reason` explains a change of peers that ends so."""
        if self.leadership is not None:
            self.leadership.resign(reason)
            self.leadership = None
        self.forced = None
        if term != self.term:
            if lineage_of(term) > lineage_of(self.term):
                self.leave_lineage()
            self.term = term
            self.vote = None
            self.leader = None if leader else self.leader  # the same leader again is news
        self.role = RaftRole.FOLLOWER
        self.votes = {}
        self.urgent = self.urgent and leader is None
        self.set_leader(leader)
        self.restart_election_timer()

    def as_leader(self) -> Leader:
        """Returns what only a leader has. Raises NotLeader."""
        if self.leadership is None:
            raise NotLeader(self.leader)
        return self.leadership

    def enforce(self, lineage: int) -> None:
        """Stops taking part in older lineages: a reset with this token was decided. The term
        becomes the lowest of the lineage, so that a replica that learns of it doesn't disturb its
        leader.
        """
        if lineage > lineage_of(self.term):
            self.become_follower(term_of(lineage, 0), None, f"a reset began lineage {lineage}")

    def leave_lineage(self) -> None:
        """Forgets what it would still have reported of the old lineage: commits, reads,
        freshness.
        """
        self.log.forget_commits()
        self.freshness.forget()
        self.out.aborted_reads += [read.request for read in self.out.reads]
        self.out.reads = []

    def set_leader(self, leader: Peer | None) -> None:
        if leader != self.leader:
            self.leader = leader
            self.had_leader = self.had_leader or leader is not None
            self.out.events.append(LeaderChanged(leader=leader, term=self.term))
