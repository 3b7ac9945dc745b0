"""What a file's reports mean: each is an event, and is believed (`rebalance`; hole 15)."""

from __future__ import annotations

from typing import Any

import pytest

from zonequake_ctl.what_if import rounds
from zonequake_operator.planning.plan import ZonePlan, plan
from zonequake_operator.resources.model import ZoneSnapshot
from zonequake_protocol.admin import ReplicaRole

FIVE = "topology: {A: {}, B: {}, C: {}, D: {}, E: {}}\n"
MODES = ["Queue", "Update", "Cancel"]


def zone(mode: str = "Update", more: str = "") -> str:
    return f"zone: {{partitions: 1, replicas: 3, changePeers: {mode}{more}}}\n"


def given(keys: str = "") -> str:
    return f"partitions: {{0: {{stable: [A, B, C], changeTriggerRevision: 5{keys}}}}}\nevents:\n"


def report(at: float, kind: str, about: str) -> str:
    return f"- {{at: {at}, {kind}: {{partition: 0, {about}}}}}\n"


def leave(at: float, nodes: str) -> str:
    return f"- {{at: {at}, leave: [{', '.join(nodes)}]}}\n"


def target(at: float, nodes: str) -> str:
    return report(at, "target", f"nodes: [{', '.join(nodes)}]")


def caught_up(at: float, peers: str) -> str:
    return report(at, "caughtUp", f"peers: [{', '.join(peers)}]")


# --------------------------------------------------------------------------------- tryCatchUpFinish


@pytest.mark.parametrize("mode", MODES)
def test_the_lock_is_granted_while_a_majority_of_the_peers_is_alive(ask: Any, mode: str) -> None:
    # D was caught up and has gone: A and B are two of the three peers.
    keys = given(", pending: [A, B, D]")
    answer = ask(FIVE + zone(mode) + keys + target(0, "ABD") + leave(1, "D") + caught_up(2, "ABD"))
    assert answer.keys(2)["pendingLock"] is True


@pytest.mark.parametrize("mode", MODES)
def test_the_lock_is_not_granted_without_a_majority_of_the_peers(ask: Any, mode: str) -> None:
    keys = given(", pending: [A, D, E]")
    events = target(0, "ADE") + leave(1, "DE") + caught_up(2, "ADE")
    answer = ask(FIVE + zone(mode) + keys + events)
    assert answer.sets(2) == ("ABC", "ADE", "")
    assert answer.keys(2)["pendingLock"] is False


def test_only_the_peers_count_for_the_lock_not_the_members_of_stable(ask: Any) -> None:
    keys = given(", pending: [C, D, E]")
    events = target(0, "CDE") + leave(1, "AB") + caught_up(2, "CDE")
    answer = ask(FIVE + zone() + keys + events)
    assert answer.keys(2)["pendingLock"] is True


def test_a_report_of_a_change_that_never_could_begin_is_believed(ask: Any) -> None:
    events = leave(0.5, "E") + target(1, "ABE") + caught_up(2, "ABE")
    answer = ask(FIVE + zone() + given() + events)
    assert answer.keys(2)["pendingLock"] is True


# ----------------------------------------------------------- onNewPeersConfigurationApplied, stages


def test_a_callback_of_peers_that_have_all_left_meanwhile_switches_stable(ask: Any) -> None:
    keys = given(", pending: [D], pendingLock: true")
    applied = report(2, "applied", "peers: [D], term: 2, index: 60")
    answer = ask(FIVE + zone() + keys + target(0, "D") + leave(1, "D") + applied)
    assert answer.sets(2) == ("D", "", "")


def test_stage_none_empties_the_lock_also_if_nobody_could_lead(ask: Any) -> None:
    keys = given(", pending: [A, B, D], pendingLock: true")
    none = report(2, "stage", "stage: None")
    answer = ask(FIVE + zone() + keys + leave(1, "BC") + none)
    assert answer.keys(1)["pendingLock"] is True
    assert answer.keys(2)["pendingLock"] is False


