"""The findings of a run in few numbers and rows: one job over all of them, whatever their number.

findings ── a task for each partition ──▶ counts, keys, first findings ──▶ driver: all together
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from zonequake_analysis.checks import claimed_order, list_prefixes
from zonequake_analysis.checks.screens.columns import Ints
from zonequake_analysis.inputs.shapes import ABSENT

MOST_KEYS = 100
"""Most keys of each kind whose first finding is kept; all findings are counted."""

_PARTS = (
    "part string, check string, kind string, partition_id bigint, key_id bigint, value bigint, "
    "at_ns bigint, position bigint, magnitude_ns bigint, number bigint, nameless bigint"
)
_SHAPE = pa.schema(
    [
        (name, pa.string() if kind == "string" else pa.int64())
        for name, kind in (column.split(" ") for column in _PARTS.split(", "))
    ]
)
_COUNT, _KEY, _FIRST = "count", "key", "first"
_KIND = ["check", "kind"]
_ROW = [name for name in _SHAPE.names if name not in ("part", "number", "nameless")]

_CLAIMED, _OUTSIDE, _UNFIT = 1, 2, 4
"""Bits of a key: the claimed order found it, the black box did, it can't be judged."""

Totals = dict[tuple[str, str], int]
KeysByChecks = dict[tuple[bool, bool], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFindings:
    """The number of findings by check and kind, and of keys by (found by the claimed order, found
    by the black box) without those that are unfit; `first`: the first finding of each of the first
    `MOST_KEYS` keys of each kind, in order of time. `all_named`: whether each has its names.
    """

    totals: Totals = field(default_factory=dict)
    keys: KeysByChecks = field(default_factory=dict)
    first: Sequence[Row] = ()
    all_named: bool = True


def counted_findings(found: DataFrame, unproven: Sequence[str]) -> CountedFindings:
    """Counts findings, of the columns `NAMED`. Keys with a kind of `unproven` are unfit.

    Counts all: one lost append makes everything that follows it stale, so that the first findings
    of a kind may leave out most of the keys.
    """

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        received = list(batches)
        if received:
            yield from parts_of(pa.Table.from_batches(received), unproven).to_batches()

    nameless = F.col("ops").isNull().alias("nameless")
    parts = found.select(*_ROW, nameless).mapInArrow(count, _PARTS).toArrow()
    return together(parts)


def parts_of(found: pa.Table, unproven: Sequence[str]) -> pa.Table:
    """Returns what is to be known of some findings, in the shape that `together` takes."""
    counts = found.group_by(_KIND, use_threads=False).aggregate(
        [([], "count_all"), ("nameless", "sum")]
    )
    check, kind = found.column("check"), found.column("kind")
    bits = (
        _CLAIMED * _is(check, [claimed_order.CHECK])
        | _OUTSIDE * _is(check, [list_prefixes.CHECK])
        | _UNFIT * _is(kind, unproven)
    )
    return pa.concat_tables(
        [
            _part(
                _COUNT,
                check=counts.column("check"),
                kind=counts.column("kind"),
                number=counts.column("count_all"),
                nameless=counts.column("nameless_sum"),
            ),
            _keys(found.column("key_id").to_numpy(), bits),
            _first(found),
        ]
    )


def together(parts: pa.Table) -> CountedFindings:
    """Returns what the parts of all tasks say."""
    counts = parts.filter(pc.field("part") == _COUNT)
    totals: Totals = defaultdict(int)
    for row in counts.to_pylist():
        totals[row["check"], row["kind"]] += row["number"]
    of_keys = parts.filter(pc.field("part") == _KEY)
    bits = _keys(of_keys.column("key_id").to_numpy(), of_keys.column("number").to_numpy())
    number_of = np.bincount(bits.column("number").to_numpy(), minlength=_UNFIT).tolist()
    first = _first(parts.filter(pc.field("part") == _FIRST)).select(_ROW)
    return CountedFindings(
        totals=dict(totals),
        keys={
            (claimed, outside): number
            for claimed in (False, True)
            for outside in (False, True)
            if (number := number_of[_CLAIMED * claimed | _OUTSIDE * outside])
        },
        first=[Row(**row) for row in first.to_pylist()],
        all_named=not any(row["nameless"] for row in counts.to_pylist()),
    )


def _is(names: pa.ChunkedArray, wanted: Sequence[str]) -> Ints:
    found: Ints = pc.is_in(names, pa.array(wanted, pa.string())).to_numpy()
    return found.astype(np.int64)


def _part(name: str, **given: pa.ChunkedArray | pa.Array) -> pa.Table:
    size = len(next(iter(given.values())))
    return pa.table(
        {
            field.name: pa.array([name] * size, pa.string())
            if field.name == "part"
            else given.get(field.name, pa.nulls(size, field.type))
            for field in _SHAPE
        },
        _SHAPE,
    )


def _keys(key: Ints, bits: Ints) -> pa.Table:
    """Returns each key once, with its bits of all findings."""
    keys, number = np.unique(key, return_inverse=True)
    every = np.zeros(len(keys), np.int64)
    np.bitwise_or.at(every, number, bits)
    return _part(_KEY, key_id=pa.array(keys, pa.int64()), number=pa.array(every, pa.int64()))


def _first(found: pa.Table) -> pa.Table:
    """Returns the first finding of each of the first keys of each kind, by kind and time."""
    kind, key = _kinds(found), found.column("key_id").to_numpy()
    at, place, value = (
        found.column(name).fill_null(ABSENT).to_numpy() for name in ("at_ns", "position", "value")
    )
    by_time = np.lexsort((value, place, key, at, kind))
    kind, key = kind[by_time], key[by_time]
    by_key = np.lexsort((key, kind))
    fresh = np.ones(len(by_key), bool)
    fresh[1:] = (np.diff(kind[by_key]) != 0) | (key[by_key][1:] != key[by_key][:-1])
    rows = np.sort(by_key[fresh])
    number = np.arange(len(rows)) - np.searchsorted(kind[rows], kind[rows])
    first = found.take(pa.array(by_time[rows[number < MOST_KEYS]]))
    return _part(_FIRST, **{name: first.column(name) for name in _ROW})


def _kinds(found: pa.Table) -> Ints:
    """Returns the place of each row's check and kind among all of them, in alphabetical order."""
    both = pc.binary_join_element_wise(*(found.column(name) for name in _KIND), "/")
    encoded = both.combine_chunks().dictionary_encode()
    rank = np.argsort(np.argsort(encoded.dictionary.to_numpy(zero_copy_only=False)))
    kinds: Ints = rank[encoded.indices.to_numpy()]
    return kinds
