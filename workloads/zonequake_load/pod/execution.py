"""Carries operations out and writes them down: invoke, request, completion, in this order."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from zonequake_load.operation import (
    Function,
    Limits,
    OnceId,
    Operation,
    Outcome,
    TransactionOperation,
    Type,
)
from zonequake_load.pod.control import Phase
from zonequake_load.pod.history import OperationRole, RecordedCall, Recorder
from zonequake_load.pod.identity import Numbers
from zonequake_load.pod.tally import OperationTally
from zonequake_load.targets.protocol import Target


@dataclass(slots=True)
class LogicalProcess:
    """A logical process: one operation at a time; its id is given up after an `info`."""

    id: int
    operations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationExecutor:
    """All that an operation needs on its way.

    `reads_local`: reads are asked of any replica's own state, and recorded as if they were
    linearizable (`ReadsAt.LOCAL`). Not so the final ones, which tell what is lost from what is old.
    """

    target: Target
    recorder: Recorder
    tally: OperationTally
    numbers: Numbers
    reads_local: bool = False

    def new_process(self) -> LogicalProcess:
        """Raises IdentityError."""
        return LogicalProcess(self.numbers.next_process())

    async def run(
        self,
        process: LogicalProcess,
        operation: Operation | TransactionOperation,
        *,
        phase: Phase,
        role: OperationRole,
        partition: int,
        sched_ns: int,
        limits: Limits,
    ) -> Outcome:
        """One operation; `process` has a new id afterwards if it ended `info`.

        Raises:
            HistoryError: it could not be written down.
            IdentityError: no process id is left.
        """
        clock = self.recorder.clock
        process.operations += 1
        call = RecordedCall(
            operation=operation,
            process=process.id,
            op=f"{process.id}-{process.operations}",
            role=role,
            partition=partition,
            sched_ns=sched_ns,
            inv_ns=clock.monotonic_ns(),
        )
        once: OnceId | None = None
        if limits.retry and operation.f is not Function.READ:
            once = OnceId(str(process.id), process.operations)
        self.recorder.invoke(call)
        self.tally.began(phase, call)
        outcome = Outcome(type=Type.INFO, attempts=0, error="the load was stopped meanwhile")
        try:
            asked = operation
            if (
                self.reads_local
                and isinstance(operation, Operation)
                and operation.f is Function.READ
                and role is not OperationRole.FINAL
            ):
                asked = msgspec.structs.replace(operation, bounded=True)
            outcome = _with_all_results(asked, await self.target.execute(asked, limits, once))
        finally:
            self.recorder.complete(call, outcome)
            self.tally.ended(phase, call, outcome, clock.monotonic_ns())
        if outcome.type is Type.INFO:
            process.id, process.operations = self.numbers.next_process(), 0
        return outcome


def _with_all_results(asked: Operation | TransactionOperation, outcome: Outcome) -> Outcome:
    """Returns the outcome, unknown if a transaction's answer doesn't say what each step read."""
    if not isinstance(asked, TransactionOperation) or outcome.type is not Type.OK:
        return outcome
    found = "no results" if outcome.results is None else f"{len(outcome.results)} results"
    if outcome.applied is False:
        found = "a refusal"
    elif outcome.results is not None and len(outcome.results) == len(asked.steps):
        return outcome
    return Outcome(
        type=Type.INFO,
        attempts=outcome.attempts,
        error=f"the target's client answered {found}, expected one of each of the "
        f"{len(asked.steps)} steps: correct the client",
    )
