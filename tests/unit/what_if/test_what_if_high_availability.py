"""Document `high-availability`: both phases, its scenario and its examples, and their holes."""

from __future__ import annotations

from typing import Any

import pytest

ABC = "topology: {A: {}, B: {}, C: {}}\n"
HA = (
    "zone: {partitions: 1, replicas: 3, consistencyMode: HighAvailability, "
    "partitionDistributionResetTimeout: 5, dataNodesAutoAdjustScaleUp: 600}\n"
)
EVENTS = "events:\n"
LOGS = (
    "replicas: {0: {A: {term: 1, index: 50}, B: {term: 1, index: 60}, C: {term: 1, index: 60}}}\n"
)


def given(keys: str = "") -> str:
    return f"partitions: {{0: {{stable: [A, B, C], changeTriggerRevision: 5{keys}}}}}\n"


def applied(at: float, peers: str, term: int = 2, index: int = 60) -> str:
    return (
        f"- {{at: {at}, applied: {{partition: 0, peers: [{', '.join(peers)}], "
        f"term: {term}, index: {index}}}}}\n"
    )


def chain(answer: Any, seconds: float) -> list[tuple[str, int, int]]:
    links = answer.keys(seconds)["chain"] or []
    return [("".join(link["nodes"]), link["term"], link["index"]) for link in links]


def reset_timer(answer: Any, seconds: float) -> tuple[float, str] | None:
    found = answer.at(seconds)["timers"]["reset"]
    return None if found is None else (found["at"], "".join(found["nodes"]))


# --------------------------------------------------------------- Algorithm for phase 1: the timer


def test_a_leaving_node_arms_the_reset_timer_and_a_joining_one_does_not(ask: Any) -> None:
    answer = ask(ABC + HA + EVENTS + "- {at: 1, join: {D: {}}}\n- {at: 2, leave: [C]}\n")
    assert reset_timer(answer, 1) is None
    assert reset_timer(answer, 2) == (7, "C")


def test_a_topology_leap_arms_all_timers(ask: Any) -> None:
    zone = HA.replace("ScaleUp: 600", "ScaleUp: 600, dataNodesAutoAdjustScaleDown: 700")
    answer = ask(ABC + zone + EVENTS + "- {at: 2, leave: [C], join: {D: {}}}\n")
    timers = answer.at(2)["timers"]
    assert reset_timer(answer, 2) == (7, "C")
    assert (timers["scaleUp"]["at"], timers["scaleDown"]["at"]) == (602, 702)


def test_a_new_loss_reschedules_the_timer_with_its_revision(ask: Any) -> None:
    answer = ask(ABC + HA + EVENTS + "- {at: 1, leave: [C]}\n- {at: 4, leave: [B]}\n")
    assert reset_timer(answer, 4) == (9, "BC")
    assert answer.sets(8.999) == ("ABC", "", "")
    assert answer.sets(9) == ("ABC", "A!", "")


@pytest.mark.parametrize("at", [1.5, 3, 5.999])
def test_the_saved_intent_survives_an_operator_restart(ask: Any, at: float) -> None:
    events = f"- {{at: 1, leave: [B, C]}}\n- {{at: {at}, operatorRestart: true}}\n"
    answer = ask(ABC + HA + EVENTS + events)
    assert answer.sets(5.999) == ("ABC", "", "")
    assert answer.sets(6) == ("ABC", "A!", "")
    assert "resetPeers A A" in answer.actions(6)


def test_a_strongly_consistent_zone_is_never_reset(ask: Any) -> None:
    zone = HA.replace("consistencyMode: HighAvailability, ", "")
    answer = ask(ABC + zone + EVENTS + "- {at: 1, leave: [B, C]}\nuntil: 10000\n")
    assert reset_timer(answer, 1) is None
    assert answer.sets(10000) == ("ABC", "", "")


# ---------------------------------------------------------------------------------- checkMajority


def test_a_majority_that_is_alive_is_not_reset(ask: Any) -> None:
    answer = ask(ABC + HA + EVENTS + "- {at: 1, leave: [C]}\n")
    assert answer.sets(6) == ("ABC", "", "")
    assert not any("resetPeers" in action for action in answer.actions())


