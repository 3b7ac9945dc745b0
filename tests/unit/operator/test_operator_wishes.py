"""What a wish does to a running change (`rebalance`; design §3, hole 13), by its rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.operator.small_group import (
    EVERYONE,
    GROUP,
    SETTINGS,
    C,
    Q,
    U,
    group,
    keys,
    of,
    peers,
    shown,
    wish,
)
from zonequake_operator.groups.reports import Group
from zonequake_operator.rebalance.key_changes import decide
from zonequake_operator.rebalance.orders import orders
from zonequake_operator.rebalance.volatile_switch import is_switch_step
from zonequake_operator.resources.model import (
    AssignmentsLink,
    ChangePeersMode,
    ConsistencyMode,
    PartitionKeys,
)
from zonequake_protocol.admin import CancelChangePeers, ReconfigurationStatus, Stage, StartReplica

# ---------------------------------------------------------------------------- Hole 13: who waits


@pytest.mark.parametrize("mode", [Q, U, C])
@pytest.mark.parametrize(
    ("name", "before", "wanted", "after"),
    [
        ("forced", keys("ABC", of("A", force=True)), "AB", ("ABC", "A", "AB", "", "")),
        ("fromReset", keys("A", of("AB", from_reset=True)), "ABC", ("A", "AB", "ABC", "", "")),
        ("reducing", keys("ABC", "AB", reduce="C"), "ABD", ("ABC", "AB", "ABD", "C", "")),
        ("appending", keys("AB", "ABC", append="C"), "ABD", ("AB", "ABC", "ABD", "", "C")),
        (
            "its forced node is gone",
            keys("ABC", of("X", force=True)),
            "AB",
            ("ABC", "X", "AB", "", ""),
        ),
        (
            "equal to a forced pending",
            keys("ABC", of("A", force=True), "AB"),
            "A",
            ("ABC", "A", "", "", ""),
        ),
        (
            "equal to a locked pending",
            keys("ABC", "ABD", "ABE", lock=True),
            "ABD",
            ("ABC", "ABD", "", "", ""),
        ),
        ("blocked by a dead newcomer", keys("ABC", "ABX", "E"), "ABD", ("ABC", "ABD", "", "", "")),
        (
            "blocked, and C was lost",
            keys("ABC", "ABX", reduce="C"),
            "BCD",
            ("ABC", "BD", "", "C", ""),
        ),
        (
            "blocked while coming back",
            keys("AB", "ABCX", append="CX"),
            "ABC",
            ("AB", "ABC", "", "", "C"),
        ),
        (
            "the lost one alone is wanted",
            keys("ABC", "ABX", reduce="C"),
            "C",
            ("ABC", "AB", "", "C", ""),
        ),
    ],
)
def test_what_a_wish_does_in_every_mode(
    name: str, mode: ChangePeersMode, before: PartitionKeys, wanted: str, after: tuple[str, ...]
) -> None:
    nobody = Group(name=GROUP, replicas={})
    found = decide(before, nobody, wish(wanted, due=True, mode=mode), EVERYONE)
    assert shown(found) == after, name


def test_an_ordinary_pending_during_which_a_replica_was_lost_is_no_switch_step() -> None:
    assert not is_switch_step(keys("ABC", "ABCD", reduce="C"))
    assert is_switch_step(keys("ABC", "ABD", reduce="C"))
    assert not is_switch_step(keys("ABC", reduce="C"))


def test_what_replaces_a_set_of_a_reset_and_adds_no_node_stays_one() -> None:
    nobody = Group(name=GROUP, replicas={})
    forced = keys("ABC", of("A", force=True), of("ABC", from_reset=True))
    same = decide(forced, nobody, wish("ABC", due=True), EVERYONE)
    assert same.planned == of("ABC", from_reset=True), "one equal to planned leaves its flag"
    fewer = decide(forced, nobody, wish("AB", due=True), EVERYONE)
    assert fewer.planned == of("AB", from_reset=True)
    other = decide(forced, nobody, wish("ABD", due=True), EVERYONE)
    assert other.planned == of("ABD")
    blocked = keys("A", of("ABX", from_reset=True))
    assert decide(blocked, nobody, wish("AB", due=True), EVERYONE).pending == of(
        "AB", from_reset=True
    )
    assert decide(blocked, nobody, wish("AD", due=True), EVERYONE).pending == of("AD")


def test_after_a_promoted_planned_the_partition_is_due_again() -> None:
    before = keys("ABC", "ABD", "ABE", lock=True)
    done = group("ABD", token=5)
    promoted = decide(before, done, wish("ABE"), EVERYONE)
    assert shown(promoted) == ("ABD", "ABE", "", "", "")
    assert promoted.configuration_token == 6, "an order of the change before may be under way"
    assert shown(decide(before, done, wish("BCD"), EVERYONE))[:3] == ("ABD", "ABE", "BCD")
    at_once = decide(before, done, wish("BCD", mode=U), EVERYONE)
    assert shown(at_once)[:3] == ("ABD", "BCD", "")


def test_nothing_is_recomputed_when_no_planned_was_promoted() -> None:
    before = keys("ABC", "ABD", lock=True)
    assert shown(decide(before, group("ABD", token=5), wish("ABE"), EVERYONE))[:3] == (
        "ABD",
        "",
        "",
    )


def test_after_the_last_phase_of_a_reset_the_partition_is_due_again() -> None:
    before = keys("A", of("AB", from_reset=True))
    after = decide(before, group("AB", token=5), wish("ABC"), EVERYONE)
    assert shown(after)[:3] == ("AB", "ABC", "")


def test_a_lost_replica_that_leaves_pending_no_majority_replaces_it() -> None:
    before = keys("ABC", "CD")
    after = decide(before, group("ABC", absent="C", also="D"), wish("CD"), EVERYONE)
    assert shown(after) == ("ABC", "D", "", "C", "")


def test_a_node_that_no_longer_counts_leaves_switch_reduce_with_the_lock() -> None:
    """C was lost while [A, B] → [A, B, C] was JOINT, and that was lost with its leader."""
    before = keys("AB", "ABC", reduce="C", lock=True)
    after = decide(before, group("AB", absent="C"), wish("ABC"), EVERYONE)
    assert after.pending_lock is None
    assert shown(after) == ("AB", "ABC", "", "", "")
    told = orders(after, group("AB", absent="C"), SETTINGS, alive=EVERYONE, reachable=EVERYONE)
    starts = [node for node, order in told if isinstance(order, StartReplica) and order.volatile]
    assert starts == ["C"]


def test_the_stable_switch_of_a_highly_available_partition_keeps_the_chain() -> None:
    before = replace(
        keys("ABC", of("A", force=True)),
        chain=(AssignmentsLink(nodes=tuple("ABC"), term=1, index=1),),
    )
    asked = replace(wish("ABC"), consistency_mode=ConsistencyMode.HIGH_AVAILABILITY)
    after = decide(before, group("A", token=5), asked, frozenset("A"))
    assert [link.nodes for link in after.chain] == [("A", "B", "C"), ("A",)]


def test_a_strongly_consistent_partition_begins_a_chain_with_its_first_reset_by_hand() -> None:
    graceful = decide(keys("AB", "ABC"), group("ABC", token=5), wish("ABC"), EVERYONE)
    assert shown(graceful)[0] == "ABC"
    assert graceful.chain == ()
    forced = keys("ABC", of("A", force=True))
    after = decide(forced, group("A", token=5), wish("ABC"), frozenset("A"))
    assert [(link.nodes, link.token) for link in after.chain] == [(("A",), 5)]


# ------------------------------------------------------------------ Approach 2: cancelChangePeers


def test_a_new_wish_cancels_the_running_change() -> None:
    running = group(
        "ABC", also="D", stage=Stage.CATCHING_UP, stage_token=5, stage_peers=peers("ABD")
    )
    waiting = decide(keys("ABC", "ABD"), running, wish("ABE", due=True, mode=C), EVERYONE)
    assert shown(waiting)[:3] == ("ABC", "ABD", "ABE")
    settings = replace(SETTINGS, mode=C)
    told = orders(waiting, running, settings, alive=EVERYONE, reachable=EVERYONE)
    assert told == [("A", CancelChangePeers(group=GROUP, term=3, token=5))]
    cancelled = group("ABC", also="D", reconfiguration_status=ReconfigurationStatus.CANCELLED)
    after = decide(waiting, cancelled, wish("ABE", mode=C), EVERYONE)
    assert shown(after)[:3] == ("ABC", "ABE", "")


@pytest.mark.parametrize(
    ("name", "before", "stage"),
    [
        ("its lock is taken", keys("ABC", "ABD", "ABE", lock=True), Stage.CATCHING_UP),
        ("it is past catching up", keys("ABC", "ABD", "ABE"), Stage.JOINT),
        ("it is a step of a switch", keys("AB", "ABC", "ABE", append="C"), Stage.CATCHING_UP),
        ("it is a reset's", keys("A", of("AB", from_reset=True), "ABE"), Stage.CATCHING_UP),
        ("nothing else is planned", keys("ABC", "ABD"), Stage.CATCHING_UP),
    ],
)
def test_a_change_is_not_cancelled(name: str, before: PartitionKeys, stage: Stage) -> None:
    running = group("ABC", also="D", stage=stage, stage_token=5, stage_peers=peers("ABD"))
    settings = replace(SETTINGS, mode=C)
    told = orders(before, running, settings, alive=EVERYONE, reachable=EVERYONE)
    assert not [order for _, order in told if isinstance(order, CancelChangePeers)], name


def test_a_change_that_failed_by_itself_moves_planned_only_after_the_answer() -> None:
    failed = group("ABC", also="D", reconfiguration_status=ReconfigurationStatus.CATCH_UP_TIMEOUT)
    before = keys("ABC", "ABD", "ABE")
    assert decide(before, failed, wish("ABE", mode=C), EVERYONE) == before
    settings = replace(SETTINGS, mode=C)
    told = orders(before, failed, settings, alive=EVERYONE, reachable=EVERYONE)
    assert [type(order) for _, order in told] == [CancelChangePeers]
