"""Defines what the load can be sent to: one protocol with few methods (design §5).

Load, probes, history and checks know only this. A plan names the function that builds a target's
client (docs/how-to/test-another-system.md).
"""

from __future__ import annotations

from typing import Protocol

from zonequake_load.operation import Limits, OnceId, Operation, Outcome, TransactionOperation


class Target(Protocol):
    """A store of registers and lists, divided into partitions."""

    @property
    def partitions(self) -> int:
        """Number of partitions, known after `open`."""
        ...

    async def open(self) -> None:
        """Connect. Raises TargetError."""
        ...

    async def close(self) -> None: ...

    async def execute(
        self,
        operation: Operation | TransactionOperation,
        limits: Limits,
        once: OnceId | None = None,
    ) -> Outcome:
        """Carries `operation` out within `limits`; never raises for failures of network or store.

        `once` names an operation whose attempts may be repeated; without it nothing is. A target
        without transactions fails them.
        """
        ...

    def partition_of(self, key: str) -> int:
        """Returns the partition that `key` belongs to."""
        ...

    def key_for_partition(self, stem: str, partition: int) -> str:
        """Returns a key that begins with `stem` and belongs to `partition`; always the same one."""
        ...
