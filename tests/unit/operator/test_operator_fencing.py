"""The order in which the operator fences, counts as left, reads and permits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.unit.made_up_nodes import node_identity
from tests.unit.operator.test_operator_erasure import Edges
from zonequake_operator.errors import KubeConflict, KubeNotFound, NodeUnreachable
from zonequake_operator.fleet.fencing import FENCED
from zonequake_operator.fleet.fleet import Fleet, FleetView
from zonequake_operator.planning.plan import WritePartition
from zonequake_operator.resources.leases import LeaseSession, TroubleKind
from zonequake_operator.resources.model import AssignmentSet, PartitionKeys, PartitionStatus
from zonequake_protocol.admin import ReplicasReport

NODE = "zq-default-0"
ENDED = {"name": "store", "state": {"terminated": {}}, "lastState": {}, "restartCount": 0}


class FakeApi:
    """A node's pod and Lease and the topology, and the calls in their order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.now_s = 0.0
        self.renewed = 1
        self.annotations: dict[str, str] = {}
        self.topology: dict[str, Any] = {}
        self.refuses_fence = False
        self.has_lease = True
        self.containers: list[dict[str, Any]] = []
        self.has_pod = True
        self.wanted = 1
        self.before_listing: Callable[[], None] = lambda: None
        self.before_writing: Callable[[], None] = lambda: None
        self.session = 1
        self.written = 1

    def monotonic_s(self) -> float:
        return self.now_s

    async def list_pods(self) -> list[dict[str, Any]]:
        self.before_listing()
        status = {"podIP": "10.0.0.1", "containerStatuses": self.containers}
        if not self.has_pod:
            return []
        return [{"metadata": {"name": NODE, "uid": "u"}, "status": status}]

    async def list_stateful_sets(self) -> list[dict[str, Any]]:
        return [{"metadata": {"name": "zq-default"}, "spec": {"replicas": self.wanted}}]

    async def list_machines(self) -> list[dict[str, Any]]:
        return []

    async def get_lease(self, name: str) -> dict[str, Any]:
        for lease in await self.list_leases():
            return lease
        raise KubeNotFound(f"GET {name}", 404, "there is none")

    async def list_leases(self) -> list[dict[str, Any]]:
        if not self.has_lease:
            return []
        return [
            {
                "metadata": {
                    "name": NODE,
                    "uid": "l",
                    "resourceVersion": str(self.renewed),
                    "annotations": self.annotations,
                },
                "spec": {
                    "holderIdentity": "p",
                    "leaseTransitions": self.session,
                    "leaseDurationSeconds": 4,
                },
            }
        ]

    async def replace_lease(self, body: dict[str, Any]) -> dict[str, Any]:
        self.calls.append("fence")
        if self.refuses_fence:
            raise KubeConflict("PUT", 409, "renewed meanwhile")
        self.annotations = body["metadata"]["annotations"]
        self.renewed += 1
        return (await self.list_leases())[0]

    async def delete_lease(self, *_: object, **__: object) -> None:
        self.calls.append("delete")
        self.has_lease = False

    @property
    def writes(self) -> list[str]:
        return [call for call in self.calls if call != "read topology"]

    async def get_or_create_topology(self) -> dict[str, Any]:
        self.calls.append("read topology")
        return {"metadata": {"resourceVersion": str(self.written)}, "status": self.topology}

    async def write_status(self, *arguments: Any) -> str:
        self.calls.append("write topology")
        self.before_writing()
        if arguments[-2] != str(self.written):
            raise KubeConflict("PUT", 409, "written meanwhile")
        self.written += 1
        self.topology = arguments[-1]
        return str(self.written)

    async def list_zones(self) -> list[dict[str, Any]]:
        return []

    async def set_pod_condition(self, *_: object) -> None:
        """The gate."""


class FakeNodes:
    """The node answers, unless `refuse` says otherwise: it is cut off from the API server alone."""

    def __init__(self) -> None:
        self.refuse: Callable[[], None] = lambda: None
        self.session = 1

    async def replicas(self, _address: str) -> ReplicasReport:
        self.refuse()
        node = node_identity(NODE, lease_session=self.session)
        return ReplicasReport(node=node, replicas=[])


