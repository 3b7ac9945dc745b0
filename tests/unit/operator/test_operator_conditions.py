"""Conditions fit into their schema, whatever a data node says."""

from __future__ import annotations

from zonequake_operator.planning.conditions import MAX_MESSAGE, Health, judge
from zonequake_operator.resources.condition_types import ConditionType
from zonequake_operator.resources.model import (
    PartitionKeys,
    PartitionState,
    PartitionStatus,
    ZoneSpec,
    ZoneStatus,
)


def test_what_a_data_node_says_at_length_is_cut() -> None:
    """The whole status was refused: with it the zone's revision and timers, forever."""
    hurt = Health(
        keys=PartitionKeys(),
        view=PartitionStatus(state=PartitionState.DEGRADED),
        missing=("A",),
        broken={"A": "no " * 5000},
        at_risk=False,
        lost=False,
    )
    conditions = judge(
        generation=1,
        spec=ZoneSpec(partitions=1),
        status=ZoneStatus(),
        health={0: hurt},
        filter_problem=None,
        data_nodes=["A"],
        retry_threshold=10,
    )
    degraded = next(one for one in conditions if one.type is ConditionType.DEGRADED)
    assert degraded.message.startswith("1 partitions miss members on A. Broken: partition 0 on A")
    assert len(degraded.message) == MAX_MESSAGE
    assert degraded.message.endswith("…")
