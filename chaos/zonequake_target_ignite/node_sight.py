"""The answers of `status_server`, for itself and for the harness. Pure."""

from __future__ import annotations

import msgspec

HEALTHY, CATCHING_UP = "HEALTHY", "CATCHING_UP"
"""Two of Ignite's states of a replica."""


class ReplicaSight(msgspec.Struct, frozen=True, kw_only=True):
    """One replica on this node; `rows` is Ignite's estimate. `term`: since when it is primary."""

    partition: int
    state: str
    rows: int
    primary: bool = False
    term: int = 0


class NodeSight(msgspec.Struct, frozen=True, kw_only=True):
    """One node. `primaries` names the node of each partition's primary replica, as this node knows
    it; empty while there is no table. `physical`, `logical`: the nodes of both topologies.
    `zone_replicas`: the number that the zone has now; 0 if that is not known.
    """

    node: str
    state: str
    version: str = ""
    replicas: list[ReplicaSight] = []
    primaries: list[str] = []
    physical: list[str] = []
    logical: list[str] = []
    zone_replicas: int = 0
