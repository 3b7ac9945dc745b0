"""A zone dropped at any moment, by an operator that may be killed at any of its writes.

Whatever happens meanwhile, in the end nothing of it is left, on the API server or on a data node,
and the zone beside it hasn't noticed: nothing of it was written, and its keys can be read.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.kube.operator.addresses import address
from tests.kube.operator.api_server import wait_until
from tests.kube.operator.outcome import replicas_at
from tests.kube.operator.rebalances import FOURTH, ZONE, Move, Rebalances, rebalances
from tests.kube.operator.relay import Moment, Way
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer

pytestmark = pytest.mark.kube

DROPPED = "dropped"
PARTITIONS = 2
SEED = 5
SAMPLED = 3
FORCED = 2


@dataclass(slots=True)
class Scene:
    """Two zones over the same nodes: `ZONE` stays, `DROPPED` comes and goes."""

    running: Rebalances
    abandoned: tuple[str, ...] = ()
    """Beginnings of the groups of zones that were let go by force: their replicas stay."""
    kills: int = 0
    """How often the operator was killed in the drops until now."""

    @property
    def api(self) -> ApiServer:
        return self.running.api

    def create(self, **spec: Any) -> None:
        spec = {"partitions": PARTITIONS, "dataNodesAutoAdjustScaleDown": 0, **spec}
        self.api.create_zone(DROPPED, **spec)
        wait_until(self._is_there)

    def _is_there(self) -> bool:
        """Also if the operator died at the last write of the drop before, when all was gone."""
        self.running.succeed_if_dead()
        return self._is_ready(DROPPED)

    def _is_ready(self, name: str) -> bool:
        conditions = (self.api.get("dz", name).get("status") or {}).get("conditions", [])
        found = {c["type"]: c["status"] for c in conditions}
        return found.get("Ready") == "True" and found.get("Synced") == "True"

    def drop(self) -> None:
        done = self.api.kubectl("delete", "dz", DROPPED, "--wait=false")
        assert done.returncode == 0, done.stderr

    def drop_at(self, *moments: Moment, before: Callable[[], None] | None = None) -> list[str]:
        """Drop it and kill the operator at these of its writes; says what went wrong."""
        self.running.kill_operator_at(*moments)
        (before or self.drop)()
        try:
            return self._left_in_the_end()
        finally:
            # A drop may have fewer writes than the one before. Without this, a moment that didn't
            # come would be one of the next zone's creation, and a write held to the end would
            # make a partition of a zone that is gone: here no controller collects garbage.
            self.running.relay.disarm()

    def _left_in_the_end(self) -> list[str]:
        give_up_s = time.monotonic() + PATIENCE_S
        while True:
            self.kills += self.running.succeed_if_dead()
            left = self.left()
            if not left and not self.running.relay.release():
                break
            if time.monotonic() > give_up_s:
                return [f"not within {PATIENCE_S} s", *left]
            time.sleep(0.1)
        return self.left()

    def left(self) -> list[str]:
        """What there still is of the dropped zone."""
        found = ["the zone"] if self.api.get("dz", DROPPED) else []
        return [*found, *self.partitions(), *self.groups()]

    def partitions(self) -> list[str]:
        found = self.api.get("zp")["items"]
        return [p["metadata"]["name"] for p in found if p["spec"]["zone"] == DROPPED]

    def groups(self) -> list[str]:
        """Its replicas on the data nodes, by group and node."""
        return [
            f"{replica.group} on {ordinal}"
            for ordinal in sorted(self.running.running)
            for replica in replicas_at(address(ordinal))
            if replica.zone == DROPPED and not replica.group.startswith(self.abandoned)
        ]

    def group_prefix(self) -> str:
        """With which the names of its groups begin: another zone of its name has another one."""
        return f"{DROPPED}.{self.api.get('dz', DROPPED)['metadata']['uid'][:8]}."

    @contextmanager
    def untouched_neighbour(self) -> Iterator[None]:
        """The zone beside it is as it was, but for who leads."""
        before = self._neighbour()
        yield
        assert self._neighbour() == before
        assert self.running.relay.run(self.running.load.unreadable()) == ()

    def _neighbour(self) -> Any:
        keys = ("stable", "configurationToken", "changeTriggerRevision")
        zone = self.api.get("dz", ZONE)["status"]
        partitions = [p["status"] for p in self.api.get("zp")["items"] if p["spec"]["zone"] == ZONE]
        return (
            zone["revision"],
            [[status.get(key) for key in keys] for status in partitions],
        )


@pytest.fixture(scope="module")
def scene(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with rebalances(api_server, tmp_path_factory.mktemp("dropped")) as running:
        yield Scene(running=running)


def moments_of_a_drop(scene: Scene) -> list[Moment]:
    """Every write of one drop without a kill, and every way to die at it."""
    scene.create()
    with scene.untouched_neighbour():
        assert scene.drop_at() == []
    kinds = scene.running.relay.kinds
    assert {kind.split()[0] for kind in kinds} >= {"order", "DELETE", "PATCH"}, kinds
    numbers = range(1, len(kinds) + 1)
    return [Moment(number=n, way=way) for n, way in itertools.product(numbers, Way)]


def test_an_operator_killed_at_a_write_of_a_drop_is_succeeded_by_one_that_ends_it(
    scene: Scene,
) -> None:
    moments = moments_of_a_drop(scene)
    random.Random(SEED).shuffle(moments)
    for moment in moments:
        scene.create()
        with scene.untouched_neighbour():
            assert scene.drop_at(moment) == [], str(moment)
        if scene.kills == SAMPLED:
            return
    pytest.fail(f"{scene.kills} of {len(moments)} moments came, expected {SAMPLED}")


def test_a_moment_that_no_drop_reaches_is_none_of_the_next_creation(scene: Scene) -> None:
    """Of the harness: otherwise a dead operator's write would outlive the zone that it was for."""
    scene.create()
    never = Moment(number=1, way=Way.LAST, of="POST partitions")
    assert scene.drop_at(never) == []
    scene.create()
    assert scene.drop_at() == []


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_moment_of_a_drop(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> None:
    with (tmp_path_factory.getbasetemp() / "drop.txt").open("w") as table:
        for moment in moments_of_a_drop(scene):
            scene.create()
            with scene.untouched_neighbour():
                left = scene.drop_at(moment)
            print(f"{moment}  {'; '.join(left) or 'nothing is left'}", file=table, flush=True)
            assert left == []


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(None, marks=pytest.mark.long),
        pytest.param(Way.AFTER, marks=pytest.mark.long),
        Way.LAST,
    ],
)
def test_a_zone_is_dropped_in_the_middle_of_its_rebalance(scene: Scene, way: Way | None) -> None:
    """At the write of a partition's pending; with the operator, or while it lives."""
    scene.create(replicas=3)
    two = '"zq-default-0", "zq-default-1"'
    kind = "partitions: pending"

    def move() -> None:
        patch = {"spec": {"dataNodesFilter": two}}
        scene.api.patch("dz", DROPPED, patch)
        wait_until(lambda: kind in scene.running.relay.kinds)
        scene.drop()

    moments = () if way is None else (Moment(number=1, way=way, of=kind),)
    with scene.untouched_neighbour():
        assert scene.drop_at(*moments, before=move) == []


