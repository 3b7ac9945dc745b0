"""A planted fault of clients: what may have happened is told as certainly failed.

Conformance suites must find it in each target's client (docs/targets.md). Only
`OperationRequest.planted_lie` switches it on, for a single operation that is in no history: neither
a plan nor a scenario can, so that no recorded run has it.
"""

from __future__ import annotations

import msgspec

from zonequake_load.operation import Limits, OnceId, Operation, Outcome, TransactionOperation, Type
from zonequake_load.targets.protocol import Target


class LyingTarget:
    """Another target's client, whose unknown outcomes it tells as certain failures."""

    def __init__(self, honest: Target) -> None:
        self._honest = honest

    @property
    def partitions(self) -> int:
        return self._honest.partitions

    async def open(self) -> None:
        await self._honest.open()

    async def close(self) -> None:
        await self._honest.close()

    async def execute(
        self,
        operation: Operation | TransactionOperation,
        limits: Limits,
        once: OnceId | None = None,
    ) -> Outcome:
        return told_as_certain(await self._honest.execute(operation, limits, once))

    def partition_of(self, key: str) -> int:
        return self._honest.partition_of(key)

    def key_for_partition(self, stem: str, partition: int) -> str:
        return self._honest.key_for_partition(stem, partition)


def told_as_certain(outcome: Outcome) -> Outcome:
    """Returns the outcome as a client tells it that takes every error for certain."""
    if outcome.type is not Type.INFO:
        return outcome
    return msgspec.structs.replace(outcome, type=Type.FAIL)
