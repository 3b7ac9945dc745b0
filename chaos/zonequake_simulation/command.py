"""`zonequake simulate`: hunt for faults in virtual time, replay a seed, shrink its faults.

Exit codes as everywhere: 0 no rule was broken, 1 one was, 2 nothing was shown (the seeds committed
nothing), 254 usage error, 255 the simulation itself failed.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from zonequake_analysis.verdict import EXIT_CODES, Verdict
from zonequake_kube.errors import HarnessError, UsageError
from zonequake_simulation.diagram import svg
from zonequake_simulation.plan import FaultPlan
from zonequake_simulation.replay import read_plan, replay, shrunk, write_plan
from zonequake_simulation.report import SeedReport
from zonequake_simulation.scenario import Scenario
from zonequake_simulation.scenarios import SCENARIOS
from zonequake_simulation.seeds import (
    TOLD,
    TOLD_IF_ANY,
    find_scenario,
    parse_seeds,
    simulate_many,
    summed,
)
from zonequake_simulation.trace import excerpt, text_lines

_SHOWN_FAILURES = 10
_MAX_LINES = 20
"""Without --each, seeds get a line each up to this number of seeds."""

app = typer.Typer(name="simulate", add_completion=False)
console = Console(highlight=False, soft_wrap=True)
progress_console = Console(stderr=True, highlight=False, soft_wrap=True)

Seeds = Annotated[
    str | None, typer.Option("--seeds", help="Seeds to run: A..B (inclusive), or one number.")
]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, help="One seed; with --trace or --shrink.")
]
ScenarioName = Annotated[
    str,
    typer.Option("--scenario", "-s", help=f"Scenario: {', '.join(SCENARIOS)}."),
]
StepCount = Annotated[
    int | None,
    typer.Option(
        "--steps",
        min=1,
        help="Events with faults before the system must settle. Default: the scenario's.",
    ),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Processes. Default: one per core.")
]
Each = Annotated[bool, typer.Option("--each", help="Print a line for each seed.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="One JSON object per seed (or event) on standard output.")
]
Trace = Annotated[
    bool,
    typer.Option("--trace", help="Replay --seed exactly, print its events and draw them."),
]
Shrink = Annotated[
    bool, typer.Option("--shrink", help="Find the smallest set of faults that breaks the rule.")
]
PlanFile = Annotated[
    Path | None, typer.Option("--plan", help="Read faults from a file written by --shrink.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Output of --trace (.svg) or --shrink (.json)."),
]
Key = Annotated[
    str | None,
    typer.Option("--key", help="Key whose operations to show. Default: that of the violation."),
]
Last = Annotated[int, typer.Option("--last", min=1, help="Number of events to show.")]
ShowHeartbeats = Annotated[bool, typer.Option("--heartbeats", help="Show heartbeats too.")]


@app.command(epilog="Example: zonequake simulate --seeds 1..100")
def simulate(
    seeds: Seeds = None,
    seed: Seed = None,
    scenario: ScenarioName = "raft",
    steps: StepCount = None,
    jobs: Jobs = None,
    each: Each = False,
    as_json: AsJson = False,
    trace: Trace = False,
    shrink: Shrink = False,
    plan: PlanFile = None,
    out: Out = None,
    key: Key = None,
    last: Last = 150,
    heartbeats: ShowHeartbeats = False,
) -> None:
    """Run whole clusters in virtual time, with faults drawn from a seed, and check every step.

    The data node's own code runs, and so do the clients' rules and the checkers of histories; only
    clock, network and disks are simulated. The same seed gives the same run.
    """
    found = find_scenario(scenario)
    steps = steps or found.steps
    if trace or shrink:
        if seed is None or seeds is not None:
            raise UsageError("--trace and --shrink take one seed: --seed N, not --seeds")
        _check_out(out, ".svg" if trace else ".json")
        faults = read_plan(plan) if plan else None
        if trace and shrink:
            raise UsageError(
                "--trace and --shrink are two commands: shrink first, then trace with --plan"
            )
        try:
            if trace:
                _trace(seed, found, faults, steps, key, last, heartbeats, as_json, out)
            else:
                _shrink(seed, found, faults, steps, out)
        except KeyboardInterrupt as interrupt:
            raise HarnessError("interrupted; nothing was written") from interrupt
        return
    if plan or out or key or heartbeats:
        raise UsageError("--plan, --out, --key and --heartbeats belong to --trace or --shrink")
    if (seed is None) == (seeds is None):
        raise UsageError("say which seeds: --seeds A..B, or --seed N")
    wanted = parse_seeds(seeds) if seeds is not None else range(seed or 0, (seed or 0) + 1)
    _hunt(wanted, found, steps, jobs or os.cpu_count() or 1, each, as_json)


def _hunt(
    seeds: range, scenario: Scenario, steps: int, jobs: int, each: bool, as_json: bool
) -> None:
    start_s = time.monotonic()
    reports: list[SeedReport] = []
    broken: list[SeedReport] = []
    tell_each = not as_json and (each or len(seeds) <= _MAX_LINES)
    interrupted = False
    try:
        with progress_console.status("") as status:
            for report in simulate_many(seeds, scenario, steps=steps, jobs=min(jobs, len(seeds))):
                reports.append(report)
                if as_json:
                    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
                if tell_each:
                    console.print(_line(report), markup=False)
                if report.rule is not None:
                    broken.append(report)
                    if not as_json and len(broken) <= _SHOWN_FAILURES:
                        _tell_violation(report)
                rate = len(reports) / (time.monotonic() - start_s)
                status.update(
                    f"{len(reports):,} of {len(seeds):,} seeds, {len(broken)} broke a rule, "
                    f"{rate:.1f} seeds/s"
                )
    except KeyboardInterrupt:
        interrupted = True
    took_s = time.monotonic() - start_s
    if reports and not as_json:
        _summarize(reports, broken, took_s, jobs)
    if broken:
        raise typer.Exit(EXIT_CODES[Verdict.VIOLATED])
    if interrupted:
        raise HarnessError(f"interrupted after {len(reports):,} of {len(seeds):,} seeds")
    if not summed(reports)["commits"]:
        progress_console.print(
            "nothing was committed in any seed: nothing is shown. Use more --steps", style="yellow"
        )
        raise typer.Exit(EXIT_CODES[Verdict.UNKNOWN])


def _line(report: SeedReport) -> str:
    counts = ", ".join(f"{report.tally.get(name, 0)} {name}" for name in TOLD)
    return f"seed {report.seed}: {counts}; {report.steps:,} steps, {report.now_ms / 1000:.1f} s" + (
        "" if report.rule is None else "; VIOLATION"
    )


def _tell_violation(report: SeedReport) -> None:
    console.print(
        f"seed {report.seed} breaks a rule ({report.phase}): {report.violation}",
        style="red",
        markup=False,
    )
    console.print(
        f"  zonequake simulate --scenario {report.scenario} --seed {report.seed} --trace",
        markup=False,
    )


def _summarize(
    reports: list[SeedReport], broken: list[SeedReport], took_s: float, jobs: int
) -> None:
    total = summed(reports)
    table = Table(box=None, pad_edge=False)
    for title in ("", "all seeds", "least in a seed", "most"):
        table.add_column(title, justify="left" if not title else "right")
    for name in (*TOLD, *(each for each in TOLD_IF_ANY if total[each])):
        counts = [report.tally.get(name, 0) for report in reports]
        table.add_row(name, f"{total[name]:,}", f"{min(counts):,}", f"{max(counts):,}")
    console.print(table)
    if len(broken) > _SHOWN_FAILURES:
        console.print(f"{len(broken) - _SHOWN_FAILURES} more seeds broke a rule; of all of them:")
        for rule, count in Counter(report.rule for report in broken).most_common():
            console.print(f"{count:>6,}  {rule}", markup=False)
    verdict = "no rule was broken" if not broken else f"{len(broken)} broke a rule"
    console.print(
        f"{len(reports):,} seeds, {verdict}; {took_s:.1f} s, {len(reports) / took_s:.1f} seeds/s, "
        f"{jobs} {'process' if jobs == 1 else 'processes'}",
        style="red" if broken else "green",
    )


def _trace(
    seed: int,
    scenario: Scenario,
    plan: FaultPlan | None,
    steps: int,
    key: str | None,
    last: int,
    heartbeats: bool,
    as_json: bool,
    out: Path | None,
) -> None:
    found = replay(seed, scenario, plan=plan, steps=steps)
    key = key or found.key
    chosen = excerpt(found.events, key=key, last=last, quiet_too=heartbeats)
    if as_json:
        for event in found.events:
            sys.stdout.write(msgspec.json.encode(event).decode() + "\n")
    else:
        for line in text_lines(chosen):
            console.print(line, markup=False)
    title = f"{scenario.name}, seed {seed}" + (f", key {key}" if key else "")
    path = out or Path(f"{scenario.name}-{seed}.svg")
    violation = None if found.violation is None else str(found.violation)
    _write(path, svg(chosen, title=title, key=key, violation=violation))
    progress_console.print(f"drawn: {path} ({len(chosen.events)} of {len(found.events):,} events)")
    if found.violation is not None:
        progress_console.print(
            f"seed {seed} breaks a rule: {found.violation}", style="red", markup=False
        )
        raise typer.Exit(EXIT_CODES[Verdict.VIOLATED])
    progress_console.print(f"seed {seed} breaks no rule", style="green")


def _shrink(
    seed: int, scenario: Scenario, plan: FaultPlan | None, steps: int, out: Path | None
) -> None:
    with progress_console.status("looking whether the seed breaks a rule") as status:
        rule, needed = shrunk(
            seed,
            scenario,
            plan=plan,
            steps=steps,
            progress=lambda left, runs: status.update(f"{left} faults left after {runs} runs"),
        )
    console.print(f"seed {seed} breaks {rule!r} with {len(needed.faults)} faults:", markup=False)
    for fault in needed.faults:
        console.print(f"  {fault}", markup=False)
    path = out or Path(f"{scenario.name}-{seed}.json")
    try:
        write_plan(path, needed)
    except OSError as error:
        raise UsageError(f"--out {path} can't be written: {error.strerror}") from error
    console.print(
        f"zonequake simulate --scenario {scenario.name} --seed {seed} --plan {path} --trace",
        markup=False,
    )
    raise typer.Exit(EXIT_CODES[Verdict.VIOLATED])


def _check_out(path: Path | None, ending: str) -> None:
    """Raises UsageError before the simulation, so that no work is lost."""
    if path is not None and path.suffix not in ("", ending):
        raise UsageError(
            f"--out: found {path}, expected a name that ends with {ending}, as that is written"
        )
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        what = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise UsageError(f"--out {path} can't be written: {what}")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise UsageError(f"--out {path} can't be written: {error.strerror}") from error
