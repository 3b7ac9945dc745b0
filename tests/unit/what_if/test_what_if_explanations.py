"""--explain: a rule, with its document and step, behind each change."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

DOCUMENTS = (
    "distribution-zones",
    "rebalance",
    "in-memory-reconfiguration",
    "high-availability",
    "design §3",
    "hole ",
)
FIVE = "topology: {A: {}, B: {}, C: {}, D: {}, E: {}}\n"
ZONE = "zone: {partitions: 1, changePeers: %s%s}\npartitions: {0: {stable: [A, B, C]%s}}\nevents:\n"


def rule(answer: Any, seconds: float, key: str) -> str:
    found = [
        one["rule"]
        for line in answer.lines
        if line["at"] == seconds
        for one in line["because"]
        if key in (one.get("key"), one.get("action"))
    ]
    return "; ".join(found)


def asked(ask: Any, events: str, *, mode: str = "Queue", zone: str = "", keys: str = "") -> Any:
    return ask(FIVE + ZONE % (mode, zone, keys) + events, explain=True)


TARGET = "- {at: 1, target: {partition: 0, nodes: [A, B, D]}}\n"
OTHER = "- {at: 2, target: {partition: 0, nodes: [A, B, E]}}\n"
APPLIED = "- {at: 3, applied: {partition: 0, peers: [A, B, D]}}\n"
CAUGHT_UP = "- {at: 1.5, caughtUp: {partition: 0, peers: [A, B, D]}}\n"
HA = ", consistencyMode: HighAvailability"


def test_a_wish_names_the_trigger_step(ask: Any) -> None:
    answer = asked(ask, TARGET + OTHER)
    assert "Write new pending assignments (1)" in rule(answer, 1, "pending")
    assert "planned = calcPartAssignments()" in rule(answer, 2, "planned")
    assert "changePeersAsync" in rule(answer, 1, "changePeers")
    assert "hole 4" in rule(answer, 1, "startReplica")


def test_a_stable_switch_names_the_callback_and_hole_2(ask: Any) -> None:
    answer = asked(ask, TARGET + APPLIED)
    assert "stable = appliedPeers; hole 2" in rule(answer, 3, "stable")
    assert "pending = empty" in rule(answer, 3, "pending")
    assert "hole 15" in rule(answer, 3, "eraseReplica")


def test_adjustable_changes_name_their_approach(ask: Any) -> None:
    update = asked(ask, TARGET + CAUGHT_UP, mode="Update")
    assert "tryCatchUpFinish" in rule(update, 1.5, "pendingLock")
    assert "Approach 1" in rule(asked(ask, TARGET + OTHER, mode="Update"), 2, "pending")
    cancelled = TARGET + OTHER + "- {at: 3, cancelled: {partition: 0, result: true}}\n"
    cancel = asked(ask, cancelled, mode="Cancel")
    assert "Approach 2" in rule(cancel, 2, "cancelChangePeers")
    assert "Approach 2" in rule(cancel, 3, "pending")


def test_a_lost_replica_names_the_switch(ask: Any) -> None:
    lost = "- {at: 1, replicaLost: {partition: 0, node: C}}\n"
    done = "- {at: 2, applied: {partition: 0, peers: [A, B]}}\n"
    wish = "- {at: 0, target: {partition: 0, nodes: [A, B, C]}}\n"
    answer = asked(ask, wish + lost + done, zone=", storage: Volatile")
    assert "union(switch.reduce, currentNode)" in rule(answer, 1, "switchReduce")
    assert "On assignments.switch.reduce change" in rule(answer, 1, "pending")
    assert "On rebalance done" in rule(answer, 2, "switchReduce")


def test_a_reset_names_its_phases_and_the_chain(ask: Any) -> None:
    events = "- {at: 1, leave: [B, C]}\n- {at: 7, applied: {partition: 0, peers: [A], term: 2}}\n"
    answer = asked(ask, events, zone=HA, keys=", chain: [{nodes: [A, B, C], term: 1, index: 1}]")
    assert "initPartitionDistributionResetTimer" in rule(answer, 1, "timers.reset")
    assert "resetPartition" in rule(answer, 6, "pending")
    assert "resetPartition" in rule(answer, 6, "resetPeers")
    assert "addLast" in rule(answer, 7, "chain")


@pytest.mark.parametrize("mode", ["Queue", "Update", "Cancel"])
@pytest.mark.parametrize("zone", ["", HA, ", storage: Volatile"])
def test_nothing_changes_without_a_rule_of_a_document(ask: Any, mode: str, zone: str) -> None:
    events = (
        TARGET
        + CAUGHT_UP
        + OTHER
        + APPLIED
        + "- {at: 4, leave: [A]}\n- {at: 5, replicaLost: {partition: 0, node: B}}\n"
        + "- {at: 6, alter: {replicas: 2, dataNodesAutoAdjust: 3}}\n- {at: 7, join: {A: {}}}\n"
        + "- {at: 20, groupRestart: {partition: 0, alive: [A, B, D]}}\n- {at: 30, drop: true}\n"
    )
    answer = asked(ask, events, mode=mode, zone=zone)
    for before, after in pairwise(answer.lines):
        changed = {
            key
            for key in (before["partitions"].get("0") or {})
            if "0" in after["partitions"]
            and before["partitions"]["0"][key] != after["partitions"]["0"][key]
        } - {"changeTriggerRevision"}
        assert changed <= {one.get("key") for one in after["because"]}
        for one in after["because"]:
            assert any(document in one["rule"] for document in DOCUMENTS), one
