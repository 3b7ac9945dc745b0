"""The distribution zone of a run, and what of a scenario's zone Ignite can't have. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from zonequake_chaos.kit.limits.only_one import expected_resets, too_many_pools, too_many_zones
from zonequake_chaos.scenario.faults import ScaleSpec
from zonequake_chaos.scenario.run import ChaosRun, RunZone
from zonequake_target_ignite.client.protocol.statements import quoted

PERSISTENT, VOLATILE = "default", "volatile"
"""Names of the storage profiles that each node has. Ignite makes one that is called `default`, a
fifth of the memory large, unless it is configured.
"""

_MODES = {"HighAvailability": "HIGH_AVAILABILITY", "StrongConsistency": "STRONG_CONSISTENCY"}
RESET_TIMEOUT = "partitionDistributionResetTimeout"


def create_zone(zone: RunZone) -> str:
    """Returns the definition of the distribution zone."""
    profile = VOLATILE if zone.storage == "Volatile" else PERSISTENT
    mode = _MODES[zone.consistency_mode or "StrongConsistency"]
    return (
        f"CREATE ZONE IF NOT EXISTS {quoted(zone.name)} "
        f"(PARTITIONS {zone.partitions}, REPLICAS {zone.replicas}, "
        f"AUTO SCALE UP {_timer(zone.data_nodes_auto_adjust_scale_up)}, "
        f"AUTO SCALE DOWN {_timer(zone.data_nodes_auto_adjust_scale_down)}, "
        f"CONSISTENCY MODE '{mode}') STORAGE PROFILES ['{profile}']"
    )


def cluster_configuration(zone: RunZone, *, attempt_ms: int) -> str:
    """Returns the configuration with which the cluster begins, as HOCON.

    A node repeats a write without a pause while a lock that it needs is held, for as long as a
    transaction may last: here no longer than the load waits, by Ignite's default 30 s.
    """
    settings = f"transaction {{ readWriteTimeoutMillis = {attempt_ms} }}"
    timeout_s = zone.partition_distribution_reset_timeout
    if timeout_s is not None:
        settings += f', system {{ properties {{ {RESET_TIMEOUT} = "{timeout_s}" }} }}'
    return f"ignite {{ {settings} }}"


def unsuited_zones(run: ChaosRun) -> Iterator[str]:
    """Yields each part of zones, pools and expectations that a run can't have, as text."""
    spec = run.spec
    yield from too_many_zones(spec, because="a run makes the table of one")
    yield from too_many_pools(spec, alike="nodes")
    scaled = [fault.replicas for fault in spec.faults if isinstance(fault, ScaleSpec)]
    nodes, replicas = spec.pools[0].replicas, spec.zones[0].replicas
    if max([nodes, *scaled]) < replicas:
        yield (
            f"its pool has {nodes} nodes for {replicas} replicas: --set pools.0.replicas={replicas}"
        )
    for zone in spec.zones:
        yield from _unsuited_zone(zone)
    yield from expected_resets(spec, but="of which Ignite tells no place in a log")


def _unsuited_zone(zone: RunZone) -> Iterator[str]:
    if zone.data_nodes_filter is not None:
        yield f"zone {zone.name} filters its data nodes, and the target's nodes are all alike"
    for name, given in (
        ("catchUpBytesPerSecond", zone.catch_up_bytes_per_second),
        ("changePeers", zone.change_peers),
    ):
        if given:
            yield f"zone {zone.name} has {name}, which Ignite does not have: leave it out"


def _timer(seconds: int | str) -> str:
    return str(seconds) if isinstance(seconds, int) else "OFF"
