"""The wish of a partition: calcPartAssignments(), with the aliveness check of `high-availability`
("Change rebalance scheduling when data nodes are changed"; design §3, hole 14).

    StrongConsistency     the calculated set
    HighAvailability      (calculated ∩ alive) ∪ (calculated ∩ members)
      while a reset runs  calculated ∩ alive

Members are those of stable, or of a pending that the wish waits for. Returned nodes are added,
absent ones are not dropped before scale-down: with stable [A] and the calculated set [A, B, C], B's
return gives [A, B]; C, which is still away, waits for nothing.
"""

from __future__ import annotations

from zonequake_operator.groups.reports import is_majority
from zonequake_operator.resources.model import AssignmentSet, PartitionKeys


def highly_available(
    calculated: AssignmentSet | None,
    keys: PartitionKeys,
    *,
    alive: frozenset[str],
    held: frozenset[str],
    waits: bool = False,
) -> AssignmentSet | None:
    """Returns the wish of a HighAvailability zone's partition; None: no wish.

    `alive`: nodes in the topology; `held`: those of them that the scale-up timer still holds, which
    aren't alive here. `waits`: the wish takes its turn after pending, and starts from there. Judged
    from stable, two sets would go on forever, each wishing back what was before the other: [C] →
    [C, E] → [C] → …, with E held.
    """
    if calculated is None:
        return None
    members = keys.pending if waits else keys.stable
    chosen, present = frozenset(calculated.nodes), alive - held
    wanted = chosen & present
    if not keys.is_resetting and members is not None:
        wanted |= chosen & frozenset(members.nodes)
    if wanted and is_majority(len(wanted & present), len(wanted)):
        return AssignmentSet.of(*wanted)
    # Alive nodes that are no majority of it could only take the partition where it can't work.
    return None if keys.is_forced else members
