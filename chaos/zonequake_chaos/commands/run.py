"""The steps of `zonequake run` around a runner: plan, dry run, run folder, analysis, verdict."""

from __future__ import annotations

import asyncio
import platform
import random
import secrets
import shlex
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

import msgspec
from rich.console import Console

from zonequake_analysis.errors import FolderHeld, LocationError, RunFolderError, RunNotWhole
from zonequake_analysis.harness_report import HarnessReport
from zonequake_analysis.judgement.one_analysis import AnalysisLock
from zonequake_analysis.storage.location import Location
from zonequake_analysis.verdict import EXIT_CODES, Verdict, worst
from zonequake_chaos.cleanup.run_lock import check_unlocked, take_run_lock
from zonequake_chaos.commands.upload import move_to_store
from zonequake_chaos.faults.kinds.network import check_shell
from zonequake_chaos.faults.kinds.on_the_node import check_node
from zonequake_chaos.kit.registry import find_target
from zonequake_chaos.kit.target import TargetPackage, TargetPlace
from zonequake_chaos.kit.target_suitability import check_suited
from zonequake_chaos.load.installation import installation
from zonequake_chaos.node_access.agent_pods import shell_for
from zonequake_chaos.node_access.own_machine import OwnMachine
from zonequake_chaos.observe.observer import MemberSource, Observer
from zonequake_chaos.observe.view import ClusterView
from zonequake_chaos.record.clock import SystemClock
from zonequake_chaos.record.run_folder import ClusterPlace, RunFolder, RunRecord, expectations
from zonequake_chaos.record.system_description import SystemDescription
from zonequake_chaos.record.upload import sent_to
from zonequake_chaos.runner.consent import check_consent, longest_s
from zonequake_chaos.runner.plan.plan_text import print_plan
from zonequake_chaos.runner.plan.run_plan import PlanBuilder, build_plan, predict_targets
from zonequake_chaos.runner.progress import RunProgress
from zonequake_chaos.runner.run_limits import Permit
from zonequake_chaos.runner.runner import Runner
from zonequake_chaos.runner.target_secrets import check_secrets
from zonequake_chaos.scenario import manifest
from zonequake_chaos.scenario.alive_floor import check_plan
from zonequake_chaos.scenario.control import without_control
from zonequake_chaos.scenario.run import ChaosRun, with_target
from zonequake_ctl.context import ReleasePlace
from zonequake_kube.client import Kube
from zonequake_kube.errors import UsageError, in_words

RUNS = Path("runs")
LOOK_S = 1.2
"""How long a dry run watches a cluster, in seconds: enough for one answer of each node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of a run, as the user gave them.

    `target`, `image`: replace those of the scenario's `spec.target`.
    `store`: the location that the run is brought to while it goes on; its folder is a spool then.
    `in_cluster`: the analysis of a run in a store is done by pods; `store_secret`: the name of the
    Secret with the store's credentials, empty for the release's own.
    """

    scenario: str
    overrides: Sequence[str]
    seed: int | None
    out: Path | None
    analyze: bool
    target: str | None = None
    image: str | None = None
    store: Location | None = None
    in_cluster: bool = False
    store_secret: str = ""


JudgeLocation = Callable[[Location], Verdict]
"""Judges the run at a location, and leaves verdict and report there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The end of one run: where it is, and its verdict.

    `not_stored`: why it isn't in the store it was to be in; what was judged is in the folder then.
    `not_told`: why the verdict isn't written there. With either it is at least *harness-failed*.
    """

    folder: Path | Location
    verdict: Verdict
    not_stored: str = ""
    not_told: str = ""

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]


def planned(options: RunOptions) -> ChaosRun:
    """Returns the scenario, with its target's name. Raises ManifestError, PlanRefused if its faults
    would break its floor, and UsageError if it can't be run against the target."""
    if options.in_cluster and options.store is None:
        raise UsageError(
            "--analyze in-cluster: found a run folder of this machine, which pods can't reach; "
            "expected --out with a URI such as s3://bucket/prefix"
        )
    run = manifest.load(options.scenario, options.overrides)
    run = with_target(run, name=options.target, image=options.image)
    package = find_target(run.spec.target.name)
    run = with_target(run, name=package.name)
    if not package.has_control:
        run = without_control(run)
    check_suited(package, run)
    check_plan(run)
    return run


