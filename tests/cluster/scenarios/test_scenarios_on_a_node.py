"""Scenarios on a real node: what a sound store passes, and that planted faults are found.

The sound runs come first: each change of the planted fault restarts all data nodes.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from zonequake_chaos.scenario import manifest
from zonequake_store.node.app import _PLANTED_YOUTH_S

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

TRIES = 5
"""A planted fault must be found within so many runs; the seeds differ."""

SHORT = "times={beforeSeconds: 5, afterSeconds: 3}"

SHORTER = {
    "leader-kill": (
        SHORT,
        "faults.0.times=3",
        "faults.0.pauseSeconds=2",
        "load.registerRate=80",
        "load.listRate=60",
    ),
    "follower-reads": (SHORT,),
    "kill-all": (SHORT,),
    "failed-fsync": (SHORT,),
    "clock-step": (SHORT, "faults.0.holdSeconds=3", "faults.1.holdSeconds=3"),
    "leader-churn": (SHORT, "faults.0.times=2", "faults.1.times=2"),
    # With its planted fault the stage is over at once: the triggers can't come, and need no wait.
    "kill-during-catchup": (
        SHORT,
        "zones.0.partitions=4",
        "load.bulkKeysPerPartition=256",
        "faults.1.trigger.timeoutSeconds=8",
        "faults.2.trigger.timeoutSeconds=4",
    ),
}
"""What makes a scenario fit for a test: less time, less data."""

REGISTERS_AND_LISTS = ("leader-kill", "follower-reads", "kill-all", "leader-churn")


def test_kill_during_catchup_hits_its_stages_and_loses_nothing(run_scenario: Any) -> None:
    judged = run_scenario(
        "kill-during-catchup",
        "zones.0.partitions=4",
        "load.registerRate=40",
        "load.listRate=20",
        "times={beforeSeconds: 5, afterSeconds: 3}",
        whole=True,
    )
    assert judged.exit_code == 0, judged.output
    hits = {hit["data"]["fault"]: hit["data"] for hit in judged.events("fault.hit")}
    assert hits["kill-catching-up"]["stage"] == "CATCHING_UP"
    assert hits["kill-catching-up"]["progress"] >= 0.3
    assert hits["kill-leader"]["stage"] in ("CATCHING_UP", "JOINT")


@pytest.mark.long
def test_a_sound_store_passes_what_finds_the_planted_faults(
    run_scenario: Any, tmp_path: Path
) -> None:
    """All of those scenarios' faults and the load of each, in one run, to save their set-ups."""
    shipped = {name: yaml.safe_load(text) for name, text in manifest.shipped().items()}
    scenario = shipped["leader-churn"]
    scenario["spec"]["load"]["readsAt"] = shipped["follower-reads"]["spec"]["load"]["readsAt"]
    scenario["spec"]["faults"] = [
        fault | {"name": f"{name}-{fault['name']}", "times": min(2, fault.get("times", 1))}
        for name in REGISTERS_AND_LISTS
        for fault in shipped[name]["spec"]["faults"]
    ]
    scenario["spec"]["floor"] = shipped["kill-all"]["spec"]["floor"]
    file = tmp_path / "sound.yaml"
    file.write_text(yaml.safe_dump(scenario))
    judged = run_scenario(str(file), SHORT)
    assert judged.exit_code == 0, judged.output


@pytest.mark.long
def test_a_run_whose_faults_are_taken_away_is_unknown(run_scenario: Any) -> None:
    judged = run_scenario("leader-kill", "faults=[]", SHORT)
    assert judged.exit_code == 2, judged.output
    assert "no fault was injected" in judged.says("harness")


@pytest.mark.long
def test_a_run_without_load_is_unknown(run_scenario: Any) -> None:
    judged = run_scenario(
        "leader-kill",
        "load={registerRate: 0, listRate: 0, probeRate: 0}",
        "faults.0.times=1",
        SHORT,
    )
    assert judged.exit_code == 2, judged.output
    assert "without load nothing can be shown" in judged.says("harness")


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "check"), [("late-hand-over", "availability"), ("late-answers", "latency")]
)
def test_a_store_that_is_slow_in_a_restart_misses_its_objectives(
    fault: str, check: str, release: Any, run_scenario: Any
) -> None:
    """A try on a machine that is too busy to judge is unknown (2); no try may pass."""
    release.plant(fault)
    time.sleep(_PLANTED_YOUTH_S)  # a process answers late while it is young: not before the faults
    for seed in range(1, TRIES + 1):
        judged = run_scenario("rolling-restart", seed=seed, fault=fault)
        missed = {c["name"] for c in judged.verdict["checks"] if c["verdict"] == "slo-breached"}
        assert judged.exit_code in (2, 3), judged.output
        if judged.exit_code == 3 and check in missed:
            assert judged.verdict["numbers"]["p99_control_ms"] is not None
            print(f"{fault}: try {seed} of {TRIES}: {judged.says(check)}")
            return
    pytest.fail(f"{fault} was not found in {TRIES} runs: {judged.output[-3000:]}")


@pytest.mark.parametrize(
    ("fault", "scenario", "check"),
    [
        pytest.param("drop-log-tail", "kill-all", "lost-writes", marks=pytest.mark.long),
        pytest.param("forget-request-id", "leader-churn", "duplicates", marks=pytest.mark.long),
        pytest.param("ignore-failed-sync", "failed-fsync", "hidden-writes", marks=pytest.mark.long),
        pytest.param("order-by-wall-clock", "clock-step", "lost-writes", marks=pytest.mark.long),
        ("ack-before-commit", "leader-kill", "lost-writes"),
        pytest.param(
            *("joint-before-caught-up", "kill-during-catchup", "joint-after-caught-up"),
            marks=pytest.mark.long,
        ),
        # The last one stays planted for the tests behind this file's: a change restarts all nodes.
        pytest.param("local-reads", "follower-reads", "stale-reads", marks=pytest.mark.long),
    ],
)
def test_a_planted_fault_is_found(fault: str, scenario: str, check: str, run_scenario: Any) -> None:
    for seed in range(1, TRIES + 1):
        judged = run_scenario(scenario, *SHORTER[scenario], seed=seed, fault=fault)
        if judged.exit_code == 1 and check in judged.failed_checks():
            print(f"{fault}: {check}, try {seed} of {TRIES}: {judged.says(check)}")
            assert check in (judged.folder / "report.html").read_text()
            return
    pytest.fail(f"{fault} was not found in {TRIES} runs of {scenario}: {judged.output[-3000:]}")
