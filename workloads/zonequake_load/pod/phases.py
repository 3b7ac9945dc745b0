"""The phases of a load pod that send operations."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from zonequake_load.operation import Function, Limits, Operation, TransactionOperation, Type
from zonequake_load.pod.control import LoadPlan, Loop, Phase, Pressure
from zonequake_load.pod.execution import LogicalProcess, OperationExecutor
from zonequake_load.pod.history import OperationRole
from zonequake_load.pod.pacing import StopSignal, sleep_until
from zonequake_load.pod.pressure import PressureWriters, pressure_keys
from zonequake_load.pod.probe import run_probes
from zonequake_load.pod.recovery import RecoveredHistory
from zonequake_load.pod.workload.schedule import arrivals, probe_interval_ns
from zonequake_load.pod.workload.shares import (
    LastValues,
    PlannedOperation,
    PodShare,
    PreloadKey,
    preload_keys,
    share_of,
)

BACKLOG_PER_PROCESS = 8
"""Operations that may wait for each process; more than that are dropped, and counted."""

RETRY_PAUSE_S = 0.1
"""Before a preload write or a final read that didn't end ok is repeated."""

FINAL_READERS = 2

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Due:
    planned: PlannedOperation
    sched_ns: int


class PhaseProgress:
    """The progress of a phase with an end, in keys."""

    def __init__(self) -> None:
        self.done = 0
        self.planned = 0


