"""Of a partition without a leader a run records what each node has of it, for the analysis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.unit.chaos.conftest import pod, report
from zonequake_analysis.inputs.run_folder import RecordedEvent, read_events
from zonequake_analysis.measures.lost_groups import lost_groups
from zonequake_chaos.observe.view import NodeView, assemble
from zonequake_chaos.record.clock import SystemClock
from zonequake_chaos.record.event_log import EventLog
from zonequake_kube.objects import KeysView
from zonequake_protocol.admin import ReplicaRole, ReplicaStatus
from zonequake_target_store.replicas import record_leaderless

NODES = ("a", "b", "c")


def replica(partition: int, role: ReplicaRole, *, lost: bool = False) -> ReplicaStatus:
    return ReplicaStatus(
        group=f"z.0.{partition}",
        zone="z",
        partition=partition,
        incarnation="0",
        role=role,
        term=1,
        broken_reason="a short log" if lost else None,
        lost=lost,
    )


def recorded(
    tmp_path: Path, replicas: Sequence[ReplicaStatus], *, silent: str = "", known: bool = True
) -> list[RecordedEvent]:
    """The events of a run whose nodes all have these replicas."""
    nodes = [
        NodeView(pod=pod(name), report=None if name == silent else report(name, list(replicas)))
        for name in NODES
    ]
    keys = [KeysView(zone="z", partition=number, stable=NODES) for number in range(2)]
    view = assemble(at_ns=0, began_ns=0, nodes=nodes, keys=keys if known else [])
    with EventLog(tmp_path / "events.jsonl", SystemClock()) as events:
        events.emit("partition.changed", {"stable": NODES}, place=("z", 0))
        record_leaderless(view, events)
    found, bad = read_events(tmp_path)
    assert not bad
    return found


BROKEN = replica(0, ReplicaRole.BROKEN, lost=True)
LED = replica(1, ReplicaRole.LEADER)


def test_what_the_nodes_said_is_read_by_the_analysis(tmp_path: Path) -> None:
    events = recorded(tmp_path, [BROKEN, LED])
    assert [(one.kind, one.partition) for one in events[1:]] == [("replicas.seen", 0)]
    assert events[1].data["replicas"] == {
        node: {
            "process_incarnation": "p1",
            "role": "broken",
            "lost": True,
            "reason": "a short log",
        }
        for node in NODES
    }
    (group,) = lost_groups(events, frozenset()).values()
    assert group.said == dict.fromkeys(NODES, "a short log")


def test_a_silent_node_is_left_out_and_one_without_a_replica_says_so(tmp_path: Path) -> None:
    events = recorded(tmp_path, [LED], silent="b")
    replicas = events[1].data["replicas"]
    assert isinstance(replicas, dict)
    assert {node: one["role"] for node, one in replicas.items()} == {"a": None, "c": None}
    assert lost_groups(events, frozenset()) == {}


def test_a_replica_of_no_known_partition_is_not_recorded(tmp_path: Path) -> None:
    assert len(recorded(tmp_path, [BROKEN, LED], known=False)) == 1
