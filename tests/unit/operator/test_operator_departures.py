"""Who is proven to have left is counted out at once, beside a round that waits for others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.made_up_nodes import node_identity
from zonequake_operator.controller.order_sender import ORDERS_PATIENCE_S, OrderSender
from zonequake_operator.errors import KubeConflict, KubeError, NodeUnreachable
from zonequake_operator.fleet.fleet import PODS_MAX_AGE_S, Fleet
from zonequake_operator.fleet.polling import PATIENCE_S
from zonequake_operator.groups.inspections import Inspections
from zonequake_operator.planning.zone_orders import SendOrder
from zonequake_protocol.admin import InspectReplica, Order, OrderReplies, ReplicasReport

DURATION_S = 10
LIMIT_S = 60.0


def pod(name: str, *, ended: bool = False, restarts: int = 0) -> dict[str, Any]:
    state: dict[str, Any] = {"terminated": {}} if ended else {"running": {}}
    container = {"name": "store", "state": state, "lastState": {}, "restartCount": restarts}
    status = {"podIP": name, "containerStatuses": [container]}
    return {"metadata": {"name": name, "uid": "u"}, "spec": {}, "status": status}


class Api:
    """Pods and Leases of nodes that hold replicas of HighAvailability zones, and the topology."""

    def __init__(self, names: Iterable[str]) -> None:
        self.calls: list[str] = []
        self.pods = {name: pod(name) for name in names}
        self.fenced: set[str] = set()
        self.holders: dict[str, str] = {}
        """Of Leases that are of another process than the one that runs."""
        self.renewals = dict.fromkeys(self.pods, 1)
        self.topology: dict[str, Any] = {}
        self.version = 1
        self.refusals = 0
        self.is_away = False
        self.on_fence: Callable[[], None] = lambda: None

    async def list_pods(self) -> list[dict[str, Any]]:
        return list(self.pods.values())

    async def list_stateful_sets(self) -> list[dict[str, Any]]:
        return [{"metadata": {"name": "n"}, "spec": {"replicas": 100}}]

    async def list_machines(self) -> list[dict[str, Any]]:
        return []

    def lease(self, name: str) -> dict[str, Any]:
        annotations = {"zonequake.io/fenced": "it was"} if name in self.fenced else {}
        version = str(self.renewals[name])
        return {
            "metadata": {"name": name, "resourceVersion": version, "annotations": annotations},
            "spec": {
                "holderIdentity": self.holders.get(name, "p"),
                "leaseTransitions": 1,
                "leaseDurationSeconds": DURATION_S,
            },
        }

    async def list_leases(self) -> list[dict[str, Any]]:
        if self.is_away:
            raise KubeError("GET leases", 0, "it is away")
        return [self.lease(name) for name in self.pods]

    async def get_lease(self, name: str) -> dict[str, Any]:
        if self.is_away:
            raise KubeError(f"GET {name}", 0, "it is away")
        return self.lease(name)

    async def replace_lease(self, body: dict[str, Any]) -> dict[str, Any]:
        name = body["metadata"]["name"]
        self.calls.append(f"fence {name}")
        if self.refusals:
            self.refusals -= 1
            self.renewals[name] += 1
            raise KubeConflict("PUT", 409, "renewed meanwhile")
        self.fenced.add(name)
        self.renewals[name] += 1
        self.on_fence()
        return self.lease(name)

    async def get_or_create_topology(self) -> dict[str, Any]:
        meta = {"uid": "t", "resourceVersion": str(self.version)}
        return {"metadata": meta, "status": self.topology}

    async def write_status(self, *arguments: Any) -> str:
        self.topology, self.version = arguments[-1], self.version + 1
        self.calls.append(f"topology of {self.topology['nodeCount']}")
        return str(self.version)

    async def list_zones(self) -> list[dict[str, Any]]:
        return []

    async def set_pod_condition(self, *_: object) -> None:
        """The gate."""


class Nodes:
    """They answer, but those that hang."""

    def __init__(self) -> None:
        self.hanging: set[str] = set()
        self.refusing: set[str] = set()
        self.asked: list[str] = []
        self.is_hanging = asyncio.Event()

    async def replicas(self, address: str) -> ReplicasReport:
        self.asked.append(address)
        if address in self.hanging:
            self.is_hanging.set()
            await asyncio.Future()
        if address in self.refusing:
            raise NodeUnreachable(address)
        return ReplicasReport(node=node_identity(address, lease_session=1), replicas=[])


class World:
    """A fleet whose rounds run."""

    def __init__(self, names: Iterable[str]) -> None:
        self.now_s = 0.0
        self.api, self.nodes = Api(names), Nodes()
        edges: dict[str, Any] = {"kube": self.api, "store": self.nodes}
        self.fleet = Fleet(**edges, monotonic_s=lambda: self.now_s, wall_ms=lambda: 0)

    def end(self, name: str) -> None:
        """The kubelet says that the node's container ended, and the watch shows it."""
        self.nodes.hanging.add(name)
        self.api.pods[name] = pod(name, ended=True)
        self.fleet.pods_changed(self.api.pods[name])

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S), self.fleet._published:
            await self.fleet._published.wait_for(holds)

    @property
    def present(self) -> set[str]:
        return set(self.fleet.view.topology.nodes)


