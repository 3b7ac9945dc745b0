"""The assignments chain of one partition (document `high-availability`, "Chain of assignments").

    graceful change      [A,B,C]                        one link: nothing has been given up
    forced reset         [A,B,C] ─▶ [A]                 addLast
    its second phase     [A,B,C] ─▶ [A,B]               replaceLast

The chain is written together with `stable`, and names the sets that may hold the newest user data
when all nodes come back at once. A link's (term, index) is where its configuration stands in the
log; the term is a whole one, so that the newest link also tells the newest lineage.
"""

from __future__ import annotations

from zonequake_store.admin_protocol import ReplicaStatus

from .model import AssignmentSet, Link, PartitionKeys


def after_switch(
    keys: PartitionKeys,
    switched_from_pending: AssignmentSet,
    new_stable: AssignmentSet,
    leading: ReplicaStatus,
) -> tuple[Link, ...]:
    """The chain that goes into the write of a stable switch.

    "newChain = AssignmentsChain.of(term, index, newStable)", or `replaceLast`, or `addLast`, by the
    flags of the pending that was applied.

    Args:
        keys: as they are before the switch.
        switched_from_pending: the pending set that the group has applied.
        new_stable: what `stable` becomes.
        leading: the leader's report that shows it applied.
    """
    term, index = _position(leading)
    newest = Link(nodes=new_stable.nodes, term=term, index=index)
    if switched_from_pending.force:
        return (*keys.chain, newest)
    if switched_from_pending.from_reset:
        return (*keys.chain[:-1], newest)
    return (newest,)


def _position(leading: ReplicaStatus) -> tuple[int, int]:
    """Where the leader's configuration stands: (whole term, index) of lastCfgIdx.

    Not where it was appended last: every new leader repeats it, and user commands between the two
    would count as older than the link that they were written under.
    """
    configuration = leading.configuration
    assert configuration is not None
    if leading.last_configuration_index and leading.applied >= configuration.index:
        return leading.last_configuration_term, leading.last_configuration_index
    return leading.term, configuration.index
