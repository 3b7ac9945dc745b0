"""Draws a plan as a rich tree."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from zonequake_chaos.runner.plan.run_plan import PlanStep, RunPlan, StepState

_SIGNS = {
    StepState.PLANNED: ("·", "dim"),
    StepState.RUNNING: ("▶", "cyan"),
    StepState.DONE: ("✓", "green"),
    StepState.MISSED: ("∅", "yellow"),
    StepState.FAILED: ("✗", "red"),
    StepState.SKIPPED: ("−", "dim"),
}


def plan_tree(plan: RunPlan) -> Tree:
    """Returns the plan with each step's sign, note and time."""
    tree = Tree(Text.assemble((plan.scenario, "bold"), f"  seed {plan.seed}"))
    for step in plan.steps:
        _add(tree, step)
    return tree


def step_line(step: PlanStep) -> Text:
    """Returns one step as a line, without its children."""
    sign, style = _SIGNS[step.state]
    line = Text.assemble((f"{sign} ", style), (f"{step.number} ", "bold"), step.title)
    if step.note:
        line.append(f" — {step.note}", style=style)
    if step.took_s is not None:
        line.append(f" ({step.took_s:.1f} s)", style="dim")
    return line


def print_plan(console: Console, plan: RunPlan) -> None:
    """Prints the tree, with the scenario's description above it."""
    if plan.description:
        console.print(Text(plan.description.strip()), style="dim")
    console.print(plan_tree(plan))


def _add(tree: Tree, step: PlanStep) -> None:
    branch = tree.add(step_line(step))
    for child in step.steps:
        _add(branch, child)