@asynccontextmanager
async def running(count: int) -> AsyncIterator[World]:
    names = [f"n-{number}" for number in range(count)]
    world = World(names)
    rounds = asyncio.create_task(world.fleet.run())
    try:
        await world.until(lambda: world.present == set(names))
        world.api.calls.clear()
        yield world
    finally:
        rounds.cancel()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds that wait forever for nodes that hang."""
    monkeypatch.setattr("zonequake_operator.fleet.polling.PATIENCE_S", 1e6)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("lost", [2, 5, 20])
async def test_a_silent_node_delays_no_node_that_is_proven_to_have_left(lost: int) -> None:
    async with running(lost + 2) as world:
        silent, *gone = [f"n-{number}" for number in range(lost + 1)]
        world.nodes.hanging.add(silent)
        await world.nodes.is_hanging.wait()
        waiting = world.fleet.rounds
        assert world.fleet.view.number < waiting, "the round waits for the silent node"
        for name in gone:
            world.end(name)
        await world.until(lambda: world.present == {silent, f"n-{lost + 1}"})
        assert world.fleet.rounds <= waiting + 1, "no round had to end first for each of them"
        last = max(n for n, call in enumerate(world.api.calls) if call.startswith("fence"))
        assert last < world.api.calls.index("topology of 2"), "fenced first, counted out then"


@pytest.mark.usefixtures("patient")
async def test_ends_that_straggle_cost_no_round_each() -> None:
    async with running(7) as world:
        world.nodes.hanging.add("n-0")
        await world.nodes.is_hanging.wait()
        for number in range(1, 6):
            world.end(f"n-{number}")

            def is_seen(left: int = 7 - number) -> bool:
                return len(world.present) == left

            await world.until(is_seen)
        fences = [call for call in world.api.calls if call.startswith("fence")]
        assert fences == [f"fence n-{number}" for number in range(1, 6)]


async def test_ends_that_come_while_others_are_counted_out_are_counted_out_together() -> None:
    async with running(22) as world:

        def more() -> None:
            world.api.on_fence = lambda: None
            for number in range(1, 20):
                world.end(f"n-{number}")

        world.api.on_fence = more
        world.end("n-0")
        await world.until(lambda: len(world.present) == 2)
        writes = [call for call in world.api.calls if call.startswith("topology")]
        assert writes == ["topology of 21", "topology of 2"]


async def test_a_lease_that_was_renewed_as_it_was_fenced_is_looked_at_and_fenced_again() -> None:
    async with running(2) as world:
        world.api.refusals = 1
        world.end("n-0")
        await world.until(lambda: world.present == {"n-1"})
        assert world.api.calls[:3] == ["fence n-0", "fence n-0", "topology of 1"]


async def test_who_was_proven_to_have_left_while_the_api_server_was_away_leaves_afterwards() -> (
    None
):
    async with running(2) as world:
        world.api.is_away = True
        world.end("n-0")
        for _ in range(20):
            await asyncio.sleep(0)
        assert world.present == {"n-0", "n-1"}
        world.api.is_away = False
        await world.until(lambda: world.present == {"n-1"})


async def test_what_a_node_answered_before_it_left_does_not_bring_it_back() -> None:
    """It had answered in the round in which its end was seen; without a Lease nothing else says
    that it has left, and a pod that was listed before still shows it running."""
    world = World(["n-0", "n-1"])
    world.api.list_leases = no_leases  # type: ignore[method-assign]
    await world.fleet._once(hurried=False)
    world.fleet.pods_changed(pod("n-0", ended=True))
    answers = dict(world.fleet._polling.answers)
    await world.fleet._leave()
    assert world.present == {"n-1"}
    world.fleet._polling._answers.update(answers)
    await world.fleet._membership.advance(answers, in_round=world.fleet.rounds)
    assert world.fleet._membership.topology is not None
    assert set(world.fleet._membership.topology.nodes) == {"n-1"}


async def no_leases() -> list[dict[str, Any]]:
    return []


async def test_an_answer_that_was_asked_for_behind_the_event_shows_that_its_process_lives() -> None:
    """The kubelet told of the process before it, under a restart count that was not seen before."""
    world = World(["n-0", "n-1"])
    await world.fleet._once(hurried=False)
    world.fleet.pods_changed(pod("n-0", ended=True))
    await world.fleet._polling.hear(world.fleet._evidence.pods.values())
    await world.fleet._leave()
    assert not world.api.fenced
    assert world.present == {"n-0", "n-1"}


async def test_a_listed_end_counts_before_the_nodes_are_heard_if_the_node_was_silent() -> None:
    """No event came of it: the watch had lost it."""
    world = World(["n-0", "n-1"])
    await world.fleet._once(hurried=False)
    world.nodes.refusing.add("n-0")
    await world.fleet._once(hurried=False)
    world.api.pods["n-0"] = pod("n-0", ended=True)
    world.now_s += PODS_MAX_AGE_S
    await world.fleet._list_if_due(hurried=False)
    await world.fleet._leave()
    assert world.present == {"n-1"}


async def test_a_lease_that_has_run_out_is_taken_over_before_the_nodes_are_heard() -> None:
    world = World(["n-0"])
    await world.fleet._once(hurried=False)
    for _ in range(DURATION_S):
        world.now_s += 2.0
        await world.fleet._list_if_due(hurried=False)
    asked = len(world.nodes.asked)
    await world.fleet._leave()
    assert (world.present, world.api.fenced) == (set(), {"n-0"})
    assert len(world.nodes.asked) == asked


async def test_a_container_that_runs_again_leaves_and_joins_in_one_version() -> None:
    world = World(["n-0", "n-1"])
    await world.fleet._once(hurried=False)
    version = world.fleet.view.topology.version
    world.nodes.replicas = another_process  # type: ignore[method-assign]
    world.api.pods["n-0"] = pod("n-0", restarts=1)
    world.fleet.pods_changed(world.api.pods["n-0"])
    await world.fleet._once(hurried=True)
    topology = world.fleet.view.topology
    assert (topology.version, topology.nodes["n-0"].since) == (version + 1, version + 1)


async def another_process(address: str) -> ReplicasReport:
    process = "q" if address == "n-0" else "p"
    node = node_identity(address, lease_session=1, process_incarnation=process)
    return ReplicasReport(node=node, replicas=[])


async def test_answers_of_before_a_loss_are_outdated_until_the_nodes_are_heard_again() -> None:
    world = World(["n-0", "n-1"])
    await world.fleet._once(hurried=False)
    assert not world.fleet.view.outdated
    heard = world.fleet.view
    world.fleet.pods_changed(pod("n-0", ended=True))
    await world.fleet._leave()
    view = world.fleet.view
    assert (view.edition, view.number) == (heard.edition + 1, heard.number)
    assert (set(view.reports), view.outdated) == ({"n-1"}, frozenset({"n-1"}))
    await world.fleet._once(hurried=True)
    assert (set(world.fleet.view.reports), world.fleet.view.outdated) == ({"n-1"}, frozenset())


async def test_the_round_behind_a_loss_hears_at_once_and_the_next_one_lists_again() -> None:
    """A reset waits for the answers; a list of Leases alone may take 0.1 s."""
    world = World(["n-0", "n-1"])
    await world.fleet._once(hurried=False)
    world.fleet.pods_changed(pod("n-0", ended=True))
    await world.fleet._leave()
    world.api.is_away = True
    await world.fleet._once(hurried=True)
    assert not world.fleet.view.outdated
    with pytest.raises(KubeError, match="away"):
        await world.fleet._once(hurried=True)


async def test_the_round_behind_a_loss_reads_a_topology_that_a_zone_knows_to_be_newer() -> None:
    """Else the zone would take ours, which is older, for one that was deleted and made again."""
    world = World(["n-0", "n-1"])
    await world.fleet._once(hurried=False)
    world.fleet.pods_changed(pod("n-0", ended=True))
    await world.fleet._leave()
    newer = world.api.topology["version"] + 1
    world.api.topology = {**world.api.topology, "version": newer}
    world.api.version += 1
    world.fleet.topology_is_old()
    await world.fleet._once(hurried=True)
    assert world.fleet.view.topology.version >= newer


async def test_a_late_word_of_an_end_counts_out_no_node_with_a_session_meanwhile() -> None:
    """The pod's status tells of a process before the one that we know, whose Lease it still is."""
    world = World(["n-0", "n-1"])
    world.api.holders["n-0"] = "before"
    await world.fleet._once(hurried=False)
    world.api.pods["n-0"] = pod("n-0", restarts=5)
    world.nodes.hanging.add("n-0")
    world.fleet.pods_changed()
    await world.fleet._once(hurried=True)
    assert set(world.fleet.view.topology.nodes) == {"n-0", "n-1"}, "its last answer stands"


