"""One life of one replica as its group's rules see it: from its start to its crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonequake_store.admin_protocol import Stage
from zonequake_store.raft.api import ConfigurationApplied, Ready, Role, StageChanged
from zonequake_store.raft.messages import Configuration, Peer

if TYPE_CHECKING:
    from zonequake_chaos.simulation.checks.group import GroupRules
    from zonequake_chaos.simulation.checks.watch import WatchedRaft


class Life:
    """The witness of a replica: remembers what a step may not undo, and asks the rules."""

    def __init__(self, rules: GroupRules, raft: WatchedRaft) -> None:
        self.rules = rules
        self.raft = raft
        self.core = raft._replica
        self.peer: Peer = self.core.me
        self.term = self.core.term
        self.commit = self.core.log.commit
        self.abstained = self.core.abstains
        """Before the step that runs."""
        self.configuration: Configuration | None = None
        """The newest in its log, before the step that runs."""
        self.configuration_index = 0
        self.was_leader = False
        """Before the event that runs."""
        self.stage = Stage.NONE
        self.digest = self._digest_of_applied()

    def _digest_of_applied(self) -> int:
        log = self.core.log
        return self.rules.ledger.digests[log.applied, log.term(log.applied)]

    def after_step(self) -> None:
        """Judge what the step did."""
        core, rules = self.core, self.rules
        log = core.log
        rules.raft.went_on(self)
        if core.role is Role.LEADER:
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
            if ready.entries[0].index <= self.configuration_index:
                rules.reconfiguration.took_effect(self)  # its entry may have been cut off
        for event in ready.events:
            if isinstance(event, StageChanged):
                rules.reconfiguration.entered(self, event)
            elif isinstance(event, ConfigurationApplied):
                rules.reconfiguration.announced(self, event)
        if ready.committed:
            rules.state.handed_out(self, ready.committed)

    def storing_in_memory(self, ready: Ready) -> None:
        """A volatile replica stores at once."""
        self.rules.stored(self.peer, ready)

    def event_ended(self) -> None:
        """All that one event led to is done."""
        self.after_step()
        self.was_leader = self.core.role is Role.LEADER