def test_hole_6_a_majority_that_is_back_in_time_is_not_reset(ask: Any) -> None:
    answer = ask(ABC + HA + EVENTS + "- {at: 1, leave: [B, C]}\n- {at: 3, join: {B: {}}}\n")
    assert answer.sets(60) == ("ABC", "", "")


def test_hole_6_the_majority_of_a_locked_pending_counts_too(ask: Any) -> None:
    topology = "topology: {A: {}, B: {}, C: {}, D: {}, E: {}, F: {}}\n"
    keys = given(", pending: [A, E, F], pendingLock: true")
    answer = ask(topology + HA + keys + EVENTS + "- {at: 1, leave: [E, F]}\n")
    assert answer.sets(6)[1].endswith("!")


def test_hole_6_a_leader_that_works_is_not_reset_though_its_peers_are_said_to_have_left(
    ask: Any,
) -> None:
    events = (
        "- {at: 1, leave: [B, C]}\n- {at: 3, leaderElected: {partition: 0, node: A, term: 4}}\n"
    )
    answer = ask(ABC + HA + EVENTS + events)
    assert answer.sets(60) == ("ABC", "", "")
    # Judged again, once it isn't believed any more: a member of its configuration stopped.
    later = ask(ABC + HA + EVENTS + events + "- {at: 70, join: {B: {}}}\n- {at: 71, leave: [B]}\n")
    assert later.sets(76)[1] == "A!"


def test_hole_8_one_loss_is_one_reset(ask: Any) -> None:
    events = (
        "- {at: 1, leave: [B, C]}\n"
        + applied(7, "A")
        + "- {at: 8, operatorRestart: true}\n- {at: 9, join: {D: {}}}\n"
    )
    answer = ask(ABC + HA + EVENTS + events)
    resets = [action for action in answer.actions() if action.startswith("resetPeers")]
    assert resets == ["resetPeers A A"]
    assert answer.sets(9) == ("A", "", "")


# --------------------------------------------------------------------------------- resetPartition


def test_hole_7_the_newest_log_goes_on_and_all_alive_holders_are_planned(ask: Any) -> None:
    topology = "topology: {A: {}, B: {}, C: {}, D: {}, E: {}}\n"
    zone = HA.replace("replicas: 3", "replicas: 5")
    logs = (
        "replicas: {0: {A: {term: 2, index: 50}, B: {term: 1, index: 70}, "
        "C: {term: 2, index: 40}, D: {term: 2, index: 60}}}\n"
    )
    answer = ask(topology + zone + logs + EVENTS + "- {at: 1, leave: [C, D, E]}\n")
    assert answer.sets(6) == ("ABCDE", "A!", "AB*")
    assert answer.actions(6)[-1] == "resetPeers A A"


def test_hole_7_ties_are_broken_by_name(ask: Any) -> None:
    topology = "topology: {A: {}, B: {}, C: {}, D: {}, E: {}}\n"
    zone = HA.replace("replicas: 3", "replicas: 5")
    answer = ask(topology + zone + EVENTS + "- {at: 1, leave: [A, D, E]}\n")
    assert answer.sets(6) == ("ABCDE", "B!", "BC*")


def test_two_phases_end_with_the_alive_nodes_and_no_immediate_restoration(ask: Any) -> None:
    topology = "topology: {A: {}, B: {}, C: {}, D: {}, E: {}}\n"
    zone = HA.replace("replicas: 3", "replicas: 5")
    events = "- {at: 1, leave: [C, D, E]}\n" + applied(7, "A", 2, 70) + applied(8, "AB", 2, 72)
    answer = ask(topology + zone + EVENTS + events)
    assert answer.sets(7) == ("A", "AB*", "")
    assert answer.sets(8) == ("AB", "", "")
    assert chain(answer, 8)[-1] == ("AB", 2, 72)
    assert [link[0] for link in chain(answer, 8)] == ["ABCDE", "AB"]


def test_hole_7_nobody_alive_means_nothing_is_written_until_somebody_joins(ask: Any) -> None:
    events = "- {at: 1, leave: [A, B, C]}\n- {at: 20, join: {D: {}}}\n"
    answer = ask(ABC + HA + EVENTS + events)
    assert answer.sets(30) == ("ABC", "", "")
    assert not any("resetPeers" in action for action in answer.actions())


