"""Document `rebalance`: every branch of its pseudocode, its failover, and its holes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

FIVE = "topology: {A: {}, B: {}, C: {}, D: {}, E: {}}\n"


def zone(mode: str = "Queue", more: str = "") -> str:
    return f"zone: {{partitions: 1, replicas: 3, changePeers: {mode}{more}}}\n"


def given(keys: str) -> str:
    return f"partitions: {{0: {{stable: [A, B, C], changeTriggerRevision: 5{keys}}}}}\n"


def target(at: float, nodes: str, revision: int | None = None) -> str:
    number = "" if revision is None else f"revision: {revision}, "
    return f"- {{at: {at}, {number}target: {{partition: 0, nodes: [{', '.join(nodes)}]}}}}\n"


def applied(at: float, peers: str, term: int = 2, index: int = 60) -> str:
    return (
        f"- {{at: {at}, applied: {{partition: 0, peers: [{', '.join(peers)}], "
        f"term: {term}, index: {index}}}}}\n"
    )


def caught_up(at: float, peers: str) -> str:
    return f"- {{at: {at}, caughtUp: {{partition: 0, peers: [{', '.join(peers)}]}}}}\n"


EVENTS = "events:\n"
MODES = ["Queue", "Update", "Cancel"]
PENDING = ", pending: [A, B, D]"


# --------------------------------------------------------- Write new pending assignments (1), base


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_pending_takes_a_wish_that_differs_from_stable(ask: Any, mode: str) -> None:
    answer = ask(FIVE + zone(mode) + given("") + EVENTS + target(1, "ABD", 10))
    assert answer.sets(1) == ("ABC", "ABD", "")
    assert answer.keys(1)["changeTriggerRevision"] == 10
    assert answer.actions(1) == ["startReplica D", "changePeers A ABD"]


def test_a_pending_that_differs_from_the_wish_makes_it_planned(ask: Any) -> None:
    answer = ask(FIVE + zone() + given(PENDING) + EVENTS + target(1, "ABE", 10))
    assert answer.sets(1) == ("ABC", "ABD", "ABE")
    assert answer.keys(1)["changeTriggerRevision"] == 10
    assert answer.actions(1) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lock", ["", ", pendingLock: true"])
def test_a_wish_equal_to_pending_removes_planned(ask: Any, mode: str, lock: str) -> None:
    keys = given(f"{PENDING}{lock}, planned: [A, B, E]")
    answer = ask(FIVE + zone(mode) + keys + EVENTS + target(1, "ABD", 10))
    assert answer.sets(1) == ("ABC", "ABD", "")
    assert answer.keys(1)["changeTriggerRevision"] == 10


@pytest.mark.parametrize("mode", MODES)
def test_hole_1_a_wish_equal_to_stable_leaves_no_orphan_planned(ask: Any, mode: str) -> None:
    keys = given(", planned: [A, B, E]")
    answer = ask(FIVE + zone(mode) + keys + EVENTS + target(1, "ABC", 10))
    assert answer.sets(1) == ("ABC", "", "")
    assert answer.keys(1)["changeTriggerRevision"] == 10


def test_hole_1_the_trigger_revision_rises_where_nothing_else_changes(ask: Any) -> None:
    answer = ask(FIVE + zone() + given(PENDING) + EVENTS + target(1, "ABD", 10))
    assert answer.keys(1) == {**answer.keys(0), "changeTriggerRevision": 10}


@pytest.mark.parametrize("revision", [1, 4, 5])
def test_an_event_that_is_not_newer_changes_nothing(ask: Any, revision: int) -> None:
    answer = ask(
        FIVE
        + zone()
        + given("")
        + EVENTS
        + target(1, "ABD", revision)
        + f"- {{at: 2, revision: {revision}, join: {{F: {{}}}}}}\n"
        + f"- {{at: 3, revision: {revision}, leave: [A]}}\n"
    )
    assert answer.changes() == [0]


def test_an_event_is_handled_once(ask: Any) -> None:
    answer = ask(FIVE + zone() + given("") + EVENTS + target(1, "ABD", 10) + target(2, "ABE", 10))
    assert answer.changes() == [0, 1]


def test_a_change_of_replicas_triggers_every_partition(ask: Any) -> None:
    answer = ask(
        "topology: {A: {}, B: {}, C: {}}\nzone: {partitions: 4, replicas: 1}\n"
        "events:\n- {at: 1, alter: {replicas: 2}}\n"
    )
    for number in range(4):
        stable, pending, _ = answer.sets(1, number)
        assert (len(stable), len(pending)) == (1, 2)
        assert stable in pending  # prefix-stable in replicas


def test_several_wishes_wait_as_one_the_newest(ask: Any) -> None:
    events = target(1, "ABD") + target(2, "ABE") + target(3, "BDE")
    answer = ask(FIVE + zone() + given("") + EVENTS + events)
    assert [answer.sets(at) for at in (1, 2, 3)] == [
        ("ABC", "ABD", ""),
        ("ABC", "ABD", "ABE"),
        ("ABC", "ABD", "BDE"),
    ]


# ----------------------------------------------- Start new raft nodes and initiate change peers (2)


def test_only_new_nodes_are_started_and_the_leader_is_asked(ask: Any) -> None:
    elected = "- {at: 1, leaderElected: {partition: 0, node: C, term: 4}}\n"
    answer = ask(FIVE + zone() + given("") + EVENTS + elected + target(2, "BDE"))
    assert answer.actions(2) == ["startReplica D", "startReplica E", "changePeers C BDE"]


def test_hole_4_a_forced_pending_keeps_the_old_members_down(ask: Any) -> None:
    keys = given(", pending: {nodes: [A], force: true}")
    highly = ", consistencyMode: HighAvailability"
    events = "- {at: 1, leave: [B]}\n- {at: 2, join: {B: {}}}\n"
    answer = ask(FIVE + zone("Update", highly) + keys + EVENTS + events)
    assert not any(action.startswith("startReplica B") for action in answer.actions())
    assert answer.actions(0) == []
    assert "resetPeers A A" in answer.actions(1)  # hole 11


def test_a_pending_with_a_node_that_has_left_starts_nobody_there(ask: Any) -> None:
    events = "- {at: 1, leave: [D]}\n" + target(2, "ABD")
    answer = ask(FIVE + zone() + given("") + EVENTS + events)
    assert "startReplica D" not in answer.actions(2)
    assert not any("changePeers" in action for action in answer.actions(2))


# ------------------------------------------------------------------- onNewPeersConfigurationApplied


def test_applied_peers_become_stable_and_pending_ends(ask: Any) -> None:
    answer = ask(FIVE + zone() + given(PENDING) + EVENTS + applied(1, "ABD"))
    assert answer.sets(1) == ("ABD", "", "")
    assert answer.actions(1) == ["eraseReplica C"]


def test_applied_peers_promote_planned_and_the_partition_is_due_again(ask: Any) -> None:
    events = target(1, "ABD", 10) + target(2, "ABE", 11) + applied(3, "ABD")
    answer = ask(FIVE + zone() + given("") + EVENTS + events)
    assert answer.sets(3) == ("ABD", "ABE", "")
    told = ["changePeers A ABE", "eraseReplica C", "startReplica E"]
    assert sorted(answer.actions(3)) == told


@pytest.mark.parametrize("peers", ["ABC", "ABE", "ABCD", "AB"])
def test_hole_2_applied_peers_that_are_not_pending_are_ignored(ask: Any, peers: str) -> None:
    keys = given(f"{PENDING}, planned: [A, B, E]")
    answer = ask(FIVE + zone() + keys + EVENTS + applied(1, peers))
    assert answer.changes() == [0]


def test_hole_2_applied_peers_without_a_pending_are_ignored(ask: Any) -> None:
    answer = ask(FIVE + zone() + given("") + EVENTS + applied(1, "ABD"))
    assert answer.changes() == [0]


def test_a_target_stands_in_for_the_calculated_set_until_the_data_nodes_change(ask: Any) -> None:
    events = target(1, "ABD", 10) + target(2, "ABE", 11) + applied(3, "ABD")
    still = ask(FIVE + zone() + given("") + EVENTS + events)
    assert still.sets(3) == ("ABD", "ABE", "")
    moved = ask(FIVE + zone() + given("") + EVENTS + events + "- {at: 4, join: {F: {}}}\n")
    calculated = ask("topology: {A: {}, B: {}, C: {}, D: {}, E: {}, F: {}}\n" + zone())
    assert moved.sets(4)[2] == calculated.sets(0)[0]


# --------------------------------------------------------------------------------- Cleanup (3)


def test_a_node_of_pending_is_not_stopped_by_the_stable_switch(ask: Any) -> None:
    keys = given(f"{PENDING}, planned: [B, C, D]")
    answer = ask(FIVE + zone() + keys + EVENTS + applied(1, "ABD"))
    assert answer.sets(1)[:2] == ("ABD", "BCD")
    assert "eraseReplica C" not in answer.actions()


def test_hole_15_without_a_leader_a_redundant_replica_stays(ask: Any) -> None:
    # D caught up for a change that a wish has replaced, but nobody leads who could say so.
    events = target(1, "ABD") + "- {at: 2, leave: [A]}\n- {at: 3, leave: [B]}\n" + target(4, "ABC")
    answer = ask(FIVE + zone("Update") + given("") + EVENTS + events)
    assert answer.sets(4)[1] != "ABD"
    assert "eraseReplica D" not in answer.actions()


# ---------------------------------------------------------------------------------- Failover


def test_a_new_leader_is_asked_for_the_pending_change(ask: Any) -> None:
    events = target(1, "ABD") + "- {at: 2, leaderElected: {partition: 0, node: B, term: 3}}\n"
    answer = ask(FIVE + zone() + given("") + EVENTS + events)
    assert answer.actions(1) == ["startReplica D", "changePeers A ABD"]
    assert answer.actions(2) == ["changePeers B ABD"]


def test_a_leader_of_an_old_term_is_nobody(ask: Any) -> None:
    events = (
        target(1, "ABD")
        + "- {at: 2, leaderElected: {partition: 0, node: B, term: 3}}\n"
        + "- {at: 3, leaderElected: {partition: 0, node: C, term: 2}}\n"
    )
    answer = ask(FIVE + zone() + given("") + EVENTS + events)
    assert answer.changes() == [0, 1, 2]


def test_a_leader_whose_configuration_is_pending_is_the_stable_switch(ask: Any) -> None:
    events = "- {at: 2, leaderElected: {partition: 0, node: B, term: 3, peers: [A, B, D]}}\n"
    answer = ask(FIVE + zone() + given(f"{PENDING}, pendingLock: true") + EVENTS + events)
    assert answer.sets(2) == ("ABD", "", "")
    assert answer.keys(2)["pendingLock"] is False


def test_a_failed_change_is_tried_again_ever_more_slowly(ask: Any) -> None:
    failure = "reconfigurationError: {partition: 0, status: CatchUpTimeout}}\n"
    events = target(1, "ABD") + "".join(f"- {{at: {at}, {failure}" for at in (8, 8.1, 8.2, 9))
    answer = ask(FIVE + zone() + given("") + EVENTS + events + "until: 60\n")
    asked = [one["at"] for one in answer.lines if "changePeers" in str(one["actions"])]
    assert asked[:2] == [1, 8]
    gaps = [later - earlier for earlier, later in pairwise(asked[1:])]
    assert gaps == sorted(gaps)
    assert gaps[0] >= 0.3
    assert answer.sets(60) == ("ABC", "ABD", "")


def test_a_restarted_operator_goes_on_with_the_change_that_it_finds(ask: Any) -> None:
    events = target(1, "ABD", 10) + "- {at: 2, operatorRestart: true}\n" + applied(3, "ABD")
    answer = ask(FIVE + zone() + given("") + EVENTS + events)
    assert answer.keys(2) == answer.keys(1)
    assert answer.sets(3) == ("ABD", "", "")


# ------------------------------------------------- Adjustable changePeers, Approach 1: the lock


def test_update_replaces_pending_while_the_lock_is_empty(ask: Any) -> None:
    events = target(1, "ABD", 10) + target(2, "ABE", 11)
    answer = ask(FIVE + zone("Update") + given("") + EVENTS + events)
    assert answer.sets(2) == ("ABC", "ABE", "")
    assert answer.keys(2)["changeTriggerRevision"] == 11
    assert "changePeers A ABE" in answer.actions(2)
    assert "eraseReplica D" in answer.actions(2)  # "stop redundant replicators"


def test_update_makes_the_wish_planned_once_the_lock_is_taken(ask: Any) -> None:
    events = target(1, "ABD") + caught_up(2, "ABD") + target(3, "ABE", 20)
    answer = ask(FIVE + zone("Update") + given("") + EVENTS + events)
    assert answer.keys(2)["pendingLock"] is True
    assert answer.sets(3) == ("ABC", "ABD", "ABE")
    assert answer.keys(3)["changeTriggerRevision"] == 20


@pytest.mark.parametrize("mode", MODES)
def test_hole_15_the_lock_is_asked_for_in_every_mode(ask: Any, mode: str) -> None:
    answer = ask(FIVE + zone(mode) + given("") + EVENTS + target(1, "ABD") + caught_up(2, "ABD"))
    assert answer.keys(2)["pendingLock"] is True


def test_try_catch_up_finish_with_other_peers_is_refused(ask: Any) -> None:
    events = target(1, "ABD") + target(2, "ABE") + caught_up(3, "ABD") + caught_up(4, "ABE")
    answer = ask(FIVE + zone("Update") + given("") + EVENTS + events)
    assert answer.keys(3)["pendingLock"] is False
    assert answer.keys(4)["pendingLock"] is True


def test_hole_15_the_lock_is_granted_only_while_a_majority_of_the_peers_is_alive(ask: Any) -> None:
    nodes = "topology: {A: {}, B: {}, C: {}, D: {}, E: {}, F: {}}\n"
    keys = "partitions: {0: {stable: [A, B, C, D, E]}}\n"
    events = (
        target(1, "ABF")
        + "- {at: 2, leave: [A, B]}\n"
        + caught_up(3, "ABF")
        + "- {at: 4, join: {A: {}}}\n"
    )
    answer = ask(nodes + zone() + keys + EVENTS + events)
    assert answer.sets(3) == ("ABCDE", "ABF", "")
    assert [answer.keys(at)["pendingLock"] for at in (3, 4)] == [False, True]


def test_the_lock_is_emptied_when_the_change_is_done(ask: Any) -> None:
    events = target(1, "ABD") + caught_up(2, "ABD") + applied(3, "ABD")
    answer = ask(FIVE + zone("Update") + given("") + EVENTS + events)
    assert answer.sets(3) == ("ABD", "", "")
    assert answer.keys(3)["pendingLock"] is False


@pytest.mark.parametrize(
    "event",
    [
        "reconfigurationError: {partition: 0, status: CatchUpTimeout}",
        "stage: {partition: 0, stage: None}",
        "leaderElected: {partition: 0, node: B, term: 9}",
    ],
)
def test_hole_15_the_lock_is_emptied_when_the_leader_runs_nothing_and_the_partition_is_due(
    ask: Any, event: str
) -> None:
    events = (
        target(1, "ABD", 10)
        + caught_up(2, "ABD")
        + target(3, "ABE", 11)
        + f"- {{at: 4, {event}}}\n"
    )
    answer = ask(FIVE + zone("Update") + given("") + EVENTS + events)
    assert answer.sets(3) == ("ABC", "ABD", "ABE")
    assert answer.keys(4)["pendingLock"] is False
    assert answer.sets(4) == ("ABC", "ABE", "")  # due again: the wish replaces what isn't locked


def test_a_given_lock_is_the_grant_for_the_present_pending(ask: Any) -> None:
    keys = given(f"{PENDING}, pendingLock: true")
    answer = ask(FIVE + zone("Update") + keys + EVENTS + target(1, "ABE"))
    assert answer.keys(0)["pendingLock"] is True
    assert answer.sets(1) == ("ABC", "ABD", "ABE")
    assert answer.actions(0) == []


def test_the_next_leader_finishes_a_joint_change_so_the_lock_stays(ask: Any) -> None:
    events = target(1, "ABD") + caught_up(2, "ABD") + "- {at: 3, leave: [A]}\n" + target(4, "BCE")
    answer = ask(FIVE + zone("Update") + given("") + EVENTS + events)
    assert answer.keys(3)["pendingLock"] is True
    assert answer.actions(3) == []
    assert answer.sets(4) == ("ABC", "ABD", "BCE")


def test_the_lock_stays_while_the_group_has_no_leader(ask: Any) -> None:
    events = (
        target(1, "ABD")
        + caught_up(2, "ABD")
        + "- {at: 3, leave: [A, B]}\n- {at: 4, join: {A: {}}}\n"
        + target(5, "ABE")
    )
    answer = ask(FIVE + zone("Update") + given("") + EVENTS + events)
    assert [answer.keys(at)["pendingLock"] for at in (3, 4)] == [True, True]
    assert answer.sets(5) == ("ABC", "ABD", "ABE")


def test_a_given_lock_stays_though_a_new_peer_has_left_since_the_grant(ask: Any) -> None:
    nodes = "topology: {A: {}, B: {}, C: {}, E: {}}\n"
    keys = given(f"{PENDING}, pendingLock: true")
    answer = ask(nodes + zone("Update") + keys + EVENTS + target(1, "ABE"))
    assert answer.keys(1)["pendingLock"] is True
    assert answer.sets(1) == ("ABC", "ABD", "ABE")


@pytest.mark.parametrize("mode", MODES)
def test_a_failed_change_that_has_caught_up_meanwhile_gets_the_lock(ask: Any, mode: str) -> None:
    failure = "- {at: 2, reconfigurationError: {partition: 0, status: CatchUpTimeout}}\n"
    events = target(1, "ABD") + failure * 2 + caught_up(2, "ABE") + caught_up(2, "ABD")
    answer = ask(FIVE + zone(mode) + given("") + EVENTS + events)
    assert answer.lines[-2]["partitions"]["0"]["pendingLock"] is False
    assert answer.keys(2)["pendingLock"] is True


# ------------------------------------------------------------- Approach 2: cancelChangePeers


def test_cancel_asks_the_leader_and_moves_planned_to_pending_when_it_says_true(ask: Any) -> None:
    events = (
        target(1, "ABD") + target(2, "ABE") + "- {at: 3, cancelled: {partition: 0, result: true}}\n"
    )
    answer = ask(FIVE + zone("Cancel") + given("") + EVENTS + events)
    assert answer.sets(2) == ("ABC", "ABD", "ABE")
    assert answer.actions(2) == ["cancelChangePeers A"]
    assert answer.sets(3) == ("ABC", "ABE", "")
    assert "changePeers A ABE" in answer.actions(3)


def test_cancel_does_nothing_when_the_leader_says_false(ask: Any) -> None:
    events = (
        target(1, "ABD")
        + target(2, "ABE")
        + "- {at: 3, cancelled: {partition: 0, result: false}}\n"
        + applied(4, "ABD")
    )
    answer = ask(FIVE + zone("Cancel") + given("") + EVENTS + events)
    assert 3 not in answer.changes()
    assert answer.sets(4) == ("ABD", "ABE", "")


def test_cancel_asks_again_whenever_planned_is_updated(ask: Any) -> None:
    events = (
        target(1, "ABD")
        + target(2, "ABE")
        + "- {at: 3, cancelled: {partition: 0, result: false}}\n"
        + target(4, "ABC")
        + target(5, "ABE")
    )
    answer = ask(FIVE + zone("Cancel") + given("") + EVENTS + events)
    assert [answer.actions(at) for at in (3, 4, 5)] == [[], *[["cancelChangePeers A"]] * 2]


def test_cancel_leaves_a_locked_change_alone(ask: Any) -> None:
    events = target(1, "ABD") + caught_up(2, "ABD") + target(3, "ABE")
    answer = ask(FIVE + zone("Cancel") + given("") + EVENTS + events)
    assert answer.sets(3) == ("ABC", "ABD", "ABE")
    assert answer.actions(3) == []


def test_a_cancelled_change_of_given_keys_gives_way(ask: Any) -> None:
    keys = given(f"{PENDING}, planned: [A, B, E]")
    events = "- {at: 3, cancelled: {partition: 0, result: true}}\n"
    answer = ask(FIVE + zone("Cancel") + keys + EVENTS + events)
    assert answer.actions(0) == []
    assert answer.sets(3) == ("ABC", "ABE", "")


# ------------------------------------------------------------------------------------ Hole 13


@pytest.mark.parametrize("mode", MODES)
def test_hole_13_a_blocked_pending_is_replaced_in_every_mode(ask: Any, mode: str) -> None:
    events = target(1, "ABD") + "- {at: 2, leave: [D]}\n" + target(3, "ABE")
    answer = ask(FIVE + zone(mode) + given("") + EVENTS + events)
    assert answer.sets(3) == ("ABC", "ABE", "")


def test_hole_13_a_locked_pending_is_not_blocked(ask: Any) -> None:
    events = target(1, "ABD") + caught_up(2, "ABD") + "- {at: 3, leave: [D]}\n" + target(4, "ABE")
    answer = ask(FIVE + zone("Update") + given("") + EVENTS + events)
    assert answer.sets(4) == ("ABC", "ABD", "ABE")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "pending",
    [
        "{nodes: [A], force: true}",
        "{nodes: [A, B], fromReset: true}",
    ],
)
def test_hole_13_a_reset_counts_as_locked_in_every_mode(ask: Any, mode: str, pending: str) -> None:
    answer = ask(FIVE + zone(mode) + given(f", pending: {pending}") + EVENTS + target(1, "ABE"))
    assert answer.sets(1)[1:] == (answer.sets(0)[1], "ABE")


def test_hole_13_a_wish_equal_to_planned_leaves_its_flag(ask: Any) -> None:
    keys = given(", pending: {nodes: [A], force: true}, planned: {nodes: [A, B], fromReset: true}")
    answer = ask(FIVE + zone() + keys + EVENTS + target(1, "AB"))
    assert answer.sets(1) == ("ABC", "A!", "AB*")


@pytest.mark.parametrize(("wish", "planned"), [("AB", "AB*"), ("ABD", "ABD"), ("A", "")])
def test_hole_13_what_replaces_a_from_reset_set_and_adds_nobody_stays_from_reset(
    ask: Any, wish: str, planned: str
) -> None:
    keys = given(
        ", pending: {nodes: [A], force: true}, planned: {nodes: [A, B, C], fromReset: true}"
    )
    answer = ask(FIVE + zone() + keys + EVENTS + target(1, wish))
    assert answer.sets(1) == ("ABC", "A!", planned)


# --------------------------------------------------------------------------------- autoApply


def test_with_auto_apply_a_move_ends_in_the_same_instant(ask: Any) -> None:
    answer = ask(FIVE + zone() + given("") + EVENTS + target(1, "ABD") + "autoApply: true\n")
    assert answer.sets(1) == ("ABD", "", "")
    assert answer.actions(1) == ["startReplica D", "changePeers A ABD", "eraseReplica C"]


def test_with_auto_apply_back_and_forth_ends_at_the_last_wish(ask: Any) -> None:
    events = "".join(target(at, nodes) for at, nodes in enumerate(("ABD", "ABE", "ABC", "CDE"), 1))
    answer = ask(FIVE + zone() + given("") + EVENTS + events + "autoApply: true\n")
    assert [answer.sets(at)[0] for at in (1, 2, 3, 4)] == ["ABD", "ABE", "ABC", "CDE"]
