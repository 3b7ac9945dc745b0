"""What `zonequake reset` shows before it asks."""

from __future__ import annotations

from zonequake_chaos.reset_command import Proof
from zonequake_chaos.reset_command import prove as proved
from zonequake_operator.groups import observe
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
from zonequake_operator.reset import Holders
from zonequake_store.admin_protocol import (
    ConfigurationReport,
    PeerName,
    ReplicaStatus,
    Role,
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


def prove(partition: Partition, topology: Topology, **replicas: ReplicaStatus | None) -> Proof:
    """`replicas`: what nodes answered; None: that they have none of it."""
    found = {node: replica for node, replica in replicas.items() if replica is not None}
    answered = frozenset(replicas)
    group = observe("z.12345678.4", found, answered)
    holders = Holders(group=group, topology=topology, answered=answered, inspected={})
    return proved(partition, holders)


def replica(role: Role = Role.FOLLOWER, **changes: object) -> ReplicaStatus:
    peers = [PeerName(node, "1") for node in "ABC"]
    values: dict[str, object] = {
        "group": "z.12345678.4",
        "zone": "z",
        "partition": 4,
        "incarnation": "1",
        "role": role,
        "term": 1,
        "configuration": ConfigurationReport(peers=peers, token=1, index=1),
    }
    return ReplicaStatus(**{**values, **changes})  # type: ignore[arg-type]


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


def test_members_that_lost_their_data_are_no_majority_though_they_are_there() -> None:
    broken = replica(Role.BROKEN, broken_reason="a page is torn")
    proof = prove(partition("ABC", leader="A"), topology("ABC", ""), A=replica(), B=None, C=broken)
    assert proof.lines() == [
        "partition 4: stable A, B, C",
        "  A is in the topology since version 3",
        "  B is in the topology since version 3, but came back with nothing",
        "  C is in the topology since version 3, but its replica is broken: a page is torn",
        "  goes on from the newest data of A; what that lacks is given up",
    ]
    nobody = prove(partition("ABC"), topology("AB", "C"), A=None, B=None)
    assert nobody.refused == "none of its nodes that are there has its data any more"


def test_partitions_of_which_the_same_is_known_share_their_lines() -> None:
    proof = prove(partition("ABC"), topology("A", "BC"))
    assert proof.lines_for([4, 5, 6, 9])[0] == "4 partitions (4-6, 9): stable A, B, C"


def test_a_member_that_is_silent_counts_and_is_named() -> None:
    proof = prove(partition("ABC"), topology("ABC", ""), A=replica(), B=None)
    assert proof.refused == "its majority has not left; a node that doesn't answer may still run"
    assert "  C is in the topology since version 3, and doesn't answer" in proof.lines()


def test_who_leads_is_told_by_the_nodes_before_the_stored_view() -> None:
    leads = replica(Role.LEADER, leader="B", term=2)
    seen = prove(partition("ABC", leader="A"), topology("AB", "C"), A=replica(), B=leads)
    assert seen.refused == "B leads it"
