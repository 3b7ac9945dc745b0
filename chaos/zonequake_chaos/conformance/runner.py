"""Runs a conformance suite in place of a scenario's load and faults.

The phases before and after it are a run's own: set-up, collection, cleanup and its proof.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from zonequake_analysis.verdict import Verdict
from zonequake_chaos.conformance.client import AskingClient
from zonequake_chaos.conformance.judgement import StepResult
from zonequake_chaos.conformance.steps import ConformanceSteps
from zonequake_chaos.kit.registry import find_target
from zonequake_chaos.runner.plan.run_plan import PlanStep, RunPlan, StepState
from zonequake_chaos.runner.runner import Runner
from zonequake_chaos.scenario.run import ChaosRun
from zonequake_kube.errors import HarnessError, UsageError, in_words

SCENARIO = Path(__file__).with_name("check.yaml")

_TITLES = {
    "setup": "Deploy the target, and a load pod with its client",
    "answers": "Operations do what they say",
    "transactions": "Steps of a transaction are done together or not at all",
    "lost-answers": "Answers are lost: what may have happened is told as unknown; a lie is found",
    "replay": "A request that is sent again is applied once",
    "killed": "A leader is killed under operations; its successor is seen within a second",
    "dumps": "Members dump the same, and one that was altered another state",
    "collect": "Collect logs and metrics",
    "clean": "Clean up, and prove that nothing is left",
}


def conformance_plan(run: ChaosRun, *, seed: int, target: str = "") -> RunPlan:
    """Returns the suite as a plan. Raises UsageError if the scenario's zones aren't one group."""
    if [zone.partitions for zone in run.spec.zones] != [1]:
        found = ", ".join(f"{zone.name}: {zone.partitions}" for zone in run.spec.zones)
        raise UsageError(
            f"found zones with partitions {found}, expected one zone with one partition, in which "
            "the suite can name the leader: leave out --set zones"
        )
    steps = [
        PlanStep(number=str(number), key=key, title=title)
        for number, (key, title) in enumerate(_TITLES.items(), 1)
    ]
    named = f"{run.metadata.name} {target or run.spec.target.name}"
    return RunPlan(scenario=named, description=run.metadata.description, seed=seed, steps=steps)


class ConformanceRunner(Runner):
    """One suite; what a target does not keep is a violation of it."""

    async def _work(self) -> None:
        await self._phase("setup", self._set_up)
        steps = ConformanceSteps(
            package=find_target(self._spec.target.name),
            deployment=self._deployment,
            world=self._world(),
            client=AskingClient(self._loads[0]),
            dumps=self._folder.folder("dumps"),
            cuts_links=self._shell is not None,
        )
        for key, action in (
            ("answers", steps.answers),
            ("transactions", steps.transactions),
            ("lost-answers", steps.lost_answers),
            ("replay", steps.replayed_request),
            ("killed", steps.killed_connections),
            ("dumps", steps.dumps_of_members),
        ):
            await self._one_step(key, action)

    async def _one_step(self, key: str, action: Callable[[], Awaitable[StepResult]]) -> None:
        with self._progress.step(key) as step:
            try:
                result = await action()
            except HarnessError as error:  # the other steps may still say something
                result = StepResult(unknown=[in_words(error)])
            step.note = "; ".join([*result.problems, *result.unknown]) or result.note
            if result.problems or result.unknown:
                step.state = StepState.FAILED
        for verdict, texts in (
            (Verdict.VIOLATED, result.problems),
            (Verdict.UNKNOWN, result.unknown),
        ):
            for text in texts:
                self._problems.add(verdict, f"{key}: {text}")
