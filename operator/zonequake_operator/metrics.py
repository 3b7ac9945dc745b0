"""What the operator tells Prometheus: `zonequake_operator_*`."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

ORDERS = Counter("zonequake_operator_orders", "Orders sent to data nodes.", ["kind", "status"])
KEY_WRITES = Counter(
    "zonequake_operator_writes", "Status writes, by resource and result.", ["kind", "result"]
)
RECONCILES = Counter("zonequake_operator_reconciles", "Plans made.", ["zone", "result"])
PLAN_SECONDS = Histogram(
    "zonequake_operator_plan_seconds",
    "Time to make one plan.",
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1),
)
ROUND_SECONDS = Histogram(
    "zonequake_operator_round_seconds",
    "Time to hear all data nodes once.",
    buckets=(0.003, 0.01, 0.03, 0.1, 0.3, 1, 3),
)
NODES = Gauge("zonequake_operator_nodes", "Nodes in the logical topology.")
NODES_SILENT = Gauge(
    "zonequake_operator_nodes_silent", "Nodes in the logical topology that don't answer."
)
TOPOLOGY_VERSION = Gauge("zonequake_operator_topology_version", "Version of the logical topology.")
PARTITIONS = Gauge(
    "zonequake_operator_partitions", "Partitions of a zone, by state.", ["zone", "state"]
)
MOVING = Gauge("zonequake_operator_partitions_moving", "Partitions with a pending set.", ["zone"])
SETTLED = Gauge("zonequake_operator_zone_settled", "1 if the zone needs nothing.", ["zone"])
