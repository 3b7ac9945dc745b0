from __future__ import annotations

from dataclasses import replace

from prometheus_client import REGISTRY

from zonequake_operator.controller import metrics
from zonequake_operator.planning.conditions import Health
from zonequake_operator.resources.condition_types import Condition, ConditionType, Reason
from zonequake_operator.resources.model import (
    AssignmentSet,
    PartitionKeys,
    PartitionState,
    PartitionStatus,
)


def series(zone: str) -> dict[str, float]:
    """The zone's series by name and other labels."""
    return {
        " ".join([sample.name, *(v for k, v in sample.labels.items() if k != "zone")]): sample.value
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.labels.get("zone") == zone and not sample.name.endswith("_created")
    }


def show(zone: str) -> None:
    def health(state: PartitionState, *, at_risk: bool = False, lost: bool = False) -> Health:
        return Health(
            keys=PartitionKeys(),
            view=PartitionStatus(state=state),
            missing=(),
            broken={},
            at_risk=at_risk,
            lost=lost,
        )

    metrics.RECONCILES.labels(zone, "ok").inc()
    metrics.CHANGES_FAILED.labels(zone).inc()
    metrics.show_zone(
        zone,
        health={
            0: health(PartitionState.AVAILABLE),
            1: health(PartitionState.DEGRADED, at_risk=True),
            2: health(PartitionState.UNAVAILABLE, lost=True),
        },
        conditions=[
            Condition(
                type=ConditionType.DATA_AT_RISK,
                status=True,
                reason=Reason.MAJORITY_LOST,
                message="1 partition has lost its majority: 2.",
            )
        ],
        settled=False,
    )


def test_a_zones_partitions_are_counted_by_state_and_by_risk() -> None:
    show("counted")
    found = series("counted")
    name = "zonequake_operator_partitions"
    assert {state: found[f"{name} {state.value}"] for state in PartitionState} == {
        PartitionState.AVAILABLE: 1,
        PartitionState.DEGRADED: 1,
        PartitionState.READ_ONLY: 0,
        PartitionState.UNAVAILABLE: 1,
    }
    assert (found[f"{name}_at_risk"], found[f"{name}_lost"]) == (1, 1)
    assert found["zonequake_operator_zone_condition DataAtRisk"] == 1
    metrics.forget_zone("counted")


def test_each_reset_and_each_loss_of_data_is_counted_once() -> None:
    forced = AssignmentSet(nodes=("a",), force=True)
    whole, reset = PartitionKeys(), PartitionKeys(pending=forced)
    show("losing")
    assert series("losing")["zonequake_operator_resets_total"] == 0
    metrics.count_losses("losing", whole, reset)
    metrics.count_losses("losing", reset, replace(reset, planned=AssignmentSet.of("a", "b")))
    metrics.count_losses("losing", reset, PartitionKeys(pending=AssignmentSet.of("a", "b")))
    assert series("losing")["zonequake_operator_resets_total"] == 1
    again = replace(whole, bootstrap_lineage=7)
    metrics.count_losses("losing", whole, again)
    metrics.count_losses("losing", again, again)
    assert series("losing")["zonequake_operator_data_lost_total"] == 1
    metrics.forget_zone("losing")


def test_a_deleted_zone_leaves_no_series_and_others_keep_theirs() -> None:
    for number in range(50):
        show(f"fleeting-{number}")
    show("lasting")
    for number in range(50):
        metrics.forget_zone(f"fleeting-{number}")
    assert [series(f"fleeting-{number}") for number in range(50)] == [{}] * 50
    assert series("lasting")
    metrics.forget_zone("lasting")


def test_no_label_but_the_zone_is_named_by_users() -> None:
    show("labelled")
    labels = {
        label
        for metric in REGISTRY.collect()
        if metric.name.startswith("zonequake_operator")
        for sample in metric.samples
        for label in sample.labels
    }
    assert labels <= {"zone", "kind", "status", "result", "state", "condition", "le", "right"}
    metrics.forget_zone("labelled")
