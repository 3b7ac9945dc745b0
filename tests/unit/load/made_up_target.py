"""What made-up targets of a load share: all but how an operation is answered."""

from __future__ import annotations


class MadeUpTarget:
    """There at once, and of one partition."""

    partitions = 1

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def partition_of(self, key: str) -> int:
        return 0

    def key_for_partition(self, stem: str, partition: int) -> str:
        return stem
