"""What `zonequake reset` shows before it asks."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from tests.unit.made_up_nodes import topology_node
from zonequake_ctl import reset
from zonequake_ctl.reset import UNFINISHED
from zonequake_ctl.reset_by_hand import request, wait
from zonequake_ctl.reset_proof import MajorityReport
from zonequake_ctl.reset_proof import prove as proved
from zonequake_kube.client import Kube
from zonequake_kube.errors import UsageError
from zonequake_kube.objects import Json
from zonequake_operator.groups.reports import observe
from zonequake_operator.high_availability.reset import ReplicaHolders
from zonequake_operator.resources.model import (
    AssignmentSet,
    AssignmentsLink,
    Departure,
    Partition,
    PartitionKeys,
    PartitionStatus,
    ResetRequest,
    TokenPeers,
    Topology,
)
from zonequake_protocol.admin import ConfigurationReport, PeerName, ReplicaRole, ReplicaStatus

UID = "12345678"
ZONE: Json = {
    "metadata": {"name": "z", "namespace": "n", "uid": UID, "resourceVersion": "1"},
    "spec": {},
}
PARTITION: Json = {
    "metadata": {
        "name": "z-0",
        "resourceVersion": "1",
        "ownerReferences": [{"controller": True, "uid": UID}],
    },
    "spec": {"zone": "z", "partition": 0, "group": "z.12345678.0"},
    "status": {"configurationToken": 7},
}


def topology(alive: str, gone: str) -> Topology:
    nodes = {name: topology_node(name, since=3) for name in alive}
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
        view=PartitionStatus(leader=leader),
    )


def prove(
    partition: Partition,
    topology: Topology,
    survivor: str | None = None,
    **replicas: ReplicaStatus | None,
) -> MajorityReport:
    """`replicas`: what nodes answered; None: that they have none of it."""
    found = {node: replica for node, replica in replicas.items() if replica is not None}
    answered = frozenset(replicas)
    group = observe("z.12345678.4", found, answered)
    holders = ReplicaHolders(group=group, topology=topology, answered=answered, inspected={})
    return proved(partition, holders, survivor)


def replica(role: ReplicaRole = ReplicaRole.FOLLOWER, **changes: object) -> ReplicaStatus:
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
    broken = replica(ReplicaRole.BROKEN, broken_reason="a page is torn")
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
    leads = replica(ReplicaRole.LEADER, leader="B", term=2)
    seen = prove(partition("ABC", leader="A"), topology("AB", "C"), A=replica(), B=leads)
    assert seen.refused == "B leads it"


@pytest.mark.parametrize(
    ("status", "reason", "said"),
    [("False", "LossTolerated", ""), ("True", "MajorityLost", " It waits for B.")],
)
async def test_only_a_condition_that_is_not_well_says_why_a_reset_is_not_carried_out(
    capsys: pytest.CaptureFixture[str],
    status: str,
    reason: str,
    said: str,
) -> None:
    condition = {"type": "DataAtRisk", "status": status, "reason": reason}
    stored = {"status": {"conditions": [{**condition, "message": "It waits for B."}]}}

    class Stored:
        async def get(self, kind: str, name: str) -> Json:
            return {**ZONE, **stored}

        async def find(self, kind: str) -> list[Json]:
            return [PARTITION]

    requests = {0: ResetRequest(token=7, topology_version=1)}
    kube = cast("Kube", Stored())
    assert await reset._wait(kube, "z", UID, requests, 0) == UNFINISHED
    assert capsys.readouterr().out == f"not carried out yet: partition 0.{said}\n"


async def test_a_paused_zone_says_why_a_reset_is_not_carried_out() -> None:
    """It waits until the zone is resumed, and nothing else would say so."""
    paused = {"type": "Paused", "status": "True", "reason": "PausedBySpec", "message": "Paused."}

    class Stored:
        async def get(self, kind: str, name: str) -> Json:
            return {**ZONE, "status": {"conditions": [paused]}}

        async def find(self, kind: str) -> list[Json]:
            return [PARTITION]

    requests = {0: ResetRequest(token=7, topology_version=1)}
    assert (await wait(cast("Kube", Stored()), "z", UID, requests, 0)).said == ("Paused.",)


async def test_a_partition_that_went_with_its_zone_is_not_waited_for() -> None:
    class Stored:
        async def get(self, kind: str, name: str) -> Json:
            return ZONE

        async def find(self, kind: str) -> list[Json]:
            return []

    requests = {0: ResetRequest(token=7, topology_version=1)}
    assert (await wait(cast("Kube", Stored()), "z", UID, requests, 0)).lapsed == (0,)


# ---------------------------------------------------------------- a survivor that died uncopied

CHAIN = (
    AssignmentsLink(nodes=tuple("ABCDE"), term=1, index=1),
    AssignmentsLink(nodes=("A",), term=5_000_000_001, index=21, token=5),
)


def dead(**more: object) -> Partition:
    """A to E were reset to A, which has left; B to E hold what they had before."""
    made = partition("A", pending=AssignmentSet(nodes=tuple("ABCDE"), from_reset=True))
    keys = replace(made.keys, chain=CHAIN, configuration_token=6, **more)  # type: ignore[arg-type]
    return replace(made, keys=keys)


def old(index: int, **changes: object) -> ReplicaStatus:
    peers = [PeerName(node, "1") for node in "ABCDE"]
    values: dict[str, object] = {
        "configuration": ConfigurationReport(peers=peers, token=1, index=1),
        "last_term": 1,
        "last_index": index,
        "last_user_term": 1,
        "last_user_index": index,
        "abstains": True,
    }
    return replica(**{**values, **changes})  # type: ignore[arg-type]


def test_holders_of_older_lineages_are_listed_with_what_each_would_give_up() -> None:
    proof = prove(dead(), topology("BCD", "A"), B=old(18), C=old(20), D=old(20))
    since = (
        "gives up all that was written since the reset to A: lineage 5, after term 1, index 21 "
        "(lineage 5)"
    )
    assert proof.lines() == [
        "partition 4: stable A",
        "  A has left with version 8",
        "  no node that is there has its newest data",
        "    C holds term 1, index 20, a log up to term 1, index 20, lineage 0",
        f"      {since}",
        "    D holds term 1, index 20, a log up to term 1, index 20, lineage 0",
        f"      {since}",
        "    B holds term 1, index 18, a log up to term 1, index 18, lineage 0",
        f"      {since}",
        "      gives up user entries up to term 1, index 20, held by C, D",
        "  goes on from C; --survivor NODE chooses",
    ]
    assert proof.survivor is not None
    assert proof.survivor.peer == PeerName("C", "1")


def test_a_person_chooses_among_all_holders() -> None:
    chosen = prove(dead(), topology("BC", "A"), "B", B=old(18), C=old(20))
    assert chosen.survivor is not None
    assert chosen.survivor.peer.node == "B"
    assert chosen.lines()[-1] == "  goes on from B; --survivor NODE chooses"
    nothing = prove(dead(), topology("BC", "A"), "C", B=old(18), C=None)
    assert nothing.refused == "C holds nothing of it, or can't be asked"
    # Also where the operator could choose by itself.
    both = prove(partition("ABC"), topology("A", "BC"), "A", A=replica())
    assert both.survivor is not None
    assert both.holders == ("A",)
    assert prove(partition("ABC"), topology("A", "BC"), A=replica()).survivor is None


def test_who_lacks_nothing_that_is_known_gives_up_what_only_absent_nodes_have() -> None:
    alone = prove(partition("ABC"), topology("A", "BC"), "A", A=replica())
    assert [choice.given_up for choice in alone.choices] == [
        ("what only nodes that are away have",)
    ]
    whole = prove(partition("ABC"), topology("ABC", ""), "A", **dict.fromkeys("ABC", replica()))
    assert {choice.given_up for choice in whole.choices} == {()}
    assert "      gives up nothing that is known" in [
        f"    {line}" for choice in whole.choices for line in choice.lines()
    ]


def test_who_goes_on_in_place_of_a_chosen_survivor_gives_up_what_that_one_may_have_taken() -> None:
    forced = partition("ABC", pending=AssignmentSet(nodes=("A",), force=True))
    keys = replace(forced.keys, configuration_token=6)
    proof = prove(replace(forced, keys=keys), topology("B", "AC"), "B", B=replica())
    (choice,) = proof.choices
    assert choice.peer.node == "B"
    assert "what A may have taken since it was chosen to go on alone" in choice.given_up


def test_a_choice_is_shown_only_where_the_majority_has_left() -> None:
    there = prove(dead(), topology("ABC", ""), B=old(18), C=old(20))
    assert there.refused == "its majority has not left; a node that doesn't answer may still run"


def test_a_chain_that_waits_can_be_reset_though_its_newest_set_is_there() -> None:
    keys = replace(partition("A").keys, chain=CHAIN, configuration_token=6, stopped_token=6)
    stopped = replace(partition("A"), keys=keys)
    alone = ConfigurationReport(peers=[PeerName("A", "1")], token=5, lineage=5, index=21)
    unled = replica(configuration=alone, last_user_term=1, last_user_index=9)
    proof = prove(stopped, topology("A", "BCDE"), A=unled)
    assert proof.refused is None
    assert (proof.holders, proof.survivor) == (("A",), None)


def test_a_reset_of_before_the_stop_is_none_that_is_under_way() -> None:
    forced = partition("ABC", pending=AssignmentSet(nodes=("A",), force=True))
    keys = replace(forced.keys, chain=CHAIN, configuration_token=6, stopped_token=6)
    assert prove(replace(forced, keys=keys), topology("A", "BC"), A=replica()).refused is None


async def test_a_namesake_is_not_reset_by_the_proof_of_the_zone_before() -> None:
    """Its tokens begin where those of the first began, and people take their time to answer."""

    class Again:
        async def get(self, kind: str, name: str) -> Json:
            return {**ZONE, "metadata": {**ZONE["metadata"], "uid": "another"}}

        async def find(self, kind: str) -> list[Json]:
            owner = {"controller": True, "uid": "another"}
            metadata = {**PARTITION["metadata"], "ownerReferences": [owner]}
            return [{**PARTITION, "metadata": metadata}]

        async def patch(self, kind: str, name: str, change: Json) -> Json:
            raise AssertionError(change)

    kube = cast("Kube", Again())
    requests = {0: ResetRequest(token=7, topology_version=1)}
    with pytest.raises(UsageError, match="zone z was deleted and created again"):
        await request(kube, "z", UID, requests)
    assert (await wait(kube, "z", UID, requests, 0)).lapsed == (0,)
