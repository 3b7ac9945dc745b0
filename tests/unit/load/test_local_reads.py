"""Reads of a replica's own state that are claimed linearizable, which the checks must find."""

from __future__ import annotations

from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from zonequake_load.operation import Function, Limits, OnceId, Operation, Outcome, Type
from zonequake_load.pod.control import Phase
from zonequake_load.pod.execution import OperationExecutor
from zonequake_load.pod.history import HistoryClock, HistoryEvent, OperationRole, Recorder
from zonequake_load.pod.identity import Numbers
from zonequake_load.pod.tally import OperationTally


class Answering:
    """A target that keeps how it was asked."""

    def __init__(self) -> None:
        self.bounded: list[bool] = []

    async def execute(
        self, operation: Operation, limits: Limits, once: OnceId | None = None
    ) -> Outcome:
        self.bounded.append(operation.bounded)
        return Outcome(type=Type.OK, attempts=1, value=1, lineage=0, term=1, index=1)


async def asked_and_written(folder: Path, *, reads_local: bool) -> tuple[list[bool], set[str]]:
    """How the target was asked by load, probe and final read, and what the history calls them."""
    target = Answering()
    recorder = Recorder(folder, "pod", "z", HistoryClock(name="c"))
    executor = OperationExecutor(
        target=target,  # type: ignore[arg-type]
        recorder=recorder,
        tally=OperationTally(CollectorRegistry()),
        numbers=Numbers(0, 1),
        reads_local=reads_local,
    )
    for role in (OperationRole.LOAD, OperationRole.PROBE, OperationRole.FINAL):
        await executor.run(
            executor.new_process(),
            Operation(f=Function.READ, key="k"),
            phase=Phase.LOAD,
            role=role,
            partition=0,
            sched_ns=0,
            limits=Limits(deadline_ns=1, attempt_ns=1, retry=True),
        )
    recorder.close()
    return target.bounded, {event.read or "" for event in written_in(folder)}


def written_in(folder: Path) -> list[HistoryEvent]:
    lines = [line for file in folder.glob("*.jsonl") for line in file.read_bytes().splitlines()]
    return [msgspec.json.decode(line, type=HistoryEvent) for line in lines]


async def test_local_reads_are_claimed_linearizable_and_the_final_ones_are(tmp_path: Path) -> None:
    asked, written = await asked_and_written(tmp_path, reads_local=True)
    assert asked == [True, True, False]
    assert written == {"linearizable"}


async def test_without_the_option_no_read_is_local(tmp_path: Path) -> None:
    asked, _ = await asked_and_written(tmp_path, reads_local=False)
    assert asked == [False, False, False]
