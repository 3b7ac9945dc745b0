"""The in-memory switch (`in-memory-reconfiguration`; design §3, holes 5 and 13), by its rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.operator.small_group import (
    EVERYONE,
    GROUP,
    SETTINGS,
    group,
    keys,
    of,
    peer,
    peers,
    replica,
    shown,
    wish,
)
from zonequake_operator.groups.reports import Group, observe
from zonequake_operator.rebalance.key_changes import decide
from zonequake_operator.rebalance.orders import hosts, orders
from zonequake_operator.rebalance.volatile_switch import on_rebalance_done
from zonequake_operator.resources.model import PartitionKeys, StorageKind, TokenPeers
from zonequake_protocol.admin import (
    Bootstrap,
    ChangePeers,
    ConfigurationReport,
    ReplicaRole,
    Stage,
    StopReplica,
)

# ------------------------------------------------------------------------- On partition restart


def test_a_replica_that_came_back_with_nothing_leaves_its_group_first() -> None:
    after = decide(keys("ABC"), group("ABC", absent="C"), wish("ABC"), EVERYONE)
    assert shown(after) == ("ABC", "AB", "", "C", "")
    assert after.change_trigger_revision == 7
    later = replace(keys("ABC"), change_trigger_revision=9)
    again = decide(later, group("ABC", absent="C"), wish("ABC"), EVERYONE)
    assert again.change_trigger_revision == 9, "it never falls"
    assert hosts(after) == frozenset("AB"), "do not start the corresponding server"


def test_one_that_runs_under_another_incarnation_has_nothing_either() -> None:
    after = decide(keys("ABC"), group("ABC", reborn="C"), wish("ABC"), EVERYONE)
    assert shown(after) == ("ABC", "AB", "", "C", "")


def test_a_node_that_says_nothing_has_lost_nothing() -> None:
    silent = group("ABC", absent="C", answered=EVERYONE - {"C"})
    assert decide(keys("ABC"), silent, wish("ABC"), EVERYONE) == keys("ABC")


def test_without_a_majority_nothing_is_written_and_no_node_starts() -> None:
    left = group("ABC", absent="BC")
    assert not left.confirmed
    assert decide(keys("ABC"), left, wish("ABC"), EVERYONE) == keys("ABC")
    told = orders(keys("ABC"), left, SETTINGS, alive=EVERYONE, reachable=EVERYONE)
    assert told == []


@pytest.mark.parametrize(
    ("name", "found", "reduce"),
    [
        ("a newcomer that nobody counts yet", group("ABC", also="D", absent="D"), ""),
        ("one of the new half", group("ABCD", old="ABC", absent="D"), "D"),
        ("one of the old half", group("ABD", old="ABC", absent="C"), "C"),
    ],
)
def test_only_who_is_counted_is_written_to_switch_reduce(
    name: str, found: Group, reduce: str
) -> None:
    before = keys("ABC", "ABCD" if "new" in name else "ABD", lock=True)
    assert "".join(decide(before, found, wish("ABC"), EVERYONE).switch_reduce) == reduce, name


def test_a_forced_pending_has_no_node_to_reduce() -> None:
    before = keys("ABC", of("A", force=True))
    found = group("A", token=5, absent="C", also="B")
    assert decide(before, found, wish("ABC"), EVERYONE).switch_reduce == ()


# ---------------------------------------------------------------------------- On rebalance done


@pytest.mark.parametrize(
    ("name", "before", "applied", "calculated", "after"),
    [
        ("nothing was lost", keys("ABC", "ABD"), "ABD", "ABD", ("", "", "")),
        (
            "C was reduced and comes back",
            keys("ABC", "AB", reduce="C"),
            "AB",
            "ABC",
            ("ABC", "", "C"),
        ),
        ("C came back", keys("AB", "ABC", append="C"), "ABC", "ABC", ("", "", "")),
        ("C is reduced next", keys("ABC", "ABCD", reduce="C"), "ABCD", "ABCD", ("ABD", "C", "")),
        ("C isn't wanted any more", keys("ABC", "AB", reduce="C"), "AB", "AB", ("", "", "")),
        (
            "coming back drops who isn't wanted",
            keys("ABC", "AB", reduce="C"),
            "AB",
            "BC",
            ("BC", "", "C"),
        ),
        (
            "lost again while coming back",
            keys("AB", "ABC", reduce="C", append="C"),
            "ABC",
            "ABC",
            ("AB", "C", ""),
        ),
        (
            "one back, another lost",
            keys("AB", "ABC", reduce="B", append="C"),
            "ABC",
            "ABC",
            ("AC", "B", ""),
        ),
        (
            "another one was to come back, too",
            keys("ABC", "AB", reduce="C", append="D"),
            "AB",
            "ABCD",
            ("ABCD", "", "CD"),
        ),
        ("two lost", keys("ABCDE", "ABC", reduce="DE"), "ABC", "ABCDE", ("ABCDE", "", "DE")),
        (
            "append first, reduce keeps",
            keys("ABCDE", "ABCD", reduce="DE"),
            "ABCD",
            "ABCDE",
            ("ABCDE", "D", "E"),
        ),
        (
            "no data nodes: everybody comes back",
            keys("ABC", "AB", reduce="C"),
            "AB",
            None,
            ("ABC", "", "C"),
        ),
        (
            "a reset's survivor is alone",
            keys("ABC", of("A", force=True), reduce="C"),
            "A",
            "ABC",
            ("", "", ""),
        ),
    ],
)
def test_both_switch_keys_are_written_in_every_branch(
    name: str,
    before: PartitionKeys,
    applied: str,
    calculated: str | None,
    after: tuple[str, str, str],
) -> None:
    stable = of(applied)
    assert stable is not None
    done = on_rebalance_done(before, stable, of(calculated))
    pending = "".join(done.pending.nodes) if done.pending else ""
    found = (pending, "".join(done.switch_reduce), "".join(done.switch_append))
    assert found == after, name


def test_a_switch_goes_before_planned() -> None:
    before = keys("ABC", "AB", "ABD", reduce="C", lock=True)
    after = decide(before, group("AB", token=5, absent="C"), wish("ABC"), EVERYONE)
    assert shown(after) == ("AB", "ABC", "ABD", "", "C")
    assert after.pending_lock is None


def test_the_documents_example() -> None:
    """[A, B, C] on its way to [A, B, C, D] past the point of no return; C fails and returns."""
    ways = [keys("ABC", "ABCD", lock=True)]
    reports = [
        group("ABCD", old="ABC", token=5, absent="C", stage=Stage.JOINT),
        group("ABCD", token=5, absent="C"),
        group("ABD", token=6, absent="C"),
        group("ABCD", token=7),
    ]
    for report in reports:
        ways.append(decide(ways[-1], report, wish("ABCD"), EVERYONE))
    assert [shown(way) for way in ways[1:]] == [
        ("ABC", "ABCD", "", "C", ""),
        ("ABCD", "ABD", "", "C", ""),
        ("ABD", "ABCD", "", "", "C"),
        ("ABCD", "", "", "", ""),
    ]


def locked_while_b_is_lost(**how: object) -> tuple[PartitionKeys, Group]:
    """A has caught up [A, B], which is locked, and waits for its grant."""
    before = replace(keys("ABC", "AB"), pending_lock=TokenPeers(token=5, peers=tuple(peers("AB"))))
    waiting = {"stage": Stage.CATCHING_UP, "stage_token": 5, "caught_up": True}
    return before, group("ABC", stage_peers=peers("AB"), **waiting, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("lost", [{"absent": "B"}, {"reborn": "B"}])
def test_a_lock_whose_peers_lost_their_majority_for_good_is_let_go(lost: dict[str, str]) -> None:
    before, found = locked_while_b_is_lost(**lost)
    after = decide(before, found, wish("AB"), EVERYONE)
    assert shown(after) == ("ABC", "A", "", "B", "")
    assert after.pending_lock is None
    assert after.configuration_token > before.configuration_token, "shuts out a late grant"
    told = orders(after, found, SETTINGS, alive=EVERYONE, reachable=EVERYONE)
    assert [order.peers for _, order in told if isinstance(order, ChangePeers)] == [peers("A")]


def test_a_lock_whose_peers_are_silent_stays() -> None:
    before, found = locked_while_b_is_lost(absent="B", answered=EVERYONE - {"B"})
    assert decide(before, found, wish("AB"), EVERYONE) == before


# ------------------------------------------------------------------------- Full partition restart


def empty(answered: str) -> Group:
    return observe(GROUP, {}, frozenset(answered))


def test_a_full_partition_restart_begins_anew_and_says_so_in_its_keys() -> None:
    before = keys("ABC", "AB", "ABD", reduce="C", append="E")
    after = decide(before, empty("ABC"), wish("ABC"), EVERYONE)
    assert shown(after) == ("ABC", "", "", "", "")
    assert after.bootstrap is None
    assert after.bootstrap_lineage == after.configuration_token == 6
    told = orders(after, empty("ABC"), SETTINGS, alive=EVERYONE, reachable=EVERYONE)
    assert [node for node, _ in told] == ["A", "B", "C"]
    fresh = observe(GROUP, {n: replica(n, 2, term=0, leader=None, token=6) for n in "ABC"})
    decided = decide(after, fresh, wish("ABC"), EVERYONE)
    assert decided.bootstrap == TokenPeers(token=6, peers=tuple(peer(n, 2) for n in "ABC"))
    told = orders(decided, fresh, SETTINGS, alive=EVERYONE, reachable=EVERYONE)
    assert [order for _, order in told if isinstance(order, Bootstrap) and order.lineage == 6]


@pytest.mark.parametrize(
    ("name", "found", "storage"),
    [
        ("one hasn't said anything yet", empty("AB"), StorageKind.VOLATILE),
        ("files may still be somewhere", empty("ABC"), StorageKind.PERSISTENT),
    ],
)
def test_no_other_restart_begins_anew(name: str, found: Group, storage: StorageKind) -> None:
    asked = replace(wish("ABC"), storage=storage)
    assert decide(keys("ABC"), found, asked, EVERYONE) == keys("ABC"), name
    told = orders(keys("ABC"), found, SETTINGS, alive=EVERYONE, reachable=found.answered)
    assert told == [], "no node starts with nothing while others may hold the data"


@pytest.mark.parametrize("role", [ReplicaRole.WAITING, ReplicaRole.BROKEN])
def test_a_replica_that_does_not_run_shows_nothing_and_is_not_known_to_be_empty(
    role: ReplicaRole,
) -> None:
    found = observe(GROUP, {"C": replica("C", 2, role=role, leader=None)}, EVERYONE)
    assert decide(keys("ABC"), found, wish("ABC"), EVERYONE) == keys("ABC")
    fresh = observe(GROUP, {"C": replica("C", 2, leader=None)}, EVERYONE)
    assert decide(keys("ABC"), fresh, wish("ABC"), EVERYONE).bootstrap is None


def test_no_node_starts_over_beside_a_leader_without_followers_that_does_not_know_it_yet() -> None:
    """C has the majority of [C, D, E] no more; until it steps down it may answer its clients."""
    moved = ConfigurationReport(peers=peers("CDE"), token=5, index=9)
    leads = replica("C", role=ReplicaRole.LEADER, configuration=moved, leader="C")
    before = keys("AB", "CDE", lock=True)
    found = observe(GROUP, {"C": leads}, EVERYONE)
    assert decide(before, found, wish("CDE"), EVERYONE).bootstrap == before.bootstrap
    stepped_down = replace(found, replicas={"C": replica("C", configuration=moved, leader=None)})
    stepped_down = replace(stepped_down, leader=None)
    assert decide(before, stepped_down, wish("CDE"), EVERYONE).bootstrap is None


def test_a_group_that_left_its_stable_members_may_still_be_led() -> None:
    moved = ConfigurationReport(peers=peers("CDE"), token=5, index=9)
    replicas = {n: replica(n, configuration=moved, leader=None) for n in "DE"}
    found = observe(GROUP, replicas, EVERYONE)
    before = keys("ABC", "CDE", lock=True)
    assert decide(before, found, wish("CDE"), EVERYONE) == before


def test_remains_elsewhere_are_erased_when_a_group_begins_anew() -> None:
    old = ConfigurationReport(peers=peers("ABD"), token=4, index=9)
    found = observe(GROUP, {"D": replica("D", configuration=old, leader=None)}, EVERYONE)
    after = decide(keys("ABC"), found, wish("ABC"), EVERYONE)
    assert after.bootstrap_lineage
    told = orders(after, found, SETTINGS, alive=EVERYONE, reachable=EVERYONE)
    assert [node for node, order in told if isinstance(order, StopReplica)] == ["D"]
