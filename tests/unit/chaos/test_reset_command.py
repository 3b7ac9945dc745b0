"""What `zonequake reset` shows before it asks."""

from __future__ import annotations

from zonequake_chaos.reset_command import prove
from zonequake_operator.model import (
    AssignmentSet,
    Departure,
    Partition,
    PartitionKeys,
    PartitionView,
    TokenPeers,
    Topology,
    TopologyNode,
)


def topology(alive: str, gone: str) -> Topology:
    nodes = {
        name: TopologyNode(
            name=name,
            process_incarnation="p",
            storage_incarnation="s",
            pod_uid="u",
            restarts=0,
            attributes={},
            peer_address="",
            since=3,
        )
        for name in alive
    }
    return Topology(version=9, nodes=nodes, departed={n: Departure(since=3, left=8) for n in gone})


def partition(
    stable: str, leader: str | None = None, pending: AssignmentSet | None = None
) -> Partition:
    return Partition(
        number=4,
        resource_version="1",
        keys=PartitionKeys(
            stable=AssignmentSet.of(*stable),
            pending=pending,
            bootstrap=TokenPeers(token=1, peers=()),
        ),
        view=PartitionView(leader=leader),
    )


def test_the_proof_names_who_is_there_and_who_has_left() -> None:
    proof = prove(partition("ABC"), topology("A", "BC"))
    assert proof.lines() == [
        "partition 4: stable A, B, C",
        "  A is in the topology since version 3",
        "  B has left with version 8",
        "  C has left with version 8",
        "  goes on from the newest data of A; what that lacks is given up",
    ]


def test_what_may_still_have_a_majority_is_refused() -> None:
    silent = prove(partition("ABC"), topology("AB", "C"))
    assert silent.refused == "its majority has not left; a node that doesn't answer may still run"
    assert "  not reset: " + silent.refused in silent.lines()
    assert prove(partition("ABC", leader="A"), topology("A", "BC")).refused == "A leads it"
    assert prove(partition("ABC"), topology("X", "ABC")).refused == "none of its nodes is there"


def test_a_running_reset_is_not_asked_for_again_while_its_node_is_there() -> None:
    running = partition("ABC", pending=AssignmentSet(nodes=("A",), force=True))
    assert prove(running, topology("A", "BC")).refused == "a reset to A is under way"
    assert prove(running, topology("B", "AC")).refused is None
