"""Precedence of verdicts, and the plan as it is printed."""

from __future__ import annotations

import io
import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from zonequake_analysis.harness_report import HarnessReport
from zonequake_analysis.verdict import EXIT_CODES, Verdict, worst
from zonequake_chaos.observe.view import ClusterView
from zonequake_chaos.record.event_log import EventLog, RunEvent
from zonequake_chaos.record.run_folder import RunFolder
from zonequake_chaos.runner.plan.plan_text import print_plan
from zonequake_chaos.runner.plan.run_plan import RunPlan, StepState, build_plan, predict_targets
from zonequake_chaos.runner.progress import RunProgress
from zonequake_chaos.scenario import manifest


def test_a_violation_is_never_masked_by_another_state() -> None:
    for others in itertools.permutations(Verdict):
        assert worst(others) is Verdict.VIOLATED


def test_the_order_is_that_of_the_interface() -> None:
    assert [EXIT_CODES[v] for v in Verdict] == [1, 4, 255, 2, 3, 0]
    assert worst([Verdict.PASSED, Verdict.SLO_BREACHED]) is Verdict.SLO_BREACHED
    assert worst([Verdict.SLO_BREACHED, Verdict.UNKNOWN]) is Verdict.UNKNOWN
    assert worst([]) is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("judged", "harness", "expected"),
    [
        (Verdict.PASSED, Verdict.PASSED, Verdict.PASSED),
        (Verdict.PASSED, Verdict.UNKNOWN, Verdict.UNKNOWN),
        (Verdict.VIOLATED, Verdict.HARNESS_FAILED, Verdict.VIOLATED),
        (Verdict.UNKNOWN, Verdict.CLEANUP_NOT_PROVEN, Verdict.CLEANUP_NOT_PROVEN),
    ],
)
def test_the_harnesss_own_verdict_joins_the_analysiss(
    judged: Verdict, harness: Verdict, expected: Verdict, tmp_path: Path
) -> None:
    folder = RunFolder.create(tmp_path / "run")
    report = HarnessReport(verdict=harness, problems=["why"])
    assert folder.conclude(judged, report, why="it broke off") is expected
    written = json.loads((folder.path / "verdict.json").read_text())
    assert written["exit_code"] == EXIT_CODES[expected]
    told = {check["name"]: check["summary"] for check in written["checks"]}
    assert told == {"harness": "why", "analysis": "it broke off"}
    assert (folder.path / "junit.xml").exists()
    assert "it broke off" in (folder.path / "summary.md").read_text()


def drawn(plan: RunPlan) -> str:
    shown = io.StringIO()
    print_plan(Console(file=shown, width=200), plan)
    return shown.getvalue()


def test_the_plan_shows_numbered_steps_and_every_fault_before_the_run() -> None:
    run = manifest.load("kill-during-catchup")
    text = drawn(build_plan(run, seed=42))
    assert "seed 42" in text
    assert "4.2 kill-catching-up: pod kill of catching up peer when CATCHING_UP" in text
    assert "30% to 85%" in text
    assert "of another partition than kill-catching-up's" in text


def test_the_plan_says_what_is_reset_by_hand_and_who_goes_on() -> None:
    text = drawn(build_plan(manifest.load("ha-dead-survivor"), seed=1))
    assert "reset by hand of partitions 0, 1, from the data of default-0, at once" in text
    all_of_them = ["faults.6.partitions=[]", "faults.6.survivor=null", "faults.6.zone=chaos"]
    text = drawn(build_plan(manifest.load("ha-dead-survivor", all_of_them), seed=1))
    assert "of all partitions of zone chaos that lost their majority, at once" in text


def test_the_same_tree_has_states_while_the_run_goes(clock: object) -> None:
    plan = build_plan(manifest.load("kill-during-catchup"), seed=1)
    console = Console(file=io.StringIO(), width=200)
    progress = RunProgress(plan=plan, console=console, clock=clock)  # type: ignore[arg-type]
    with progress.step("setup"):
        clock.time_ns += 1_500_000_000  # type: ignore[attr-defined]
    with pytest.raises(OSError, match="broken"), progress.step("preload"):
        raise OSError("broken")
    progress.skip_rest()
    assert plan.step("setup").state is StepState.DONE
    assert plan.step("preload").state is StepState.FAILED
    assert plan.step("final").state is StepState.SKIPPED
    text = drawn(plan)
    assert "✓ 1 Set up" in text
    assert "(1.5 s)" in text
    assert "✗ 2 Preload" in text
    assert "broken" in text


def test_a_dry_run_names_targets_where_the_trigger_holds_now(moving: ClusterView) -> None:
    run = manifest.load("kill-during-catchup")
    plans = []
    for _ in range(2):
        plan = build_plan(run, seed=5)
        predict_targets(plan, run, moving, random.Random("5/targets"))
        plans.append(plan)
    assert plans[0] == plans[1]
    assert plans[0].step("fault:kill-catching-up").note == "now: n3"


def test_a_dry_run_says_where_no_node_can_be_named_yet(
    view_of: Callable[..., ClusterView], group: type
) -> None:
    run = manifest.load("kill-during-catchup")
    plan = build_plan(run, seed=5)
    calm = view_of([group(partition=0, leader="n0", followers=("n1", "n2"))])
    predict_targets(plan, run, calm, random.Random(1))
    assert "when the trigger comes" in plan.step("fault:kill-leader").note


def test_events_are_whole_lines_with_all_fields(tmp_path: Path, clock: object) -> None:
    path = tmp_path / "events.jsonl"
    with EventLog(path, clock) as events:  # type: ignore[arg-type]
        events.emit("fault.start", {"fault": "kill"}, place=("z", 3), node="n0")
    (line,) = path.read_bytes().splitlines()
    event = msgspec.json.decode(line, type=RunEvent)
    assert (event.zone, event.partition, event.node, event.clock) == ("z", 3, "n0", "boot")
    assert set(json.loads(line)) == {
        "schema", "kind", "time", "wall", "clock", "source", "zone", "partition", "node", "data",
    }  # fmt: skip
