"""One life of one replica as its group's rules know it: from its start to its crash."""

from __future__ import annotations

from zonequake_protocol.admin import Stage
from zonequake_simulation.checks.steps import Steps
from zonequake_simulation.checks.watch import WatchedRaft
from zonequake_store.raft.messages import Configuration, Peer


class Life:
    """Remembers the facts that a step must not undo."""

    def __init__(self, raft: WatchedRaft) -> None:
        self.raft = raft
        self.core = raft._replica
        self.peer: Peer = self.core.me
        self.steps = Steps(self.core)
        self.term = self.core.term
        self.commit = self.core.log.commit
        self.abstained = self.core.abstains
        """Whether the replica abstained before the step that runs."""
        self.configuration: Configuration | None = None
        """The newest configuration in its log, before the step that runs."""
        self.configuration_index = 0
        self.was_leader = False
        """Whether it was the leader before the event that runs."""
        self.appended_as_leader = 0, 0
        """Its term, and the last index that it had stored as that term's leader."""
        self.enforced = 0
        """The lineage below which the replica was told to do nothing."""
        self.stage = Stage.NONE
        self.handed_to = 0
        """The last entry that the replica was given to apply."""
        self.digest = 0
        """The digest over all entries that it was given to apply."""
        self.told_at = 0, 0, 0
        """The end of its log, and its applied index, when its newest user entry was judged."""

    def enforces(self, lineage: int) -> None:
        """Takes the lineage below which no replica takes part."""
        self.enforced = max(self.enforced, lineage)
