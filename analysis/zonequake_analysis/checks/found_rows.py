"""Findings of checks over arrays, and how they become the rows of `findings`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from zonequake_analysis.checks.screens.columns import NULL, Bools, Ints

SHAPE = (
    "check string, kind string, partition_id bigint, key_id bigint, value bigint, at_ns bigint, "
    "position bigint, magnitude_ns bigint"
)
"""The columns of `findings`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRows:
    """Findings as equally long arrays; NULL stands for what is absent. `kind` counts in `kinds`.

    `key`: the place of its id among those that `batches` is given. `has_values`: whether NULL is a
    value, as the zones have it of an absent key.
    """

    check: str
    kinds: tuple[str, ...]
    kind: Ints
    key: Ints
    value: Ints
    at_ns: Ints
    position: Ints
    magnitude_ns: Ints
    has_values: bool = False


def batches(
    found: FoundRows, *, partition_ids: Ints, key_ids: Ints, kept: Bools | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields findings as rows of `SHAPE`: all, or those `kept`.

    `partition_ids` and `key_ids` have one element to each key.
    """
    rows = np.arange(len(found.kind)) if kept is None else np.flatnonzero(kept)
    if not len(rows):
        return

    def numbers(values: Ints) -> pa.Array:
        return pa.array(values[rows], pa.int64(), mask=values[rows] == NULL)

    def repeated(names: tuple[str, ...], number: Ints) -> pa.Array:
        return pa.DictionaryArray.from_arrays(number, pa.array(names, pa.string())).cast(
            pa.string()
        )

    key = found.key[rows]
    yield pa.RecordBatch.from_pydict(
        {
            "check": repeated((found.check,), np.zeros(len(rows), np.int32)),
            "kind": repeated(found.kinds, found.kind[rows].astype(np.int32)),
            "partition_id": pa.array(partition_ids[key], pa.int64()),
            "key_id": pa.array(key_ids[key], pa.int64()),
            "value": pa.array(found.value[rows]) if found.has_values else numbers(found.value),
            "at_ns": numbers(found.at_ns),
            "position": numbers(found.position),
            "magnitude_ns": numbers(found.magnitude_ns),
        }
    )
