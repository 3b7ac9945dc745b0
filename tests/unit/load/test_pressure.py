"""Pressure: writes beside the recorded load, which no history has."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tests.unit.load.made_up_target import MadeUpTarget
from zonequake_load.operation import Limits, OnceId, Operation, Outcome, TransactionOperation, Type
from zonequake_load.pod.control import (
    AppendListWorkload,
    LoadPlan,
    OutcomeCounts,
    Phase,
    Preload,
    Pressure,
    Probes,
    RegisterWorkload,
)
from zonequake_load.pod.execution import OperationExecutor
from zonequake_load.pod.history import Recorder, machine_clock
from zonequake_load.pod.identity import Numbers
from zonequake_load.pod.pacing import StopSignal
from zonequake_load.pod.phases import Phases
from zonequake_load.pod.pressure import PREFIX
from zonequake_load.pod.recovery import RecoveredHistory
from zonequake_load.pod.tally import OperationTally

PARTITIONS = 3
WRITERS = 2


class Answering(MadeUpTarget):
    """Answers each operation as it is told, and keeps what it was asked."""

    partitions = PARTITIONS

    def __init__(self, answers: tuple[Type, ...] = (Type.OK,)) -> None:
        self.asked: list[tuple[Operation, OnceId | None]] = []
        self._answers = answers
        self._pressed = 0
        self._busy: set[str] = set()
        """Clients with an operation under way, or one that is open forever."""

    async def execute(
        self,
        operation: Operation | TransactionOperation,
        limits: Limits,
        once: OnceId | None = None,
    ) -> Outcome:
        assert isinstance(operation, Operation)
        self.asked.append((operation, once))
        if not operation.key.startswith(PREFIX):
            await asyncio.sleep(0.001)
            return Outcome(type=Type.OK, attempts=1, index=1)
        assert once is not None
        assert once.client not in self._busy, "a client has one operation outstanding"
        self._busy.add(once.client)
        await asyncio.sleep(0.001)
        self._pressed += 1
        outcome = Outcome(type=self._answers[self._pressed % len(self._answers)], attempts=1)
        if outcome.type is not Type.INFO:
            self._busy.remove(once.client)
        return outcome

    def key_for_partition(self, stem: str, partition: int) -> str:
        return f"{stem}.{partition}"

    @property
    def pressed(self) -> list[tuple[Operation, OnceId]]:
        return [
            (operation, once)
            for operation, once in self.asked
            if operation.key.startswith(PREFIX) and once is not None
        ]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zonequake_load.pod.pressure.FAILED_PAUSE_S", 0.0)


class Loaded:
    """A load with pressure, and what it counts."""

    def __init__(self, folder: Path, target: Answering) -> None:
        self.folder = folder
        self.target = target
        self.registry = CollectorRegistry()
        self.tally = OperationTally(self.registry)

    async def run(self, holds: Callable[[], bool], *, times: int = 1) -> None:
        """Loads until there are 100 writes more and `holds`, so many times with a pause between."""
        recorder = Recorder(self.folder, "p", "z", machine_clock())
        plan = LoadPlan(
            client="some:client",
            zone="z",
            seeds=["s:1"],
            workloads=[
                RegisterWorkload(operations_per_second=1_000),
                AppendListWorkload(operations_per_second=1_000),
            ],
            probes=Probes(interval_ms=1),
            preload=Preload(bulk_keys_per_partition=1),
            pressure=Pressure(processes=WRITERS, keys=7, filler_bytes=3),
        )
        executor = OperationExecutor(
            target=self.target, recorder=recorder, tally=self.tally, numbers=Numbers(0, 1)
        )
        phases = Phases(plan, executor, ordinal=0, incarnation=1, recovered=RecoveredHistory())
        await phases.preload(StopSignal())
        for _ in range(times):
            stop, before = StopSignal(), len(self.target.pressed)
            loading = asyncio.create_task(phases.load(stop, time.time_ns()))
            async with asyncio.timeout(60):
                while not loading.done() and (  # noqa: ASYNC110
                    len(self.target.pressed) < before + 100 or not holds()
                ):
                    await asyncio.sleep(0.002)
            stop.asked = True
            await loading
        await phases.final(StopSignal())
        recorder.close()

    @property
    def recorded_keys(self) -> set[str]:
        return {
            json.loads(line)["key"]
            for file in self.folder.glob("*.jsonl")
            for line in file.read_text().splitlines()
        }

    @property
    def counts(self) -> OutcomeCounts:
        return self.tally.phases[Phase.LOAD].pressure


async def test_the_history_has_no_key_of_the_pressure_and_the_pressure_none_of_its(
    tmp_path: Path,
) -> None:
    loaded = Loaded(tmp_path, Answering())
    await loaded.run(lambda: loaded.tally.phases[Phase.LOAD].probes.ok > 0)
    kinds = {key.split("/")[0] for key in loaded.recorded_keys}
    assert kinds == {"r0", "l1", "b", "probe"}
    pressed = [operation for operation, _ in loaded.target.pressed]
    assert {operation.key for operation in pressed} <= {
        f"pressure/{number}.{number % PARTITIONS}" for number in range(7)
    }
    assert {operation.filler for operation in pressed} == {bytes(3)}


async def test_the_pressure_is_counted_apart(tmp_path: Path) -> None:
    loaded = Loaded(tmp_path, Answering((Type.OK, Type.OK, Type.FAIL, Type.INFO)))
    await loaded.run(lambda: True)
    found = [
        int(
            loaded.registry.get_sample_value(
                "zonequake_load_pressure_writes_total", {"outcome": outcome}
            )
            or 0
        )
        for outcome in ("ok", "fail", "info")
    ]
    assert found == [loaded.counts.ok, loaded.counts.fail, loaded.counts.info]
    assert sum(found) == len(loaded.target.pressed)
    recorded = sum(
        counts.operations.ok + counts.probes.ok for counts in loaded.tally.phases.values()
    )
    assert recorded == len(loaded.target.asked) - len(loaded.target.pressed)


async def test_no_write_of_the_pressure_has_the_name_of_another(tmp_path: Path) -> None:
    loaded = Loaded(tmp_path, Answering((Type.OK, Type.INFO)))
    await loaded.run(lambda: True, times=2)
    names = [(once.client, once.sequence) for _, once in loaded.target.pressed]
    assert len(set(names)) == len(names)
    assert loaded.counts.info
