"""The layout of operations, on the way to their bucket and in it.

Spark's shuffle moves a few rows with a blob each instead of one row per operation, so rows of Arrow
never become rows of the JVM. A blob holds the events of one range of lines for one bucket, as an
Arrow stream. The range's facts travel with it, so that every bucket knows the whole history's
extent. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zonequake_analysis.inputs.ids import bucket_of, by_bucket
from zonequake_analysis.inputs.integer_columns import EVENTS

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """Operations in the order of the layout, and how many lines lacked their other half.

    `orphan_origins`: the lines of completions without an invoke.
    """

    ops: pa.Table
    orphans: int
    orphan_origins: NDArray[np.int64]
    cut_off: int


def split(events: pa.Table, buckets: int, *, by_key: bool = False) -> Iterator[bytes]:
    """Yields the blob for each bucket, from 0 on; empty where a bucket gets no event.

    A partition is in one bucket, or with `by_key` only each of its keys.
    """
    column = "key_id" if by_key else "partition_id"
    return blobs(events, bucket_of(events.column(column).to_numpy(), buckets), buckets)


def blobs(rows: pa.Table, bucket: NDArray[np.int32], buckets: int) -> Iterator[bytes]:
    """Yields these rows as a blob for each bucket, from 0 on; `bucket`: that of each row."""
    order, ends = by_bucket(bucket, buckets)
    rows = rows.take(pa.array(order)).combine_chunks()
    for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        if start == end:
            yield b""
            continue
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS) as stream:
            stream.write_table(rows.slice(start, end - start))
        yield sink.getvalue().to_pybytes()


def joined(blobs: Iterable[bytes], shape: pa.Schema = EVENTS) -> pa.Table:
    """Returns the rows of a bucket's blobs, which have this shape."""
    tables = [pa.ipc.open_stream(blob, options=_READ).read_all() for blob in blobs if blob]
    return pa.concat_tables(tables) if tables else shape.empty_table()


def laid_out(events: pa.Table) -> Paired:
    """Returns one row per operation, sorted by (partition, key, invoke).

    An invoke that was not dropped is next to its completion, as both have the same start and
    process; an invoke without a completion was cut off, and its outcome is unknown.
    """
    partition, key, inv, process = (
        events.column(name).to_numpy() for name in ("partition_id", "key_id", "inv", "process")
    )
    order = np.lexsort((process, inv, key, partition))
    invoke = events.column("invoke").to_numpy()[order]
    alone = invoke | ~events.column("paired").to_numpy()[order]
    first_step = events.column("step").fill_null(0).to_numpy() == 0
    orphan_origins = np.zeros(0, np.int64)
    drop = np.zeros(len(order), bool)
    orphan = np.zeros(len(order), bool)
    if alone.any():
        same = np.zeros(len(order), bool)
        same[1:] = True
        for column in (partition, key, inv, process):
            same[1:] &= column[order[1:]] == column[order[:-1]]
        _pair(events, order, np.cumsum(~same) - 1, invoke, alone, drop, orphan)
        orphan &= first_step[order]
        orphan_origins = events.column("origin").to_numpy()[order[orphan]]
        order = order[~drop]
        invoke = invoke[~drop]
    ops = events.drop_columns(["invoke", "paired"]).take(pa.array(order)).combine_chunks()
    return Paired(
        ops=ops,
        orphans=len(orphan_origins),
        orphan_origins=orphan_origins,
        cut_off=int((invoke & first_step[order]).sum()),
    )


def _pair(
    events: pa.Table,
    order: NDArray[np.int64],
    group: NDArray[np.int64],
    invoke: NDArray[np.bool_],
    alone: NDArray[np.bool_],
    drop: NDArray[np.bool_],
    orphan: NDArray[np.bool_],
) -> None:
    """Marks invokes that have a completion, and completions that have no invoke.

    Looks only at groups of one start and process with a row that is `alone`: an invoke, or a
    completion whose invoke was not dropped where the lines were read.
    """
    wanted = np.zeros(int(group[-1]) + 1, bool)
    wanted[group[alone]] = True
    rows = np.flatnonzero(wanted[group])
    names = events.column("op").take(pa.array(order[rows])).to_pylist()
    of_operation: dict[tuple[int, str], list[int]] = {}
    for row, number, name in zip(rows.tolist(), group[rows].tolist(), names, strict=True):
        if name is None:
            orphan[row] = not invoke[row]
        else:
            of_operation.setdefault((number, name), []).append(row)
    for same in of_operation.values():
        asked = [row for row in same if invoke[row]]
        answered = [row for row in same if not invoke[row]]
        if answered:
            drop[asked] = True
            if not asked:
                orphan[[row for row in answered if alone[row]]] = True
        else:
            drop[asked[1:]] = True