def test_a_cancellation_that_was_accepted_moves_planned_also_if_nobody_could_lead(
    ask: Any,
) -> None:
    keys = given(", pending: [A, B, D], planned: [A, B, E]")
    cancelled = report(2, "cancelled", "result: true")
    events = target(0, "ABE") + leave(1, "BC") + cancelled
    answer = ask(FIVE + zone("Cancel") + keys + events)
    assert answer.sets(2) == ("ABC", "ABE", "")


@pytest.mark.parametrize("stage", ["CatchingUp", "Joint", "Stable", "None"])
def test_a_stage_without_a_pending_changes_nothing(ask: Any, stage: str) -> None:
    answer = ask(FIVE + zone() + given() + report(1, "stage", f"stage: {stage}"))
    assert answer.changes() == [0]


@pytest.mark.parametrize("node", ["A", "D"])
def test_a_leader_with_peers_that_nobody_asked_for_changes_nothing(ask: Any, node: str) -> None:
    elected = report(1, "leaderElected", f"node: {node}, term: 3, peers: [A, B, D]")
    answer = ask(FIVE + zone() + given() + elected)
    assert answer.changes() == [0]


def test_what_was_believed_for_one_report_leads_nobody_later(ask: Any) -> None:
    keys = given(", pending: [C, D, E]")
    ha = ", consistencyMode: HighAvailability, partitionDistributionResetTimeout: 5"
    logs = "replicas: {0: {C: {term: 1, index: 9}, D: {term: 1, index: 8}, E: {term: 1}}}\n"
    events = target(0, "CDE") + leave(1, "AB") + caught_up(2, "CDE")
    answer = ask(FIVE + zone(more=ha) + logs + keys + events)
    assert answer.keys(2)["pendingLock"] is True
    assert answer.sets(6) == ("ABC", "C!", "CDE*")  # stable has lost its majority all the same


# --------------------------------------------------------------------- Pending that is stable again


@pytest.mark.parametrize("mode", MODES)
def test_a_blocked_pending_that_the_wish_takes_back_waits_for_its_report(
    ask: Any, mode: str
) -> None:
    # E isn't there: the first change can't begin.
    events = leave(0.5, "E") + target(1, "ABE") + target(2, "ABC")
    done = report(3, "applied", "peers: [A, B, C], term: 2, index: 60")
    answer = ask(FIVE + zone(mode) + given() + events + done)
    assert answer.sets(2) == ("ABC", "ABC", "")
    assert answer.actions(2) == ["changePeers A ABC"]
    assert answer.sets(3) == ("ABC", "", "")


@pytest.mark.parametrize(
    ("kind", "about"),
    [
        ("stage", "stage: None"),
        ("reconfigurationError", "status: CatchUpTimeout"),
        ("leaderElected", "node: A, term: 3"),
    ],
)
def test_hole_15_a_report_with_a_configuration_equal_to_pending_is_the_stable_switch(
    ask: Any, kind: str, about: str
) -> None:
    keys = given(", pending: [A, B, D]")
    answer = ask(FIVE + zone() + keys + target(1, "ABC") + report(2, kind, about))
    assert answer.sets(1) == ("ABC", "ABC", "")
    assert answer.sets(2) == ("ABC", "", "")


def test_a_leader_that_leaves_is_no_report(ask: Any) -> None:
    keys = given(", pending: [A, B, D]")
    answer = ask(FIVE + zone() + keys + target(1, "ABC") + leave(2, "A"))
    assert answer.sets(2) == ("ABC", "ABC", "")


def test_a_wish_that_replaces_a_pending_equal_to_stable_is_not_told_as_a_stable_switch(
    ask: Any,
) -> None:
    keys = given(", pending: [A, B, D]")
    answer = ask(FIVE + zone() + keys + target(1, "ABC") + target(2, "ABE"), explain=True)
    told = {one.get("key"): one["rule"] for one in answer.at(2)["because"]}
    assert "Approach 1" in told["pending"]