class Phases:
    """The phases of one load pod.

    `recovered` is what earlier incarnations did; `incarnation` keeps the schedule of a restarted
    pod from repeating the one before.
    """

    def __init__(
        self,
        plan: LoadPlan,
        executor: OperationExecutor,
        *,
        ordinal: int,
        incarnation: int,
        recovered: RecoveredHistory,
    ) -> None:
        self.progress = PhaseProgress()
        self._plan = plan
        self._executor = executor
        self._ordinal = ordinal
        self._incarnation = incarnation
        self._recovered = recovered
        self._last_values = LastValues()
        self._partitions = (
            list(range(executor.target.partitions)) if plan.partitions is None else plan.partitions
        )

    @property
    def probe_interval_ns(self) -> int:
        """0 without probes."""
        if self._plan.probes is None:
            return 0
        return probe_interval_ns(self._plan.probes, len(self._partitions), self._plan.pods)

    @property
    def _is_closed(self) -> bool:
        return self._plan.loop is Loop.CLOSED

    # --- preload ---------------------------------------------------------------------------------

    async def preload(self, stop: StopSignal) -> bool:
        """Write this pod's share of the keys, each until it is acknowledged; True when all are."""
        keys = self._preload_share()
        todo = [key for key in keys if key.key not in self._recovered.written]
        self._begin(len(keys), len(todo))
        return await self._drain(
            todo, self._write_once, self._plan.preload.concurrency, lambda: stop.asked
        )

    def _preload_share(self) -> list[PreloadKey]:
        keys = preload_keys(self._plan, self._partitions, self._executor.target.key_for_partition)
        return [key for n, key in enumerate(keys) if n % self._plan.pods == self._ordinal]

    async def _write_once(self, process: LogicalProcess, key: PreloadKey) -> bool:
        # A new value for each try: the one before may yet be applied.
        operation = Operation(
            f=Function.WRITE,
            key=key.key,
            value=self._executor.numbers.next_value(),
            filler=bytes(key.filler_bytes),
        )
        written = await self._run(
            process, operation, key.partition, self._now_ns(), Phase.PRELOAD, OperationRole.LOAD
        )
        if written:
            self._recovered.written.add(key.key)
            self._last_values.saw(key.key, operation.value)
        return written

    # --- load ------------------------------------------------------------------------------------

    async def load(self, stop: StopSignal, began_wall_ns: int) -> None:
        """Runs all workloads and the probes until `stop`, and until nothing is outstanding.

        `began_wall_ns`: when this pod first began to load, in whatever incarnation.
        """
        started_ns = self._now_ns()
        before_ns = max(0, self._executor.recorder.clock.wall_ns() - began_wall_ns)
        waiting = self._plan.processes * (1 if self._is_closed else BACKLOG_PER_PROCESS)
        queue: asyncio.Queue[_Due | None] = asyncio.Queue(waiting)
        async with asyncio.TaskGroup() as lanes:
            for _ in range(self._plan.processes):
                lanes.create_task(self._lane(queue))
            if self._plan.pressure is not None:
                writers = self._pressure_writers(self._plan.pressure, stop)
                for writer in range(self._plan.pressure.processes):
                    lanes.create_task(writers.write(writer))
            async with asyncio.TaskGroup() as sources:
                for index in range(len(self._plan.workloads)):
                    sources.create_task(self._feed(index, queue, started_ns, before_ns, stop))
                if self._plan.probes is not None:
                    sources.create_task(
                        run_probes(
                            self._executor,
                            self._plan.probes,
                            partitions=self._partitions,
                            pods=self._plan.pods,
                            ordinal=self._ordinal,
                            started_ns=started_ns,
                            turns_before=before_ns // self.probe_interval_ns,
                            stop=stop,
                        )
                    )
            # What still waits here was scheduled before the stop and never begun.
            while not queue.empty():
                queue.get_nowait()
                if not self._is_closed:
                    self._executor.tally.dropped(Phase.LOAD, OperationRole.LOAD)
            for _ in range(self._plan.processes):
                await queue.put(None)

    def _pressure_writers(self, pressure: Pressure, stop: StopSignal) -> PressureWriters:
        name = f"pressure-{self._ordinal}-{self._incarnation}"
        return PressureWriters(
            target=self._executor.target,
            tally=self._executor.tally,
            clock=self._executor.recorder.clock,
            keys=pressure_keys(pressure, self._partitions, self._executor.target),
            filler=bytes(pressure.filler_bytes),
            name=f"{name}-{self._now_ns()}",
            rng=random.Random(f"{self._plan.seed}/{name}"),  # noqa: S311 - a seed replays it
            deadline_ns=self._plan.deadline_ms * 1_000_000,
            attempt_ns=self._plan.attempt_ms * 1_000_000,
            stop=stop,
        )

    async def _feed(
        self,
        index: int,
        queue: asyncio.Queue[_Due | None],
        started_ns: int,
        before_ns: int,
        stop: StopSignal,
    ) -> None:
        workload = self._plan.workloads[index]
        name = f"{self._plan.seed}/{self._ordinal}/{self._incarnation}/{index}"
        rng = random.Random(name)  # noqa: S311 - a seed replays it
        pod = PodShare(
            index=index,
            pods=self._plan.pods,
            partitions=self._partitions,
            operations_per_key=self._plan.operations_per_key,
            rng=rng,
            next_value=self._executor.numbers.next_value,
            key_for_partition=self._executor.target.key_for_partition,
        )
        traffic = share_of(workload, pod)
        began_ns = started_ns
        for offset_ns in arrivals(
            workload.operations_per_second,
            workload.arrivals,
            rng,
            share=self._ordinal,
            shares=self._plan.pods,
        ):
            sched_ns = started_ns + offset_ns
            if not await sleep_until(sched_ns, self._executor.recorder.clock, stop):
                return
            planned = traffic.next((before_ns + sched_ns - began_ns) / 1e9)
            if self._is_closed and queue.full():
                full_ns = self._now_ns()
                await queue.put(_Due(planned=planned, sched_ns=sched_ns))
                started_ns += self._now_ns() - full_ns
                continue
            try:
                queue.put_nowait(_Due(planned=planned, sched_ns=sched_ns))
            except asyncio.QueueFull:
                self._executor.tally.dropped(Phase.LOAD, OperationRole.LOAD)

    async def _lane(self, queue: asyncio.Queue[_Due | None]) -> None:
        """One process after the other, one operation after the other, until a None."""
        process = self._executor.new_process()
        while (due := await queue.get()) is not None:
            operation, partition = due.planned.operation, due.planned.partition
            if isinstance(operation, Operation) and operation.f is Function.CAS:
                operation = msgspec.structs.replace(
                    operation, expected=self._last_values.expected(operation.key)
                )
            sched_ns = self._now_ns() if self._is_closed else due.sched_ns
            await self._run(process, operation, partition, sched_ns, Phase.LOAD, OperationRole.LOAD)

    # --- final -----------------------------------------------------------------------------------

    async def final(self, stop: StopSignal) -> bool:
        """Read every key of this pod by two processes; True when all reads ended ok in time.

        This pod's keys are those it was to preload and those it ever touched.
        """
        keys = {key.key: key.partition for key in self._preload_share()}
        keys |= self._recovered.touched | self._executor.recorder.touched
        read = self._recovered.finally_read
        missing = [
            (key, partition)
            for key, partition in keys.items()
            for _ in range(FINAL_READERS - len(read[key]))
        ]
        self._begin(FINAL_READERS * len(keys), len(missing))
        until_ns = self._now_ns() + int(self._plan.final_timeout_s * 1e9)
        return await self._drain(
            missing,
            self._read_finally,
            self._plan.preload.concurrency,
            lambda: stop.asked or self._now_ns() > until_ns,
        )

    async def _read_finally(self, process: LogicalProcess, item: tuple[str, int]) -> bool:
        key, partition = item
        if process.id in self._recovered.finally_read[key]:
            process.id, process.operations = self._executor.numbers.next_process(), 0
        operation = Operation(f=Function.READ, key=key)
        reader = process.id
        ok = await self._run(
            process, operation, partition, self._now_ns(), Phase.FINAL, OperationRole.FINAL
        )
        if ok:
            self._recovered.finally_read[key].add(reader)
        return ok

    # --- shared ----------------------------------------------------------------------------------

    async def _drain(
        self,
        items: list[T],
        act: Callable[[LogicalProcess, T], Awaitable[bool]],
        concurrency: int,
        give_up: Callable[[], bool],
    ) -> bool:
        """Does `act` for each item until it is true, a closed loop of `concurrency` processes."""
        waiting = deque(items)

        async def lane() -> None:
            process = self._executor.new_process()
            while waiting and not give_up():
                item = waiting.popleft()
                if await act(process, item):
                    self.progress.done += 1
                else:
                    waiting.append(item)
                    await asyncio.sleep(RETRY_PAUSE_S)

        async with asyncio.TaskGroup() as lanes:
            for _ in range(min(concurrency, len(items))):
                lanes.create_task(lane())
        return self.progress.done == self.progress.planned

    def _begin(self, planned: int, todo: int) -> None:
        self.progress.planned, self.progress.done = planned, planned - todo

    def _now_ns(self) -> int:
        return self._executor.recorder.clock.monotonic_ns()

    async def _run(
        self,
        process: LogicalProcess,
        operation: Operation | TransactionOperation,
        partition: int,
        sched_ns: int,
        phase: Phase,
        role: OperationRole,
    ) -> bool:
        """One operation with retries; True if it ended ok."""
        # The deadline counts from now: a late operation still gets its full time.
        limits = Limits(
            deadline_ns=self._now_ns() + self._plan.deadline_ms * 1_000_000,
            attempt_ns=self._plan.attempt_ms * 1_000_000,
            retry=True,
        )
        outcome = await self._executor.run(
            process,
            operation,
            phase=phase,
            role=role,
            partition=partition,
            sched_ns=sched_ns,
            limits=limits,
        )
        if outcome.type is not Type.OK:
            return False
        if isinstance(operation, TransactionOperation):
            return True
        if operation.f is Function.READ or outcome.applied is False:
            self._last_values.saw(operation.key, outcome.value)
        elif operation.f is not Function.APPEND:
            self._last_values.saw(operation.key, operation.value)
        return True
