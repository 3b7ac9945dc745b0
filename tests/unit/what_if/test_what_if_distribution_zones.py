"""Document `distribution-zones`: how what-if reads its fields and events, and shows its timers.

The rules are proven without what-if: `tests/unit/operator/test_operator_data_nodes.py`,
`test_operator_overrides.py` and `test_operator_filter.py` beside it.
"""

from __future__ import annotations

from typing import Any

import pytest

ABC = "topology: {A: {}, B: {}, C: {}}\n"


def data_nodes(answer: Any, seconds: float) -> str:
    return "".join(answer.at(seconds)["dataNodes"])


def timer(answer: Any, seconds: float, name: str) -> tuple[float, str] | None:
    found = answer.at(seconds)["timers"][name]
    return None if found is None else (found["at"], "".join(found["nodes"]))


RESTARTS = ["", *(f"- {{at: {at}, operatorRestart: true}}\n" for at in (0.5, 100, 251, 549.999))]


# ------------------------------------------------------------------- DATA_NODES_AUTO_ADJUST rules


def with_restart(events: str, restart: str) -> str:
    """The events with an operator restart at its time."""
    lines = [one + "\n" for one in events.strip().splitlines()]
    lines += [restart] if restart else []
    return "".join(sorted(lines, key=lambda one: float(one.split("at: ")[1].split(",")[0])))


@pytest.mark.parametrize("restart", RESTARTS)
def test_second_timeline_nodes_that_leave_have_a_timer_of_their_own(ask: Any, restart: str) -> None:
    events = """
- {at: 0, join: {D: {}}}
- {at: 100, leave: [C]}
- {at: 250, join: {E: {}}}
"""
    answer = ask(
        ABC
        + "zone: {partitions: 1, dataNodesAutoAdjustScaleUp: 300,"
        + " dataNodesAutoAdjustScaleDown: 300000}\nevents:\n"
        + with_restart(events, restart)
    )
    assert timer(answer, 99, "scaleUp") == (300, "D")
    # "the node left doesn't affect the scale_up timer"
    assert timer(answer, 100, "scaleUp") == (300, "D")
    assert timer(answer, 100, "scaleDown") == (300100, "C")
    # "adding the node doesn't change scale_down time only scale_up one"
    assert timer(answer, 250, "scaleUp") == (550, "DE")
    assert timer(answer, 250, "scaleDown") == (300100, "C")
    # "despite the fact there's no Node C in logical topology it still takes its place"
    assert data_nodes(answer, 550) == "ABCDE"
    assert data_nodes(answer, 300099) == "ABCDE"
    assert data_nodes(answer, 300100) == "ABDE"
    assert timer(answer, 300100, "scaleDown") is None


def test_auto_adjust_takes_armed_timers_over_as_one_frame_from_the_newest_event(ask: Any) -> None:
    answer = ask(
        ABC
        + "zone: {partitions: 1, dataNodesAutoAdjustScaleUp: 100,"
        + " dataNodesAutoAdjustScaleDown: 100}\nevents:\n"
        + "- {at: 0, join: {D: {}}}\n- {at: 60, leave: [C]}\n"
        + "- {at: 80, alter: {dataNodesAutoAdjust: 50}}\n"
    )
    assert timer(answer, 60, "autoAdjust") is None
    assert timer(answer, 80, "autoAdjust") == (110, "CD")
    assert timer(answer, 80, "scaleUp") is None
    assert timer(answer, 80, "scaleDown") is None
    assert [data_nodes(answer, at) for at in (80, 109, 110)] == ["ABC", "ABC", "ABD"]
    assert [one["at"] for one in answer.lines if one["cause"] == "autoAdjust"] == [110]


