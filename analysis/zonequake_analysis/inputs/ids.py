"""Stable integers for names, and the buckets that they belong to. Pure.

A partition and a key are named by 64 bits of XXH3 over their names, with those of the zone's name
as the seed: the same on every machine and in every run. A row's bucket is the one that Spark
computes for one of its ids, so that the files written from Python are a bucketed table for Spark
(MurmurHash 3, 32 bit, seed 42, over the low and then the high half of a long;
`org.apache.spark.unsafe.hash.Murmur3_x86_32.hashLong`).
"""

from __future__ import annotations

from itertools import repeat

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

_SEED = 42
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_ADD = np.uint32(0xE6546B64)
_MIX1, _MIX2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_BACK1, _BACK2 = (np.uint32(pow(int(c), -1, 1 << 32)) for c in (_C1, _C2))
_SPREAD, _TURN = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


def name_id(zone: str, name: str) -> int:
    """Returns 64 bits, signed, that stand for a name of a zone."""
    unsigned = xxh3_64_intdigest(_bytes(name), _of_zone(zone))
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned


def name_ids(zones: pa.Array, names: pa.Array) -> NDArray[np.int64]:
    """Returns `name_id` of each row; each distinct name is hashed once. Nulls count as empty."""
    if not len(names):
        return np.zeros(0, np.int64)
    zone, name = _coded(zones), _coded(names)
    here = zone.indices.to_numpy().astype(np.int64) * len(name.dictionary)
    here += name.indices.to_numpy()
    if len(zone.dictionary) == 1:
        return np.asarray(_ids(zone.dictionary[0].as_py(), name.dictionary)[here])
    pairs, rows = np.unique(here, return_inverse=True)
    of_zone, of_name = np.divmod(pairs, len(name.dictionary))
    ids = np.zeros(len(pairs), np.int64)
    for number, own in enumerate(zone.dictionary.to_pylist()):
        its = of_zone == number
        ids[its] = _ids(own, name.dictionary.take(pa.array(of_name[its])))
    return ids[rows]


def _ids(zone: str, names: pa.Array) -> NDArray[np.int64]:
    """Returns `name_id` of different names of a zone."""
    return digests(names, seed=_of_zone(zone))


def digests(names: pa.Array, *, seed: int = 0) -> NDArray[np.int64]:
    """Returns 64 bits of XXH3 over each name; none is null."""
    texts = names.cast(pa.binary()).to_pylist()
    found = map(xxh3_64_intdigest, texts, repeat(seed))
    return np.fromiter(found, np.uint64, len(texts)).view(np.int64)


def _of_zone(zone: str) -> int:
    return xxh3_64_intdigest(_bytes(zone))


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _coded(names: pa.Array) -> pa.DictionaryArray:
    return names.fill_null("").dictionary_encode()


def by_bucket(
    bucket: NDArray[np.integer], buckets: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the order that puts rows of one bucket together, in their own order, and where each
    bucket begins and the last one ends. `bucket`: that of each row, from 0 on.
    """
    small = bucket.astype(np.uint16) if buckets <= 1 << 16 else bucket  # these sort by radix
    order = np.argsort(small, kind="stable")
    return order, np.searchsorted(small[order], np.arange(buckets + 1))


def bucket_of(ids: NDArray[np.int64], buckets: int) -> NDArray[np.int32]:
    """Returns the bucket, in 0..buckets-1, that Spark chooses for each id."""
    low, high = _halves(ids)
    with np.errstate(over="ignore"):
        h = _behind_low(low)
        h ^= _stirred(high)
        h = _turned(h, 13) * np.uint32(5) + _ADD
        h ^= np.uint32(8)
        h ^= h >> np.uint32(16)
        h *= _MIX1
        h ^= h >> np.uint32(13)
        h *= _MIX2
        h ^= h >> np.uint32(16)
    return (h.view(np.int32).astype(np.int64) % buckets).astype(np.int32)


def siblings(ids: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Returns other ids, different for each `number` from 1 on, that Spark puts where it puts
    `ids`, however many buckets there are.

    The low half is changed, and the high half makes up for it: the hash takes in one after the
    other by steps that can be undone.
    """
    low, high = _halves(ids)
    with np.errstate(over="ignore"):
        other = low ^ (np.uint32(number) * _MIX1)
        stirred = _stirred(high) ^ _behind_low(low) ^ _behind_low(other)
        makes_up = _turned(stirred * _BACK2, 32 - 15) * _BACK1
    found = makes_up.astype(np.uint64) << np.uint64(32) | other.astype(np.uint64)
    return found.view(np.int64)


def spread_bucket(buckets: int, *columns: NDArray[np.int64]) -> NDArray[np.int32]:
    """Returns a bucket for each row, the same for equal numbers in all columns; not Spark's."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            mixed = (mixed ^ np.ascontiguousarray(column, np.int64).view(np.uint64)) * _SPREAD
            mixed ^= mixed >> _TURN
    return (mixed % np.uint64(buckets)).astype(np.int32)


def _halves(ids: NDArray[np.int64]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    given = np.ascontiguousarray(ids, np.int64).view(np.uint64)
    low, high = given & np.uint64(0xFFFFFFFF), given >> np.uint64(32)
    return low.astype(np.uint32), high.astype(np.uint32)


def _behind_low(low: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Returns the hash's state after the low half."""
    return _turned(np.uint32(_SEED) ^ _stirred(low), 13) * np.uint32(5) + _ADD


def _stirred(half: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return _turned(half * _C1, 15) * _C2


def _turned(value: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (value << np.uint32(bits)) | (value >> np.uint32(32 - bits))
