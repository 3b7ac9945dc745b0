"""All rules of one group, the ledger that they share, and each replica's observer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zonequake_simulation.checks.catch_up import CatchUpRules
from zonequake_simulation.checks.ledger import Ledger
from zonequake_simulation.checks.life import Life
from zonequake_simulation.checks.raft import RaftRules
from zonequake_simulation.checks.reconfiguration import ReconfigurationRules
from zonequake_simulation.checks.replies import ReplyRules
from zonequake_simulation.checks.state import StateRules
from zonequake_simulation.checks.storage import StorageRules
from zonequake_simulation.checks.transactions import TransactionRules
from zonequake_simulation.checks.users import UserRules
from zonequake_simulation.checks.watch import WatchedRaft
from zonequake_store.raft.api import (
    ConfigurationApplied,
    LeaderElected,
    RaftRole,
    RaftSettings,
    Ready,
    StageChanged,
)
from zonequake_store.raft.messages import Message, Peer, SnapshotMeta


class GroupRules:
    """One group's rules."""

    def __init__(
        self,
        group: str,
        settings: RaftSettings,
        transactions: TransactionRules,
        now_us: Callable[[], int],
    ) -> None:
        self.ledger = Ledger(now_us)
        self.raft = RaftRules(self.ledger)
        self.reconfiguration = ReconfigurationRules(self.ledger, settings, self.raft.leaders)
        self.storage = StorageRules(self.ledger)
        self.users = UserRules()
        self.state = StateRules(group, self.ledger, transactions, self.users)
        self.catch_up = CatchUpRules(settings)
        self.replies = ReplyRules(self.ledger)

    def stored(self, peer: Peer, ready: Ready) -> None:
        """Takes note that a Ready is on a replica's disk."""
        self.ledger.stored[peer].store(ready)
        if ready.hard_state is not None:
            self.raft.vote_stored(peer, ready.hard_state)

    def compacted(self, peer: Peer, meta: SnapshotMeta) -> None:
        """Takes note that a replica's stored log now begins after `meta`."""
        self.ledger.stored[peer].compact(meta)

    def sent(self, messages: Sequence[Message]) -> None:
        """Judges messages that leave a replica."""
        for message in messages:
            self.storage.sent(message)
            self.raft.sent(message)


class JudgedLife(Life):
    """Observes a replica and judges each of its steps."""

    def __init__(self, rules: GroupRules, raft: WatchedRaft) -> None:
        super().__init__(raft)
        self.rules = rules
        log = self.core.log
        self.state_is_at(log.applied, log.term(log.applied))

    def began(self, *, is_volatile: bool) -> None:
        """Judges the recovered state with which a replica begins."""
        self.rules.storage.recovered(self, is_volatile=is_volatile)
        self.after_step()

    def state_is_at(self, index: int, term: int) -> None:
        """Takes note of a state at this entry, after a start or a snapshot."""
        self.handed_to, self.digest = index, self.rules.ledger.digests[index, term]

    def after_step(self) -> None:
        """Judges the effects of the step."""
        core, rules = self.core, self.rules
        log = core.log
        rules.raft.went_on(self)
        if core.role is RaftRole.LEADER:
            rules.raft.leads(self)
            rules.reconfiguration.leads(self)
        if log.commit > self.commit:
            first = max(self.commit + 1, log.first_index - 1)
            for index in range(first, log.commit + 1):
                if index:
                    rules.raft.committed(self, index, log.term(index))
        self.term, self.commit, self.abstained = core.term, log.commit, core.abstains
        if log.configuration is not self.configuration:
            rules.reconfiguration.took_effect(self)
            self.configuration = log.configuration
            self.configuration_index = log.configuration_index

    def took(self, ready: Ready) -> None:
        """Judges a Ready."""
        rules = self.rules
        if ready.entries:
            rules.raft.appended(self, ready)
            rules.users.appended(self, ready)
            if ready.entries[0].index <= self.configuration_index:
                rules.reconfiguration.took_effect(self)  # its entry may have been cut off
        for event in ready.events:
            if isinstance(event, StageChanged):
                rules.reconfiguration.entered(self, event)
            elif isinstance(event, ConfigurationApplied):
                rules.reconfiguration.announced(self, event)
            elif isinstance(event, LeaderElected):
                rules.raft.told_elected(self, event.term)
        if ready.committed:
            rules.state.handed_out(self, ready.committed)
        if ready.snapshot is not None:
            rules.storage.replaces(self, ready.snapshot)

    def storing_in_memory(self, ready: Ready) -> None:
        """Takes note that a volatile replica stores at once."""
        self.rules.stored(self.peer, ready)

    def event_ended(self) -> None:
        """Takes note that all consequences of one event are done."""
        self.after_step()
        self.was_leader = self.core.role is RaftRole.LEADER
