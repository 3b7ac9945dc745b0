"""Scripts of an operator that stood still while another one worked (design §3, Fencing)."""

from __future__ import annotations

from tests.simulation.scripts.cluster import Cluster
from tests.simulation.scripts.rebalances import stay_joint
from zonequake_simulation.operated.process import OperatorProcess
from zonequake_simulation.violation import require

A, B, C, D = (f"n-{number}" for number in range(4))
LONG_MS = 3_000
"""Longer than a resync: who stood still so long waits for no round that runs."""


def a_newer_topology_is_not_judged_by_older_reports() -> None:
    """An operator has heard C when it stops, in its first round. C is replaced by its successor, as
    another one sees."""
    with Cluster(3) as cluster:
        cluster.forms()
        late = cluster.plane.start_operator()
        _stop_while_it_hears(cluster, late)
        _replace_process(cluster, C)
        late.resume()
        cluster.wait(LONG_MS)
        require(cluster.knows(C), "no process takes its successor's place", node=C)
        cluster.finish()


def a_zone_is_not_taken_back_to_an_older_topology() -> None:
    """An operator stands still so long that it reads its zone again, but goes on with the round
    that it was in. D, which was replaced meanwhile, holds nothing: no partition was written."""
    with Cluster(4, data_nodes=(A, B, C)) as cluster:
        cluster.forms()
        late = cluster.plane.start_operator()
        cluster.wait(LONG_MS)
        _stop_while_it_hears(cluster, late)
        _replace_process(cluster, D)
        cluster.wait(LONG_MS)
        late.resume()
        cluster.wait(LONG_MS)
        cluster.finish()


def _stop_while_it_hears(cluster: Cluster, late: OperatorProcess) -> None:
    """An operator stands still, and all answers lie before it."""
    cluster.until(lambda: bool(late.store._calls.open), "it hears nodes")
    late.pause()
    cluster.wait(100)


def _replace_process(cluster: Cluster, name: str) -> None:
    cluster.kill(name)
    cluster.start(name)
    cluster.until(lambda: cluster.knows(name), "the successor is known")


def newer_keys_are_not_judged_by_older_reports() -> None:
    """An operator stops before a change begins, and goes on in the middle of it."""
    with Cluster(4, data_nodes=(A, B, C)) as cluster:
        cluster.forms()
        cluster.lead(A)
        cluster.wait(1_000)
        late = cluster.operator
        late.pause()
        cluster.wait(LONG_MS)
        cluster.plane.start_operator()
        cluster.move_to(A, B, D)
        stay_joint(cluster)
        late.resume()
        cluster.wait(300)
        require(
            cluster.keys.pending_lock is not None,
            "only its switch or a reset replaces a locked configuration",
            keys=cluster.keys,
        )
        cluster.mend({A}, (B, C, D))
        cluster.promised(lambda: cluster.is_stable(A, B, D), "the change is seen through")
        cluster.finish()


SCRIPTS = [
    a_newer_topology_is_not_judged_by_older_reports,
    a_zone_is_not_taken_back_to_an_older_topology,
    newer_keys_are_not_judged_by_older_reports,
]
