"""Transactions of simulated clients: random ones, recorded as the operations they consist of.

A history has operations on one key only. So each step is recorded as an operation of a process of
its own, which begins and ends with the transaction and has no place: its key must be explained with
it. The transaction as a whole is kept separately, for `serializability`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

from zonequake_load.operation import Function, Operation, Outcome, TransactionOperation, Type
from zonequake_protocol.client import Value
from zonequake_simulation.serializability import ObservedOperation


def drawn(
    random: Random,
    keys: Sequence[str],
    value: Callable[[], int],
    expected: Callable[[str], int | str | None],
) -> TransactionOperation:
    """Returns a random transaction on two or three keys of any partitions; lists, named l…, are
    often read before the append.
    """
    steps: list[Operation] = []
    for key in random.sample(keys, random.choice((2, 2, 3))):
        draw = random.random()
        if key.startswith("l"):
            if draw < 0.7:
                steps.append(Operation(f=Function.READ, key=key))
            if draw > 0.2:
                steps.append(Operation(f=Function.APPEND, key=key, value=value()))
        elif draw < 0.3:
            steps.append(Operation(f=Function.READ, key=key))
        elif draw < 0.85:
            steps.append(Operation(f=Function.WRITE, key=key, value=value()))
        else:
            found = expected(key)
            steps.append(Operation(f=Function.CAS, key=key, value=value(), expected=found))
    return TransactionOperation(steps=tuple(steps))


def steps_of(operation: Operation | TransactionOperation) -> tuple[Operation, ...]:
    """Returns the steps that the history records."""
    return operation.steps if isinstance(operation, TransactionOperation) else (operation,)


def only_reads(operation: Operation | TransactionOperation) -> bool:
    """Returns whether the transaction needs no name to be repeated."""
    return isinstance(operation, Operation) and operation.f is Function.READ


def outcomes_of(operation: Operation | TransactionOperation, outcome: Outcome) -> Iterator[Outcome]:
    """Yields the outcome of each step."""
    if not isinstance(operation, TransactionOperation):
        yield outcome
        return
    results: Sequence[Value] = outcome.results or [None] * len(operation.steps)
    for step, result in zip(operation.steps, results, strict=True):
        if outcome.type is not Type.OK:
            yield outcome
        elif outcome.applied:
            is_cas = step.f is Function.CAS
            yield Outcome(
                type=Type.OK,
                attempts=outcome.attempts,
                node=outcome.node,
                value=result,
                applied=True if is_cas else None,
            )
        else:
            error = f"a cas of its transaction found {outcome.value!r}"
            yield Outcome(type=Type.FAIL, attempts=outcome.attempts, error=error)


def begun(name: str, operation: Operation | TransactionOperation, now_us: int) -> ObservedOperation:
    """Returns an operation as `serializability` uses it, before its answer."""
    appends = {
        step.key: step.value
        for step in steps_of(operation)
        if step.f is Function.APPEND and isinstance(step.value, int)
    }
    return ObservedOperation(name=name, inv_us=now_us, fin_us=None, appends=appends)


def ended(
    told: ObservedOperation,
    operation: Operation | TransactionOperation,
    outcome: Outcome,
    now_us: int,
) -> None:
    """Adds the client's answer."""
    if outcome.type is not Type.OK or (
        isinstance(operation, TransactionOperation) and not outcome.applied
    ):
        return
    told.fin_us = now_us
    for step, each in zip(steps_of(operation), outcomes_of(operation, outcome), strict=True):
        if step.f is Function.READ and step.key.startswith("l") and not step.bounded:
            assert each.value is None or isinstance(each.value, list), "a list was read"
            told.reads[step.key] = tuple(each.value or ())
