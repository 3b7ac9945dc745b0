"""Made-up clusters: builders of views, reports and events, as fixtures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.unit.made_up_nodes import node_identity
from zonequake_chaos.observe.view import ClusterView, NodeView, assemble
from zonequake_chaos.record.clock import Moment
from zonequake_chaos.record.event_log import RunEvent
from zonequake_kube.objects import KeysView, PodView
from zonequake_protocol.admin import (
    CatchUpProgress,
    ConfigurationReport,
    PeerName,
    ReplicaRole,
    ReplicasReport,
    ReplicaStatus,
    Stage,
)


@dataclass(frozen=True, kw_only=True)
class Group:
    """One made-up partition: who leads, who else votes, who is catching up and how far."""

    partition: int
    leader: str | None
    followers: tuple[str, ...]
    stage: Stage = Stage.NONE
    progress: dict[str, float] | None = None
    pending: tuple[str, ...] = ()
    planned: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    term: int = 3


def pod(name: str, *, ready: bool = True, uid: str | None = None, restarts: int = 0) -> PodView:
    return PodView(
        name=name,
        uid=uid or f"uid-{name}",
        pool="default",
        ready=ready,
        phase="Running",
        deleting=False,
        container="store",
        restarts=restarts,
    )


def peer(node: str) -> PeerName:
    return PeerName(node=node, incarnation="0" * 16)


def report(node: str, replicas: list[ReplicaStatus], process: str = "p1") -> ReplicasReport:
    return ReplicasReport(
        node=node_identity(
            node, process_incarnation=process, storage_incarnation="s1", pod_uid=f"uid-{node}"
        ),
        replicas=replicas,
    )


def _replica(group: Group, node: str) -> ReplicaStatus:
    voters = [name for name in (group.leader, *group.followers) if name is not None]
    leads = node == group.leader
    return ReplicaStatus(
        group=f"z.00000000.{group.partition}",
        zone="z",
        partition=group.partition,
        incarnation="0" * 16,
        role=ReplicaRole.LEADER
        if leads
        else ReplicaRole.WAITING
        if node in group.waiting
        else ReplicaRole.FOLLOWER,
        term=group.term,
        configuration=ConfigurationReport(peers=[peer(v) for v in voters], token=1, index=1),
        stage=group.stage if leads else Stage.NONE,
        stage_token=2 if group.stage is not Stage.NONE else 0,
        progress=[
            CatchUpProgress(peer=peer(name), fraction=f, bytes_sent=0, match_index=0, by="log")
            for name, f in (group.progress or {}).items()
        ]
        if leads
        else [],
        applied=10,
    )


def make_view(
    groups: list[Group],
    *,
    silent: tuple[str, ...] = (),
    pods: dict[str, PodView] | None = None,
    processes: dict[str, str] | None = None,
    keys: list[KeysView] | None = None,
    at_ns: int = 1_000,
) -> ClusterView:
    hosts: dict[str, list[ReplicaStatus]] = {}
    for group in groups:
        for node in {group.leader, *group.followers, *(group.progress or {})} - {None}:
            assert node is not None
            hosts.setdefault(node, []).append(_replica(group, node))
    return assemble(
        at_ns=at_ns,
        began_ns=0,
        nodes=[
            NodeView(
                pod=(pods or {}).get(name, pod(name)),
                report=None
                if name in silent
                else report(name, replicas, (processes or {}).get(name, "p1")),
            )
            for name, replicas in sorted(hosts.items())
        ],
        keys=keys
        or [
            KeysView(
                zone="z",
                partition=g.partition,
                stable=tuple(n for n in (g.leader, *g.followers) if n is not None),
                pending=g.pending,
                planned=g.planned,
            )
            for g in groups
        ],
    )


@pytest.fixture
def view_of() -> Callable[..., ClusterView]:
    return make_view


@pytest.fixture
def group() -> type[Group]:
    return Group


@pytest.fixture
def pod_of() -> Callable[..., PodView]:
    return pod


@pytest.fixture
def moving(view_of: Callable[..., ClusterView]) -> ClusterView:
    """Partition 0 is settled, 1 and 2 catch n3 up, 3 is in JOINT."""
    return view_of(
        [
            Group(partition=0, leader="n0", followers=("n1", "n2")),
            Group(
                partition=1,
                leader="n1",
                followers=("n0", "n2"),
                stage=Stage.CATCHING_UP,
                progress={"n3": 0.5},
                pending=("n0", "n1", "n3"),
            ),
            Group(
                partition=2,
                leader="n2",
                followers=("n0", "n1"),
                stage=Stage.CATCHING_UP,
                progress={"n3": 0.1},
                pending=("n0", "n2", "n3"),
            ),
            Group(
                partition=3,
                leader="n0",
                followers=("n1", "n2", "n3"),
                stage=Stage.JOINT,
                pending=("n0", "n1", "n3"),
            ),
        ]
    )


class FakeClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.time_ns = 1_000_000_000

    def now(self) -> Moment:
        return Moment(time_ns=self.time_ns, wall_ns=self.time_ns + 10**18, clock="boot")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def recorded(kind: str, at_ns: int, node: str, *, clock: str = "boot", **data: object) -> RunEvent:
    """A data node's event at a monotonic instant; wall time runs beside it."""
    place = kind in ("rebalance.stage", "leader.change")
    return RunEvent(
        kind=kind,
        time=at_ns,
        wall=at_ns + 10**18,
        clock=clock,
        source="store",
        zone="z" if place else None,
        partition=1 if place else None,
        node=node,
        data=data,
    )


@pytest.fixture
def store_event() -> Callable[..., RunEvent]:
    return recorded