def test_a_forced_pending_whose_node_has_left_is_replaced(ask: Any) -> None:
    topology = "topology: {A: {}, B: {}, C: {}, D: {}, E: {}}\n"
    zone = HA.replace("replicas: 3", "replicas: 5")
    events = "- {at: 1, leave: [C, D, E]}\n- {at: 8, leave: [A]}\n"
    answer = ask(topology + zone + EVENTS + events)
    assert answer.sets(6) == ("ABCDE", "A!", "AB*")
    assert answer.sets(13) == ("ABCDE", "B!", "")


def test_with_auto_apply_a_reset_is_over_in_the_instant_of_the_timer(ask: Any) -> None:
    answer = ask(ABC + HA + LOGS + EVENTS + "- {at: 1, leave: [A, C]}\nautoApply: true\n")
    assert answer.sets(6) == ("B", "", "")
    assert answer.actions(6) == ["resetPeers B B"]
    assert chain(answer, 6) == [("ABC", 0, 0), ("B", 2, 61)]  # behind B's last entry, (1, 60)


# -------------------------------------- Additional notes: rebalance when data nodes are the same


def test_a_returned_node_is_added_though_the_data_nodes_are_the_same(ask: Any) -> None:
    """[A, B, C]; B and C left, narrowed to [A]; B is back: [A, B]."""
    events = "- {at: 1, leave: [B, C]}\n" + applied(7, "A", 2, 70) + "- {at: 10, join: {B: {}}}\n"
    answer = ask(ABC + HA + EVENTS + events)
    assert answer.at(10)["timers"]["scaleUp"] == {"at": 610, "nodes": ["B"]}
    assert answer.sets(609) == ("A", "", "")  # the timer still holds B
    assert answer.at(610)["dataNodes"] == ["A", "B", "C"]
    assert answer.sets(610) == ("A", "AB", "")


def test_hole_14_absent_nodes_are_not_dropped_before_scale_down(ask: Any) -> None:
    zone = HA.replace("ScaleUp: 600", "ScaleUp: 0, dataNodesAutoAdjustScaleDown: 100")
    answer = ask(ABC + zone + EVENTS + "- {at: 1, leave: [C]}\n- {at: 2, join: {D: {}}}\n")
    assert "C" in answer.sets(2)[0]
    assert answer.sets(2)[1] in ("", "ACD", "BCD")  # with C, if D is calculated
    assert "C" not in (answer.sets(101)[1] or answer.sets(101)[0])


def test_a_rolling_restart_resets_nothing_and_moves_nothing(ask: Any) -> None:
    events = "".join(
        f"- {{at: {at}, leave: [{node}]}}\n- {{at: {at + 2}, join: {{{node}: {{}}}}}}\n"
        for at, node in ((10, "A"), (20, "B"), (30, "C"))
    )
    answer = ask(ABC + HA + EVENTS + events + "until: 2000\n")
    assert {answer.sets(one["at"]) for one in answer.lines} == {("ABC", "", "")}
    assert all("resetPeers" not in action for action in answer.actions())


# ------------------------------------------------------------------------------- the A-D scenario


def test_the_documents_scenario_b_goes_on_alone_and_c_and_d_come_back_cleaned(ask: Any) -> None:
    """Use cases, steps 1 to 3: B, C and D hold the partition; C and D are lost."""
    events = (
        "- {at: 1, leave: [C, D]}\n"
        + applied(7, "B", 2, 60)
        + "- {at: 100, join: {C: {}, D: {}}}\n"
        + "- {at: 701, caughtUp: {partition: 0, peers: [B, C, D]}}\n"
        + applied(702, "BCD", 2, 90)
    )
    answer = ask(
        "topology: {B: {}, C: {}, D: {}}\n"
        + HA
        + "replicas: {0: {B: {term: 1, index: 50}, C: {term: 1, index: 60}, "
        + "D: {term: 1, index: 60}}}\n"
        + EVENTS
        + events
    )
    assert answer.sets(6) == ("BCD", "B!", "")
    assert answer.sets(7) == ("B", "", "")
    # "After a dataNodesAutoAdjustScaleUp period, nodes C and D rejoin"
    assert answer.sets(699) == ("B", "", "")
    assert answer.sets(700) == ("B", "BCD", "")
    assert answer.sets(702) == ("BCD", "", "")
    assert chain(answer, 702) == [("BCD", 2, 90)]  # a graceful change: one link


