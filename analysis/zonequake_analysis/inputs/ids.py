"""Stable integers for names, and Spark's own choice of a bucket. Pure.

A partition and a key are named by 64 bits of BLAKE2b over their names, the same on every machine
and in every run. A row's bucket is the one that Spark computes for its `partition_id`, so that the
files written from Python are a bucketed table for Spark (MurmurHash 3, 32 bit, seed 42, over the
low and then the high half of a long; `org.apache.spark.unsafe.hash.Murmur3_x86_32.hashLong`).
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_SEED = 42
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_ADD = np.uint32(0xE6546B64)
_MIX1, _MIX2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)


@lru_cache(maxsize=1 << 18)
def name_id(zone: str, name: str) -> int:
    """Returns 64 bits, signed, that stand for a name of a zone."""
    digest = blake2b(f"{zone}\0{name}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def name_ids(zones: pa.Array, names: pa.Array) -> NDArray[np.int64]:
    """Returns `name_id` of each row; each distinct name is hashed once. Nulls count as empty."""
    if not len(names):
        return np.zeros(0, np.int64)
    zone, name = _coded(zones), _coded(names)
    here = zone.indices.to_numpy().astype(np.int64) * len(name.dictionary)
    here += name.indices.to_numpy()
    if len(zone.dictionary) == 1:
        (own,) = zone.dictionary.to_pylist()
        known = np.array([name_id(own, n) for n in name.dictionary.to_pylist()], np.int64)
        return np.asarray(known[here])
    zone_names, key_names = zone.dictionary.to_pylist(), name.dictionary.to_pylist()
    pairs, rows = np.unique(here, return_inverse=True)
    width = len(key_names)
    known = np.array(
        [name_id(zone_names[p // width], key_names[p % width]) for p in pairs.tolist()], np.int64
    )
    return known[rows]


def _coded(names: pa.Array) -> pa.DictionaryArray:
    return names.fill_null("").dictionary_encode()


def bucket_of(ids: NDArray[np.int64], buckets: int) -> NDArray[np.int32]:
    """Returns the bucket, in 0..buckets-1, of each partition id."""
    given = np.ascontiguousarray(ids, np.int64).view(np.uint64)
    low, high = (given & np.uint64(0xFFFFFFFF)), given >> np.uint64(32)
    with np.errstate(over="ignore"):
        h = np.full(len(given), _SEED, np.uint32)
        for half in (low.astype(np.uint32), high.astype(np.uint32)):
            h ^= _turned(half * _C1, 15) * _C2
            h = _turned(h, 13) * np.uint32(5) + _ADD
        h ^= np.uint32(8)
        h ^= h >> np.uint32(16)
        h *= _MIX1
        h ^= h >> np.uint32(13)
        h *= _MIX2
        h ^= h >> np.uint32(16)
    return (h.view(np.int32).astype(np.int64) % buckets).astype(np.int32)


def _turned(value: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (value << np.uint32(bits)) | (value >> np.uint32(32 - bits))
