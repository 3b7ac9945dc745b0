"""The history: one JSON line per event, in the format of docs/history.md.

What a crash may cost is at most the torn last line of a file. Therefore:

- an invoke is handed to the kernel (write(2)) before its request leaves this process,
- every file is synced each second, in a thread, so that a dead machine costs a second,
- a restarted load begins new files and never touches the old ones.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from zonequake_load.errors import HistoryError
from zonequake_load.operation import (
    TRANSACTION,
    Function,
    Operation,
    Outcome,
    TransactionOperation,
    Type,
)
from zonequake_protocol.client import Value

SCHEMA = 1
TRANSACTION_SCHEMA = 2
"""Of the lines of transactions alone, which a reader of schema 1 can't judge."""

SUFFIX = ".jsonl"
SYNC_INTERVAL_S = 1.0


class OperationRole(StrEnum):
    """The purpose of an operation; `load` includes the preload."""

    LOAD = "load"
    PROBE = "probe"
    FINAL = "final"


class HistoryEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line. Times in ns: `sched`, `inv`, `time` of the monotonic `clock`, `wall` unix time."""

    schema: int = SCHEMA
    type: Type
    f: Function
    process: int
    op: str
    role: OperationRole
    zone: str
    partition: int
    key: str
    value: Value = None
    expected: int | str | None = None
    applied: bool | None = None
    found: Value = None
    sched: int
    inv: int
    time: int
    wall: int
    clock: str
    node: str | None = None
    lineage: int | None = None
    term: int | None = None
    index: int | None = None
    read: str | None = None
    attempts: int | None = None
    error: str | None = None


class RecordedStep(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`value`: what is appended; of a read None, or what was read."""

    f: Function
    key: str
    value: Value = None