# ---------------------------------------------------------------------------------------- autoApply


def test_with_auto_apply_a_change_waits_for_a_majority_of_its_peers(ask: Any) -> None:
    events = target(0, "ABC") + leave(1, "C") + target(2, "CD") + "- {at: 3, join: {C: {}}}\n"
    answer = ask(FIVE + zone() + "autoApply: true\n" + given() + events)
    assert answer.sets(2) == ("ABC", "CD", "")
    assert answer.sets(3)[0] == "CD"


def test_with_auto_apply_a_change_without_peers_that_live_gives_way_to_the_next(ask: Any) -> None:
    events = target(0, "ABC") + leave(1, "C") + target(2, "C") + target(3, "AB")
    answer = ask(FIVE + zone() + "autoApply: true\n" + given() + events)
    assert answer.sets(2) == ("ABC", "C", "")
    assert answer.sets(3) == ("AB", "", "")


# ---------------------------------------------------------------------------------------- the chain


def test_an_entry_between_the_two_phases_of_a_reset_belongs_to_its_link(ask: Any) -> None:
    ha = ", consistencyMode: HighAvailability, dataNodesAutoAdjustScaleUp: 0"
    logs = (
        "replicas: {0: {A: {term: 2, index: 5, lastUserCmdTerm: 2, lastUserCmdIdx: 5},"
        " B: {term: 1, index: 8, lastUserCmdTerm: 1, lastUserCmdIdx: 8}}}\n"
    )
    keys = (
        "partitions: {0: {stable: [A, B, C, D, E],"
        " chain: [{nodes: [A, B, C, D, E], term: 1, index: 1}]}}\nevents:\n"
    )
    events = (
        leave(1, "CDE")
        + report(7, "applied", "peers: [A], term: 2, index: 3")
        + report(8, "applied", "peers: [A, B], term: 2, index: 9")
        + report(20, "groupRestart", "alive: [A, B]")
    )
    answer = ask(FIVE + zone(more=ha).replace("replicas: 3", "replicas: 5") + logs + keys + events)
    assert answer.sets(8) == ("AB", "", "")
    assert answer.sets(20) == ("AB", "A!", "AB*")


def test_hole_9_a_reset_that_was_under_way_when_all_stopped_gives_way_to_the_unwound_one(
    ask: Any,
) -> None:
    ha = ", consistencyMode: HighAvailability"
    logs = (
        "replicas: {0: {A: {term: 1, index: 9, lastUserCmdTerm: 1, lastUserCmdIdx: 8},"
        " B: {term: 1, index: 7, lastUserCmdTerm: 1, lastUserCmdIdx: 7}}}\n"
    )
    keys = (
        "partitions: {0: {stable: [A], pending: {nodes: [A], force: true}, chain: ["
        "{nodes: [A, B, C], term: 1, index: 1}, {nodes: [A], term: 2, index: 9}]}}\nevents:\n"
    )
    restart = report(1, "groupRestart", "alive: [A, B]")
    answer = ask(FIVE + zone(more=ha) + logs + keys + restart)
    assert answer.sets(1) == ("A", "A!", "AB*")  # the same node, but B is to follow it


# --------------------------------------------------------------------------------- an empty target


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ha", ["", ", consistencyMode: HighAvailability"])
def test_hole_10_an_empty_target_changes_no_set(ask: Any, mode: str, ha: str) -> None:
    keys = given(", pending: [A, B, D], planned: [A, B, E]")
    answer = ask(FIVE + zone(mode, ha) + keys + target(1, ""))
    assert answer.sets(1) == ("ABC", "ABD", "ABE")
    assert answer.keys(1)["changeTriggerRevision"] == 6


def test_an_empty_target_stands_in_until_the_zone_changes(ask: Any) -> None:
    applied = report(2, "applied", "peers: [A, B, D], term: 2, index: 60")
    events = target(1, "") + applied + "- {at: 3, alter: {replicas: 5}}\n"
    answer = ask(FIVE + zone() + given(", pending: [A, B, D]") + events)
    assert answer.sets(2) == ("ABD", "", "")
    assert answer.sets(3) == ("ABD", "ABCDE", "")