async def test_a_node_that_hangs_behind_a_loss_holds_back_no_further_list() -> None:
    world = World(["n-0", "n-1", "n-2"])
    await world.fleet._once(hurried=False)
    world.nodes.hanging.add("n-2")
    world.fleet.pods_changed(pod("n-0", ended=True))
    await world.fleet._leave()
    await world.fleet._once(hurried=True)
    assert world.fleet.view.outdated == {"n-2"}
    world.api.is_away = True
    with pytest.raises(KubeError, match="away"):
        await world.fleet._once(hurried=True)


async def test_gates_wait_for_the_round_behind_a_loss() -> None:
    world = World([f"n-{number}" for number in range(4)])
    written = []

    async def set_pod_condition(name: str, *_: object) -> None:
        written.append(name)
        if len(written) == 2:
            world.fleet.pods_changed(pod("n-3", ended=True))
            await world.fleet._leave()

    world.api.set_pod_condition = set_pod_condition  # type: ignore[assignment,method-assign]
    await world.fleet._once(hurried=False)
    assert written == ["n-0", "n-1"]
    await world.fleet._once(hurried=True)
    assert written == ["n-0", "n-1", "n-2"]


async def test_a_node_that_hangs_is_silent_once_its_question_has_failed_and_not_before() -> None:
    world = World(["n-0", "n-1"])
    await world.fleet._once(hurried=False)
    world.nodes.hanging.add("n-0")
    began_s = asyncio.get_running_loop().time()
    await world.fleet._once(hurried=False)
    assert asyncio.get_running_loop().time() - began_s >= 0.9 * PATIENCE_S
    assert set(world.fleet.view.reports) == {"n-0", "n-1"}, "what it answered before stands"
    assert world.fleet.view.number == world.fleet.rounds - 1
    await world.fleet._once(hurried=False)
    assert world.nodes.asked.count("n-0") == 2, "it is still being asked"
    world.fleet._polling._open["n-0"].task.cancel()
    del world.fleet._polling._open["n-0"]
    world.nodes.hanging.clear()
    world.nodes.refusing.add("n-0")
    await world.fleet._once(hurried=False)
    assert set(world.fleet.view.reports) == {"n-1"}


class HangingStore:
    """Takes orders and never answers."""

    async def send(self, _: str, __: list[Order]) -> OrderReplies:
        return await asyncio.Future()


async def test_no_node_is_waited_for_over_orders_once_one_was_counted_out() -> None:
    store: Any = HangingStore()
    sender = OrderSender(store, monotonic_s=lambda: 0.0)
    assert isinstance(sender.inspections, Inspections)
    left = asyncio.Event()

    async def until(timeout_s: float) -> None:
        assert timeout_s == ORDERS_PATIENCE_S
        await left.wait()

    send = SendOrder(node="a", order=InspectReplica(group="g"))
    sent = asyncio.create_task(sender.send([send], {"a": "a"}, until=until))
    await asyncio.sleep(0.01)
    assert not sent.done()
    left.set()
    async with asyncio.timeout(LIMIT_S):
        await sent
