"""Runs a scenario against a cluster, from the first zone to the last collected byte.

    setup → preload → before → control → faults → recovery → quiet → final → collect → clean

The last phases run in any case, also after an interrupt: faults are healed, data is collected, and
every debt of the cleanup journal is paid. The harness's own problems are reported apart from its
observations (docs/interfaces.md, "Verdicts").
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from functools import partial

from zonequake_analysis.harness_report import INTERRUPTED, HarnessReport
from zonequake_analysis.verdict import Verdict
from zonequake_chaos.cleanup.prove import clean_up
from zonequake_chaos.cleanup.undo import pay
from zonequake_chaos.faults.life import FaultWorld, end_tasks
from zonequake_chaos.kit.collect import pod_logs
from zonequake_chaos.kit.deployment import Deployment
from zonequake_chaos.load.column_files import ColumnFiles
from zonequake_chaos.load.histories import PIECE_BYTES, Followed
from zonequake_chaos.load.installation import Installation
from zonequake_chaos.load.objects import RUN_LABEL
from zonequake_chaos.load.pods import LoadPods
from zonequake_chaos.node_access.own_machine import OwnMachine
from zonequake_chaos.node_access.shell import NodeShell
from zonequake_chaos.observe.observer import Observer
from zonequake_chaos.record.cleanup_journal import HEALING, CleanupJournal, DeleteLoad
from zonequake_chaos.record.clock import Moment, RunClock
from zonequake_chaos.record.event_log import EventLog
from zonequake_chaos.record.run_folder import RunFolder
from zonequake_chaos.runner.injection import FaultResults, finish, inject_fault, release
from zonequake_chaos.runner.judged_faults import record_and_judge
from zonequake_chaos.runner.pieces import CollectedPiece, each_piece
from zonequake_chaos.runner.plan.run_plan import StepState
from zonequake_chaos.runner.problems import Problems
from zonequake_chaos.runner.progress import RunProgress
from zonequake_chaos.runner.prometheus import pull_metrics
from zonequake_chaos.runner.run_limits import EarlyEnd, Permit, RunLimits
from zonequake_chaos.scenario.control import CONTROL, control_fault, control_nodes, holding
from zonequake_chaos.scenario.faults import AnyFault
from zonequake_chaos.scenario.run import ChaosRun, RunZone
from zonequake_chaos.targeting.triggers import unsettled
from zonequake_kube.client import Kube
from zonequake_kube.diagnosis import explained
from zonequake_kube.errors import HarnessError, UsageError, WaitExpired, in_words
from zonequake_kube.objects import STORE_LABELS
from zonequake_kube.pulls import unless_not_pulled
from zonequake_load.pod.control import Phase

QUIET_TIMEOUT_S = 20.0
"""Time for the load to end its outstanding operations."""

ALIKE_TIMEOUT_S = 20.0
"""Time for replicas to apply the same index once nothing is written."""

MIN_RATE = 0.1
"""Completions per second below which a load counts as not running."""


class Runner:
    """One run of one scenario."""

    def __init__(
        self,
        *,
        run: ChaosRun,
        run_id: str,
        seed: int,
        folder: RunFolder,
        kube: Kube,
        node: OwnMachine | None,
        shell: NodeShell | None,
        clock: RunClock,
        installation: Installation,
        deployment: Deployment,
        progress: RunProgress,
        permit: Permit,
        follow_histories: bool = False,
    ) -> None:
        """`follow_histories`: download them while the run goes on, for a store."""
        self._node = node
        self._shell = shell
        self._pay = partial(pay, kube, node=node, shell=shell)
        self._spec = run.spec
        self._run_id = run_id
        self._folder = folder
        self._kube = kube
        self._clock = clock
        self._installation = installation
        self._deployment = deployment
        self._progress = progress
        self._problems = Problems()
        self._running: asyncio.Task[None] | None = None
        self._done = FaultResults()
        self._tasks: set[asyncio.Task[None]] = set()
        self._apart: frozenset[str] = frozenset()
        self._targets = random.Random(f"{seed}/targets")  # noqa: S311 - replayable, not secret
        self._events = EventLog(folder.path / "events.jsonl", clock)
        self._journal = CleanupJournal(folder.path)
        self._observer = Observer(
            kube=kube, clock=clock, member_source=deployment.member_source, events=self._events
        )
        self._stopped: EarlyEnd | None = None
        self._limits = RunLimits(
            kube=kube,
            clock=clock,
            folder=folder.path,
            release=installation.release,
            permit=permit,
            stop=self._stop,
        )
        self._started: Moment = clock.now()
        self._columns = ColumnFiles(folder.path)
        self._loads = [
            LoadPods(
                kube=kube,
                clock=clock,
                name=_load_name(installation, zone),
                plan=deployment.load_plan(zone, seed=seed + index),
                code=deployment.client,
                piece_bytes=PIECE_BYTES,
                piece_ended=self._columns.piece_ended,
            )
            for index, zone in enumerate(run.spec.zones)
        ]
        followed = self._loads if follow_histories else []
        self._followed = Followed(followed, folder.folder("history"))

    async def run(self) -> HarnessReport:
        """Runs all phases. Raises UsageError only before anything is changed."""
        with self._events:
            async with (
                self._observer.watching(),
                self._limits.watching(),
                self._columns,
                self._followed,
            ):
                self._running = asyncio.create_task(self._work())
                loop = asyncio.get_running_loop()
                interrupted = EarlyEnd(verdict=Verdict.HARNESS_FAILED, words=INTERRUPTED)
                for number in (signal.SIGINT, signal.SIGTERM):
                    loop.add_signal_handler(number, self._stop, interrupted)
                try:
                    await self._running
                except asyncio.CancelledError:
                    stopped = self._stopped or interrupted
                    self._problems.add(stopped.verdict, stopped.words)
                except UsageError:
                    raise
                except Exception as error:  # noqa: BLE001 - the last phases must run in any case
                    self._problems.add(Verdict.HARNESS_FAILED, in_words(error))
                finally:
                    await self._tail()
                    for number in (signal.SIGINT, signal.SIGTERM):
                        loop.remove_signal_handler(number)
        if self._columns.problem:  # they only make the analysis quicker
            self._problems.texts.append(self._columns.problem)
        if self._events.problem is not None:
            self._problems.add(Verdict.HARNESS_FAILED, self._events.problem)
        self._progress.skip_rest()
        return self._problems.report()

    def _stop(self, stop: EarlyEnd) -> None:
        """Ends the work; has no effect in the last phases, which run in any case."""
        if self._running is not None and not self._running.done():
            self._stopped = self._stopped or stop
            self._running.cancel()

    async def _work(self) -> None:
        await self._phase("setup", self._set_up)
        await self._phase("preload", self._preload)
        await self._phase("before", self._before)
        if self._spec.control is not None:
            await self._phase(CONTROL, self._control)
        await self._phase("faults", self._faults)
        await self._phase("recovery", self._recover)
        await self._phase("quiet", self._quiet)
        await self._phase("final", self._final_reads)

    async def _phase(self, name: str, action: Callable[[], Awaitable[None]]) -> None:
        self._events.emit("run.phase", {"phase": name})
        with self._progress.step(name):
            await action()

    # The phases --------------------------------------------------------------------------------

    async def _set_up(self) -> None:
        ours = f"{STORE_LABELS},app.kubernetes.io/instance={self._installation.release}"
        selectors = (f"{RUN_LABEL}={self._run_id}", ours)
        start = explained(self._kube, selectors, self._start_all)
        await unless_not_pulled(self._kube, selectors, start)

    async def _start_all(self) -> None:
        spec = self._spec
        await self._deployment.set_up(self._observer, self._journal)
        for zone in spec.zones:
            self._journal.owe(DeleteLoad(name=_load_name(self._installation, zone)))
        async with asyncio.TaskGroup() as group:
            timeout_s = spec.times.setup_timeout_s
            group.create_task(self._deployment.wait_available(self._observer))
            for load in self._loads:
                group.create_task(
                    load.start(
                        run_id=self._run_id,
                        installation=self._installation,
                        timeout_s=timeout_s,
                    )
                )

    async def _preload(self) -> None:
        for load in self._loads:
            statuses = await load.complete(
                Phase.PRELOAD, timeout_s=self._spec.times.preload_timeout_s
            )
            for status in statuses:
                if status.problem:
                    self._problems.add(Verdict.UNKNOWN, f"preload: {status.pod}: {status.problem}")

    async def _before(self) -> None:
        for load in self._loads:
            await load.enter(Phase.LOAD)
        await asyncio.sleep(self._spec.times.before_s)
        rates = [sum(status.rate for status in await load.status()) for load in self._loads]
        self._progress.note("before", f"{sum(rates):,.0f} operations/s")
        for zone, rate in zip(self._spec.zones, rates, strict=True):
            if rate < MIN_RATE:
                words = f"the load of zone {zone.name} does {rate:.1f} operations/s"
                words += ": a run without load shows nothing"
                self._problems.add(Verdict.UNKNOWN, words)

    async def _control(self) -> None:
        nodes = control_nodes(self._spec, self._installation.release)
        held = holding(self._observer.view(), nodes)
        if held:
            words = f"the control's nodes must hold nothing: {'; '.join(held[:5])}"
            self._problems.add(Verdict.UNKNOWN, words)
            return
        await self._one_fault(control_fault(nodes), self._world())
        await asyncio.sleep(self._spec.times.after_s)

    def _world(self) -> FaultWorld:
        return FaultWorld(
            kube=self._kube,
            node=self._node,
            shell=self._shell,
            observer=self._observer,
            journal=self._journal,
            events=self._events,
            clock=self._clock,
            release=self._installation.release,
            zones=[zone.name for zone in self._spec.zones],
            loads=self._loads,
            tasks=self._tasks,
        )

    async def _faults(self) -> None:
        self._observer.faults_begin()
        world = self._world()
        self._apart = frozenset(control_nodes(self._spec, self._installation.release))
        for fault in self._spec.faults:
            await self._one_fault(fault, world)
        if not any(f.challenges and f.name in self._done.effective for f in self._spec.faults):
            self._problems.add(
                Verdict.UNKNOWN, "no fault was injected: a run without one shows nothing"
            )

    async def _one_fault(self, fault: AnyFault, world: FaultWorld) -> None:
        key = f"fault:{fault.name}"
        await self._limits.permit_fault()
        with self._progress.step(key) as step:
            try:
                await inject_fault(
                    fault,
                    world=world,
                    chooser=self._targets,
                    done=self._done,
                    apart=self._apart,
                    note=partial(self._progress.note, key),
                )
            except WaitExpired as error:
                # The victims stay away: the recovery phase decides whether they come back.
                self._problems.add(Verdict.UNKNOWN, f"{fault.name}: {error}")
                step.state, step.note = StepState.FAILED, str(error)
            if fault.name in self._done.missed:
                step.state, step.note = StepState.MISSED, self._done.missed[fault.name]
                self._problems.add(Verdict.UNKNOWN, f"{fault.name} missed: {step.note}")

    async def _recover(self) -> None:
        times = self._spec.times
        for name in list(self._done.held):
            await release(name, done=self._done, events=self._events)
        for name, reason in self._done.cut_short.items():
            step = self._progress.plan.step(f"fault:{name}")
            step.state, step.note = StepState.MISSED, reason
            self._problems.add(Verdict.UNKNOWN, f"{name} missed: {reason}")
        self._problems.texts += await self._heal()
        try:
            for life, injection in self._done.recovering:
                await finish(life, injection, {"fault": injection.name})
            await self._observer.wait(
                lambda view: not unsettled(view),
                timeout_s=times.recovery_timeout_s,
                waiting_for=lambda view: "; ".join(unsettled(view)[:5]),
            )
        except WaitExpired as error:
            self._problems.add(Verdict.UNKNOWN, f"recovery: {error}")
            self._progress.note("recovery", str(error))
        await asyncio.sleep(times.after_s)

    async def _quiet(self) -> None:
        for load in self._loads:
            await load.complete(Phase.QUIET, timeout_s=QUIET_TIMEOUT_S)
        await asyncio.sleep(self._spec.times.quiet_s)
        try:
            await self._deployment.wait_alike(self._observer, timeout_s=ALIKE_TIMEOUT_S)
        except WaitExpired as error:
            self._problems.texts.append(f"replicas differ after the quiet time: {error}")
        problems = await self._deployment.dump(
            self._observer.view(), self._folder.folder("dumps"), self._events
        )
        for problem in problems:
            self._problems.add(Verdict.UNKNOWN, problem)

    async def _final_reads(self) -> None:
        for load in self._loads:
            statuses = await load.complete(
                Phase.FINAL, timeout_s=self._spec.times.final_timeout_s + QUIET_TIMEOUT_S
            )
            for status in statuses:
                if status.problem:
                    self._problems.add(Verdict.UNKNOWN, f"final: {status.pod}: {status.problem}")

    # The last phases, run in any case ------------------------------------------------------------

    async def _tail(self) -> None:
        await end_tasks(self._tasks)
        self._problems.texts += await self._heal()  # `clean` tries the failed ones again
        self._events.emit("run.phase", {"phase": "end"})
        for key, action, failed in (
            ("collect", self._collect, Verdict.HARNESS_FAILED),
            ("clean", self._clean, Verdict.CLEANUP_NOT_PROVEN),
        ):
            try:
                with self._progress.step(key):
                    await action()
            except Exception as error:  # noqa: BLE001 - the next steps must run in any case
                self._problems.add(failed, f"{key}: {in_words(error)}")

    async def _heal(self) -> list[str]:
        return await self._journal.pay_all(self._pay, HEALING)

    async def _collect(self) -> None:
        pieces: dict[str, CollectedPiece] = {
            "events": partial(
                record_and_judge,
                self._deployment,
                self._observer,
                self._done,
                since_wall_ns=self._started.wall_ns,
                log=self._events,
                progress=self._progress,
                problems=self._problems,
            ),
            "histories": self._collect_histories,
            "logs": partial(pod_logs, self._kube, self._folder.folder("logs")),
            "metrics": partial(self._collect_metrics, self._clock.now()),
        }
        await each_piece(pieces, self._problems)

    async def _collect_metrics(self, ended: Moment) -> list[str]:
        # A run that has no metrics can pass; one whose recorded metrics can't be read is unknown.
        self._problems.texts += await pull_metrics(
            self._kube,
            self._installation.prometheus_service,
            self._folder.folder("metrics"),
            start_ms=self._started.wall_ns // 1_000_000,
            end_ms=ended.wall_ns // 1_000_000,
        )
        return []

    async def _collect_histories(self) -> list[str]:
        problems = []
        for load in self._loads:
            try:
                await load.complete(Phase.DONE, timeout_s=QUIET_TIMEOUT_S)
            except HarnessError as error:
                problems.append(f"history not closed: {error}")
        await self._followed.stop()
        for load in self._loads:
            try:
                await load.collect(self._folder.folder("history"))
            except (HarnessError, OSError) as error:  # a full disk takes no other's history
                problems.append(f"history: {in_words(error)}")
        return problems

    async def _clean(self) -> None:
        proof = await clean_up(
            self._kube,
            node=self._node,
            shell=self._shell,
            release=self._installation.release,
            run=self._run_id,
            journal=self._journal,
        )
        for problem in proof.problems:
            self._problems.add(Verdict.CLEANUP_NOT_PROVEN, problem)


def _load_name(installation: Installation, zone: RunZone) -> str:
    return f"{installation.release}-load-{zone.name}"