@pytest.mark.parametrize("event", ["join: {}", "leave: []", "join: {}, leave: []"])
def test_a_topology_version_that_names_no_node_has_its_cause_all_the_same(
    ask: Any, event: str
) -> None:
    answer = ask(FIVE + zone() + f"events:\n- {{at: 1, {event}}}\n")
    assert answer.at(1)["cause"] == ", ".join(k for k in ("join", "leave") if k in event)


# ------------------------------------------------------- what the operator itself has to refuse


def snapshots(monkeypatch: pytest.MonkeyPatch) -> list[ZoneSnapshot]:
    """All that the operator's planner is asked from now on."""
    asked: list[ZoneSnapshot] = []

    def and_keep(snapshot: ZoneSnapshot, **options: Any) -> ZonePlan:
        asked.append(snapshot)
        return plan(snapshot, **options)

    monkeypatch.setattr(rounds, "plan", and_keep)
    return asked


def leaders(snapshot: ZoneSnapshot) -> dict[str, int]:
    """Who reports as the leader of partition 0, and in which term."""
    return {
        node: replica.term
        for node, report in snapshot.reports.items()
        for replica in report.replicas
        if replica.role is ReplicaRole.LEADER
    }


def test_a_deposed_leader_reports_and_the_operator_believes_the_other(
    ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = snapshots(monkeypatch)
    elected = report(2, "leaderElected", "node: B, term: 3")
    deposed = report(3, "leaderElected", "node: C, term: 2, peers: [A, B, D]")
    answer = ask(FIVE + zone() + given() + target(1, "ABD") + elected + deposed)
    assert {"B": 3, "C": 2} in map(leaders, asked)
    assert answer.changes() == [0, 1, 2]
    assert leaders(asked[-1]) in ({"B": 3}, {"B": 3, "C": 2})


def test_after_a_group_restart_timers_wait_for_who_is_away_and_reset_nothing_that_stopped(
    ask: Any,
) -> None:
    spec = ", consistencyMode: HighAvailability, partitionDistributionResetTimeout: 10"
    spec += ", dataNodesAutoAdjustScaleUp: 100, dataNodesAutoAdjustScaleDown: 100"
    events = leave(1, "AB")
    events += report(4, "groupRestart", "alive: [A]") + report(30, "groupRestart", "alive: [A, B]")
    answer = ask(FIVE + zone(more=spec) + given() + events)
    timers = {at: answer.at(at)["timers"] for at in (1, 4, 11, 30)}
    assert timers[1]["reset"] == timers[4]["reset"] == {"at": 11, "nodes": ["A", "B"]}
    assert timers[1]["scaleDown"]["nodes"] == ["A", "B"]
    assert timers[4]["scaleDown"]["nodes"] == ["B"], "C has ended without a version"
    assert timers[11]["reset"] is None
    assert not answer.sets(11)[1].endswith("!")
    assert timers[30]["scaleDown"] is None


def test_the_leaders_own_report_of_an_older_term_is_asked_and_moves_nothing(
    ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = snapshots(monkeypatch)
    elected = report(2, "leaderElected", "node: B, term: 3")
    late = report(3, "leaderElected", "node: B, term: 2, peers: [A, B, D]")
    answer = ask(FIVE + zone() + given() + target(1, "ABD") + elected + late)
    assert {"B": 2} in map(leaders, asked)
    assert answer.changes() == [0, 1, 2]
    assert leaders(asked[-1]) in ({"B": 3}, {"B": 2})


def test_a_configuration_of_an_older_term_than_the_leaders_is_applied_all_the_same(
    ask: Any,
) -> None:
    """The term is that of its entry, which was committed before the leader was elected."""
    elected = report(2, "leaderElected", "node: B, term: 3")
    applied = report(3, "applied", "peers: [A, B, D], term: 2, index: 70")
    answer = ask(FIVE + zone() + given() + target(1, "ABD") + elected + applied)
    assert answer.keys(3)["stable"] == ["A", "B", "D"]
    assert answer.keys(3)["pending"] is None


def test_a_deposed_leader_whom_no_member_contradicts_is_asked_and_moves_nothing(
    ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = snapshots(monkeypatch)
    elected = report(2, "leaderElected", "node: B, term: 3")
    deposed = report(4, "leaderElected", "node: C, term: 2")
    events = target(1, "ABD") + elected + leave(3, "AB") + deposed
    answer = ask(FIVE + zone() + given() + events)
    assert {"C": 2} in map(leaders, asked)
    assert answer.keys(4) == answer.keys(3)
    assert answer.actions(4) == ["changePeers C ABD"], "alone it can't commit that"


def test_the_operator_hears_that_other_peers_than_pendings_are_caught_up(
    ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = snapshots(monkeypatch)
    events = target(1, "ABD") + target(2, "ABE") + caught_up(3, "ABD")
    answer = ask(FIVE + zone() + given() + events)
    told = {
        "".join(peer.node for peer in replica.stage_peers)
        for snapshot in asked
        for report in snapshot.reports.values()
        for replica in report.replicas
        if replica.caught_up
    }
    assert told == {"ABD"}
    assert answer.keys(3)["pendingLock"] is False
    assert answer.actions(3) == ["changePeers A ABE"], "it asks again for what is pending"


def test_the_operator_hears_of_a_trigger_whose_revision_it_has_handled(
    ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = snapshots(monkeypatch)
    fresh = "- {at: 1, revision: 10, target: {partition: 0, nodes: [A, B, D]}}\n"
    stale = "- {at: 2, revision: 10, target: {partition: 0, nodes: [A, B, E]}}\n"
    answer = ask(FIVE + zone() + given() + fresh + "until: 1.5\n")
    rounds_before = len(asked)
    answer = ask(FIVE + zone() + given() + fresh + stale)
    assert len(asked) > 2 * rounds_before
    assert answer.changes() == [0, 1]
    later = stale.replace("at: 2, revision: 10", "at: 3, revision: 11")
    answer = ask(FIVE + zone() + given() + fresh + stale + later)
    assert answer.sets(3) == ("ABC", "ABE", "")


def test_a_cancellation_that_was_refused_is_a_report_that_moves_nothing(
    ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = snapshots(monkeypatch)
    events = target(1, "ABD") + target(2, "ABE")
    ask(FIVE + zone("Cancel") + given() + events)
    rounds_before = len(asked)
    refused = report(3, "cancelled", "result: false")
    answer = ask(FIVE + zone("Cancel") + given() + events + refused)
    assert len(asked) > 2 * rounds_before
    assert answer.sets(3) == ("ABC", "ABD", "ABE")


# ----------------------------------------------------------- what two reports leave of a cluster


@pytest.mark.parametrize(
    "event",
    [
        report(1, "groupRestart", "alive: [A, B]"),
        report(1, "replicaLost", "node: C"),
    ],
)
def test_a_restart_that_is_reported_is_no_event_of_the_topology(ask: Any, event: str) -> None:
    ha = ", consistencyMode: HighAvailability, dataNodesAutoAdjustScaleDown: 9"
    answer = ask(FIVE + zone(more=ha) + given() + event + "until: 2\n")
    assert answer.at(0)["revision"] == answer.at(2)["revision"]
    assert not any(answer.at(2)["timers"].values())
    events = leave(1, "ABC") + "- {at: 2, join: {A: {}, B: {}}}\n"
    cluster = ask(FIVE + zone(more=ha) + given() + events + "until: 2.5\n")
    assert cluster.at(1)["timers"]["reset"] == {"at": 6, "nodes": ["A", "B", "C"]}
    assert cluster.at(2)["timers"]["scaleDown"] == {"at": 10, "nodes": ["C"]}
    assert cluster.at(2)["revision"] == answer.at(0)["revision"] + 2
