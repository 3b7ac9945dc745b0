"""Our own store as a target."""

from __future__ import annotations

import itertools

from zonequake_load.client.client import Client
from zonequake_load.operation import Function, Limits, Once, Operation, Outcome
from zonequake_protocol.client import partition_of


class ZonequakeTarget:
    """One zone of a zonequake store."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def partitions(self) -> int:
        return self._client.table.partitions

    async def open(self) -> None:
        await self._client.open()

    async def close(self) -> None:
        await self._client.close()

    async def read(self, key: str, *, limits: Limits, bounded: bool = False) -> Outcome:
        return await self._client.execute(
            Operation(f=Function.READ, key=key, bounded=bounded), limits
        )

    async def write(
        self, key: str, value: int, *, limits: Limits, once: Once | None, filler: bytes = b""
    ) -> Outcome:
        operation = Operation(f=Function.WRITE, key=key, value=value, filler=filler)
        return await self._client.execute(operation, limits, once)

    async def cas(
        self, key: str, expected: int | None, value: int, *, limits: Limits, once: Once | None
    ) -> Outcome:
        operation = Operation(f=Function.CAS, key=key, value=value, expected=expected)
        return await self._client.execute(operation, limits, once)

    async def append(self, key: str, value: int, *, limits: Limits, once: Once | None) -> Outcome:
        operation = Operation(f=Function.APPEND, key=key, value=value)
        return await self._client.execute(operation, limits, once)

    def partition_of(self, key: str) -> int:
        return self._client.partition_of(key)

    def key_for_partition(self, stem: str, partition: int) -> str:
        return key_for_partition(stem, partition, self.partitions)


def key_for_partition(stem: str, partition: int, partitions: int) -> str:
    """`stem` with the first number behind it that puts the key into `partition`.

    crc32 spreads well: the search takes about `partitions` steps.
    """
    assert 0 <= partition < partitions
    for suffix in itertools.count():
        key = f"{stem}.{suffix}"
        if partition_of(key, partitions) == partition:
            return key
    raise AssertionError("unreachable")
