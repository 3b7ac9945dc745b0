"""The mapping of partitions to nodes: rendezvous, the same function as Apache Ignite 3's.

For each (node, partition) one 64-bit word: the node name's Java hash code in its low half, the
partition in its high half, mixed by the Wang/Jenkins steps. Nodes are ranked ascending by the
signed result, ties by name, and the first `replicas` of them hold the partition. So the result
is independent of input order, prefix-stable in replicas, and moves as little as possible: a
joining node only takes, a leaving one only gives (design §3, Affinity).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

CHUNK_PARTITIONS = 8192
"""Partitions ranked at once: 8192 x 100 nodes keeps each temporary array at 6.5 MB."""


def java_hash_code(text: str) -> int:
    """`String.hashCode()`: over UTF-16 units, h = 31 h + unit, modulo 2**32, as unsigned."""
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2")
    value = 0
    for unit in units.tolist():
        value = (31 * value + unit) & 0xFFFFFFFF
    return value


def rendezvous(nodes: Iterable[str], partitions: int, replicas: int) -> list[tuple[str, ...]]:
    """Chooses the nodes of each partition, best first.

    Returns one tuple per partition, each of min(replicas, nodes) distinct names; empty tuples
    when there are no nodes.
    """
    names = sorted(set(nodes))
    count = min(replicas, len(names))
    if count == 0:
        return [()] * partitions
    hashes = np.array([java_hash_code(name) for name in names], dtype=np.uint64)
    chosen: list[tuple[str, ...]] = []
    for first in range(0, partitions, CHUNK_PARTITIONS):
        numbers = np.arange(first, min(first + CHUNK_PARTITIONS, partitions), dtype=np.uint64)
        # A stable sort over names in order breaks ties by name ("Aa" and "BB" hash alike).
        order = np.argsort(_mix(hashes, numbers), axis=1, kind="stable")[:, :count]
        chosen.extend(tuple(names[i] for i in row) for row in order.tolist())
    return chosen


def _mix(
    hashes: npt.NDArray[np.uint64], partitions: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """Ranks, shaped (partitions, nodes), the lowest first. Unsigned arithmetic wraps as Java's."""
    key = hashes[np.newaxis, :] | (partitions[:, np.newaxis] << np.uint64(32))
    key = ~key + (key << np.uint64(21))
    key ^= key >> np.uint64(24)
    key += (key << np.uint64(3)) + (key << np.uint64(8))
    key ^= key >> np.uint64(14)
    key += (key << np.uint64(2)) + (key << np.uint64(4))
    key ^= key >> np.uint64(28)
    key += key << np.uint64(31)
    ranks: npt.NDArray[np.int64] = key.view(np.int64)
    return ranks
