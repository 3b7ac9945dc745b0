"""Checks that a scenario fits a system that is one group of members with the same data. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from zonequake_chaos.kit.limits.only_one import expected_resets, too_many_pools, too_many_zones
from zonequake_chaos.scenario.run import ChaosRun, RunZone

POD_VARIABLE = "POD"
"""The variable by which a member knows its own name."""


def unsuited_to_one_group(run: ChaosRun) -> Iterator[str]:
    """Yields each part of zones, pools and expectations that such a system can't have, as text."""
    spec = run.spec
    yield from too_many_zones(spec, because="the target is one group")
    for zone in spec.zones:
        yield from _unsuited_zone(zone)
    yield from too_many_pools(spec, alike="members")
    nodes, members = spec.pools[0].replicas, spec.zones[0].replicas
    if nodes != members:
        yield (
            f"its pool has {nodes} nodes for {members} replicas, and each member of the target "
            f"holds everything: --set pools.0.replicas={members}"
        )
    if POD_VARIABLE in spec.target.env:
        yield f"target.env has {POD_VARIABLE}, which the run sets itself: leave it out"
    yield from expected_resets(spec, but="which the target does not do by itself")


def _unsuited_zone(zone: RunZone) -> Iterator[str]:
    if zone.consistency_mode == "HighAvailability":
        yield f"zone {zone.name} is of mode HighAvailability, which the target does not have"
    if zone.storage == "Volatile":
        yield f"zone {zone.name} is volatile, and the target keeps its data on disk"
    if zone.data_nodes_filter is not None:
        yield f"zone {zone.name} filters its data nodes, and the target's members are fixed"
