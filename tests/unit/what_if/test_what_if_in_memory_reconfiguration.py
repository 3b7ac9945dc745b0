"""Document `in-memory-reconfiguration`: switch keys, its example, and the start flow."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

FOUR = "topology: {A: {}, B: {}, C: {}, D: {}}\n"
VOLATILE = "zone: {partitions: 1, replicas: 4, storage: Volatile, changePeers: Queue}\n"
THREE = "topology: {A: {}, B: {}, C: {}}\n"
OF_THREE = "zone: {partitions: 1, replicas: 3, storage: Volatile}\n"


def given(keys: str) -> str:
    return f"partitions: {{0: {{stable: [A, B, C], changeTriggerRevision: 5{keys}}}}}\n"


def lost(at: float, node: str) -> str:
    return f"- {{at: {at}, replicaLost: {{partition: 0, node: {node}}}}}\n"


def applied(at: float, peers: str) -> str:
    return f"- {{at: {at}, applied: {{partition: 0, peers: [{', '.join(peers)}], term: 2}}}}\n"


def switch(answer: Any, seconds: float) -> tuple[str, str]:
    keys = answer.keys(seconds)
    return "".join(keys["switchReduce"]), "".join(keys["switchAppend"])


EVENTS = "events:\n"


# ------------------------------------------------------------------------- the document's example


def test_the_documents_example_c_is_reduced_and_comes_back(ask: Any) -> None:
    """[A,B,C], pending [A,B,C,D] past CATCHING_UP; C fails and returns, empty."""
    answer = ask(
        FOUR
        + VOLATILE
        + given(", pending: [A, B, C, D], pendingLock: true")
        + EVENTS
        + lost(1, "C")
        + applied(2, "ABCD")
        + applied(3, "ABD")
        + applied(4, "ABCD")
    )
    # "add current node to assignments.switch.reduce", "Do not start corresponding raft server!"
    assert (answer.sets(1), switch(answer, 1)) == (("ABC", "ABCD", ""), ("C", ""))
    assert "startReplica C" not in answer.actions(1)
    # the reduction isn't overwritten: [A,B,D], then [A,B,C,D]
    assert (answer.sets(2), switch(answer, 2)) == (("ABCD", "ABD", ""), ("C", ""))
    assert (answer.sets(3), switch(answer, 3)) == (("ABD", "ABCD", ""), ("", "C"))
    assert "startReplica C" in answer.actions(3)
    assert (answer.sets(4), switch(answer, 4)) == (("ABCD", "", ""), ("", ""))


def test_with_auto_apply_a_lost_replica_is_back_in_the_same_instant(ask: Any) -> None:
    answer = ask(THREE + OF_THREE + EVENTS + lost(1, "C") + "autoApply: true\n")
    assert (answer.sets(1), switch(answer, 1)) == (("ABC", "", ""), ("", ""))
    assert answer.actions(1) == [
        "changePeers A AB",
        "startReplica C",
        "changePeers A ABC",
    ]


# --------------------------------------------------------- On in-memory partition restart


def test_lost_replicas_are_united_in_switch_reduce(ask: Any) -> None:
    nodes = "topology: {A: {}, B: {}, C: {}, D: {}, E: {}}\n"
    zone = "zone: {partitions: 1, replicas: 5, storage: Volatile}\n"
    answer = ask(nodes + zone + EVENTS + lost(1, "C") + lost(2, "D"))
    assert switch(answer, 1) == ("C", "")
    assert switch(answer, 2) == ("CD", "")
    # also while C, which was reduced, is away and says nothing
    away = lost(1, "C") + "- {at: 2, leave: [C]}\n" + lost(3, "D")
    assert switch(ask(nodes + zone + EVENTS + away), 3) == ("CD", "")


def test_hole_5_a_lost_replica_that_nobody_counts_starts_empty(ask: Any) -> None:
    events = "- {at: 1, target: {partition: 0, nodes: [A, B, D]}}\n" + lost(2, "D")
    answer = ask(FOUR + VOLATILE + given("") + EVENTS + events)
    assert switch(answer, 2) == ("", "")
    assert "startReplica D" in answer.actions(2)


def test_hole_4_a_cleaned_persistent_replica_takes_the_same_path(ask: Any) -> None:
    answer = ask(THREE + "zone: {partitions: 1}\n" + EVENTS + lost(1, "C") + applied(2, "AB"))
    assert (answer.sets(1), switch(answer, 1)) == (("ABC", "AB", ""), ("C", ""))
    assert (answer.sets(2), switch(answer, 2)) == (("AB", "ABC", ""), ("", "C"))


# ------------------------------------------- On assignments.switch.reduce change, at the leader


def test_an_empty_pending_becomes_the_calculated_set_less_switch_reduce(ask: Any) -> None:
    answer = ask(THREE + OF_THREE + EVENTS + lost(1, "B"))
    assert (answer.sets(1), switch(answer, 1)) == (("ABC", "AC", ""), ("B", ""))
    assert answer.actions(1) == ["changePeers A AC"]


def test_a_pending_that_runs_is_left_alone(ask: Any) -> None:
    keys = given(", pending: [A, B, C, D], pendingLock: true")
    answer = ask(FOUR + VOLATILE + keys + EVENTS + lost(1, "C"))
    assert answer.sets(1) == ("ABC", "ABCD", "")


def test_hole_5_a_switch_reduce_with_empty_pending_is_due_whatever_the_trigger_revision(
    ask: Any,
) -> None:
    answer = ask(
        THREE
        + OF_THREE
        + "partitions: {0: {stable: [A, B, C], switchReduce: [C], changeTriggerRevision: 99}}\n"
        + EVENTS
        + "- {at: 1, leaderElected: {partition: 0, node: A, term: 2}}\n"
    )
    assert answer.sets(0) == ("ABC", "", "")  # "nothing is recomputed before an event asks"
    assert answer.sets(1) == ("ABC", "AB", "")


# ------------------------------------------------------------------------------- On rebalance done


def test_done_with_nodes_to_return_goes_on_with_the_addition(ask: Any) -> None:
    keys = given(", pending: [A, B], switchReduce: [C]")
    answer = ask(THREE + OF_THREE + keys + EVENTS + applied(1, "AB"))
    assert (answer.sets(1), switch(answer, 1)) == (("AB", "ABC", ""), ("", "C"))


def test_done_with_nodes_to_reduce_goes_on_with_the_reduction(ask: Any) -> None:
    keys = given(", pending: [A, B, C, D], switchReduce: [C]")
    answer = ask(FOUR + VOLATILE + keys + EVENTS + applied(1, "ABCD"))
    assert (answer.sets(1), switch(answer, 1)) == (("ABCD", "ABD", ""), ("C", ""))


def test_done_with_neither_moves_planned_to_pending(ask: Any) -> None:
    keys = given(", pending: [A, B, C, D], planned: [A, B, D]")
    answer = ask(FOUR + VOLATILE + keys + EVENTS + applied(1, "ABCD"))
    assert answer.sets(1)[:2] == ("ABCD", "ABD")


def test_a_switch_has_priority_over_planned(ask: Any) -> None:
    keys = given(", pending: [A, B, C, D], switchReduce: [C], planned: [A, B, C]")
    answer = ask(FOUR + VOLATILE + keys + EVENTS + applied(1, "ABCD"))
    assert answer.sets(1) == ("ABCD", "ABD", "ABC")


def test_hole_5_both_switch_keys_are_empty_when_there_is_nothing_more_to_do(ask: Any) -> None:
    """Reduced C isn't calculated any more: it isn't appended, and it isn't left in a key."""
    keys = given(", pending: [A, B], switchReduce: [C]")
    events = "- {at: 1, target: {partition: 0, nodes: [A, B]}}\n" + applied(2, "AB")
    answer = ask(THREE + OF_THREE + keys + EVENTS + events)
    assert (answer.sets(2), switch(answer, 2)) == (("AB", "", ""), ("", ""))