async def rounds(fleet: Fleet, api: FakeApi, count: int) -> None:
    for _ in range(count):
        await fleet._once(hurried=False)
        api.now_s += 0.5


async def joined(nodes: FakeNodes | None = None) -> tuple[Fleet, FakeApi]:
    api = FakeApi()
    fleet = Fleet(
        api,  # type: ignore[arg-type]
        nodes or FakeNodes(),  # type: ignore[arg-type]
        monotonic_s=api.monotonic_s,
        wall_ms=lambda: 0,
    )
    await rounds(fleet, api, 1)
    assert list(fleet.view.topology.nodes) == [NODE]
    assert fleet.view.sessions == {NODE: LeaseSession(holder="p", number=1)}
    api.calls.clear()
    return fleet, api


async def test_a_node_is_fenced_before_the_topology_is_written_without_it() -> None:
    fleet, api = await joined()
    await rounds(fleet, api, 12)
    assert api.writes == ["fence", "write topology"]
    assert FENCED in api.annotations
    assert not fleet.view.topology.nodes
    assert not fleet.view.reports, "what it reports counts for nothing until it joins again"


async def test_no_node_is_permitted_in_a_session_before_the_topology_has_it() -> None:
    nodes = FakeNodes()
    fleet, api = await joined(nodes)
    nodes.session = 2
    seen = FleetView(topology=fleet.view.topology, reports={NODE: await nodes.replicas("")})
    assert seen.sessions == {}
    version = fleet.view.topology.version
    await rounds(fleet, api, 1)
    assert api.writes == ["write topology"]
    assert fleet.view.sessions == {NODE: LeaseSession(holder="p", number=2)}
    assert fleet.view.topology.version == version, "no node has left, none has joined"


async def test_who_is_in_its_next_session_by_another_operator_is_not_counted_out_late() -> None:
    """The operator that fences may stand still before it writes the topology without the node."""
    nodes = FakeNodes()
    fleet, api = await joined(nodes)

    def stands_still() -> None:
        """Meanwhile the node begins its next session, and is seen in it by the other operator."""
        api.before_writing = lambda: None
        nodes.session = api.session = 2
        api.annotations, api.renewed = {}, api.renewed + 1
        api.topology = msgspec.json.decode(
            msgspec.json.encode(api.topology).replace(b'"leaseSession":1', b'"leaseSession":2')
        )
        api.written += 1

    api.before_writing = stands_still
    with pytest.raises(KubeConflict):
        await rounds(fleet, api, 12)
    assert FENCED not in api.annotations
    assert api.writes == ["fence", "write topology"]
    await rounds(fleet, api, 1)
    assert fleet.view.sessions == {NODE: LeaseSession(holder="p", number=2)}
    assert not fleet.view.topology.departed


async def test_a_node_whose_fence_is_refused_stays_in_the_topology() -> None:
    fleet, api = await joined()
    api.refuses_fence = True
    await rounds(fleet, api, 12)
    assert set(api.writes) == {"fence"}
    assert list(fleet.view.topology.nodes) == [NODE]


async def test_a_node_that_renews_is_never_fenced() -> None:
    fleet, api = await joined()
    for _ in range(20):
        await rounds(fleet, api, 4)
        api.renewed += 1
    assert api.writes == []


async def test_who_answers_has_not_ended_whatever_its_pod_shows() -> None:
    fleet, api = await joined()
    api.containers = [ENDED]
    for _ in range(4):
        await rounds(fleet, api, 4)
        api.renewed += 1
    assert api.writes == []


async def test_a_lease_that_began_while_nodes_were_heard_is_fenced_first() -> None:
    nodes = FakeNodes()
    fleet, api = await joined(nodes)

    def refuse() -> None:
        api.has_lease = True
        raise NodeUnreachable("10.0.0.1: it waits for the disk")

    nodes.refuse, api.has_lease, api.containers = refuse, False, [ENDED]
    fleet.pods_changed()
    await fleet._once(hurried=True)
    assert api.writes == ["fence", "write topology"]


