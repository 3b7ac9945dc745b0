"""The kopf operator: zones, data nodes, assignments, rebalance."""
