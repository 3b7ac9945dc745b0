"""Small tables of the driver's own, for joins: Spark gets them as Arrow.

For a list of rows Spark would start Python workers, which take a second and 0.1 GiB each.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

_TYPES = {"string": pa.string(), "boolean": pa.bool_(), "int": pa.int32(), "bigint": pa.int64()}


def small_table(spark: SparkSession, rows: Sequence[tuple[object, ...]], columns: str) -> DataFrame:
    """Returns these rows as a table; `columns` as in SQL: `target string, scrape_ms bigint`."""
    pairs = [column.split() for column in columns.split(", ")]
    arrays = [
        pa.array([row[number] for row in rows], _TYPES[type_])
        for number, (_, type_) in enumerate(pairs)
    ]
    table = pa.Table.from_arrays(arrays, names=[name for name, _ in pairs])
    return spark.createDataFrame(table)
