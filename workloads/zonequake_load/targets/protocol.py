"""Defines what the load can be sent to: one protocol with few methods (design §5).

Load, probes, history and checks know only this. A new target is a module under `targets/` and a
case in `pod/targets.py` (docs/how-to/test-another-system.md).
"""

from __future__ import annotations

from typing import Protocol

from zonequake_load.operation import Function, Limits, Once, Operation, Outcome


class Target(Protocol):
    """A store of registers and lists, divided into partitions.

    Methods that touch keys return an `Outcome` and never raise for what the network or the store
    does. `once` names an operation whose attempts may be repeated; without it nothing is.
    """

    @property
    def partitions(self) -> int:
        """Number of partitions, known after `open`."""
        ...

    async def open(self) -> None:
        """Connect. Raises TargetError."""
        ...

    async def close(self) -> None: ...

    async def read(self, key: str, *, limits: Limits, bounded: bool = False) -> Outcome: ...

    async def write(
        self, key: str, value: int, *, limits: Limits, once: Once | None, filler: bytes = b""
    ) -> Outcome: ...

    async def cas(
        self, key: str, expected: int | None, value: int, *, limits: Limits, once: Once | None
    ) -> Outcome: ...

    async def append(
        self, key: str, value: int, *, limits: Limits, once: Once | None
    ) -> Outcome: ...

    def partition_of(self, key: str) -> int:
        """The partition that `key` belongs to."""
        ...

    def key_for_partition(self, stem: str, partition: int) -> str:
        """A key that begins with `stem` and belongs to `partition`; always the same one."""
        ...


async def perform(
    target: Target, operation: Operation, *, limits: Limits, once: Once | None
) -> Outcome:
    """Carry `operation` out on `target`."""
    value, expected = operation.value, operation.expected
    if operation.f is Function.READ:
        return await target.read(operation.key, limits=limits, bounded=operation.bounded)
    assert isinstance(value, int), "the load writes integers"
    assert not isinstance(expected, str), "and expects them"
    match operation.f:
        case Function.WRITE:
            return await target.write(
                operation.key, value, limits=limits, once=once, filler=operation.filler
            )
        case Function.CAS:
            return await target.cas(operation.key, expected, value, limits=limits, once=once)
        case Function.APPEND:
            return await target.append(operation.key, value, limits=limits, once=once)