BCD = "topology: {B: {}, C: {}, D: {}}\n"
BCD_LOGS = (
    "replicas: {0: {B: {term: 1, index: 60, lastUserCmdIdx: 60}, "
    "C: {term: 1, index: 60, lastUserCmdIdx: 60}, D: {term: 1, index: 50, lastUserCmdIdx: 50}}}\n"
)
"""D lags."""


@pytest.mark.parametrize(
    "stop",
    [
        "- {at: 1, leave: [B, C, D]}\n- {at: 2, join: {D: {}}}\n",
        "- {at: 1, leave: [B, C]}\n- {at: 3, leave: [D]}\n- {at: 40, join: {D: {}}}\n",
        "- {at: 1, leave: [B, C]}\n- {at: 3, leave: [D], join: {D: {}}}\n",
        "- {at: 1, groupRestart: {partition: 0, alive: [D]}}\n",
    ],
    ids=["at once", "one after the other", "D restarts last", "as reported"],
)
def test_the_documents_scenario_a_lone_d_waits_for_the_majority(ask: Any, stop: str) -> None:
    """Use cases, steps 4 to 6: all stop, D alone is back: it waits for [B, C, D]'s majority.

    Not so for a loss that leaves D alive: afterwards, and in a group that never stopped.
    """
    events = (
        stop
        + "- {at: 50, operatorRestart: true}\n- {at: 60, join: {B: {}}}\n"
        + "- {at: 70, leave: [B]}\n"
    )
    answer = ask(BCD + HA + BCD_LOGS + EVENTS + events)
    assert {answer.sets(at) for at in range(1, 60)} == {("BCD", "", "")}
    assert answer.at(59)["partitions"]["0"]["stopped"] is True
    before = [one for one in answer.changes() if one < 75]
    assert not any("resetPeers" in action for at in before for action in answer.actions(at))
    assert "startReplica B" in answer.actions(60)
    assert answer.at(69)["partitions"]["0"].get("stopped") is None, "B and D lead"
    assert answer.sets(75) == ("BCD", "D!", ""), "D was alive"
    alive = ask(BCD + HA + BCD_LOGS + EVENTS + "- {at: 1, leave: [B, C]}\n")
    assert alive.sets(6) == ("BCD", "D!", "")


def test_a_given_stopped_group_waits_whoever_comes_back(ask: Any) -> None:
    keys = "partitions: {0: {stable: [B, C, D], stopped: true}}\n"
    events = "- {at: 1, join: {D: {}}}\n- {at: 2, join: {E: {}}}\n- {at: 60, join: {C: {}}}\n"
    answer = ask("topology: {}\n" + HA + keys + EVENTS + events)
    assert answer.sets(59) == ("BCD", "", "")
    assert answer.at(59)["partitions"]["0"]["stopped"] is True
    assert answer.at(60)["partitions"]["0"].get("stopped") is None


def by_hand(at: float, survivor: str | None = None) -> str:
    chosen = f", survivor: {survivor}" if survivor else ""
    return f"- {{at: {at}, resetByHand: {{partition: 0{chosen}}}}}\n"


def test_a_lone_d_goes_on_by_hand(ask: Any) -> None:
    """Step 5: "or the user could perform manual partition disaster recovery"."""
    stop = "- {at: 1, leave: [B, C, D]}\n- {at: 2, join: {D: {}}}\n"
    answer = ask(BCD + HA + BCD_LOGS + EVENTS + stop + by_hand(30) + applied(31, "D", 2, 70))
    assert answer.sets(29) == ("BCD", "", "")
    assert answer.sets(30) == ("BCD", "D!", "")
    assert "resetPeers D D" in answer.actions(30)
    assert answer.sets(31) == ("D", "", "")
    assert "stopped" not in answer.keys(31)


