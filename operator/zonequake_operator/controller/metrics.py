"""The operator's metrics for Prometheus: `zonequake_operator_*`.

Labels are bounded: a zone's name, and words of ours. No partition, node or message is a label, and
a zone's series go when the zone does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import Counter, Gauge, Histogram

from zonequake_operator.planning.conditions import Health
from zonequake_operator.resources.condition_types import Condition
from zonequake_operator.resources.model import PartitionKeys, PartitionState

ORDERS = Counter("zonequake_operator_orders", "Orders sent to data nodes.", ["kind", "status"])
KEY_WRITES = Counter(
    "zonequake_operator_writes", "Status writes, by resource and result.", ["kind", "result"]
)
RECONCILES = Counter("zonequake_operator_reconciles", "Plans made.", ["zone", "result"])
CHANGES_FAILED = Counter(
    "zonequake_operator_changes_failed", "Changes that a leader gave up.", ["zone"]
)
RESETS = Counter(
    "zonequake_operator_resets",
    "Partitions forced to a survivor, by a reset or after a restart of all its nodes.",
    ["zone"],
)
DATA_LOST = Counter(
    "zonequake_operator_data_lost",
    "Partitions that started over, because every replica came back with nothing.",
    ["zone"],
)
PLAN_SECONDS = Histogram(
    "zonequake_operator_plan_seconds",
    "Time to make one plan.",
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1),
)
ROUND_SECONDS = Histogram(
    "zonequake_operator_round_seconds",
    "Time to poll all data nodes once.",
    buckets=(0.003, 0.01, 0.03, 0.1, 0.3, 1, 3),
)
ROUNDS = Counter("zonequake_operator_rounds", "Polling rounds of all data nodes.", ["result"])
NODES = Gauge("zonequake_operator_nodes", "Nodes in the logical topology.")
NODES_SILENT = Gauge(
    "zonequake_operator_nodes_silent", "Nodes in the logical topology that don't answer."
)
LEASE_TROUBLES = Gauge(
    "zonequake_operator_lease_troubles",
    "Nodes that answer, but whose Lease is not renewed, has run out, or was taken over.",
    ["kind"],
)
MISSING_RIGHTS = Gauge(
    "zonequake_operator_missing_rights", "1 if the operator's account lacks this right.", ["right"]
)
FENCES = Counter(
    "zonequake_operator_fences", "Leases of nodes taken over, so that the node counts as left."
)
TOPOLOGY_VERSION = Gauge("zonequake_operator_topology_version", "Version of the logical topology.")
PARTITIONS = Gauge(
    "zonequake_operator_partitions", "Partitions of a zone, by state.", ["zone", "state"]
)
MOVING = Gauge("zonequake_operator_partitions_moving", "Partitions with a pending set.", ["zone"])
AT_RISK = Gauge(
    "zonequake_operator_partitions_at_risk",
    "Partitions that lose their majority with one more loss.",
    ["zone"],
)
LOST = Gauge(
    "zonequake_operator_partitions_lost", "Partitions that have lost their majority.", ["zone"]
)
SETTLED = Gauge("zonequake_operator_zone_settled", "1 if the zone needs nothing.", ["zone"])
CONDITION = Gauge(
    "zonequake_operator_zone_condition", "1 if the zone's condition is true.", ["zone", "condition"]
)

_OF_ZONES = (
    RECONCILES,
    CHANGES_FAILED,
    RESETS,
    DATA_LOST,
    PARTITIONS,
    MOVING,
    AT_RISK,
    LOST,
    SETTLED,
    CONDITION,
)


def show_zone(
    zone: str,
    *,
    health: Mapping[int, Health],
    conditions: Iterable[Condition],
    settled: bool,
) -> None:
    """Shows a zone as it is after a plan."""
    states = [one.view.state for one in health.values()]
    for state in PartitionState:
        PARTITIONS.labels(zone, state.value).set(states.count(state))
    MOVING.labels(zone).set(sum(one.is_moving for one in health.values()))
    AT_RISK.labels(zone).set(sum(one.at_risk for one in health.values()))
    LOST.labels(zone).set(sum(one.lost for one in health.values()))
    SETTLED.labels(zone).set(settled)
    for counter in (RESETS, DATA_LOST, CHANGES_FAILED):
        counter.labels(zone)  # from 0 on, or the first one would be no increase
    for condition in conditions:
        CONDITION.labels(zone, condition.type.value).set(condition.status)


def show_right(right: str, *, missing: bool) -> None:
    """Shows whether a right that the operator needs is missing."""
    MISSING_RIGHTS.labels(right).set(missing)


def count_losses(zone: str, before: PartitionKeys, after: PartitionKeys) -> None:
    """Counts a reset or a start over from nothing, if the written keys begin one."""
    if after.is_forced and after.pending != before.pending:
        RESETS.labels(zone).inc()
    if after.bootstrap_lineage > before.bootstrap_lineage:
        DATA_LOST.labels(zone).inc()


def forget_zone(zone: str) -> None:
    """Removes the series of a deleted zone: memory doesn't grow with each zone ever made, and no
    alert continues for a zone that is gone.
    """
    for metric in _OF_ZONES:
        metric.remove_by_labels({"zone": zone})
