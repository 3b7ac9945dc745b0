"""Keys that belong to a given partition. Pure."""

from __future__ import annotations

import itertools

from zonequake_protocol.client import partition_of


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
