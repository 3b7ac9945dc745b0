"""Registers to which a value was written more than once: judged by search, in place of zones.

Every other check of values needs unique ones: with them a value names its write. On these keys such
findings would be guesses, so they are dropped, and a search decides (`order_search`):

    no-order  the key is not linearizable; the row is the operation that can't have happened
    gave-up   the search reached its bound: unknown

Findings that use no more than values that nothing wrote, or the store's places, are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zonequake_analysis.checks import claimed_order, loss, register_zones, sets
from zonequake_analysis.checks.findings import findings, is_of
from zonequake_analysis.checks.search.order_search import Answer, search
from zonequake_analysis.checks.search.register_step import Step
from zonequake_analysis.inputs.shapes import ABSENT, Function, OutcomeCode

CHECK = "search"
VALUE_TWICE = (register_zones.CHECK, "value-twice")
"""The finding of zones that sends a key here."""

_KEPT = (
    (sets.CHECK, "phantom"),
    (sets.CHECK, "aborted"),
    (sets.CHECK, "wrong-refusal"),
    (loss.CHECK, "session"),
    (claimed_order.CHECK, "entry-twice"),
)
"""Findings that hold whether or not values are unique."""

_KEY = ["partition_id", "key_id"]
_NEEDED = (*_KEY, "f", "outcome", "inv", "fin", "value", "expected", "found", "applied")
_SHAPE = (
    "partition_id bigint, key_id bigint, answer string, explored bigint, at_ns bigint, value bigint"
)
_ROWS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BySearch:
    """The number of keys by the search's answer, and the most configurations that one took."""

    with_order: int = 0
    without_order: int = 0
    gave_up: int = 0
    most_explored: int = 0

    @property
    def keys(self) -> int:
        """All keys that were searched."""
        return self.with_order + self.without_order + self.gave_up


def searched(ops: DataFrame, found: DataFrame) -> DataFrame:
    """Returns a row for each key of `found` that was written one value twice: the search's answer.

    `ops`: at least all operations of these keys. Keys are spread over tasks, however they lie.
    """
    f, ok = F.col("f"), F.col("outcome") == OutcomeCode.OK.value
    keys = found.where(is_of(*VALUE_TWICE)).select(*_KEY).distinct()
    judged = ops.where(
        (F.col("outcome") != OutcomeCode.FAIL.value)
        & (ok | (f != Function.READ.value))
        & ~F.col("bounded")
        & F.col("list").isNull()
        & (f != Function.APPEND.value)
    )
    return (
        judged.select(*_NEEDED)
        .join(F.broadcast(keys), _KEY, "left_semi")
        .repartition("key_id")
        .sortWithinPartitions(*_KEY, "inv")
        .mapInArrow(search_task, _SHAPE)
    )


def by_search(rows: DataFrame) -> BySearch:
    """Returns how many keys have which answer."""
    counted = rows.groupBy("answer").agg(
        F.count(F.lit(1)).alias("keys"), F.max("explored").alias("explored")
    )
    of_answer = {row["answer"]: row for row in counted.collect()}
    keys = {answer: int(row["keys"]) for answer, row in of_answer.items()}
    return BySearch(
        with_order=keys.get(Answer.ORDER.value, 0),
        without_order=keys.get(Answer.NO_ORDER.value, 0),
        gave_up=keys.get(Answer.GAVE_UP.value, 0),
        most_explored=max((int(row["explored"]) for row in of_answer.values()), default=0),
    )


def settled(found: DataFrame, rows: DataFrame) -> DataFrame:
    """Returns the findings with the search's in place of those that need unique values.

    `rows`: those of `searched`; what they say has no names.
    """
    own = rows.select(*_KEY, F.lit(True).alias("repeats"))
    kept = F.lit(False)
    for check, kind in _KEPT:
        kept |= is_of(check, kind)
    rest = found.join(own, _KEY, "left").where(F.col("repeats").isNull() | kept)
    bad = rows.where(F.col("answer") != Answer.ORDER.value)
    return rest.select(*found.columns).unionByName(
        findings(bad, check=CHECK, kind=F.col("answer"), value="value"),
        allowMissingColumns=True,
    )


def step_of(
    f: int, ok: bool, inv: int, fin: int, value: int | None, expected: int | None,
    found: int | None, applied: bool | None,
) -> Step:  # fmt: skip
    """Returns an operation that is no failure and no list's as the search takes it."""
    if f == Function.CAS and ok and not applied:
        return Step(Function.READ, inv, fin, ABSENT if found is None else found)
    return Step(
        Function(f),
        inv,
        fin,
        ABSENT if value is None else value,
        ABSENT if expected is None else expected,
    )


def search_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields a row for each key of a task, whose rows lie together."""
    rows: list[tuple[int, int, str, int, int, int | None]] = []
    for key, steps in _keys(batches):
        found = search(steps)
        step = steps[found.failed_at or 0]
        value = step.value if step.value != ABSENT else None
        rows.append((*key, found.answer.value, found.explored, step.inv_ns, value))
        if len(rows) == _ROWS:
            yield _batch(rows)
            rows = []
    if rows:
        yield _batch(rows)


def _keys(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[tuple[int, int], list[Step]]]:
    key, steps = (0, 0), list[Step]()
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in _NEEDED)
        for partition_id, key_id, f, outcome, *rest in zip(*columns, strict=True):
            if steps and (partition_id, key_id) != key:
                yield key, steps
                steps = []
            key = (partition_id, key_id)
            steps.append(step_of(f, outcome == OutcomeCode.OK, *rest))
    if steps:
        yield key, steps


def _batch(rows: list[tuple[int, int, str, int, int, int | None]]) -> pa.RecordBatch:
    types = (pa.int64(), pa.int64(), pa.string(), pa.int64(), pa.int64(), pa.int64())
    names = [column.split()[0] for column in _SHAPE.split(", ")]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, of) for column, of in zip(zip(*rows, strict=True), types, strict=True)],
        names=names,
    )