FIVE = "topology: {A: {}, B: {}, C: {}, D: {}, E: {}}\n" + HA.replace("replicas: 3", "replicas: 5")
LOGS_OF_FIVE = (
    "replicas: {0: {A: {term: 1, index: 22, lastUserCmdIdx: 22}, "
    + ", ".join(f"{n}: {{term: 1, index: 20, lastUserCmdIdx: 20}}" for n in "BCDE")
    + "}}\n"
)


def test_a_survivor_that_dies_before_its_stable_switch_is_replaced_after_the_time_out(
    ask: Any,
) -> None:
    """Of five, A and B are left; A is chosen, and dies before `stable` is its own (hole 7)."""
    losses = "- {at: 1, leave: [C, D, E]}\n- {at: 7, leave: [A]}\n"
    answer = ask(FIVE + LOGS_OF_FIVE + EVENTS + losses)
    chosen = next(one["at"] for one in answer.lines if one["cause"] == "reset")
    assert answer.sets(chosen) == ("ABCDE", "A!", "AB*")
    replaced = [one["at"] for one in answer.lines if one["cause"] == "reset"][-1]
    assert replaced > 7
    assert answer.sets(replaced) == ("ABCDE", "B!", "")
    assert "resetPeers B B" in answer.actions(replaced)


DIED_UNCOPIED = (
    FIVE
    + LOGS_OF_FIVE
    + EVENTS
    + "- {at: 1, leave: [C, D, E]}\n"
    + applied(7, "A", 3, 23)
    + "- {at: 8, leave: [A], join: {C: {}, D: {}, E: {}}}\n"
)
"""Of five, A and B are left; A goes on alone, and dies before B has its log."""


def test_a_survivor_that_died_uncopied_is_given_up_by_hand_alone(ask: Any) -> None:
    hand = by_hand(40, "A") + by_hand(50, "C") + applied(51, "C", 4, 30)
    answer = ask(DIED_UNCOPIED + hand)
    assert answer.sets(7) == ("A", "AB*", "")
    assert not answer.sets(49)[1].endswith("!"), "nobody there has the newest data, and A is away"
    assert answer.sets(50) == ("A", "C!", "BCDE*")
    assert answer.sets(51)[:2] == ("C", "BCDE*")
    assert [link[0] for link in chain(answer, 51)] == ["ABCDE", "C"], "A is awaited no more"


def test_by_hand_without_a_survivor_the_newest_data_that_is_left_goes_on(ask: Any) -> None:
    """As `zonequake reset` without --survivor: it names the first of those that it lists."""
    assert ask(DIED_UNCOPIED + by_hand(30)).sets(30) == ("A", "B!", "BCDE*")
    older = DIED_UNCOPIED.replace(
        "B: {term: 1, index: 20, lastUserCmdIdx: 20}", "B: {term: 1, index: 19, lastUserCmdIdx: 19}"
    )
    assert ask(older + by_hand(30)).sets(30) == ("A", "C!", "BCDE*")


def test_by_hand_what_the_command_refuses_is_not_carried_out_later_either(ask: Any) -> None:
    """A and C lead; then C loses its replica, which nobody spoke of."""
    zone = HA.replace("HighAvailability", "StrongConsistency")
    zone = zone.replace("partitionDistributionResetTimeout: 5, ", "")
    lost = "- {at: 30, replicaLost: {partition: 0, node: C}}\n"
    events = "- {at: 10, leave: [B]}\n" + by_hand(20) + lost + by_hand(40)
    answer = ask(ABC + zone + LOGS + EVENTS + events)
    assert answer.sets(39) == ("ABC", "", "")
    assert answer.sets(40) == ("ABC", "A!", "")


# ---------------------------------------------------------------------------- Chain of assignments


def test_a_graceful_change_leaves_one_link(ask: Any) -> None:
    keys = given(
        ", pending: [A, B], chain: [{nodes: [A, B, C], term: 1, index: 7}, "
        "{nodes: [A, B, C], term: 2, index: 9}]"
    )
    answer = ask(ABC + HA + keys + EVENTS + applied(1, "AB", 3, 60))
    assert chain(answer, 1) == [("AB", 3, 60)]