async def test_a_session_that_the_kept_topology_does_not_know_makes_it_read_again() -> None:
    """Another operator may have let the node join; a reset must not rest on its absence."""
    fleet, api = await joined()
    await rounds(fleet, api, 12)
    api.calls.clear()
    api.annotations, api.renewed = {}, api.renewed + 1
    await rounds(fleet, api, 1)
    assert api.calls[0] == "read topology"
    assert list(fleet.view.topology.nodes) == [NODE]


async def test_the_lease_of_a_node_that_was_scaled_down_is_deleted_once_it_has_left() -> None:
    fleet, api = await joined()
    api.has_pod, api.wanted = False, 0
    fleet.pods_changed()
    await rounds(fleet, api, 20)
    assert api.writes == ["fence", "write topology", "delete"]


async def test_the_lease_of_a_node_that_comes_back_under_its_name_stays() -> None:
    fleet, api = await joined()
    api.has_pod, api.wanted = False, 0
    fleet.pods_changed()

    def comes_back() -> None:
        if "write topology" in api.calls:
            api.has_pod, api.wanted, api.containers = True, 1, [ENDED]

    api.before_listing = comes_back  # after the pods were listed by which it would be due
    await rounds(fleet, api, 20)
    assert api.writes == ["fence", "write topology"]


async def test_a_node_that_answers_though_it_was_given_up_is_in_trouble() -> None:
    fleet, api = await joined()
    assert not fleet.view.lease_troubles
    await rounds(fleet, api, 12)
    assert not fleet.view.reports
    trouble = fleet.view.lease_troubles.get(NODE)
    assert trouble is not None
    assert (trouble.kind, trouble.why) == (TroubleKind.FENCED, api.annotations[FENCED])


class Counting(Edges):
    """Counts how often the zone is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    async def get_zone(self, name: str) -> dict[str, Any]:
        self.reads += 1
        return await super().get_zone(name)

    def seen(self, number: int, session: int, process: str = "p") -> FleetView:
        report = self.view.reports["a"]
        node = msgspec.structs.replace(
            report.node, lease_session=session, process_incarnation=process
        )
        known = replace(
            self.view.topology.nodes["a"], lease_session=session, process_incarnation=process
        )
        return replace(
            self.view,
            edition=number,
            number=number,
            topology=replace(self.view.topology, nodes={"a": known}),
            reports={"a": msgspec.structs.replace(report, node=node)},
        )


async def test_the_keys_are_read_again_after_each_session_that_a_node_has_begun() -> None:
    """A node that is permitted in it must be told of every reset that was decided before."""
    edges = Counting()
    edges.answers.set()
    reconciler = edges.reconciler()
    await reconciler.step(edges.seen(9, 0))
    read = edges.reads
    await reconciler.step(edges.seen(12, 0))
    assert edges.reads == read
    await reconciler.step(edges.seen(13, 1))
    assert edges.reads == read + 1
    await reconciler.step(edges.seen(14, 1))
    assert edges.reads == read + 1
    await reconciler.step(edges.seen(15, 2))
    assert edges.reads == read + 2
    await reconciler.step(edges.seen(16, 2, process="q"))
    assert edges.reads == read + 3, "sessions are counted again once a Lease was deleted"


async def test_after_a_reset_was_written_only_newer_reports_are_judged() -> None:
    """Who hasn't left must have been seen to know of it before the survivor begins, and a node may
    have joined again since the reports that the reset was decided by."""
    edges = Counting()
    edges.answers.set()
    reconciler = edges.reconciler()
    await reconciler.step(edges.seen(9, 1))
    asked: list[int] = []
    heard = edges.next_view

    async def next_view(after: int, _: float) -> FleetView:
        asked.append(edges.view.edition)
        return await heard(after, _)

    edges.next_view = next_view  # type: ignore[method-assign]
    seen = edges.seen(13, 1)
    await reconciler.step(seen)
    assert not asked
    forced = PartitionKeys(
        stable=AssignmentSet.of("a"), pending=AssignmentSet(nodes=("a",), force=True)
    )
    edges.view = seen
    await reconciler._write_partition(
        WritePartition(number=0, keys=forced, view=PartitionStatus(), urgent=True)
    )
    await reconciler.step(seen)
    assert asked
