"""Document `distribution-zones`: its timelines to the second, its tables and its filters."""

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
def test_first_timeline_a_scale_up_timer_restarts_with_the_newest_node(
    ask: Any, restart: str
) -> None:
    events = """
- {at: 0, join: {D: {}}}
- {at: 250, join: {E: {}}}
- {at: 600, join: {F: {}}}
"""
    answer = ask(
        ABC
        + "zone: {partitions: 1, dataNodesAutoAdjustScaleUp: 300}\nuntil: 700\nevents:\n"
        + with_restart(events, restart)
    )
    assert answer.lines[0]["dataNodes"] == ["A", "B", "C"]
    assert timer(answer, 0, "scaleUp") == (300, "D")
    assert (data_nodes(answer, 249), timer(answer, 250, "scaleUp")) == ("ABC", (550, "DE"))
    assert data_nodes(answer, 549.999) == "ABC"
    assert (data_nodes(answer, 550), timer(answer, 550, "scaleUp")) == ("ABCDE", None)
    assert (data_nodes(answer, 600), timer(answer, 600, "scaleUp")) == ("ABCDE", (900, "F"))


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


def test_auto_adjust_puts_both_directions_into_one_frame_with_one_recalculation(ask: Any) -> None:
    answer = ask(
        ABC
        + "zone: {partitions: 1, dataNodesAutoAdjust: 100}\nevents:\n"
        + "- {at: 0, join: {D: {}}}\n- {at: 60, leave: [C]}\n"
    )
    assert timer(answer, 0, "autoAdjust") == (100, "D")
    assert timer(answer, 60, "autoAdjust") == (160, "CD")
    assert timer(answer, 60, "scaleUp") is None
    assert timer(answer, 60, "scaleDown") is None
    assert data_nodes(answer, 159) == "ABC"
    assert [one["at"] for one in answer.lines if one["cause"] == "autoAdjust"] == [160]
    assert data_nodes(answer, 160) == "ABD"


def test_auto_adjust_takes_armed_timers_over_as_one_frame_from_the_newest_event(ask: Any) -> None:
    answer = ask(
        ABC
        + "zone: {partitions: 1, dataNodesAutoAdjustScaleUp: 100,"
        + " dataNodesAutoAdjustScaleDown: 100}\nevents:\n"
        + "- {at: 0, join: {D: {}}}\n- {at: 60, leave: [C]}\n"
        + "- {at: 80, alter: {dataNodesAutoAdjust: 50}}\n"
    )
    assert timer(answer, 80, "autoAdjust") == (110, "CD")
    assert [data_nodes(answer, at) for at in (80, 109, 110)] == ["ABC", "ABC", "ABD"]


def test_two_timers_mean_two_recalculations(ask: Any) -> None:
    answer = ask(
        ABC
        + "zone: {partitions: 1, dataNodesAutoAdjustScaleUp: 100,"
        + " dataNodesAutoAdjustScaleDown: 100}\nevents:\n"
        + "- {at: 0, join: {D: {}}}\n- {at: 60, leave: [C]}\n"
    )
    assert [data_nodes(answer, at) for at in (99, 100, 159, 160)] == ["ABC", "ABCD", "ABCD", "ABD"]


def test_by_default_a_joining_node_counts_at_once_and_a_leaving_one_never_goes(ask: Any) -> None:
    answer = ask(
        ABC
        + "zone: {partitions: 1}\nevents:\n- {at: 5, join: {D: {}}}\n- {at: 6, leave: [A]}\n"
        + "until: 10000000\n"
    )
    assert data_nodes(answer, 5) == "ABCD"
    assert data_nodes(answer, 10000000) == "ABCD"
    assert timer(answer, 6, "scaleDown") is None


def test_a_node_that_comes_back_leaves_the_down_set_and_one_that_goes_the_up_set(ask: Any) -> None:
    answer = ask(
        ABC
        + "zone: {partitions: 1, dataNodesAutoAdjustScaleUp: 300,"
        + " dataNodesAutoAdjustScaleDown: 100}\nevents:\n"
        + "- {at: 0, leave: [C]}\n- {at: 50, join: {C: {}}}\n"
        + "- {at: 60, join: {D: {}}}\n- {at: 70, leave: [D]}\n"
    )
    assert timer(answer, 0, "scaleDown") == (100, "C")
    assert timer(answer, 50, "scaleDown") is None
    # "Every joining node arms the scale-up timer, also one still among the data nodes"
    assert timer(answer, 50, "scaleUp") == (350, "C")
    assert timer(answer, 60, "scaleUp") == (360, "CD")
    assert timer(answer, 70, "scaleUp") == (360, "C")
    assert data_nodes(answer, 360) == "ABC"


def test_a_topology_leap_arms_both_timers(ask: Any) -> None:
    answer = ask(
        ABC
        + "zone: {partitions: 1, dataNodesAutoAdjustScaleUp: 7,"
        + " dataNodesAutoAdjustScaleDown: 9}\nevents:\n- {at: 3, leave: [C], join: {E: []}}\n"
    )
    assert timer(answer, 3, "scaleUp") == (10, "E")
    assert timer(answer, 3, "scaleDown") == (12, "C")
    assert (data_nodes(answer, 10), data_nodes(answer, 12)) == ("ABCE", "ABE")


# ------------------------------------------------------------------------------- Override rules

BOTH = "dataNodesAutoAdjustScaleUp: 300, dataNodesAutoAdjustScaleDown: 300000"