def test_a_from_reset_change_replaces_the_last_link(ask: Any) -> None:
    keys = (
        "partitions: {0: {stable: [A], pending: {nodes: [A, B], fromReset: true}, "
        "chain: [{nodes: [A, B, C], term: 1, index: 7}, {nodes: [A], term: 2, index: 9}]}}\n"
    )
    answer = ask(ABC + HA + keys + EVENTS + applied(1, "AB", 2, 60))
    assert chain(answer, 1) == [("ABC", 1, 7), ("AB", 2, 60)]


def test_a_forced_change_adds_a_link(ask: Any) -> None:
    keys = given(
        ", pending: {nodes: [A], force: true}, chain: [{nodes: [A, B, C], term: 1, index: 7}]"
    )
    answer = ask(ABC + HA + keys + EVENTS + applied(1, "A", 2, 60))
    assert chain(answer, 1) == [("ABC", 1, 7), ("A", 2, 60)]


# ------------------------------------------------------------------------------------ Chain unwind

SEVEN = "topology: {A: {}, B: {}, C: {}, D: {}, E: {}, F: {}, G: {}}\n"
HA_7 = HA.replace("replicas: 3", "replicas: 7")
CHAIN = (
    "partitions: {0: {stable: [G], chain: [{nodes: [A, B, C, D, E, F, G], term: 1, index: 1}, "
    "{nodes: [E, F, G], term: 2, index: 6}, {nodes: [G], term: 3, index: 8}]}}\n"
)


def logs(user: dict[str, tuple[int, int]]) -> str:
    """`user`: the newest user entry of each node."""
    return (
        "replicas: {0: {"
        + ", ".join(
            f"{node}: {{term: {term}, index: {index}, lastUserCmdTerm: {term}, "
            f"lastUserCmdIdx: {index}}}"
            for node, (term, index) in user.items()
        )
        + "}}\n"
    )


EXAMPLE_1 = logs({**dict.fromkeys("ABCD", (1, 10)), **dict.fromkeys("EFG", (1, 5))})
EXAMPLE_2 = logs({**dict.fromkeys("ABCD", (1, 10)), "E": (2, 7), "F": (2, 7), "G": (1, 5)})


def restart(at: float, alive: str) -> str:
    return f"- {{at: {at}, groupRestart: {{partition: 0, alive: [{', '.join(alive)}]}}}}\n"


def test_example_1_the_whole_group_forms_from_the_first_link(ask: Any) -> None:
    answer = ask(SEVEN + HA_7 + CHAIN + EXAMPLE_1 + EVENTS + restart(1, "ABCDEFG"))
    assert answer.sets(1) == ("G", "A!", "ABCDEFG*")
    assert "resetPeers A A" in answer.actions(1)
    # "Nobody is erased before that group leads"
    assert not any(action.startswith("erase") for action in answer.actions())


def test_example_2_the_group_forms_from_the_link_with_the_newest_user_input(ask: Any) -> None:
    answer = ask(SEVEN + HA_7 + CHAIN + EXAMPLE_2 + EVENTS + restart(1, "ABCDEFG"))
    assert answer.sets(1) == ("G", "E!", "EFG*")


@pytest.mark.parametrize("alive", ["AG", "G", "ABCD", "ABCG"])
def test_a_link_is_judged_only_once_a_majority_of_it_has_reported(ask: Any, alive: str) -> None:
    answer = ask(SEVEN + HA_7 + CHAIN + EXAMPLE_1 + EVENTS + restart(1, alive))
    assert answer.sets(1) == ("G", "", "")
    assert not any(action.startswith("erase") for action in answer.actions())


def test_a_restarted_group_ends_whole_and_leads_again(ask: Any) -> None:
    events = restart(1, "ABCDEFG") + applied(2, "A", 4, 12) + applied(3, "ABCDEFG", 4, 14)
    answer = ask(SEVEN + HA_7 + CHAIN + EXAMPLE_1 + EVENTS + events)
    assert answer.sets(2) == ("A", "ABCDEFG*", "")
    assert answer.sets(3) == ("ABCDEFG", "", "")


