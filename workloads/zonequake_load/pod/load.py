"""One load pod: its phases, kept on disk, and what it says of itself.

quiet ──▶ preload ──▶ load ──▶ quiet ──▶ final ──▶ done
  any phase may follow any other, but nothing follows done
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import msgspec

from zonequake_load.errors import LoadError, PlanError, TargetError
from zonequake_load.operation import Limits, Outcome
from zonequake_load.pod.control import LoadPlan, LoadStatus, OperationRequest, Phase, ReadsAt
from zonequake_load.pod.execution import OperationExecutor
from zonequake_load.pod.history import Recorder
from zonequake_load.pod.identity import Numbers, replace_file
from zonequake_load.pod.pacing import StopSignal, sleep_until
from zonequake_load.pod.phases import Phases
from zonequake_load.pod.recovery import RecoveredHistory
from zonequake_load.pod.tally import OperationTally
from zonequake_load.targets.planted_lie import LyingTarget
from zonequake_load.targets.protocol import Target

STATE_FILE = "state.json"
REOPEN_PAUSE_S = 0.5
"""Before a target that could not be opened is opened again."""

log = logging.getLogger(__name__)


class PhaseRefusedError(LoadError):
    """The phase asked for can't follow the present one."""


class SavedState(msgspec.Struct, frozen=True, kw_only=True):
    """State that survives a restart. `load_began_wall_ns`: when `load` was first entered."""

    phase: Phase = Phase.QUIET
    load_began_wall_ns: int | None = None


