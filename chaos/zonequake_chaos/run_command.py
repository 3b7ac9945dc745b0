"""What `zonequake run` does around a runner: plan, dry run, run folder, analysis, verdict."""

from __future__ import annotations

import platform
import random
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec
from rich.console import Console

from zonequake_chaos import manifest
from zonequake_chaos.clock import SystemClock
from zonequake_chaos.deployments.zonequake import ZonequakeDeployment
from zonequake_chaos.errors import UsageError
from zonequake_chaos.faults.on_the_node import check_node
from zonequake_chaos.floor import check_plan
from zonequake_chaos.guard import check_consent, installation
from zonequake_chaos.outcome import EXIT_CODES, Verdict, from_exit_code, worst
from zonequake_chaos.own_node import OwnNode
from zonequake_chaos.place import Place
from zonequake_chaos.plan import build_plan, predict_targets
from zonequake_chaos.plan_tree import print_plan
from zonequake_chaos.progress import Progress
from zonequake_chaos.run_folder import (
    ClusterPlace,
    HarnessReport,
    RunFolder,
    RunRecord,
    expectations,
)
from zonequake_chaos.runner import Runner
from zonequake_chaos.scenario import ChaosRun
from zonequake_chaos.status import look

RUNS = Path("runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What the user asked for."""

    scenario: str
    overrides: Sequence[str]
    seed: int | None
    out: Path | None
    analyze: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """One run's end."""

    folder: Path
    verdict: Verdict

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]


def planned(ask: Ask) -> ChaosRun:
    """The scenario. Raises ManifestError, and PlanRefused if its faults would break its floor."""
    run = manifest.load(ask.scenario, ask.overrides)
    check_plan(run)
    return run


async def dry_run(ask: Ask, place: Place, console: Console) -> None:
    """Prints the plan with the targets as they would be now. Changes nothing."""
    run = planned(ask)
    seed = _seed(ask)
    plan = build_plan(run, seed=seed)
    view = await look(place)
    predict_targets(plan, run, view, random.Random(f"{seed}/targets"))  # noqa: S311
    print_plan(console, plan)


async def run_once(ask: Ask, place: Place, console: Console) -> tuple[RunFolder, HarnessReport]:
    """Runs the scenario and collects; the analysis is the caller's. Raises UsageError."""
    run = planned(ask)
    seed = _seed(ask)
    clock = SystemClock()
    async with await place.connect() as kube:
        await check_consent(kube, embedded=place.embedded)
        installed = await installation(kube, place.release)
        node = OwnNode.of(place.kubeconfig)
        check_node(run.spec.faults, node)
        run_id = f"{run.metadata.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        folder = RunFolder.create(ask.out or RUNS / run_id)
        record = RunRecord(
            run=run_id,
            scenario=run.metadata.name,
            seed=seed,
            started_wall_ns=clock.now().wall_ns,
            versions=_versions(),
            cluster=ClusterPlace(
                kubeconfig=str(place.kubeconfig) if place.kubeconfig else None,
                context=place.context,
                namespace=place.namespace,
                release=place.release,
                version=await kube.version(),
            ),
            expectations=expectations(run),
            plan=run,
        )
        folder.write(record)
        plan = build_plan(run, seed=seed)
        print_plan(console, plan)
        progress = Progress(plan=plan, console=console, clock=clock)
        runner = Runner(
            run=run,
            run_id=run_id,
            seed=seed,
            folder=folder,
            kube=kube,
            node=node,
            clock=clock,
            installation=installed,
            deployment=ZonequakeDeployment(
                kube=kube, spec=run.spec, run_id=run_id, installation=installed
            ),
            progress=progress,
        )
        report = await runner.run()
        folder.write(_with_report(record, report))
        print_plan(console, plan)
        _write_plan(folder, console, plan_of=progress)
    return folder, report


def judge_run(ask: Ask, folder: RunFolder, report: HarnessReport, console: Console) -> Ended:
    """Runs the analysis over the folder; it reads the harness's own verdict from `run.yaml`."""
    judged = Verdict.UNKNOWN  # what nobody judged is not known
    document = folder.path / "verdict.json"
    if ask.analyze and not folder.has_history():
        console.print("Analysis: there is no history, so there is nothing to judge")
    elif ask.analyze:
        document.unlink(missing_ok=True)
        started_s = time.monotonic()
        console.print("Analysis …")
        # Only here: it starts a Java virtual machine.
        from zonequake_analysis.cli import analyze

        judged = from_exit_code(analyze(folder.path, master=None, remote=None))
        console.print(f"Analysis: {judged.value} ({time.monotonic() - started_s:.1f} s)")
    if ask.analyze and document.exists():
        return Ended(folder=folder.path, verdict=judged)
    # Without an analysis, or where it failed, the harness's word is all that there is.
    return Ended(folder=folder.path, verdict=folder.conclude(judged, report))


def summarize(ended: Sequence[Ended], console: Console) -> Verdict:
    """Prints where the reports lie; returns the worst verdict."""
    for one in ended:
        report = one.folder / "report.html"
        where = report if report.exists() else one.folder
        console.print(f"{one.verdict.value} (exit code {one.exit_code}): {where}")
    return worst(one.verdict for one in ended)


def _seed(ask: Ask) -> int:
    return ask.seed if ask.seed is not None else secrets.randbelow(2**31)


def _versions() -> dict[str, str]:
    return {"zonequake": version("zonequake"), "python": platform.python_version()}


def _with_report(record: RunRecord, report: HarnessReport) -> RunRecord:
    return msgspec.structs.replace(record, harness=report)


def _write_plan(folder: RunFolder, console: Console, *, plan_of: Progress) -> None:
    """Keeps the marked tree beside the logs."""
    with (folder.folder("logs") / "plan.txt").open("w") as file:
        print_plan(Console(file=file, width=console.width), plan_of.plan)


def check_repeat(repeat: int, out: Path | None) -> None:
    """Raises UsageError where the options contradict each other."""
    if repeat < 1:
        raise UsageError(f"--repeat {repeat}: expected 1 or more")
    if repeat > 1 and out is not None:
        raise UsageError("--repeat makes several folders: leave --out away")


def seeds(ask: Ask, repeat: int) -> list[Ask]:
    """The run, `repeat` times: a given seed is counted up, so that no run is the same twice."""
    first = _seed(ask)
    return [replace(ask, seed=first + number) for number in range(repeat)]


def plain(run: ChaosRun) -> str:
    """One line about a scenario, for the list."""
    return " ".join(run.metadata.description.split())