async def print_dry_run(
    options: RunOptions, place: Callable[[], ReleasePlace], console: Console
) -> None:
    """Prints the plan with the targets as they would be now. Changes nothing.

    Only a target that is there before the run is looked at, and needs a `place`, which raises
    UsageError without a cluster.
    """
    run = planned(options)
    seed = seed_of(options)
    package = find_target(run.spec.target.name)
    plan = build_plan(run, seed=seed, target=_made_by_run(package))
    if package.in_release:  # others are made by the run
        async with await place().connect() as kube:
            view = await _view(kube, package.standing_members(kube))
        predict_targets(plan, run, view, random.Random(f"{seed}/targets"))  # noqa: S311
    print_plan(console, plan)


def _made_by_run(package: TargetPackage) -> str:
    """Returns the target's name; empty if it is there before the run."""
    return "" if package.in_release else package.name


async def _view(kube: Kube, source: MemberSource) -> ClusterView:
    await kube.version()
    observer = Observer(kube=kube, clock=SystemClock(), member_source=source)
    async with observer.watching():
        await asyncio.sleep(LOOK_S)
        return observer.view()


async def run_once(
    options: RunOptions,
    place: ReleasePlace,
    console: Console,
    *,
    runner_type: type[Runner] = Runner,
    plan_of: PlanBuilder = build_plan,
) -> tuple[RunFolder, HarnessReport]:
    """Runs the scenario and collects; the analysis is the caller's. Raises UsageError.

    `runner_type`, `plan_of`: what runs in place of the scenario's load and faults, and its plan.
    """
    run, seed = planned(options), seed_of(options)
    clock = SystemClock()
    async with await place.connect() as kube, AsyncExitStack() as held:
        node = OwnMachine.of(place.kubeconfig, place.context)
        ceiling_s = await check_consent(kube, embedded=node is not None)
        limit_s = longest_s(run, ceiling_s)
        installed = await installation(kube, place.release)
        package = find_target(run.spec.target.name)
        package.check_release(installed)
        await check_secrets(kube, installed, run.spec.target)
        shell = shell_for(kube, installed, node)
        check_node(run.spec.faults, node)
        check_shell(run.spec.faults, shell)
        run_id = _run_id(run)
        await check_unlocked(kube, place.release)
        deployment = await package.deployment(
            TargetPlace(
                kube=kube,
                run=run,
                run_id=run_id,
                installation=installed,
                node=node,
                say=console.print,
            )
        )
        folder = RunFolder.create(options.out or RUNS / run_id)
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
            target=deployment.described,
            server_metrics=list(package.server_metrics),
            replay=replay_command(options, seed),
            store="" if options.store is None else str(options.store),
        )
        folder.write(record)
        held.enter_context(folder.held(wait_s=0))
        if options.store is not None:
            say = partial(console.print, style="yellow", markup=False)
            held.enter_context(sent_to(folder, options.store, say))
        plan = plan_of(run, seed=seed, target=_made_by_run(package))
        print_plan(console, plan)
        progress = RunProgress(plan=plan, console=console, clock=clock)
        runner = runner_type(
            run=run,
            run_id=run_id,
            seed=seed,
            folder=folder,
            kube=kube,
            node=node,
            shell=shell,
            clock=clock,
            installation=installed,
            deployment=deployment,
            progress=progress,
            follow_histories=options.store is not None,
            permit=Permit(
                embedded=node is not None,
                limit_s=limit_s,
                lock=await take_run_lock(
                    kube,
                    release=place.release,
                    run=run_id,
                    folder=str(folder.path.resolve()),
                    zones=[zone.name for zone in run.spec.zones],
                ),
            ),
        )
        report = await runner.run()
        folder.write(_with_report(record, report, deployment.described, folder.files()))
        print_plan(console, plan)
        _write_plan(folder, console, plan_of=progress)
    return folder, report


def judge_run(
    options: RunOptions,
    folder: RunFolder,
    report: HarnessReport,
    console: Console,
    judge_stored: JudgeLocation | None = None,
) -> RunEnd:
    """Brings the run to its store, if it has one, and runs the analysis where it is then; that
    reads the harness's own verdict from `run.yaml`.

    `judge_stored` judges a run that is in its store; by default, and any other, this process.
    An analysis that fails for any reason counts as a failure of the harness; the run is reported.
    """
    has_history = folder.has_history()
    location, why = Location.of(folder.path), ""
    if options.store is not None:
        why = move_to_store(folder, options.store, console, clean=not report.unclean)
        location = location if why else options.store
    unjudged = partial(_unjudged, folder, report, location, console)
    if not options.analyze:
        judged, not_told = unjudged(Verdict.UNKNOWN, why="no analysis requested: --no-analyze")
    elif not has_history:
        told = "found no history, so there is nothing to judge"
        console.print(f"Analysis: {told}")
        judged, not_told = unjudged(Verdict.UNKNOWN, why=told)
    else:
        judge = judge_stored if location.local is None else None
        judged, not_told = _analyzed(folder, report, location, console, judge)
    if why:
        judged = worst([judged, Verdict.HARNESS_FAILED])
    return RunEnd(
        folder=location.local or location, verdict=judged, not_stored=why, not_told=not_told
    )