class RecordedTransaction(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of a transaction: the fields of every line, and its steps.

    It has no `key`, so that a reader of schema 1 knows that any key may lack a write.
    """

    schema: int = TRANSACTION_SCHEMA
    type: Type
    f: str = TRANSACTION
    process: int
    op: str
    role: OperationRole
    zone: str
    partition: int
    key: None = None
    value: None = None
    expected: None = None
    applied: None = None
    found: None = None
    sched: int
    inv: int
    time: int
    wall: int
    clock: str
    node: str | None = None
    lineage: int | None = None
    term: int | None = None
    index: int | None = None
    read: None = None
    attempts: int | None = None
    error: str | None = None
    steps: list[RecordedStep]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryClock:
    """Monotonic and wall clock, and the name of the monotonic one."""

    name: str
    monotonic_ns: Callable[[], int] = time.monotonic_ns
    wall_ns: Callable[[], int] = time.time_ns


def machine_clock() -> HistoryClock:
    """This machine's clock, named by its boot id: containers on one machine share it."""
    return HistoryClock(name=Path("/proc/sys/kernel/random/boot_id").read_text().strip())


class HistoryWriter:
    """Appends lines to one file; it appears with the first line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._closed = False
        self._torn = False
        self._dirty = False
        self._encoder = msgspec.json.Encoder()

    def append(self, event: HistoryEvent | RecordedTransaction) -> None:
        """Hand one line to the kernel. Raises HistoryError; the load must then stop.

        A line that was taken in part stays the file's last: one after it would be lost with it.
        """
        if self._torn:
            raise HistoryError(
                f"cannot append to {self.path}: a line before was not written in full; the load "
                "goes on in a new file when its pod is started again"
            )
        line = whole = memoryview(self._encoder.encode(event) + b"\n")
        try:
            if self._descriptor is None:
                if self._closed:
                    raise HistoryError(f"{self.path} is closed, found another event for it")
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
                self._descriptor = os.open(self.path, flags, 0o644)
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError as error:
            self._torn = len(line) < len(whole)
            raise HistoryError(
                f"cannot append to {self.path}: {error}; give the history more room"
            ) from error
        self._dirty = True

    async def sync(self) -> None:
        """Bring what was appended to the disk. Raises HistoryError."""
        if self._descriptor is None or not self._dirty:
            return
        self._dirty = False
        # A descriptor of its own, so that close() can't pull this one away from the thread.
        descriptor = os.dup(self._descriptor)
        try:
            await asyncio.to_thread(os.fdatasync, descriptor)
        except OSError as error:
            raise HistoryError(
                f"cannot sync {self.path}: {error}; check the volume of the history"
            ) from error
        finally:
            os.close(descriptor)

    @property
    def is_open(self) -> bool:
        return self._descriptor is not None

    def close(self) -> None:
        """Sync and close. Raises HistoryError."""
        self._closed = True
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        try:
            os.fdatasync(descriptor)
        except OSError as error:
            raise HistoryError(
                f"cannot sync {self.path}: {error}; check the volume of the history"
            ) from error
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One operation of one process, from its invoke on; see `HistoryEvent` for the fields."""

    operation: Operation | TransactionOperation
    process: int
    op: str
    role: OperationRole
    partition: int
    sched_ns: int
    inv_ns: int


class Recorder:
    """Turns calls and outcomes into events of two files: one of the probes, one of all else."""

    def __init__(self, directory: Path, prefix: str, zone: str, clock: HistoryClock) -> None:
        self.clock = clock
        self.touched: dict[str, int] = {}
        self._zone = zone
        self._load = HistoryWriter(directory / f"{prefix}-load{SUFFIX}")
        self._probe = HistoryWriter(directory / f"{prefix}-probe{SUFFIX}")

    @property
    def files(self) -> tuple[HistoryWriter, ...]:
        return (self._load, self._probe)

    def invoke(self, call: RecordedCall) -> None:
        """Write the invoke; its request may leave when this returns. Raises HistoryError."""
        for step in call.operation.steps:
            self.touched[step.key] = call.partition
        self._append(call, Type.INVOKE, None)

    def complete(self, call: RecordedCall, outcome: Outcome) -> None:
        """Raises HistoryError."""
        self._append(call, outcome.type, outcome)

    async def sync_for_ever(self) -> None:
        """Sync each second. Raises HistoryError."""
        while True:
            await asyncio.sleep(SYNC_INTERVAL_S)
            for file in self.files:
                await file.sync()

    def close(self) -> None:
        """Raises HistoryError."""
        for file in self.files:
            file.close()

    def _append(self, call: RecordedCall, type_: Type, outcome: Outcome | None) -> None:
        of = event_of if isinstance(call.operation, Operation) else transaction_event_of
        event = of(call, type_, outcome, zone=self._zone, clock=self.clock)
        (self._probe if call.role is OperationRole.PROBE else self._load).append(event)


def event_of(
    call: RecordedCall, type_: Type, outcome: Outcome | None, *, zone: str, clock: HistoryClock
) -> HistoryEvent:
    """Builds the event of a call's invoke (no outcome) or of its completion, which happens now.

    The call is no transaction.
    """
    operation = call.operation
    assert isinstance(operation, Operation)
    is_read = operation.f is Function.READ
    value: Value = operation.value
    found: Value = None
    if outcome is not None and outcome.type is Type.OK:
        if is_read:
            value = outcome.value
        elif operation.f is Function.CAS and outcome.applied is False:
            found = outcome.value
    return HistoryEvent(
        type=type_,
        f=operation.f,
        process=call.process,
        op=call.op,
        role=call.role,
        zone=zone,
        partition=call.partition,
        key=operation.key,
        value=value,
        expected=operation.expected,
        applied=outcome.applied if outcome and operation.f is Function.CAS else None,
        found=found,
        sched=call.sched_ns,
        inv=call.inv_ns,
        time=call.inv_ns if outcome is None else clock.monotonic_ns(),
        wall=clock.wall_ns(),
        clock=clock.name,
        node=outcome.node if outcome else None,
        lineage=outcome.lineage if outcome else None,
        term=outcome.term if outcome else None,
        index=outcome.index if outcome else None,
        read=("bounded" if operation.bounded else "linearizable") if is_read else None,
        attempts=outcome.attempts if outcome else None,
        error=outcome.error if outcome else None,
    )


def transaction_event_of(
    call: RecordedCall, type_: Type, outcome: Outcome | None, *, zone: str, clock: HistoryClock
) -> RecordedTransaction:
    """Builds the same of a transaction."""
    operation = call.operation
    read: list[Value] | None = outcome.results if outcome and outcome.type is Type.OK else None
    values: list[Value] = [None] * len(operation.steps) if read is None else read
    return RecordedTransaction(
        type=type_,
        process=call.process,
        op=call.op,
        role=call.role,
        zone=zone,
        partition=call.partition,
        sched=call.sched_ns,
        inv=call.inv_ns,
        time=call.inv_ns if outcome is None else clock.monotonic_ns(),
        wall=clock.wall_ns(),
        clock=clock.name,
        node=outcome.node if outcome else None,
        lineage=outcome.lineage if outcome else None,
        term=outcome.term if outcome else None,
        index=outcome.index if outcome else None,
        attempts=outcome.attempts if outcome else None,
        error=outcome.error if outcome else None,
        steps=[
            RecordedStep(
                f=step.f, key=step.key, value=value if step.f is Function.READ else step.value
            )
            for step, value in zip(operation.steps, values, strict=True)
        ],
    )
