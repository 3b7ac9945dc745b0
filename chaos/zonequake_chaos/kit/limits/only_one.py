"""The texts for runs that ask for several where a target has one. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from zonequake_chaos.scenario.run import RunSpec


def too_many_zones(spec: RunSpec, *, because: str) -> Iterator[str]:
    """Yields a text if there is more than one zone; `because`: what the target has one of."""
    if len(spec.zones) > 1:
        kept = spec.zones[0]
        yield (
            f"it has {len(spec.zones)} zones, and {because}: keep one, for instance "
            f"by --set 'zones=[{{name: {kept.name}, partitions: {kept.partitions}, "
            f"replicas: {kept.replicas}}}]'"
        )


def too_many_pools(spec: RunSpec, *, alike: str) -> Iterator[str]:
    """Yields a text if there is more than one pool; `alike`: what the target calls its members."""
    if len(spec.pools) > 1:
        yield f"it has {len(spec.pools)} pools, and the target's {alike} are all alike: keep one"


def expected_resets(spec: RunSpec, *, but: str) -> Iterator[str]:
    """Yields a text if forced resets are expected; `but`: why none can be seen."""
    wanted = spec.expectations
    if wanted.resets or wanted.sacrificed_at_least or wanted.restored_at_least:
        yield f"it expects forced resets, {but}"