def test_hole_13_a_step_of_a_switch_is_not_replaced_by_a_wish(ask: Any) -> None:
    mode = "zone: {partitions: 1, replicas: 4, storage: Volatile, changePeers: Update}\n"
    keys = given(", pending: [A, B], switchReduce: [C]")
    wish = "- {at: 1, target: {partition: 0, nodes: [A, B, D]}}\n"
    answer = ask(FOUR + mode + keys + EVENTS + wish)
    assert answer.sets(1) == ("ABC", "AB", "ABD")


# ------------------------------------------------------------------ general flow on node restart


def test_a_full_partition_restart_begins_anew_and_removes_the_keys(ask: Any) -> None:
    answer = ask(
        THREE
        + OF_THREE
        + "partitions: {0: {stable: [A, B, C], pending: [A, B], switchReduce: [C]}}\n"
        + EVENTS
        + "- {at: 1, groupRestart: {partition: 0, alive: [A, B, C]}}\n"
    )
    assert (answer.sets(1), switch(answer, 1)) == (("ABC", "", ""), ("", ""))
    assert sorted(answer.actions(1)) == ["startReplica A", "startReplica B", "startReplica C"]


def test_without_a_majority_and_without_a_full_restart_it_waits(ask: Any) -> None:
    answer = ask(THREE + OF_THREE + EVENTS + "- {at: 1, leave: [C]}\n" + lost(2, "B"))
    assert (answer.sets(2), switch(answer, 2)) == (("ABC", "", ""), ("", ""))
    assert answer.actions(2) == []


