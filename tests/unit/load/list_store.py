"""A store of lists in memory as a target: whole transactions, or on request halves of them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

from tests.unit.load.made_up_target import MadeUpTarget
from zonequake_load.operation import (
    Function,
    Limits,
    OnceId,
    Operation,
    Outcome,
    TransactionOperation,
    Type,
)
from zonequake_protocol.client import Value


class ListStore(MadeUpTarget):
    """`halves`: whether the transaction of a number applies its first append and then is silent."""

    partitions = 2

    def __init__(self, halves: Callable[[int], bool] = lambda _: False) -> None:
        self.lists: defaultdict[str, list[int]] = defaultdict(list)
        self.begun = 0
        self.index = 0
        self._halves = halves

    async def execute(
        self,
        operation: Operation | TransactionOperation,
        limits: Limits,
        once: OnceId | None = None,
    ) -> Outcome:
        await asyncio.sleep(0)
        self.index += 1
        if isinstance(operation, Operation):
            return self._ok(value=self._do(operation))
        self.begun += 1
        appends = sum(step.f is Function.APPEND for step in operation.steps)
        results = list[Value]()
        for step in operation.steps:
            results.append(self._do(step))
            if step.f is Function.APPEND and appends > 1 and self._halves(self.begun):
                return Outcome(type=Type.INFO, attempts=1, error="silent")
        return self._ok(results=results)

    def _do(self, step: Operation) -> Value:
        if step.f is Function.READ:
            return list(self.lists[step.key]) or None
        assert isinstance(step.value, int)
        self.lists[step.key].append(step.value)
        return None

    def _ok(self, value: Value = None, results: list[Value] | None = None) -> Outcome:
        return Outcome(
            type=Type.OK, attempts=1, value=value, results=results, node="n0", lineage=0, term=1,
            index=self.index,
        )  # fmt: skip

    def partition_of(self, key: str) -> int:
        return int(key.split("/")[1])
