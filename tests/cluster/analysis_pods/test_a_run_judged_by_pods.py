"""`zonequake run --analyze in-cluster`: a scenario on data nodes, and pods that judge the run.

The machine of the command has no Java, so that nothing can be judged on it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.analysis_pods.release import Analysis, Plant, Told, Watched, verdict_of
from tests.foreign.s3_server import BUCKET, SECRET_KEY
from tests.foreign.spoilt_runs import without_place

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(3600)]

PASSED, VIOLATED = 0, 1
TRIES = 5
"""A planted fault must be found within so many runs; the seeds differ."""

DEMO = "kill-during-catchup"
"""What `zonequake demo` runs."""
SCENARIO = "leader-kill"
SHORTER = (
    *("--set", "times={beforeSeconds: 5, afterSeconds: 3}"),
    *("--set", "faults.0.times=3", "--set", "faults.0.pauseSeconds=2"),
)


def said(ended: Told) -> str:
    return ended.stdout + ended.stderr


def check_that_pods_judged(ended: Told, document: bytes, watched: Watched) -> None:
    """The verdict names executors that are pods which were there, and so does the output."""
    analyzed = json.loads(document)["analyzed"]
    assert analyzed["master"].startswith("k8s://"), analyzed
    assert analyzed["executors"], "no executor ran a task"
    assert "driver" not in {executor["name"] for executor in analyzed["executors"]}
    assert all(executor["tasks"] > 0 for executor in analyzed["executors"])
    worked = {executor["address"] for executor in analyzed["executors"]}
    pods = {address_of(pod): pod["metadata"]["name"] for pod in watched.of("analysis-executor")}
    assert worked <= pods.keys(), f"executors {worked} are none of the pods {pods}"
    (driver,) = watched.of("analysis")
    name = driver["metadata"]["name"]
    assert f"in pod {name}, namespace" in said(ended)
    print(f"driver {name}; executors {[pods[address] for address in sorted(worked)]}")


def address_of(pod: dict[str, Any]) -> str:
    return str(pod["status"].get("podIP", ""))


def check_that_nothing_is_left(analysis: Analysis, ended: Told, folder: Path) -> None:
    """Neither pods, nor the run's files on the machine of the command, nor a key anywhere."""
    analysis.kubectl("wait", "--for=delete", "pod", "--all", "--timeout=120s")
    assert list((folder / "runs").iterdir()) == [], "the spool is gone"
    assert SECRET_KEY not in said(ended)
    analysis.check_rights()


def test_the_demos_run_is_judged_by_pods_as_by_this_machine(
    analysis: Analysis, plant: Plant, tmp_path: Path
) -> None:
    plant("")
    uri = f"s3://{BUCKET}/judged-by-pods"
    with analysis.watched() as watched:
        ended = analysis.run_and_analyze(DEMO, uri, "--seed", "1", folder=tmp_path)
    assert ended.returncode == PASSED, said(ended)
    document = verdict_of(analysis, uri)
    assert json.loads(document)["verdict"] == "passed"
    assert f"{uri}/report.html" in said(ended)
    assert re.search(r"^Uploaded: \d+ files", said(ended), re.MULTILINE), said(ended)
    check_that_pods_judged(ended, document, watched)
    check_that_nothing_is_left(analysis, ended, tmp_path)

    here = analysis.analyze_here(uri)
    assert here.returncode == PASSED, said(here)
    again = verdict_of(analysis, uri)
    assert json.loads(again)["analyzed"]["master"].startswith("local")
    assert without_place(again) == without_place(document)


def test_a_loss_of_acknowledged_writes_is_found_by_pods_and_ends_the_command_with_1(
    analysis: Analysis, plant: Plant, tmp_path: Path
) -> None:
    plant("ack-before-commit")
    for seed in range(1, TRIES + 1):
        uri = f"s3://{BUCKET}/planted-{seed}"
        with analysis.watched() as watched:
            ended = analysis.run_and_analyze(
                SCENARIO, uri, "--seed", str(seed), *SHORTER, folder=tmp_path
            )
        document = verdict_of(analysis, uri)
        told = json.loads(document)
        assert ended.returncode == told["exit_code"], said(ended)
        check_that_pods_judged(ended, document, watched)
        check_that_nothing_is_left(analysis, ended, tmp_path)
        lost = next(check for check in told["checks"] if check["name"] == "lost-writes")
        if ended.returncode == VIOLATED and lost["verdict"] == "violated":
            assert lost["witnesses"], "the operations that show it"
            print(f"try {seed} of {TRIES}: {lost['summary']}")
            return
    pytest.fail(f"no loss was found in {TRIES} runs: {said(ended)[-3000:]}")
