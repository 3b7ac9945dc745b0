"""The assignments chain (document `high-availability`, "Chain of assignments")."""

from __future__ import annotations

import msgspec
import pytest

from zonequake_operator.high_availability import chain
from zonequake_operator.resources.model import AssignmentSet, AssignmentsLink, PartitionKeys
from zonequake_protocol.admin import ConfigurationReport, PeerName, ReplicaRole, ReplicaStatus

ABC = AssignmentsLink(nodes=("A", "B", "C"), term=1, index=7)
A = AssignmentsLink(nodes=("A",), term=5_000_000_002, index=41, token=5)


def leading(
    *nodes: str, term: int, index: int, applied: int = 0, last: tuple[int, int] = (0, 0)
) -> ReplicaStatus:
    return ReplicaStatus(
        group="z.12345678.0",
        zone="z",
        partition=0,
        incarnation="1",
        role=ReplicaRole.LEADER,
        term=term,
        configuration=ConfigurationReport(
            peers=[PeerName(node, "1") for node in nodes], token=3, index=index
        ),
        applied=applied,
        last_configuration_term=last[0],
        last_configuration_index=last[1],
    )


def switched(
    pending: AssignmentSet, *before: AssignmentsLink, leader: ReplicaStatus | None = None
) -> tuple[AssignmentsLink, ...]:
    keys = PartitionKeys(pending=pending, chain=before)
    report = leader or leading(*pending.nodes, term=9, index=60)
    return chain.after_switch(keys, pending, AssignmentSet(nodes=pending.nodes), report)


def test_a_graceful_change_leaves_a_chain_of_one_link() -> None:
    after = switched(AssignmentSet.of("B", "C", "D"), ABC, A)
    assert after == (AssignmentsLink(nodes=("B", "C", "D"), term=9, index=60, token=5),)


def test_a_forced_set_is_added_as_the_last_link() -> None:
    after = switched(AssignmentSet(nodes=("C",), force=True), ABC)
    assert after == (ABC, AssignmentsLink(nodes=("C",), term=9, index=60, token=3))


def test_the_second_phase_of_a_reset_replaces_the_last_link() -> None:
    after = switched(AssignmentSet(nodes=("A", "B"), from_reset=True), ABC, A)
    assert [(link.nodes, link.term, link.index) for link in after] == [
        (("A", "B", "C"), 1, 7),
        (("A", "B"), 9, 60),
    ]
    assert after[-1].token == 5, "of the reset that the link goes back to"
    assert after[-1].since == (5_000_000_002, 41), "where that reset stood"


def test_a_second_phase_that_shrinks_keeps_what_was_written_since_the_reset() -> None:
    grown = switched(AssignmentSet(nodes=("A", "B"), from_reset=True), ABC, A)
    shrunk = switched(AssignmentSet(nodes=("A",), from_reset=True), *grown)
    assert [link.nodes for link in shrunk] == [("A", "B", "C"), ("A",)]
    assert shrunk[-1].since == (5_000_000_002, 41)


def restarted(*nodes: str, count: int) -> tuple[AssignmentsLink, ...]:
    """The links of a whole group that was stopped and unwound `count` times."""
    return tuple(
        AssignmentsLink(nodes=nodes, term=n * 1_000_000_000 + 2, index=40 + n, token=n)
        for n in range(6, 6 + count)
    )


def holds(user: tuple[int, int]) -> ReplicaStatus:
    told = leading("A", term=99_000_000_002, index=99)
    return msgspec.structs.replace(told, last_user_term=user[0], last_user_index=user[1])


def test_a_chain_is_the_documents_until_it_is_longer_than_ordinary_life_makes_it() -> None:
    before = (ABC, A, *restarted("A", count=chain.MAX_LINKS - 3))
    after = switched(AssignmentSet(nodes=("A",), force=True), *before)
    assert (after[:-1], len(after)) == (before, chain.MAX_LINKS)