def test_a_topology_leap_arms_both_timers(ask: Any) -> None:
    answer = ask(
        ABC
        + "zone: {partitions: 1, dataNodesAutoAdjustScaleUp: 7,"
        + " dataNodesAutoAdjustScaleDown: 9}\nevents:\n- {at: 3, leave: [C], join: {E: []}}\n"
    )
    assert timer(answer, 3, "scaleUp") == (10, "E")
    assert timer(answer, 3, "scaleDown") == (12, "C")
    assert (data_nodes(answer, 10), data_nodes(answer, 12)) == ("ABCE", "ABE")


# -------------------------------------------------------------------------- DATA_NODES_FILTER rule


def test_a_bare_tag_is_not_the_value_of_an_attribute(ask: Any) -> None:
    nodes = "topology: {A: {region: US}, B: [US]}\n"
    bare = ask(nodes + """zone: {partitions: 1, dataNodesFilter: '"US"'}\n""")
    assert bare.lines[0]["dataNodes"] == ["B"]
    pair = ask(nodes + """zone: {partitions: 1, dataNodesFilter: '"region=US"'}\n""")
    assert pair.lines[0]["dataNodes"] == ["A"]


def test_a_node_that_comes_back_with_other_attributes_is_judged_by_them(ask: Any) -> None:
    answer = ask(
        "topology: {A: [SSD], B: [SSD]}\n"
        """zone: {partitions: 1, dataNodesAutoAdjustScaleUp: 10, dataNodesFilter: '"SSD"'}\n"""
        "events:\n- {at: 0, leave: [B]}\n- {at: 1, join: {B: [HDD]}}\n"
    )
    assert data_nodes(answer, 10) == "AB"
    assert data_nodes(answer, 11) == "A"


def test_a_filter_that_matches_nothing_leaves_the_partitions_where_they_are(ask: Any) -> None:
    answer = ask(
        ABC
        + "zone: {partitions: 1}\nevents:\n"
        + """- {at: 1, alter: {dataNodesFilter: '"MARS"'}}\n"""
    )
    assert data_nodes(answer, 1) == ""
    assert answer.sets(1) == ("ABC", "", "")  # hole 10


# --------------------------------------------------- Distribution zones configuration, dropping one


def test_a_zone_that_is_created_before_its_nodes_takes_the_first_that_come(ask: Any) -> None:
    answer = ask(
        "zone: {partitions: 1, replicas: 2, dataNodesAutoAdjustScaleUp: 5}\nevents:\n"
        "- {at: 1, join: {A: {}}}\n- {at: 3, join: {B: {}}}\n"
    )
    assert answer.keys(7)["stable"] is None
    assert answer.sets(8) == ("AB", "", "")
    assert answer.actions(8) == ["startReplica A", "startReplica B"]


def test_a_zone_can_be_dropped_while_timers_are_armed_and_a_change_runs(ask: Any) -> None:
    answer = ask(
        ABC
        + "zone: {partitions: 1, dataNodesAutoAdjustScaleUp: 10}\nevents:\n"
        + "- {at: 1, target: {partition: 0, nodes: [A, B]}}\n"
        + "- {at: 2, join: {D: {}}}\n- {at: 3, drop: true}\n- {at: 4, join: {E: {}}}\n"
    )
    assert answer.sets(2) == ("ABC", "AB", "")
    last = answer.lines[-1]
    assert (last["at"], last["cause"], last["partitions"]) == (3, "drop", {})
    assert all(timer is None for timer in last["timers"].values())
    assert answer.actions(3) == ["eraseReplica A", "eraseReplica B", "eraseReplica C"]


def test_a_paused_zone_accepts_what_happened_once_it_goes_on(ask: Any) -> None:
    answer = ask(
        ABC
        + "zone: {partitions: 1, replicas: 4}\nevents:\n- {at: 1, alter: {paused: true}}\n"
        + "- {at: 2, join: {D: {}}}\n- {at: 9, alter: {paused: false}}\n"
    )
    assert (data_nodes(answer, 8), answer.sets(8)) == ("ABC", ("ABC", "", ""))
    assert (data_nodes(answer, 9), answer.sets(9)) == ("ABCD", ("ABC", "ABCD", ""))