def test_a_zone_is_let_go_by_force_and_another_gets_its_name_at_once(scene: Scene) -> None:
    """The documented way out of a deletion, while the operator is in the middle of it."""
    release = ("patch", "dz", DROPPED, "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    for _ in range(FORCED):
        scene.create()
        old = scene.group_prefix()
        with scene.untouched_neighbour():
            scene.running.relay.arm(None)
            scene.drop()
            scene.api.kubectl(*release)
            wait_until(lambda: scene.api.get("dz", DROPPED) is None)
            for partition in scene.partitions():  # no controller collects garbage here
                scene.api.kubectl("delete", "zp", partition)
            scene.create()
            new = scene.group_prefix()
            assert new != old
            scene.abandoned += (old,)
            assert scene.groups()
            scene.drop()
            wait_until(lambda: scene.api.get("dz", DROPPED) is None)
            assert scene.groups() == []


@pytest.mark.long
def test_a_zone_is_dropped_while_its_timers_are_armed(scene: Scene) -> None:
    scene.create(dataNodesAutoAdjustScaleUp=3600)
    assert scene.running.go(Move.JOIN).problems == []
    wait_until(lambda: "scaleUp" in scene.api.get("dz", DROPPED)["status"])
    with scene.untouched_neighbour():
        assert scene.drop_at(Moment(number=1, way=Way.AFTER)) == []
    assert FOURTH in scene.running.running
    assert scene.running.go(Move.LOSS).problems == []
