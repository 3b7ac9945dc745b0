"""Names that must be unique over all files: one operation per `op`, one partition per key.

An operation of one partition meets those of another nowhere else. So the facts that a comparison
needs travel to a task that the name decides:

    (hash of the name, hash of its carrier and role) ──▶ sorted by name: names with two carriers,
    two invokes or two completions

A second pass over the lines looks for the names that were found, and reports them.

Hashes have 64 bits and are the same on every machine. Pure, over whole columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zonequake_analysis.inputs.ids import by_bucket, digests
from zonequake_analysis.inputs.shapes import ABSENT, Function

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

_MIX, _TURN = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)
_INVOKE, _PAIRED = np.int64(1), np.int64(2)
_CARRIER = np.int64(~3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Twice:
    """Hashes of names that several operations carry, and ids of keys in several partitions."""

    ops: Ints
    keys: Ints


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """The data to compare the names of one bucket by: arrays of int64 as bytes."""

    ops: bytes = b""
    carriers: bytes = b""
    keys: bytes = b""
    partitions: bytes = b""


def names_by_bucket(events: pa.Table, buckets: int) -> list[Names]:
    """Returns what each bucket has to compare of the names in these events."""
    ops, carriers = carried(events)
    keys, partitions = _pairs(*(events.column(n).to_numpy() for n in ("key_id", "partition_id")))
    columns = {
        **_of_each({"ops": ops, "carriers": carriers}, _bucket(ops, buckets), buckets),
        **_of_each({"keys": keys, "partitions": partitions}, _bucket(keys, buckets), buckets),
    }
    return [
        Names(**{name: of_each[number] for name, of_each in columns.items()})
        for number in range(buckets)
    ]


def _of_each(columns: Mapping[str, Ints], bucket: Ints, buckets: int) -> dict[str, list[bytes]]:
    """Returns the elements of each column for each bucket."""
    order, ends = by_bucket(bucket, buckets)
    spans = list(pairwise(ends.tolist()))
    together = {name: column[order] for name, column in columns.items()}
    return {
        name: [column[start:end].tobytes() for start, end in spans]
        for name, column in together.items()
    }


def twice(parts: Sequence[Names]) -> Twice:
    """Returns the names of one bucket that several operations or partitions carry."""
    ops, carriers, keys, partitions = (
        np.frombuffer(b"".join(getattr(part, name) for part in parts), np.int64)
        for name in ("ops", "carriers", "keys", "partitions")
    )
    keys, _ = _pairs(keys, partitions)
    return Twice(ops=repeated(ops, carriers), keys=np.unique(keys[1:][keys[1:] == keys[:-1]]))


def _pairs(first: Ints, second: Ints) -> tuple[Ints, Ints]:
    """Returns the different pairs of elements, sorted."""
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    fresh = np.ones(len(first), bool)
    fresh[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    return first[fresh], second[fresh]


def _bucket(names: Ints, buckets: int) -> Ints:
    return (names.view(np.uint64) % np.uint64(buckets)).astype(np.int64)


def carried(events: pa.Table) -> tuple[Ints, Ints]:
    """Returns each event's hash of its name, and the hash of its operation.

    The lowest two bits of the second hash say whether the event is an invoke, and whether it is
    paired.
    """
    carrier = np.zeros(events.num_rows, np.uint64)
    for column in ("partition_id", "key_id", "inv", "process", "f"):
        carrier = _mixed(carrier, events.column(column).to_numpy().astype(np.int64).view(np.uint64))
    # Only a read's completion has another value than its invoke.
    read = events.column("f").to_numpy() == Function.READ.value
    for column in ("value", "expected"):
        asked = events.column(column).fill_null(ABSENT).to_numpy()
        carrier = _mixed(carrier, np.where(read, ABSENT, asked).view(np.uint64))
    role = np.where(events.column("invoke").to_numpy(), _INVOKE, 0)
    role |= np.where(events.column("paired").to_numpy(), _PAIRED, 0)
    return hashed(events.column("op")), carrier.view(np.int64) & _CARRIER | role


def repeated(name: Ints, carrier: Ints) -> Ints:
    """Returns the hashes of names that do not belong to one operation alone; sorted."""
    order = np.lexsort((carrier, name))
    name, carrier = name[order], carrier[order]
    first = np.flatnonzero(np.concatenate([[True], name[1:] != name[:-1]]) if len(name) else [])
    if not len(first):
        return np.zeros(0, np.int64)
    invoke = (carrier & _INVOKE) != 0
    invokes = np.add.reduceat((invoke | ((carrier & _PAIRED) != 0)).astype(np.int64), first)
    completions = np.add.reduceat((~invoke).astype(np.int64), first)
    who = carrier & _CARRIER
    different = np.maximum.reduceat(who, first) != np.minimum.reduceat(who, first)
    found: Ints = name[first[different | (invokes > 1) | (completions > 1)]]
    return found


def hashed(names: pa.Array | pa.ChunkedArray) -> Ints:
    """Returns 64 bits that stand for each name; 0 for a null."""
    found = digests(names.fill_null(""))
    if names.null_count:
        found[names.is_null().to_numpy(zero_copy_only=False)] = 0
    return found


def _mixed(known: Words, more: Words) -> Words:
    with np.errstate(over="ignore"):
        mixed = (known ^ more) * _MIX
    result: Words = mixed ^ (mixed >> _TURN) ^ (known << np.uint64(1))
    return result
