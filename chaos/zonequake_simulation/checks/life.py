"""One life of one replica as its group's rules see it: from its start to its crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonequake_protocol.admin import Stage
from zonequake_simulation.checks.steps import Steps
from zonequake_store.raft.api import (
    ConfigurationApplied,
    LeaderElected,
    RaftRole,
    Ready,
    StageChanged,
)
from zonequake_store.raft.messages import Configuration, Peer

if TYPE_CHECKING:
    from zonequake_simulation.checks.group import GroupRules
    from zonequake_simulation.checks.watch import WatchedRaft


class Life:
    """The witness of a replica: remembers what a step may not undo, and asks the rules."""

    def __init__(self, rules: GroupRules, raft: WatchedRaft) -> None:
        self.rules = rules
        self.raft = raft
        self.core = raft._replica
        self.peer: Peer = self.core.me
        self.steps = Steps(self.core)
        self.term = self.core.term
        self.commit = self.core.log.commit
        self.abstained = self.core.abstains
        """Before the step that runs."""
        self.configuration: Configuration | None = None
        """The newest in its log, before the step that runs."""
        self.configuration_index = 0
        self.was_leader = False
        """Before the event that runs."""
        self.appended_as_leader = 0, 0
        """Its term, and the last index that it had stored as its leader."""
        self.enforced = 0
        """The lineage below which it was told to do nothing."""
        self.stage = Stage.NONE
        self.handed_to = 0
        """The last entry that it was given to apply."""
        self.digest = 0
        """Over all of them."""
        self.told_at = 0, 0, 0
        """The end of its log, and what it had applied, when its newest user entry was judged."""
        self.state_is_at(self.core.log.applied, self.core.log.term(self.core.log.applied))

    def state_is_at(self, index: int, term: int) -> None:
        """Its state is that behind this entry: after a start, or a snapshot."""
        self.handed_to, self.digest = index, self.rules.ledger.digests[index, term]

    def after_step(self) -> None:
        """Judge what the step did."""
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
        """Judge a Ready."""
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
        """A volatile replica stores at once."""
        self.rules.stored(self.peer, ready)

    def enforces(self, lineage: int) -> None:
        """It is told below which lineage nobody takes part."""
        self.enforced = max(self.enforced, lineage)

    def event_ended(self) -> None:
        """All that one event led to is done."""
        self.after_step()
        self.was_leader = self.core.role is RaftRole.LEADER
