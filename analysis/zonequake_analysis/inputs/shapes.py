"""Shapes of the analysis's input: history lines (docs/interfaces.md, "History") and `ops`.

A history line is one event; a row of `ops` is one operation, with small integers for names, so that
sorting and grouping never compare strings. Findings have their shape in `findings`.

`value` may be an integer, a list of integers or null; a list goes into `list`.
"""

from __future__ import annotations

from enum import IntEnum

from pyspark.sql import types as t

SCHEMA_VERSION = 1

CORRUPT = "_corrupt"
"""Column that says why a line is not a JSON object of the schema; null if it is one."""

LACKS = "lacks"
"""Column that says which of `MAY_BE_NULL` are no fields of a line: a bit each; null if all are."""

MAY_BE_NULL = ("value", "expected", "found")
"""Fields whose null says that a key was absent, which a line that lacks the field doesn't say."""

TORN = "torn"
"""Value of that column for a file's last line without an end: a crash leaves one, which is no
damage.
"""

NEVER_NS = 2**63 - 1
"""Finish of an operation whose outcome is unknown: it may take effect at any later time."""

ABSENT = -(2**63)
"""The number for an absent key where no null is possible: no line may hold it."""

PROBE_DEADLINE_NS = 500_000_000
"""A probe that isn't answered within this time of its scheduled start has failed (design §5)."""

LINEAGE_BITS, TERM_BITS, INDEX_BITS = 10, 20, 32
"""How (lineage, term, index) is packed into 62 bits of a rank; wider positions are refused."""


class Function(IntEnum):
    """The function of an operation; the history's `f`."""

    READ = 0
    WRITE = 1
    CAS = 2
    APPEND = 3


class OutcomeCode(IntEnum):
    """The outcome of an operation; a cut-off invoke is INFO."""

    OK = 0
    FAIL = 1
    INFO = 2


class RoleCode(IntEnum):
    """The purpose of an operation; the history's `role`."""

    LOAD = 0
    PROBE = 1
    FINAL = 2


_ASKED = [
    t.StructField("value", t.LongType()),
    t.StructField("list", t.ArrayType(t.LongType())),
    t.StructField("expected", t.LongType()),
    t.StructField("found", t.LongType()),
    t.StructField("applied", t.BooleanType()),
    t.StructField("sched", t.LongType()),
    t.StructField("inv", t.LongType()),
]
"""An operation's request and answer, and when it was due and began."""

LINES = t.StructType(
    [
        t.StructField("schema", t.LongType()),
        t.StructField("type", t.StringType()),
        t.StructField("f", t.StringType()),
        t.StructField("process", t.LongType()),
        t.StructField("op", t.StringType()),
        t.StructField("role", t.StringType()),
        t.StructField("zone", t.StringType()),
        t.StructField("partition", t.IntegerType()),
        t.StructField("key", t.StringType()),
        *_ASKED,
        t.StructField("time", t.LongType()),
        t.StructField("wall", t.LongType()),
        t.StructField("clock", t.StringType()),
        t.StructField("node", t.StringType()),
        t.StructField("lineage", t.LongType()),
        t.StructField("term", t.LongType()),
        t.StructField("index", t.LongType()),
        t.StructField("read", t.StringType()),
        t.StructField("step", t.ByteType()),
        t.StructField(LACKS, t.ByteType()),
        t.StructField(CORRUPT, t.StringType()),
        t.StructField("file", t.IntegerType()),
        t.StructField("at", t.LongType()),
        t.StructField("paired", t.BooleanType()),
    ]
)
"""One line of `history/*.jsonl`, its file's number and its first byte there, and whether its invoke
was dropped; of a transaction's line one row for each step, with the step's number."""

OPS = t.StructType(
    [
        t.StructField("partition_id", t.LongType()),
        t.StructField("key_id", t.LongType()),
        t.StructField("zone", t.StringType()),
        t.StructField("partition", t.IntegerType()),
        t.StructField("key", t.StringType()),
        t.StructField("process", t.LongType()),
        t.StructField("op", t.StringType()),
        t.StructField("role", t.ByteType()),
        t.StructField("f", t.ByteType()),
        t.StructField("outcome", t.ByteType()),
        *_ASKED,
        t.StructField("fin", t.LongType()),
        t.StructField("position", t.LongType()),
        t.StructField("bounded", t.BooleanType()),
        t.StructField("vantage", t.StringType()),
        t.StructField("node", t.StringType()),
        t.StructField("term", t.LongType()),
        t.StructField("index", t.LongType()),
        t.StructField("step", t.ByteType()),
        t.StructField("copy", t.BooleanType()),
    ]
)
"""One operation: a row of `tables/ops`, sorted by (partition_id, key_id, inv) in each bucket.

A partition that was reset has its rows once for each lineage (`views`); `copy` marks those that
show an operation again. A row with a `step` is one step of a transaction.
"""
