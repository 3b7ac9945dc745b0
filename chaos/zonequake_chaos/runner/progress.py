"""Shows the progress of a run: each step of the plan as it begins and ends, with its time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console

from zonequake_chaos.record.clock import RunClock
from zonequake_chaos.runner.plan.plan_text import step_line
from zonequake_chaos.runner.plan.run_plan import PlanStep, RunPlan, StepState
from zonequake_kube.errors import in_words


class RunProgress:
    """Sets the states of the plan's steps and prints each change."""

    def __init__(self, *, plan: RunPlan, console: Console, clock: RunClock) -> None:
        self.plan = plan
        self._console = console
        self._clock = clock

    @contextlib.contextmanager
    def step(self, key: str) -> Iterator[PlanStep]:
        """Runs one step; the block may set its state and note."""
        step = self.plan.step(key)
        started_ns = self._clock.now().time_ns
        step.state = StepState.RUNNING
        self._console.print(step_line(step))
        try:
            yield step
        except BaseException as error:
            step.state = StepState.FAILED
            step.note = step.note or in_words(error)
            raise
        else:
            if step.state is StepState.RUNNING:
                step.state = StepState.DONE
        finally:
            step.took_s = (self._clock.now().time_ns - started_ns) / 1e9
            self._console.print(step_line(step))

    def note(self, key: str, text: str) -> None:
        """Adds a note to a running step."""
        step = self.plan.step(key)
        step.note = text
        self._console.print(step_line(step))

    def skip_rest(self) -> None:
        """Sets the steps that never began to skipped."""
        for step in self.plan.walk():
            if step.state is StepState.PLANNED:
                step.state = StepState.SKIPPED