def test_the_documents_example_1_from_its_first_step_to_its_last(ask: Any) -> None:
    keys = "partitions: {0: {stable: [A], pending: [A, B, C, D, E, F, G]}}\n"
    events = (
        applied(4, "ABCDEFG", 1, 3)
        + "- {at: 5, leave: [A, B, C, D]}\n"
        + applied(11, "E", 2, 6)
        + applied(13, "EFG", 2, 7)
        + "- {at: 20, join: {A: {}}}\n- {at: 21, leave: [E, F]}\n"
        + applied(27, "G", 3, 9)
        + "- {at: 30, leave: [G]}\n"
        + restart(40, "AG")
        + restart(41, "ABCDEFG")
    )
    zone = HA_7.replace("ScaleUp: 600", "ScaleUp: 0")
    answer = ask(SEVEN + zone + keys + EXAMPLE_1 + EVENTS + events)
    assert answer.sets(4) == ("ABCDEFG", "", "")
    assert answer.sets(10) == ("ABCDEFG", "E!", "EFG*")  # step 6
    assert answer.sets(13) == ("EFG", "", "")  # step 7
    assert answer.sets(20) == ("EFG", "AEFG", "")  # step 8
    assert answer.sets(26)[1] == "G!"  # step 10
    assert answer.sets(27)[0] == "G"  # step 11
    assert [link[0] for link in chain(answer, 27)] == ["ABCDEFG", "EFG", "G"]
    assert answer.sets(40)[0] == "G"
    assert answer.sets(40)[1] != "A!"  # two of seven don't tell
    assert answer.sets(41) == ("G", "A!", "ABCDEFG*")
    assert answer.at(41)["revision"] == answer.at(39)["revision"]  # a report raises none


def test_one_link_in_the_chain_is_ordinary_recovery(ask: Any) -> None:
    link = "chain: [{nodes: [A, B, C], term: 1, index: 7}]"
    answer = ask(ABC + HA + given(f", {link}") + EVENTS + restart(1, "AB"))
    assert answer.sets(1) == ("ABC", "", "")
    assert answer.actions(1) == ["startReplica A", "startReplica B"]


def test_a_strongly_consistent_group_that_restarts_is_not_unwound(ask: Any) -> None:
    """Its chain has links since a reset by hand, and nobody wants another one of itself."""
    zone = HA.replace("consistencyMode: HighAvailability, ", "")
    links = "chain: [{nodes: [A, B, C], term: 1, index: 7}, {nodes: [A, B], term: 2, index: 9}]"
    keys = f"partitions: {{0: {{stable: [A, B], {links}}}}}\n"
    assert ask(ABC + HA + keys + EVENTS + restart(1, "AB")).sets(1)[1] == "A!"
    answer = ask(ABC + zone + keys + EVENTS + restart(1, "AB"))
    assert answer.sets(1) == ("AB", "", "")
    assert answer.actions(1) == ["startReplica A", "startReplica B"]


def test_hole_9_no_user_entry_above_any_link_means_the_oldest(ask: Any) -> None:
    nothing = logs(dict.fromkeys("ABCDEFG", (0, 0)))
    answer = ask(SEVEN + HA_7 + CHAIN + nothing + EVENTS + restart(1, "ABCDEFG"))
    assert answer.sets(1) == ("G", "A!", "ABCDEFG*")


def test_hole_9_a_user_entry_counts_for_links_of_its_own_nodes_alone(ask: Any) -> None:
    # (1, 10) of A lies above (1, 8) of a chain in one term, but A isn't in [G].
    one_term = CHAIN.replace("term: 2, index: 6", "term: 1, index: 6").replace(
        "term: 3, index: 8", "term: 1, index: 8"
    )
    answer = ask(SEVEN + HA_7 + one_term + EXAMPLE_1 + EVENTS + restart(1, "ABCDEFG"))
    assert answer.sets(1)[1] == "A!"


