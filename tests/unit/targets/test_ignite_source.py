"""Where Ignite's replicas belong, and what its nodes say of them together."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest

from tests.unit.targets.test_ignite_nodes import members
from zonequake_chaos.scenario.run import RunZone
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError
from zonequake_kube.objects import KeysView, PodView
from zonequake_operator.nodes.affinity import rendezvous
from zonequake_protocol.admin import ReplicasReport, Stage
from zonequake_target_ignite.node_sight import NodeSight, ReplicaSight
from zonequake_target_ignite.source import NodeSource
from zonequake_target_ignite.status_server import lagging
from zonequake_target_ignite.zone.placement import ZonePlacement

THREE = ["d-0", "d-1", "d-2"]
FOUR = [*THREE, "d-3"]


def placed(names: list[str], partitions: int = 8) -> list[tuple[str, ...]]:
    return [tuple(sorted(nodes)) for nodes in rendezvous(names, partitions, 3)]


class Zone:
    """A zone of three nodes whose replicas are where the test says."""

    def __init__(self, **timers: Any) -> None:
        self.placement = ZonePlacement(RunZone(name="z", partitions=8, replicas=3, **timers), THREE)
        self.held = dict(enumerate(placed(THREE)))

    def look(self, logical: list[str], now_s: float, replicas: int = 3) -> list[KeysView]:
        self.placement.look(
            logical=logical, holders=self.held, healthy=self.held, replicas=replicas, now_s=now_s
        )
        return self.placement.keys()


def test_a_node_that_joins_is_waited_for_until_it_holds_its_replicas() -> None:
    zone = Zone(data_nodes_auto_adjust_scale_up=5)
    assert not any(keys.pending for keys in zone.look(THREE, 0))
    moving = {n for n, nodes in enumerate(placed(FOUR)) if "d-3" in nodes}
    assert 0 < len(moving) < 8
    for now_s in (10, 16):  # while the timer runs, and when it has ended
        pending = {keys.partition for keys in zone.look(FOUR, now_s) if keys.pending}
        assert pending == moving
    zone.held = dict(enumerate(placed(FOUR)))
    found = zone.look(FOUR, 17)
    assert [keys.stable for keys in found] == placed(FOUR)
    assert not any(keys.pending for keys in found)


def test_a_partition_has_not_moved_while_a_node_keeps_what_it_must_drop() -> None:
    zone = Zone()
    number = next(n for n, nodes in enumerate(placed(FOUR)) if "d-3" in nodes)
    zone.held = {n: tuple(FOUR) for n in range(8)}
    assert zone.look(FOUR, 0)[number].pending == placed(FOUR)[number]
    assert zone.placement.nodes(number) == tuple(FOUR)


def test_a_node_that_leaves_is_missed_only_if_the_zone_scales_down() -> None:
    kept = Zone()
    assert not any(keys.pending for keys in kept.look(["d-0", "d-1"], 100))
    shrinks = Zone(data_nodes_auto_adjust_scale_down=3)
    assert all(keys.pending == ("d-0", "d-1") for keys in shrinks.look(["d-0", "d-1"], 100))
    assert not any(keys.pending for keys in shrinks.look(THREE, 101)), "it came back in time"


def test_a_zone_that_is_altered_moves_to_as_many_nodes() -> None:
    zone = Zone()
    assert all(keys.pending == ("d-0", "d-1", "d-2", "d-3") for keys in zone.look(FOUR, 0, 4))
    zone.held = {n: tuple(FOUR) for n in range(8)}
    assert all(keys.stable == tuple(FOUR) for keys in zone.look(FOUR, 1, 4))


def test_a_timer_begins_again_with_each_other_node() -> None:
    zone = Zone(data_nodes_auto_adjust_scale_up=5)
    zone.look(FOUR, 0)
    zone.look([*FOUR, "d-4"], 4)
    zone.look([*FOUR, "d-4"], 8)
    zone.held = dict(enumerate(placed([*FOUR, "d-4"])))
    assert not any(keys.pending for keys in zone.look(THREE, 8.5)), "both left before it ended"


def pod(name: str) -> PodView:
    return PodView(
        name=name,
        uid="u",
        pool="default",
        ready=True,
        phase="Running",
        deleting=False,
        container="hands",
        restarts=0,
    )


class Nodes:
    """A Kubernetes whose pods answer what the test says; None: they don't."""

    def __init__(self, said: dict[str, NodeSight | None]) -> None:
        self.said = said

    async def pod_proxy(self, name: str, *_: object, **__: object) -> bytes:
        sight = self.said[name]
        if sight is None:
            raise ClusterError("no answer")
        return msgspec.json.encode(sight)


NAMES = [f"zq-ignite-default-{n}" for n in range(3)]


def says(node: str, state: str, *, rows: int, primary: bool = False) -> NodeSight:
    return NodeSight(
        node=node,
        state="STARTED",
        replicas=[ReplicaSight(partition=0, state=state, rows=rows, primary=primary, term=3)],
        primaries=[NAMES[0]],
        physical=NAMES,
        logical=NAMES,
    )


def test_the_primary_reports_what_the_others_say_of_themselves() -> None:
    async def run() -> list[ReplicasReport]:
        said: dict[str, NodeSight | None] = {
            NAMES[0]: says(NAMES[0], "HEALTHY", rows=100, primary=True),
            NAMES[1]: says(NAMES[1], "INSTALLING_SNAPSHOT", rows=40),
            NAMES[2]: says(NAMES[2], "HEALTHY", rows=100),
        }
        zone = RunZone(name="z", partitions=1, replicas=3)
        source = NodeSource(cast("Kube", Nodes(said)), members(), zone)
        for name in reversed(NAMES):
            first = await source.report(pod(name), timeout_s=1)
        said[NAMES[1]] = None
        with pytest.raises(ClusterError):
            await source.report(pod(NAMES[1]), timeout_s=1)
        return [first, await source.report(pod(NAMES[0]), timeout_s=1)]

    first, later = asyncio.run(run())
    (leads,) = first.replicas
    assert leads.stage is Stage.CATCHING_UP
    assert [(each.peer.node, each.fraction) for each in leads.progress] == [(NAMES[1], 0.4)]
    assert later.replicas[0].stage is Stage.NONE, "what a silent node said last is no news"


def test_a_node_that_is_gone_is_forgotten() -> None:
    now_s = 0.0

    async def run() -> ReplicasReport:
        nonlocal now_s
        said: dict[str, NodeSight | None] = {
            NAMES[0]: says(NAMES[0], "HEALTHY", rows=1, primary=True),
            NAMES[1]: says(NAMES[1], "INITIALIZING", rows=0),
        }
        zone = RunZone(name="z", partitions=1, replicas=3)
        source = NodeSource(cast("Kube", Nodes(said)), members(), zone, now_s=lambda: now_s)
        await source.report(pod(NAMES[1]), timeout_s=1)
        now_s = 10.0
        return await source.report(pod(NAMES[0]), timeout_s=1)

    assert asyncio.run(run()).replicas[0].stage is Stage.NONE


STATES = [
    {"nodeName": "n1", "zoneName": "z", "partitionId": 0, "state": "HEALTHY", "estimatedRows": 9},
    {"nodeName": "n2", "zoneName": "z", "partitionId": 0, "state": "CATCHING_UP"},
    {"nodeName": "n2", "zoneName": "z", "partitionId": 1, "state": "HEALTHY"},
]


def test_a_node_lags_where_the_nodes_were_compared() -> None:
    assert lagging(STATES, "n2") == {0}
    assert lagging(STATES, "n1") == frozenset()
