"""The routing table: which of many reports about a leader counts."""

from __future__ import annotations

from zonequake_load.routing.routing_table import SUSPICION_NS, RoutingTable
from zonequake_protocol.client import PartitionRoute, RouteReply

A, B, C = "a:1", "b:1", "c:1"
NODES = {"na": A, "nb": B, "nc": C}


def report(leader: str | None, term: int, group: str = "z.1.0") -> RouteReply:
    name = next((name for name, address in NODES.items() if address == leader), None)
    route = PartitionRoute(0, group, ["na", "nb", "nc"], name, leader, term)
    return RouteReply("z", 1, [route], NODES)


def table(leader: str | None = A, term: int = 5) -> RoutingTable:
    known = RoutingTable("z")
    known.merge(report(leader, term), A, 0)
    return known


def test_a_higher_term_wins_and_a_lower_one_is_ignored() -> None:
    known = table()
    assert known.merge(report(B, 6), A, 0)
    assert not known.merge(report(A, 5), A, 0)
    assert known.leader(0) == B


def test_a_node_without_a_leader_changes_nothing() -> None:
    known = table()
    assert not known.merge(report(None, 9), A, 0)
    assert known.leader(0) == A
    assert known.merge(report(C, 6), A, 0)


def test_a_suspect_leader_is_not_brought_back_by_reports_of_its_own_term() -> None:
    known = table()
    known.suspect(0, A, now_ns=0)
    assert known.leader(0) is None
    assert not known.merge(report(A, 5), A, SUSPICION_NS - 1)
    assert known.leader(0) is None
    assert known.merge(report(A, 5), A, SUSPICION_NS)
    assert known.leader(0) == A


def test_a_suspect_leader_is_cleared_by_its_own_answer_or_a_new_term() -> None:
    known = table()
    known.suspect(0, A, now_ns=0)
    assert known.confirm(0, A, 5)
    assert known.leader(0) == A
    known.suspect(0, A, now_ns=0)
    assert known.merge(report(A, 6), A, 1)
    assert known.leader(0) == A


def test_suspicion_of_a_node_that_does_not_lead_is_void() -> None:
    known = table()
    known.suspect(0, B, now_ns=0)
    assert known.leader(0) == A


def test_a_hint_without_a_term_is_the_newest_word() -> None:
    known = table()
    assert known.hint(0, B, "nb", 0, now_ns=0)
    assert known.leader(0) == B
    assert not known.hint(0, C, "nc", 4, now_ns=0)
    assert known.leader(0) == B


def test_a_leader_without_address_is_found_by_its_name() -> None:
    known = table()
    route = PartitionRoute(0, "z.1.0", ["na"], "nb", None, 6)
    assert known.merge(RouteReply("z", 1, [route], {}), A, 0)
    assert known.leader(0) == B


def test_a_node_that_comes_back_with_another_address_keeps_its_name() -> None:
    known = table()
    known.merge(RouteReply("z", 1, [], {"na": "a:2"}), "a:2", 0)
    assert known.name_of("a:2") == "na"
    assert known.nodes["na"] == "a:2"
    assert known.name_of(A) == A


def test_another_group_is_taken_only_after_the_old_one_is_forgotten() -> None:
    known = table()
    assert not known.merge(report(B, 9, "z.2.0"), A, 0)
    known.forget(0, "z.1.0")
    assert known.merge(report(B, 1, "z.2.0"), A, 0)
    assert (known.group(0), known.leader(0)) == ("z.2.0", B)


def test_turns_go_through_all_members() -> None:
    known = table(None)
    assert {known.member(0, turn) for turn in range(3)} == {A, B, C}


def test_a_node_whose_address_no_other_names_is_asked_where_it_answered() -> None:
    known = RoutingTable("z")
    known.merge(RouteReply("z", 1, [PartitionRoute(0, "z.1.0", ["na"], "na", None, 1)], {}), A, 0)
    assert (known.leader(0), known.member(0, 3)) == (None, A)
    assert known.confirm(0, A, 1)
    assert known.leader(0) == A
