"""A member's status is seen as a data node's report is, and the view has its roles."""

from __future__ import annotations

from zonequake_chaos.kit.members import group_of, report_of
from zonequake_chaos.observe.view import ClusterView, NodeView, assemble
from zonequake_chaos.targeting.triggers import unsettled
from zonequake_kube.objects import KeysView, PodView, pod_view
from zonequake_protocol.admin import ReplicasReport
from zonequake_target_etcd.interface.gateway import EtcdStatus, Header
from zonequake_target_etcd.members import status_of

PODS = [f"zq-etcd-default-{ordinal}" for ordinal in range(3)]


def pod(name: str, restarts: int = 0, *, of_hands: int = 0, state: str = "running") -> PodView:
    return pod_view(
        {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "labels": {"zonequake.io/program": "etcd", "zonequake.io/pool": "default"},
            },
            "spec": {"containers": [{"name": "etcd"}, {"name": "hands"}]},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [
                    {
                        "name": "hands",
                        "restartCount": of_hands,
                        "state": {"running": {"startedAt": "2026-01-01T00:00:09Z"}},
                    },
                    {
                        "name": "etcd",
                        "restartCount": restarts,
                        "state": {state: {"startedAt": "2026-01-01T00:00:05Z"}},
                    },
                ],
            },
        }
    )


def reported(name: str, status: EtcdStatus) -> ReplicasReport:
    return report_of(pod(name), status_of(status), group=group_of("z", "etcd"), pods=PODS)


def seen(*statuses: EtcdStatus | None) -> ClusterView:
    nodes = [
        NodeView(
            pod=pod(name),
            report=reported(name, status) if status else None,
        )
        for name, status in zip(PODS, statuses, strict=True)
    ]
    keys = [KeysView(zone="z", partition=0, stable=tuple(PODS))]
    return assemble(at_ns=0, began_ns=0, nodes=nodes, keys=keys)


def status(member: int, leader: int, term: int, revision: int = 5) -> EtcdStatus:
    header = Header(member_id=member, revision=revision, raft_term=term)
    return EtcdStatus(header=header, leader=leader, raft_term=term)


def test_a_leader_that_all_members_name_settles_the_group() -> None:
    view = seen(status(1, 2, 3), status(2, 2, 3), status(3, 2, 3))
    assert unsettled(view) == []
    partition = view.partitions["z", 0]
    assert (partition.leader, partition.term) == ("zq-etcd-default-1", 3)
    assert {replica.applied for replica in partition.replicas.values()} == {5}


def test_of_two_that_believe_to_lead_the_one_of_the_higher_term_does() -> None:
    view = seen(status(1, 1, 3), status(2, 2, 4), status(3, 2, 4))
    assert view.partitions["z", 0].leader == "zq-etcd-default-1"


def test_without_a_leader_or_with_a_silent_member_it_is_unsettled() -> None:
    assert unsettled(seen(status(1, 0, 3), status(2, 0, 3), status(3, 0, 3))) != []
    assert unsettled(seen(status(1, 2, 3), status(2, 2, 3), None)) != []


def test_commands_run_beside_it_and_its_start_is_that_of_its_own_container() -> None:
    found = pod("zq-etcd-default-0", restarts=2)
    assert (found.container, found.program) == ("hands", "etcd")
    assert found.process == "uid-zq-etcd-default-0/2"
    assert found.started_wall_ns == 1767225605 * 10**9


def test_a_restart_of_the_container_beside_it_is_none_of_the_member() -> None:
    before, after = pod("zq-etcd-default-0"), pod("zq-etcd-default-0", of_hands=1)
    assert (after.process, after.restarts) == (before.process, 0)
    assert [pod("m", state=state).runs for state in ("running", "waiting", "terminated")] == [
        True,
        False,
        False,
    ]
