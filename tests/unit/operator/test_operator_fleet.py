"""The fleet's memory of pods and of the LogicalTopology, and what doesn't end its rounds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.made_up_nodes import node_identity
from zonequake_operator.errors import KubeError, KubeNotFound, NodeUnreachable
from zonequake_operator.fleet.fleet import PODS_MAX_AGE_S, Fleet
from zonequake_protocol.admin import ReplicasReport

NODES = ("n-0", "n-1")


def pod(name: str, uid: str, **state: Any) -> dict[str, Any]:
    containers = [{"name": "store", "state": state, "restartCount": 0}] if state else []
    status = {"podIP": name, "containerStatuses": containers}
    return {"metadata": {"name": name, "uid": uid}, "spec": {}, "status": status}


class Api:
    """Pods, and one LogicalTopology that any client may delete."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pods = [pod(name, f"{name}-uid", running={}) for name in NODES]
        self.version, self.uid = 1, 1
        self.topology: dict[str, Any] = {"version": 0}
        self.listed = 0
        self.lists_fail = False

    def delete_topology(self) -> None:
        """By hand."""
        self.version, self.uid, self.topology = self.version + 1, self.uid + 1, {"version": 0}

    async def list_pods(self) -> list[dict[str, Any]]:
        if self.lists_fail:
            raise KubeError("GET pods", 0, "it is away")
        self.listed += 1
        return self.pods

    async def list_stateful_sets(self) -> list[dict[str, Any]]:
        return [{"metadata": {"name": "n"}, "spec": {"replicas": len(NODES)}}]

    async def list_machines(self) -> list[dict[str, Any]]:
        return []

    async def list_leases(self) -> list[dict[str, Any]]:
        return []

    async def get_lease(self, name: str) -> dict[str, Any]:
        raise KubeNotFound(f"GET {name}", 404, "there is none")

    async def list_zones(self) -> list[dict[str, Any]]:
        return []

    async def set_pod_condition(self, *_: object) -> None:
        """The gate."""

    async def get_or_create_topology(self) -> dict[str, Any]:
        meta = {"uid": str(self.uid), "resourceVersion": str(self.version)}
        return {"metadata": meta, "status": self.topology}

    async def write_status(self, _plural: str, _kind: str, *rest: Any) -> str:
        _name, version, status = rest
        if version != str(self.version):
            raise KubeNotFound("PUT", 404, "deleted")
        self.version, self.topology = self.version + 1, status
        return str(self.version)


class Nodes:
    """Those that answer."""

    def __init__(self) -> None:
        self.answering = set(NODES)

    async def replicas(self, address: str) -> ReplicasReport:
        if address not in self.answering:
            raise NodeUnreachable(address)
        node = node_identity(address, pod_uid=f"{address}-uid")
        return ReplicasReport(node=node, replicas=[])


def made() -> tuple[Fleet, Api, Nodes]:
    api, nodes = Api(), Nodes()
    edges: dict[str, Any] = {"kube": api, "store": nodes}
    return Fleet(**edges, monotonic_s=lambda: api.now_s, wall_ms=lambda: 0), api, nodes


async def test_a_pod_that_ended_and_was_deleted_between_two_lists_has_left() -> None:
    """Drained from its machine; its successor finds no other one, and never identifies itself."""
    fleet, api, nodes = made()
    await fleet._once(hurried=False)
    nodes.answering.discard("n-1")
    fleet.pods_changed(pod("n-1", "n-1-uid", terminated={}))
    api.pods = [api.pods[0], pod("n-1", "its successor")]
    await fleet._once(hurried=True)
    assert list(fleet.view.topology.nodes) == ["n-0"]


async def test_a_pod_that_was_deleted_while_it_ran_has_not_left() -> None:
    fleet, api, nodes = made()
    await fleet._once(hurried=False)
    nodes.answering.discard("n-1")
    told: list[tuple[str, str, dict[str, Any]]] = [
        ("n-1", "n-1-uid", {"running": {}}),  # as a deletion with grace 0 shows it
        ("n-1", "another", {"terminated": {}}),
    ]
    for name, uid, state in told:
        fleet.pods_changed(pod(name, uid, **state))
        api.pods = [api.pods[0], pod("n-1", "its successor")]
        await fleet._once(hurried=True)
        assert list(fleet.view.topology.nodes) == list(NODES)


def with_a_proxy(shown: dict[str, Any], restarts: int) -> dict[str, Any]:
    """As a service mesh adds a container to each pod."""
    proxy = {"name": "proxy", "state": {"running": {}}, "restartCount": restarts}
    shown["status"]["containerStatuses"].append(proxy)
    return shown