@pytest.mark.parametrize("mode", ["Queue", "Update", "Cancel"])
def test_hole_14_nodes_that_the_scale_up_timer_holds_send_no_partition_back_and_forth(
    ask: Any, mode: str
) -> None:
    # [B] of the reset, then [A, B], then the present stable of before, [B], then of after, ...
    zone = (
        f"zone: {{partitions: 1, replicas: 2, changePeers: {mode}, "
        "consistencyMode: HighAvailability, partitionDistributionResetTimeout: 1, "
        "dataNodesAutoAdjustScaleUp: Infinite}\nautoApply: true\n"
    )
    events = (
        "- {at: 2, leave: [B]}\n"
        "- {at: 4, leave: [A], join: {B: {}}}\n"
        "- {at: 5, join: {A: {}}}\n"
        "until: 20\n"
    )
    answer = ask("topology: {A: {}, B: {}}\n" + zone + EVENTS + events)
    assert answer.sets(20)[1:] == ("", "")


@pytest.mark.parametrize(
    ("mode", "after"),
    [("Queue", ("BCD", "", "")), ("Update", ("CD", "", "")), ("Cancel", ("CD", "", ""))],
)
def test_hole_14_a_wish_behind_pending_starts_from_pending(
    ask: Any, mode: str, after: tuple[str, str, str]
) -> None:
    """B, which is held, stays a member or goes, once: never is [C, D] the wish of [B, C, D] and
    the other way round."""
    zone = (
        f"zone: {{partitions: 1, replicas: 3, changePeers: {mode}, "
        "consistencyMode: HighAvailability, dataNodesAutoAdjustScaleUp: Infinite}\n"
    )
    keys = "partitions: {0: {stable: [C, D], pending: [B, C, D]}}\n"
    events = "- {at: 1, leave: [B], join: {B: {}}}\n" + "".join(
        f"- {{at: {at}, applied: {{partition: 0, peers: {peers}}}}}\n"
        for at, peers in ((10, "[B, C, D]"), (20, "[C, D]"), (30, "[B, C, D]"), (40, "[C, D]"))
    )
    answer = ask("topology: {B: {}, C: {}, D: {}}\n" + zone + keys + EVENTS + events)
    assert answer.sets(41) == after


def test_hole_14_a_held_node_that_was_promoted_to_join_ends_a_rebalance(ask: Any) -> None:
    zone = (
        "zone: {partitions: 1, changePeers: Queue, consistencyMode: HighAvailability, "
        "dataNodesAutoAdjustScaleUp: 1800}\nautoApply: true\n"
    )
    events = (
        "- {at: 20, leave: [A]}\n- {at: 40, join: {E: {}}}\n- {at: 60, join: {C: {}}}\n"
        "- {at: 1870, join: {A: {}}}\nuntil: 3700\n"
    )
    answer = ask("topology: {A: {}, E: {}}\n" + zone + EVENTS + events)
    assert answer.sets(1871) == ("CE", "", "")
    assert answer.sets(3700) == ("ACE", "", "")


GROWS = "- {at: 1, join: {D: {}, E: {}}}\n"
GRANTED = "- {at: 5, caughtUp: {partition: 0, peers: [A, D, E]}}\n"
LOSS = "- {at: 10, leave: [A]}\nuntil: 20\n"
GROWN = "topology: {A: {}, D: {}, E: {}}\n"
AT_ONCE = HA.replace("ScaleUp: 600", "ScaleUp: 0")
MOVING = "partitions: {0: {stable: [A], pending: [A, D, E]%s}}\n"


@pytest.mark.parametrize(
    ("file", "goes_on"),
    [
        ("topology: {A: {}}\n" + AT_ONCE + EVENTS + GROWS + GRANTED + LOSS, True),
        (GROWN + AT_ONCE + MOVING % ", pendingLock: true" + EVENTS + LOSS, True),
        ("topology: {A: {}}\n" + AT_ONCE + EVENTS + GROWS + LOSS, False),
        (GROWN + AT_ONCE + MOVING % "" + EVENTS + LOSS, False),
    ],
    ids=["granted by events", "granted as given", "caught up by events", "caught up as given"],
)
def test_hole_7_members_of_a_granted_change_go_on_and_those_caught_up_do_not(
    ask: Any, file: str, goes_on: bool
) -> None:
    assert (ask(file).sets(20)[1] in ("D!", "E!")) == goes_on
