"""The target of a partition: calcPartAssignments(), with the aliveness check of `high-availability`
("Change rebalance scheduling when data nodes are changed"; design §3, hole 14).

    StrongConsistency     the calculated set
    HighAvailability      (calculated ∩ alive) ∪ (calculated ∩ stable)
      while a reset runs  calculated ∩ alive

Returned nodes are added, absent ones are not dropped before scale-down: with stable [A] and the
calculated set [A, B, C], B's return gives [A, B]; C, which is still away, waits for nothing.
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
    promoted: bool = False,
) -> AssignmentSet | None:
    """The wish of a HighAvailability zone's partition; None: nothing is wished.

    `alive`: nodes in the topology; `held`: those of them that the scale-up timer still holds, which
    aren't alive here. `promoted`: the stable switch that makes the partition due has promoted
    planned, and a wish would wait behind it. Where that is the present stable, it would go on for
    ever, each wishing back what was before the other: [C] → [C, E] → [C] → …, with C and E held.
    """
    if calculated is None:
        return None
    wanted, present = frozenset(calculated.nodes), alive - held
    target = wanted & present
    if not keys.is_resetting:
        target |= wanted & keys.stable_nodes
    if target and is_majority(len(target & present), len(target)):
        return AssignmentSet.of(*target)
    # Alive nodes that are no majority of it could only take the partition where it can't work.
    return None if promoted or keys.is_forced else keys.stable
