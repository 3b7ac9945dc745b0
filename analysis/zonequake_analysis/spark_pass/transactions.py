"""The checks of transactions as a Spark job: a task for each bucket's file, then one by partition.

    file ── keys of transactions, all their operations ──▶ by partition ──▶ halves, cycles

A bucket may have only some keys of a partition (`partition_share`), and a transaction has several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from zonequake_analysis.checks.transactions.of_operations import (
    NEEDED,
    TransactionFindings,
    all_findings,
    findings_of,
    keys_of_transactions,
)
from zonequake_analysis.inputs.ids import by_bucket, spread_bucket
from zonequake_analysis.spark_pass.in_tasks import Made, from_bytes, in_tasks, to_bytes
from zonequake_analysis.storage.location import Location


def transaction_findings(
    spark: SparkSession,
    files: Sequence[Location],
    *,
    run: Callable[..., list[bytes]] = in_tasks,
) -> TransactionFindings:
    """Returns what the transactions of all buckets show. `files`: those of `tables/ops`."""
    own, buckets = list(files), max(1, len(files))

    def work(number: int) -> Made:
        yield from _by_partition(_operations(own[number]), buckets)

    def join(_: int, parts: list[bytes]) -> bytes:
        tables = [from_bytes(part) for part in parts]
        found = findings_of(pa.concat_tables(tables)) if tables else TransactionFindings()
        return msgspec.msgpack.encode(found)

    made = run(spark, work, join, tasks=len(own), buckets=buckets)
    return all_findings(msgspec.msgpack.decode(one, type=TransactionFindings) for one in made)


def _operations(file: Location) -> pa.Table:
    """Returns the operations of a bucket's keys that transactions are on."""

    def read(columns: Sequence[str], only: pc.Expression | None = None) -> pa.Table:
        with file.open() as stream:
            return pq.read_table(
                stream, columns=list(columns), filters=only, partitioning=None, use_threads=False
            )

    keys = keys_of_transactions(read(("key_id", "step")))
    if not len(keys):
        return read(NEEDED).slice(0, 0)
    return read(NEEDED, pc.field("key_id").isin(keys))


def _by_partition(ops: pa.Table, buckets: int) -> Iterator[tuple[int, bytes]]:
    """Yields the operations for each bucket that has any."""
    bucket = spread_bucket(buckets, ops.column("partition_id").to_numpy())
    order, ends = by_bucket(bucket, buckets)
    rows = ops.take(pa.array(order)).combine_chunks()
    for number, (begin, end) in enumerate(pairwise(ends.tolist())):
        if begin < end:
            yield number, to_bytes(rows.slice(begin, end - begin))