async def test_what_another_container_of_its_pod_does_is_nothing_of_the_node() -> None:
    fleet, api, nodes = made()
    api.pods = [with_a_proxy(pod(name, f"{name}-uid", running={}), 0) for name in NODES]
    await fleet._once(hurried=False)
    nodes.answering.discard("n-1")
    again = [with_a_proxy(pod(name, f"{name}-uid", running={}), 3) for name in NODES]
    fleet.pods_changed(again[1])
    api.pods = again
    await fleet._once(hurried=True)
    assert list(fleet.view.topology.nodes) == list(NODES)
    assert fleet.view.topology.nodes["n-0"].restarts == 0
    api.pods[1] = with_a_proxy(pod("n-1", "n-1-uid", terminated={}), 3)
    fleet.pods_changed(api.pods[1])
    await fleet._once(hurried=True)
    assert list(fleet.view.topology.nodes) == ["n-0"]


async def test_no_node_is_counted_out_before_pods_and_pools_were_listed() -> None:
    """An operator that has just been started knows no pod, and no pool that wants one."""
    _, api, nodes = before = made()
    await before[0]._once(hurried=False)
    edges: dict[str, Any] = {"kube": api, "store": nodes}
    fleet = Fleet(**edges, monotonic_s=lambda: api.now_s, wall_ms=lambda: 0)
    api.lists_fail = True
    with pytest.raises(KubeError):
        await fleet._once(hurried=False)
    fleet.pods_changed(pod("n-1", "n-1-uid", terminated={}))
    await fleet._leave()
    assert api.topology["nodeCount"] == len(NODES)
    api.lists_fail = False
    nodes.answering.discard("n-1")
    api.pods = [api.pods[0], pod("n-1", "n-1-uid", terminated={})]
    await fleet._once(hurried=True)
    assert list(fleet.view.topology.nodes) == ["n-0"]


async def test_a_list_that_failed_is_due_again() -> None:
    """It was due since another operator wrote the topology; older pods may not stand beside it."""
    fleet, api, _ = made()
    await fleet._once(hurried=False)
    api.version += 1
    fleet.topology_is_old()
    api.lists_fail = True
    with pytest.raises(KubeError):
        await fleet._once(hurried=False)
    api.lists_fail = False
    listed = api.listed
    await fleet._once(hurried=False)
    assert api.listed == listed + 1
    await fleet._once(hurried=False)
    assert api.listed == listed + 1, "it isn't due any more"


async def test_the_end_of_an_earlier_process_is_no_proof_once_the_pod_runs_again() -> None:
    fleet, api, nodes = made()
    await fleet._once(hurried=False)
    fleet.pods_changed(pod("n-1", "n-1-uid", terminated={}))
    fleet.pods_changed(pod("n-1", "n-1-uid", running={}))
    nodes.answering.discard("n-1")
    api.pods = api.pods[:1]
    await fleet._once(hurried=True)
    assert list(fleet.view.topology.nodes) == list(NODES)


async def test_a_topology_that_was_deleted_by_hand_goes_on_where_it_was() -> None:
    """A node that left meanwhile had never been in the new one: no timer was armed for it."""
    fleet, api, nodes = made()
    await fleet._once(hurried=False)
    before = fleet.view.topology
    api.delete_topology()
    nodes.answering.discard("n-1")
    api.pods = [api.pods[0], pod("n-1", "n-1-uid", terminated={})]
    api.now_s += PODS_MAX_AGE_S
    await fleet._once(hurried=False)
    after = fleet.view.topology
    assert after.version == before.version + 1
    assert list(after.nodes) == ["n-0"]
    assert after.departed["n-1"].left == after.version
    assert api.topology["version"] == after.version


async def test_a_topology_that_is_found_old_while_it_is_read_is_read_once_more() -> None:
    """Its answer came late; another operator wrote the next one behind it."""
    fleet, api, _ = made()
    await fleet._once(hurried=False)
    read = api.get_or_create_topology
    reads = 0

    async def late() -> dict[str, Any]:
        nonlocal reads
        reads += 1
        found = await read()
        if reads == 1:
            fleet.topology_is_old()
        return found

    api.get_or_create_topology = late  # type: ignore[method-assign]
    fleet.topology_is_old()
    for _ in range(3):
        await fleet._once(hurried=False)
    assert reads == 2


async def test_a_view_heeds_an_old_topology_once_it_was_read_behind_the_word_of_it() -> None:
    """A round may have read it, and hear only then: its number is new, its topology isn't."""
    fleet, _, store = made()
    await fleet._once(hurried=False)
    heard = store.replicas
    asked: list[int] = []

    async def and_told(address: str) -> Any:
        if not asked:
            asked.append(fleet.topology_is_old())
        return await heard(address)

    store.replicas = and_told  # type: ignore[method-assign]
    await fleet._once(hurried=False)
    assert fleet.view.heeded < asked[0]
    await fleet._once(hurried=False)
    assert fleet.view.heeded == asked[0]


async def test_an_unreadable_topology_does_not_end_the_rounds() -> None:
    """Its task ended without a word, and the operator did nothing until it was restarted."""
    fleet, api, _ = made()
    api.topology = {"version": "many"}
    task = asyncio.create_task(fleet.run())
    await asyncio.sleep(0.01)
    assert not task.done()
    api.topology = {"version": 0}
    async with asyncio.timeout(60):
        await fleet.next_view(0, 5.0)
    task.cancel()
    assert list(fleet.view.topology.nodes) == list(NODES)
