"""The loop of a load: open on schedule, closed as its processes become free."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client import CollectorRegistry

from tests.unit.load.made_up_target import MadeUpTarget
from zonequake_load.operation import Limits, OnceId, Operation, Outcome, TransactionOperation, Type
from zonequake_load.pod.control import (
    LoadPlan,
    Loop,
    OutcomeCounts,
    Phase,
    PhaseCounts,
    RegisterWorkload,
)
from zonequake_load.pod.execution import OperationExecutor
from zonequake_load.pod.history import Recorder, machine_clock
from zonequake_load.pod.identity import Numbers
from zonequake_load.pod.pacing import StopSignal
from zonequake_load.pod.phases import Phases
from zonequake_load.pod.recovery import RecoveredHistory
from zonequake_load.pod.tally import OperationTally

PROCESSES = 2


class Held(MadeUpTarget):
    """Keeps each operation until it is released."""

    def __init__(self) -> None:
        self.begun = 0
        self.outstanding = 0
        self.most = 0
        self.released = asyncio.Event()

    async def execute(
        self,
        operation: Operation | TransactionOperation,
        limits: Limits,
        once: OnceId | None = None,
    ) -> Outcome:
        self.begun += 1
        self.outstanding += 1
        self.most = max(self.most, self.outstanding)
        await self.released.wait()
        self.outstanding -= 1
        return Outcome(type=Type.OK, attempts=1, index=1)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.002)


async def run(loop: Loop, folder: Path) -> tuple[OutcomeCounts, list[int]]:
    """A load that is held up for a while by operations that don't end, and then goes on.

    Returns its counts, and of operations begun since then their times in the schedule, counted from
    the end of the while.
    """
    target, tally, stop = Held(), OperationTally(CollectorRegistry()), StopSignal()
    recorder = Recorder(folder, "p", "z", machine_clock())
    plan = LoadPlan(
        client="some:client",
        zone="z",
        seeds=["s:1"],
        workloads=[RegisterWorkload(operations_per_second=2_000)],
        probes=None,
        processes=PROCESSES,
        loop=loop,
    )
    executor = OperationExecutor(
        target=target, recorder=recorder, tally=tally, numbers=Numbers(0, 1)
    )
    phases = Phases(plan, executor, ordinal=0, incarnation=1, recovered=RecoveredHistory())
    loading = asyncio.create_task(phases.load(stop, time.time_ns()))
    await until(lambda: target.outstanding == PROCESSES)
    await asyncio.sleep(0.1)  # 200 operations become due meanwhile
    counts = tally.phases.setdefault(Phase.LOAD, PhaseCounts()).operations
    await until(lambda: loop is Loop.CLOSED or counts.dropped > 0)
    released_ns = time.monotonic_ns()
    target.released.set()
    await until(lambda: target.begun > 20)
    stop.asked = True
    await loading
    recorder.close()
    lines = [json.loads(line) for line in (folder / "p-load.jsonl").read_text().splitlines()]
    assert target.most == PROCESSES
    invokes = [line for line in lines if line["type"] == "invoke"]
    assert counts.ok == len(invokes)
    return counts, [line["sched"] - released_ns for line in invokes[PROCESSES:]]


async def test_a_closed_loop_drops_nothing_and_counts_from_the_beginning(tmp_path: Path) -> None:
    counts, scheduled_ns = await run(Loop.CLOSED, tmp_path)
    assert counts.dropped == 0
    assert min(scheduled_ns) >= 0


async def test_an_open_loop_counts_from_the_schedule_and_drops_what_waits_too_long(
    tmp_path: Path,
) -> None:
    counts, scheduled_ns = await run(Loop.OPEN, tmp_path)
    assert counts.dropped > 0
    assert min(scheduled_ns) < 0
