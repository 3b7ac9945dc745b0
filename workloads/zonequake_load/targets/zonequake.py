"""Our own store as a target."""

from __future__ import annotations

import itertools

from zonequake_load.client.client import Client
from zonequake_load.operation import Limits, OnceId, Operation, Outcome
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

    async def execute(
        self, operation: Operation, limits: Limits, once: OnceId | None = None
    ) -> Outcome:
        return await self._client.execute(operation, limits, once)

    def partition_of(self, key: str) -> int:
        return self._client.partition_of(key)

    def key_for_partition(self, stem: str, partition: int) -> str:
        return key_for_partition(stem, partition, self.partitions)


def key_for_partition(stem: str, partition: int, partitions: int) -> str:
    """Returns `stem` with the first number appended that puts the key into `partition`.

    crc32 spreads well: the search takes about `partitions` steps.
    """
    assert 0 <= partition < partitions
    for suffix in itertools.count():
        key = f"{stem}.{suffix}"
        if partition_of(key, partitions) == partition:
            return key
    raise AssertionError("unreachable")