def test_a_survivor_that_restarts_again_and_again_makes_no_endless_chain() -> None:
    links: tuple[AssignmentsLink, ...] = (ABC,)
    for restart in range(5, 2_000):
        alone = leading("A", term=restart * 1_000_000_000 + 2, index=40 + restart)
        links = switched(AssignmentSet(nodes=("A",), force=True), *links, leader=alone)
        assert len(links) <= chain.MAX_LINKS
    assert links[0] == ABC, "A is no majority of it: B and C may hold more"
    assert links[1].since == (5_000_000_002, 45), "all that was written under A counts"


def test_a_group_that_is_whole_again_and_restarts_again_and_again_makes_no_endless_chain() -> None:
    links: tuple[AssignmentsLink, ...] = (
        ABC,
        AssignmentsLink(nodes=("C",), term=5_000_000_002, index=9, token=5),
    )
    for restart in range(6, 2_000):
        term = restart * 1_000_000_000 + 2
        alone = leading("A", term=term, index=40 + restart)
        links = switched(AssignmentSet(nodes=("A",), force=True), *links, leader=alone)
        together = leading("A", "B", "C", term=term, index=41 + restart)
        whole = AssignmentSet(nodes=("A", "B", "C"), from_reset=True)
        links = switched(whole, *links, leader=together)
        assert len(links) <= chain.MAX_LINKS


def test_a_link_of_which_the_newest_holds_no_majority_stays_with_all_before_it() -> None:
    other = AssignmentsLink(nodes=("C", "D", "E"), term=5_000_000_002, index=9, token=5)
    before = (ABC, other, *restarted("A", "B", count=chain.MAX_LINKS - 2), A)
    after = switched(AssignmentSet(nodes=("A", "B"), from_reset=True), *before)
    assert after[:2] == (ABC, other)
    assert [link.nodes for link in after[2:]] == [("A", "B")]


@pytest.mark.parametrize("written", [(6_000_000_002, 47), (17_000_000_002, 90), (1, 3)])
def test_what_a_cut_chain_unwinds_to_is_what_the_whole_one_does(written: tuple[int, int]) -> None:
    """By the newest user entry of A, which may stand under the first of its links, under a later
    one, or be from before them all."""
    whole = (ABC, A, *restarted("A", count=chain.MAX_LINKS))
    cut = chain._without_superseded(whole)
    assert len(cut) == 2
    reported: dict[str, ReplicaStatus | None] = {"A": holds(written), "B": holds((1, 9))}
    found = [chain.unwind(links, reported) for links in (whole, cut)]
    sources = [each.source for each in found if isinstance(each, chain.UnwoundChain)]
    assert sources == (["B", "B"] if written == (1, 3) else ["A", "A"])
    alone = [chain.unwind(links, {"A": holds(written)}) for links in (whole, cut)]
    assert [type(each) for each in alone] == [type(alone[0])] * 2


def test_a_partition_without_a_chain_begins_one_with_whatever_it_switches_to() -> None:
    link = AssignmentsLink(nodes=("A",), term=9, index=60)
    assert switched(AssignmentSet(nodes=("A",), force=True)) == (
        msgspec.structs.replace(link, token=3),
    )
    assert switched(AssignmentSet(nodes=("A",), from_reset=True)) == (link,)
    assert switched(AssignmentSet(nodes=("A",))) == (link,)


def test_a_link_stands_where_its_peers_changed_and_not_where_a_later_leader_repeated_them() -> None:
    # Applied at (8, 50); a user command came at (8, 55); the leader of term 9 repeated it at 60.
    repeated = leading("A", "B", term=9, index=60, applied=61, last=(8, 50))
    after = switched(AssignmentSet.of("A", "B"), leader=repeated)
    assert after == (AssignmentsLink(nodes=("A", "B"), term=8, index=50),)


def test_what_is_not_applied_yet_says_nothing_about_where_the_new_peers_stand() -> None:
    # lastCfgIdx is still that of the configuration before.
    behind = leading("A", "B", term=9, index=60, applied=59, last=(8, 50))
    after = switched(AssignmentSet.of("A", "B"), leader=behind)
    assert after == (AssignmentsLink(nodes=("A", "B"), term=9, index=60),)