def test_altering_scale_up_leaves_scale_down_as_it_was(ask: Any) -> None:
    answer = ask(
        ABC
        + f"zone: {{partitions: 1, {BOTH}}}\nevents:\n"
        + "- {at: 0, alter: {dataNodesAutoAdjustScaleUp: 500}}\n"
        + "- {at: 1, join: {D: {}}}\n- {at: 2, leave: [C]}\n"
    )
    assert timer(answer, 2, "scaleUp") == (501, "D")
    assert timer(answer, 2, "scaleDown") == (300002, "C")


def test_altering_auto_adjust_overrides_both_timers(ask: Any) -> None:
    answer = ask(
        ABC
        + f"zone: {{partitions: 1, {BOTH}}}\nevents:\n"
        + "- {at: 0, join: {D: {}}}\n- {at: 10, alter: {dataNodesAutoAdjust: 1000}}\n"
        + "- {at: 20, leave: [C]}\n"
    )
    assert timer(answer, 10, "autoAdjust") == (1000, "D")
    assert timer(answer, 20, "autoAdjust") == (1020, "CD")
    assert timer(answer, 20, "scaleUp") is None


def test_altering_one_timer_of_an_auto_adjust_zone_gives_the_other_its_default(ask: Any) -> None:
    answer = ask(
        ABC
        + "zone: {partitions: 1, dataNodesAutoAdjust: 1000}\nevents:\n"
        + "- {at: 0, alter: {dataNodesAutoAdjustScaleDown: 50}}\n"
        + "- {at: 1, join: {D: {}}}\n- {at: 2, leave: [C]}\n"
    )
    assert data_nodes(answer, 1) == "ABCD"
    assert timer(answer, 2, "scaleDown") == (52, "C")


def test_altering_the_filter_recomputes_at_once_and_leaves_the_time_outs(ask: Any) -> None:
    answer = ask(
        "topology: {A: [EU, SSD], B: [COMPUTE_ONLY, HDD], C: [US, SSD]}\n"
        f"zone: {{partitions: 1, {BOTH}}}\nevents:\n"
        "- {at: 0, join: {D: [US, SSD]}}\n- {at: 1, leave: [C]}\n"
        """- {at: 2, alter: {dataNodesFilter: '("US" || "EU") && "SSD"'}}\n"""
        "- {at: 3, join: {E: [EU, SSD]}}\n"
    )
    assert data_nodes(answer, 1) == "ABC"
    assert data_nodes(answer, 2) == "AD"
    assert timer(answer, 2, "scaleUp") is None
    assert timer(answer, 2, "scaleDown") is None
    assert timer(answer, 3, "scaleUp") == (303, "E")


def test_a_changed_time_out_keeps_the_armed_start_so_that_0_fires_at_once(ask: Any) -> None:
    answer = ask(
        ABC
        + "zone: {partitions: 1, dataNodesAutoAdjustScaleUp: 300}\nevents:\n"
        + "- {at: 0, join: {D: {}}}\n- {at: 40, alter: {dataNodesAutoAdjustScaleUp: 100}}\n"
        + "- {at: 50, alter: {dataNodesAutoAdjustScaleUp: 0}}\n"
    )
    assert timer(answer, 40, "scaleUp") == (100, "D")
    assert (data_nodes(answer, 50), timer(answer, 50, "scaleUp")) == ("ABCD", None)


# -------------------------------------------------------------------------- DATA_NODES_FILTER rule

THREE = "topology: {Node A: [EU, SSD], Node B: [COMPUTE_ONLY, HDD], Node C: {US: '', SSD: ''}}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('("US" || "EU") && "SSD"', ["Node A", "Node C"]),
        ("(“US” || “EU”) && “SSD”", ["Node A", "Node C"]),
        ('"Node B" || "Node C"', ["Node B", "Node C"]),
        ('"US", "EU"', ["Node A", "Node C"]),
        ('!"COMPUTE_ONLY"', ["Node A", "Node C"]),
        ('contains("DD")', ["Node B"]),
        ("/S.D/", ["Node A", "Node C"]),
        ('"MARS"', []),
    ],
)
def test_filters_of_the_document_choose_its_nodes(ask: Any, text: str, expected: list[str]) -> None:
    answer = ask(THREE + f"zone: {{partitions: 1, dataNodesFilter: '{text}'}}\n")
    assert answer.lines[0]["dataNodes"] == expected


def test_a_bare_tag_is_not_the_value_of_an_attribute(ask: Any) -> None:
    nodes = "topology: {A: {region: US}, B: [US]}\n"
    bare = ask(nodes + """zone: {partitions: 1, dataNodesFilter: '"US"'}\n""")
    assert bare.lines[0]["dataNodes"] == ["B"]
    pair = ask(nodes + """zone: {partitions: 1, dataNodesFilter: '"region=US"'}\n""")
    assert pair.lines[0]["dataNodes"] == ["A"]


def test_the_filter_applies_when_the_scale_up_timer_fires(ask: Any) -> None:
    answer = ask(
        "topology: {A: [SSD]}\n"
        """zone: {partitions: 1, dataNodesAutoAdjustScaleUp: 10, dataNodesFilter: '"SSD"'}\n"""
        "events:\n- {at: 0, join: {B: [HDD], C: [SSD]}}\n"
    )
    assert timer(answer, 0, "scaleUp") == (10, "BC")
    assert data_nodes(answer, 10) == "AC"


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


def test_with_fewer_data_nodes_than_replicas_each_holds_one(ask: Any) -> None:
    answer = ask("topology: {A: {}, B: {}}\nzone: {partitions: 3, replicas: 5}\n")
    assert [answer.sets(0, n)[0] for n in range(3)] == ["AB", "AB", "AB"]


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