def _judged_here(location: Location, lock: AnalysisLock) -> Verdict:
    # Imported only here, because it starts a Java virtual machine.
    from zonequake_analysis.cli import judge_folder

    return judge_folder(location, lock=lock)


def _analyzed(
    folder: RunFolder,
    report: HarnessReport,
    location: Location,
    console: Console,
    judge_stored: JudgeLocation | None,
) -> tuple[Verdict, str]:
    """Returns the verdict, and why it isn't written: another analysis may hold the location, or it
    refuses the files.
    """
    started_s = time.monotonic()
    console.print("Analysis …")
    with AnalysisLock(location) as lock:
        try:
            judged = judge_stored(location) if judge_stored else _judged_here(location, lock)
        except (FolderHeld, RunNotWhole) as error:
            return _untold(report, console, Verdict.HARNESS_FAILED, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run must still be reported
            why = f"the analysis broke off: {in_words(error)}"
            console.print(why, style="red", markup=False)
            trace = traceback.format_exc().encode()

            def tell() -> None:
                with suppress(LocationError, OSError):
                    (location / "logs" / "analysis.txt").write(trace)
                folder.conclude(Verdict.HARNESS_FAILED, report, why=why, location=location)

            try:
                lock.break_off(tell)
            except (RunFolderError, OSError) as refused:
                judged, untold = _untold(report, console, Verdict.HARNESS_FAILED, refused)
                return judged, f"{why}; {untold}"
            return worst([Verdict.HARNESS_FAILED, report.verdict]), ""
    console.print(f"Analysis: {judged.value} ({time.monotonic() - started_s:.1f} s)")
    return judged, ""


def _unjudged(
    folder: RunFolder,
    report: HarnessReport,
    location: Location,
    console: Console,
    judged: Verdict,
    *,
    why: str,
) -> tuple[Verdict, str]:
    try:
        return folder.conclude(judged, report, why=why, location=location), ""
    except LocationError as error:
        return _untold(report, console, judged, error)


def _untold(
    report: HarnessReport, console: Console, judged: Verdict, error: Exception
) -> tuple[Verdict, str]:
    why = f"no verdict can be written: {error}"
    console.print(why, style="red", markup=False)
    return worst([judged, report.verdict, Verdict.HARNESS_FAILED]), why


def replay_command(options: RunOptions, seed: int) -> str:
    """Returns the command that repeats the run, on any cluster that the reader names."""
    words = ["zonequake", "run", options.scenario, "--seed", str(seed)]
    words += [word for override in options.overrides for word in ("--set", override)]
    words += ["--target", options.target] if options.target is not None else []
    words += ["--image", options.image] if options.image is not None else []
    return shlex.join(words)


def summarize(ended: Sequence[RunEnd], console: Console) -> Verdict:
    """Prints where the reports are; returns the worst verdict."""
    for one in ended:
        where = one.folder if one.not_told else location_to_look(one.folder)
        console.print(f"{one.verdict.value} (exit code {one.exit_code}): {where}")
    return worst(one.verdict for one in ended)


def location_to_look(run: Path | Location) -> Path | Location:
    """Returns the run's report, or its folder if no store tells of one."""
    report = run / "report.html"
    with suppress(LocationError):
        if report.exists():
            return report
    return run


def _run_id(run: ChaosRun) -> str:
    """Returns a name for the run that fits into a label, at most 63 characters."""
    return f"{run.metadata.name[:44].rstrip('-')}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def seed_of(options: RunOptions) -> int:
    """Returns the requested seed; a random one if none was requested."""
    return options.seed if options.seed is not None else secrets.randbelow(2**31)


def _versions() -> dict[str, str]:
    return {"zonequake": version("zonequake"), "python": platform.python_version()}


def _with_report(
    record: RunRecord, report: HarnessReport, target: SystemDescription, files: dict[str, int]
) -> RunRecord:
    """Adds report, files to judge by, and target, which reports its version only once it runs."""
    return msgspec.structs.replace(record, harness=report, target=target, files=files)


def _write_plan(folder: RunFolder, console: Console, *, plan_of: RunProgress) -> None:
    """Writes the plan with the states of its steps beside the logs."""
    with (folder.folder("logs") / "plan.txt").open("w") as file:
        print_plan(Console(file=file, width=console.width), plan_of.plan)