@pytest.mark.parametrize("order", list(itertools.permutations("ABC")))
def test_replicas_that_are_lost_one_after_the_other_all_come_back(
    ask: Any, order: tuple[str, ...]
) -> None:
    events = "".join(lost(at, node) for at, node in enumerate(order, 1))
    answer = ask(THREE + OF_THREE + EVENTS + events + "autoApply: true\n")
    assert (answer.sets(9), switch(answer, 9)) == (("ABC", "", ""), ("", ""))


def test_a_member_that_was_away_when_the_file_begins_joins_with_nothing(ask: Any) -> None:
    keys, events = given(""), EVENTS + "- {at: 1, join: {C: {}}}\n"
    volatile = ask("topology: {A: {}, B: {}}\n" + OF_THREE + keys + events)
    assert (volatile.sets(1), switch(volatile, 1)) == (("ABC", "AB", ""), ("C", ""))
    assert "startReplica C" not in volatile.actions(1)
    kept = OF_THREE.replace("Volatile", "Persistent")
    persistent = ask("topology: {A: {}, B: {}}\n" + kept + keys + events)
    assert (persistent.sets(1), switch(persistent, 1)) == (("ABC", "", ""), ("", ""))
    assert persistent.actions(1) == ["startReplica C"]


def test_a_member_whose_set_was_applied_while_it_was_away_joins_with_nothing(ask: Any) -> None:
    keys = "partitions: {0: {stable: [A, B, C, D], pending: [A, B, C], pendingLock: true}}\n"
    events = "- {at: 1, leave: [C]}\n" + applied(2, "ABC") + "- {at: 3, join: {C: {}}}\n"
    zone = OF_THREE.replace("}", ", dataNodesFilter: '!\"D\"'}")
    answer = ask(FOUR + zone + keys + EVENTS + events + applied(4, "AB") + applied(5, "ABC"))
    assert (answer.sets(2), switch(answer, 2)) == (("ABC", "", ""), ("", ""))
    assert (answer.sets(3), switch(answer, 3)) == (("ABC", "AB", ""), ("C", ""))
    assert (answer.sets(4), switch(answer, 4)) == (("AB", "ABC", ""), ("", "C"))
    assert (answer.sets(5), switch(answer, 5)) == (("ABC", "", ""), ("", ""))
