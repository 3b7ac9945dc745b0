"""Scenarios on a real node: what a sound store passes, and that planted faults are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

TRIES = 5
"""A planted fault must be found within so many runs; the seeds differ."""

SMALL = (
    "zones.0.partitions=4",
    "load.bulkKeysPerPartition=512",
    "times={beforeSeconds: 10, afterSeconds: 8}",
)


def test_kill_during_catchup_hits_its_stages_and_loses_nothing(run_scenario: Any) -> None:
    judged = run_scenario("kill-during-catchup", *SMALL)
    assert judged.exit_code == 0, judged.output
    hits = {hit["data"]["fault"]: hit["data"] for hit in judged.events("fault.hit")}
    assert hits["kill-catching-up"]["stage"] == "CATCHING_UP"
    assert hits["kill-catching-up"]["progress"] >= 0.3
    assert hits["kill-leader"]["stage"] in ("CATCHING_UP", "JOINT")


def test_a_run_whose_faults_are_taken_away_is_unknown(run_scenario: Any) -> None:
    judged = run_scenario("leader-kill", "faults=[]", "times={beforeSeconds: 5, afterSeconds: 3}")
    assert judged.exit_code == 2, judged.output


def test_a_run_without_load_is_unknown(run_scenario: Any) -> None:
    judged = run_scenario(
        "leader-kill",
        "load={registerRate: 0, listRate: 0, probes: false}",
        "faults.0.times=1",
        "times={beforeSeconds: 5, afterSeconds: 3}",
    )
    assert judged.exit_code == 2, judged.output


@pytest.mark.parametrize(
    ("fault", "scenario", "checks"),
    [
        ("ack-before-commit", "leader-kill", {"lost-writes"}),
        ("local-reads", "follower-reads", {"stale-reads", "linearizability"}),
        ("drop-log-tail", "kill-all", {"lost-writes"}),
        ("forget-request-id", "leader-churn", {"duplicates"}),
        ("joint-before-caught-up", "kill-during-catchup", {"joint-after-caught-up"}),
    ],
)
def test_a_planted_fault_is_found(
    fault: str,
    scenario: str,
    checks: set[str],
    run_scenario: Any,
    planted: Callable[[str], Any],
) -> None:
    with planted(fault):
        for seed in range(1, TRIES + 1):
            judged = run_scenario(scenario, seed=seed)
            if judged.exit_code == 1 and judged.failed_checks() & checks:
                return
    pytest.fail(f"{fault} was not found in {TRIES} runs of {scenario}: {judged.output[-3000:]}")
