"""The fleet's pace at the API server: gates are written once, pods listed when there is news."""

from __future__ import annotations

from typing import Any

from tests.unit.made_up_nodes import node_identity
from zonequake_operator.fleet.fleet import PODS_RETRY_S, Fleet
from zonequake_operator.fleet.gates import PATIENCE_S
from zonequake_protocol.admin import ReplicasReport


class FakeApi:
    """One pod without a gate; its listing shows what was written to it."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.lists = 0
        self.zones: list[str] = []
        self.conditions: list[dict[str, Any]] = []

    async def list_pods(self) -> list[dict[str, Any]]:
        self.lists += 1
        return [
            {
                "metadata": {"name": "A", "uid": "u"},
                "status": {"podIP": "10.0.0.1", "conditions": list(self.conditions)},
            }
        ]

    async def list_stateful_sets(self) -> list[dict[str, Any]]:
        return []

    async def list_machines(self) -> list[dict[str, Any]]:
        return []

    async def list_leases(self) -> list[dict[str, Any]]:
        return []

    async def get_or_create_topology(self) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": "1"}}

    async def write_status(self, *_: object) -> str:
        return "2"

    async def list_zones(self) -> list[dict[str, Any]]:
        return [{"metadata": {"name": name}} for name in self.zones]

    async def set_pod_condition(self, name: str, uid: str, condition: dict[str, Any]) -> None:
        assert (name, uid) == ("A", "u")
        self.written.append(condition["status"])
        self.conditions = [condition]


class FakeNodes:
    """Answers for the one node."""

    process = "p"

    async def replicas(self, address: str) -> ReplicasReport:
        node = node_identity(
            "A", process_incarnation=self.process, peer_address=address, client_address=address
        )
        return ReplicasReport(node=node, replicas=[])


class Clock:
    """Monotonic seconds, moved by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def fleet(api: FakeApi, clock: Clock, nodes: FakeNodes | None = None) -> Fleet:
    edges: dict[str, Any] = {"kube": api, "store": nodes or FakeNodes()}
    return Fleet(**edges, monotonic_s=clock, wall_ms=lambda: 0)


async def test_a_gate_is_written_once_and_not_in_every_round_until_pods_are_listed_again() -> None:
    """It was written every 20 ms, a hundred times while one node joined."""
    api, clock = FakeApi(), Clock()
    watched = fleet(api, clock)
    for _ in range(5):
        await watched._once(hurried=False)
        clock.now_s += PODS_RETRY_S / 10
    assert (api.lists, api.written) == (1, ["True"])
    watched.tell("z", edition=5, settled=False, behind=frozenset({"A"}))
    for _ in range(30):
        await watched._once(hurried=False)
        clock.now_s += PODS_RETRY_S / 10
    assert api.written == ["True", "False"]


async def test_pods_are_listed_at_once_after_an_event_of_one_of_them() -> None:
    api, clock = FakeApi(), Clock()
    watched = fleet(api, clock)
    await watched._once(hurried=False)
    watched.pods_changed()
    await watched._once(hurried=True)
    assert api.lists == 2
    await watched._once(hurried=True)  # another cause for hurry: nothing new of pods
    assert api.lists == 2


async def test_a_restarted_operator_opens_no_gate_before_every_zone_was_planned() -> None:
    """A rolling update of the data nodes went on, because their operator was new as well."""
    api, clock = FakeApi(), Clock()
    api.zones = ["y", "z"]
    watched = fleet(api, clock)
    await watched._once(hurried=False)
    watched.tell("y", edition=1, settled=True, behind=frozenset())
    await watched._once(hurried=False)
    assert api.written == []
    watched.tell("z", edition=2, settled=False, behind=frozenset({"A"}))
    await watched._once(hurried=False)
    assert api.written == ["False"]
    watched.tell("z", edition=3, settled=True, behind=frozenset())
    await watched._once(hurried=False)
    assert api.written == ["False", "True"]


async def test_a_gate_is_not_opened_by_what_was_said_of_the_process_before() -> None:
    api, clock, nodes = FakeApi(), Clock(), FakeNodes()
    api.zones = ["z"]
    watched = fleet(api, clock, nodes)
    await watched._once(hurried=False)
    watched.tell("z", edition=1, settled=True, behind=frozenset())
    nodes.process = "q"  # within one round, and its pod has no gate yet
    await watched._once(hurried=False)
    assert api.written == []
    watched.tell("z", edition=2, settled=True, behind=frozenset())
    await watched._once(hurried=False)
    assert api.written == ["True"]


async def test_a_zone_that_cannot_be_planned_keeps_no_gate_closed_for_ever() -> None:
    api, clock = FakeApi(), Clock()
    api.zones = ["poisoned"]
    watched = fleet(api, clock)
    await watched._once(hurried=False)
    assert api.written == []
    clock.now_s += PATIENCE_S
    await watched._once(hurried=False)
    assert api.written == ["True"]
