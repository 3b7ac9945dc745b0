"""Several partitions in one file: each is as if it were alone."""

from __future__ import annotations

from typing import Any

import pytest

FIVE = "topology: {A: {}, B: {}, C: {}, D: {}, E: {}}\n"
KEYS = "partitions: {0: {stable: [A, B, C]}, 1: {stable: [A, B, C]}}\n"


def target(at: float, partition: int, nodes: str) -> str:
    return f"- {{at: {at}, target: {{partition: {partition}, nodes: [{', '.join(nodes)}]}}}}\n"


def test_a_replica_that_starts_again_is_not_forgotten_beside_a_partition_that_moves(
    ask: Any,
) -> None:
    answer = ask(
        "topology: {A: {}, B: {}, C: {}, D: {}}\nzone: {partitions: 20, replicas: 2}\nevents:\n"
        "- {at: 1, leave: [C]}\n- {at: 2, join: {C: {}, E: {}}}\n"
    )
    line = answer.at(2)
    started = {
        a["partition"] for a in line["actions"] if (a["do"], a["node"]) == ("startReplica", "C")
    }
    holding = {int(n) for n, keys in line["partitions"].items() if "C" in keys["stable"]}
    moving = {int(n) for n, keys in line["partitions"].items() if keys["pending"]}
    assert moving
    assert holding - moving
    assert started >= holding


def test_a_cancellation_that_is_asked_for_is_not_asked_again_for_another_partition(
    ask: Any,
) -> None:
    events = (
        target(1, 0, "ABD")
        + target(2, 1, "ABC")
        + target(3, 0, "ABE")
        + "- {at: 4, leaderElected: {partition: 1, node: B, term: 3}}\n"
        + target(5, 1, "ABC")
    )
    zone = "zone: {partitions: 2, replicas: 3, changePeers: Cancel}\n"
    answer = ask(FIVE + zone + KEYS + "events:\n" + events)
    cancelled = [a for one in answer.lines for a in one["actions"] if "cancel" in a["do"]]
    assert [(a["partition"], a["node"]) for a in cancelled if a["partition"] == 0] == [(0, "A")]


@pytest.mark.parametrize("first", [0, 1])
def test_each_failed_change_has_a_retry_of_its_own(ask: Any, first: int) -> None:
    failure = "reconfigurationError: {{partition: {}, status: CatchUpTimeout}}"
    events = target(1, 0, "ABD") + target(2, 1, "ABD")
    events += "".join(
        f"- {{at: {at}, {failure.format(n)}}}\n"
        for at, n in ((8, first), (8, 1 - first), (8.1, first), (8.1, 1 - first))
    )
    answer = ask(FIVE + "zone: {partitions: 2}\n" + KEYS + "events:\n" + events + "until: 60\n")
    again = [
        a["partition"]
        for one in answer.lines
        if one["at"] > 8.1
        for a in one["actions"]
        if a["do"] == "changePeers"
    ]
    assert sorted(again) == [0, 1]