class LoadPod:
    """Runs one load pod until it is stopped.

    Args:
        directory: for history files and state.
        recovered: what earlier incarnations of this pod did.
    """

    def __init__(
        self,
        plan: LoadPlan,
        *,
        pod: str,
        ordinal: int,
        incarnation: int,
        directory: Path,
        target: Target,
        recorder: Recorder,
        tally: OperationTally,
        recovered: RecoveredHistory,
    ) -> None:
        if ordinal >= plan.pods:
            raise PlanError(f"found pod ordinal {ordinal}, expected 0..{plan.pods - 1} by the plan")
        self._plan = plan
        self._pod = pod
        self._ordinal = ordinal
        self._incarnation = incarnation
        self._directory = directory
        self._target = target
        self._recorder = recorder
        self._tally = tally
        self._recovered = recovered
        self._executor = OperationExecutor(
            target=target,
            recorder=recorder,
            tally=tally,
            numbers=Numbers(ordinal, incarnation),
            reads_local=plan.reads_at is ReadsAt.LOCAL,
        )
        self._state = load_state(directory)
        self._phases: Phases | None = None
        self._complete = False
        self._problem: str | None = None
        self._stop = StopSignal()
        self._news = asyncio.Event()
        self._ending = False
        self._opening = asyncio.Lock()
        self._opened = False

    # --- control ---------------------------------------------------------------------------------

    def enter(self, phase: Phase) -> None:
        """Ask for `phase`; it is on disk when this returns.

        Raises:
            PhaseRefusedError: the files are closed.
            OSError: it can't be kept; the phase is still the one before.
        """
        if phase is self._state.phase:
            return
        if self._state.phase is Phase.DONE:
            raise PhaseRefusedError(
                f"found phase {phase} asked for after done, expected nothing: the files are "
                "closed; start a new run"
            )
        began = self._state.load_began_wall_ns
        if phase is Phase.LOAD and began is None:
            began = self._recorder.clock.wall_ns()
        state = SavedState(phase=phase, load_began_wall_ns=began)
        replace_file(self._directory / STATE_FILE, msgspec.json.encode(state))
        self._state = state
        self._complete = False
        self._problem = None
        self._stop.asked = True
        self._news.set()
        log.info("entering phase %s", phase)

    async def ask(self, asked: OperationRequest) -> Outcome:
        """Carries one operation out beside the phases; it is in no history.

        Raises:
            PhaseRefusedError: the phase is not `quiet`.
            TargetError: the target can't be opened.
        """
        if self._state.phase is not Phase.QUIET:
            raise PhaseRefusedError(
                f"found an operation asked for in phase {self._state.phase}, expected phase quiet: "
                "it would be missing in the history"
            )
        await self._open()
        limits = Limits(
            deadline_ns=self._recorder.clock.monotonic_ns() + asked.deadline_ms * 1_000_000,
            attempt_ns=asked.attempt_ms * 1_000_000,
            retry=asked.retry,
        )
        target = LyingTarget(self._target) if asked.planted_lie else self._target
        return await target.execute(asked.operation, limits, asked.once)

    def end(self) -> None:
        """Ask `run` to end; the phase stays as it is on disk."""
        self._ending = True
        self._stop.asked = True
        self._news.set()

    def status(self) -> LoadStatus:
        progress = self._phases.progress if self._phases else None
        return LoadStatus(
            pod=self._pod,
            ordinal=self._ordinal,
            incarnation=self._incarnation,
            phase=self._state.phase,
            complete=self._complete,
            problem=self._problem,
            counts=self._tally.phases,
            rate=self._tally.rate(self._recorder.clock.monotonic_ns()),
            outstanding=self._tally.outstanding,
            done_keys=progress.done if progress else 0,
            planned_keys=progress.planned if progress else 0,
            probe_interval_ms=self._phases.probe_interval_ns / 1e6 if self._phases else 0.0,
        )

    @property
    def recorder(self) -> Recorder:
        return self._recorder

    # --- running ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work through the phases that are asked for, until `end`.

        Raises:
            HistoryError: an event could not be written down.
            IdentityError: no unique number is left.
        """
        syncing = asyncio.create_task(self._recorder.sync_for_ever())
        working = asyncio.create_task(self._work_for_ever())
        try:
            done, _ = await asyncio.wait({syncing, working}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (syncing, working):
                task.cancel()
            await asyncio.gather(syncing, working, return_exceptions=True)
            await self._target.close()
            self._recorder.close()

    async def _work_for_ever(self) -> None:
        while not self._ending:
            self._news.clear()
            self._stop = StopSignal()
            phase = self._state.phase
            complete = await self._work(phase, self._stop)
            if not self._stop.asked:
                self._complete = complete
                await self._news.wait()

    async def _work(self, phase: Phase, stop: StopSignal) -> bool:
        """Does the work of `phase` until it is done or `stop`; returns whether it is complete."""
        match phase:
            case Phase.QUIET:
                return True
            case Phase.DONE:
                self._recorder.close()
                return True
        phases = await self._ready_phases(stop)
        if phases is None:
            return False
        match phase:
            case Phase.LOAD:
                assert self._state.load_began_wall_ns is not None
                await phases.load(stop, self._state.load_began_wall_ns)
                return False
            case Phase.PRELOAD:
                return await phases.preload(stop)
            case Phase.FINAL:
                complete = await phases.final(stop)
                if not complete and not stop.asked:
                    left = phases.progress.planned - phases.progress.done
                    self._problem = (
                        f"{left} of {phases.progress.planned} final reads did not end ok within "
                        f"{self._plan.final_timeout_s:.0f} s"
                    )
                return not stop.asked

    async def _open(self) -> None:
        """Opens the target once. Raises TargetError."""
        async with self._opening:
            if not self._opened:
                await self._target.open()
                self._opened = True

    async def _ready_phases(self, stop: StopSignal) -> Phases | None:
        """Open the target, for as long as it takes; None if stopped before."""
        while self._phases is None:
            if stop.asked:
                return None
            try:
                await self._open()
            except TargetError as error:
                self._problem = str(error)
                log.warning("%s", error)
                # It may be raised at once, and without a pause nothing else would have a turn.
                clock = self._recorder.clock
                again_ns = clock.monotonic_ns() + int(REOPEN_PAUSE_S * 1e9)
                await sleep_until(again_ns, clock, stop)
                continue
            self._problem = None
            self._phases = Phases(
                self._plan,
                self._executor,
                ordinal=self._ordinal,
                incarnation=self._incarnation,
                recovered=self._recovered,
            )
        return self._phases


def load_state(directory: Path) -> SavedState:
    """Reads the state kept in `directory`. Raises PlanError if it is unreadable."""
    path = directory / STATE_FILE
    if not path.exists():
        return SavedState()
    try:
        return msgspec.json.decode(path.read_bytes(), type=SavedState)
    except (OSError, msgspec.MsgspecError) as error:
        raise PlanError(f"cannot read {path}: {error}; remove it to start over") from error
