"""The tables of an analyzed run, with the names and types of their columns (docs/tables.md).

Times end in `_ns` and are of the run's own clock, as in the history; those in `_ms` are unix time,
as in the tables of metrics. Lengths end in `_ns`.
"""

from __future__ import annotations

import pyarrow as pa

from zonequake_analysis.inputs.shapes import OPS
from zonequake_analysis.metrics.changes import CHANGES
from zonequake_analysis.metrics.table import SAMPLES, SERIES

FINDINGS = (
    "check string, verdict string, kind string, found_by string, zone string, partition int, "
    "key string, node string, ops array<string>, at_ns bigint, at_ms bigint, value bigint, "
    "position bigint, magnitude_ns bigint, write_op string, write_ns bigint, count bigint, "
    "text string"
)
WINDOWS = (
    "number int, zone string, partition int, function string, start_ns bigint, end_ns bigint, "
    "start_ms bigint, end_ms bigint, certain_ns bigint, possible_ns bigint, proven_ns bigint, "
    "failed bigint, vantages array<string>, total boolean, by_reset boolean, cause_kind string, "
    "cause string, cause_lag_ns bigint, span int"
)
FAULTS = (
    "name string, type string, targets array<string>, times bigint, effective bigint, "
    "hit boolean, missed string, asked string, landed string, progress double, partition int, "
    "start_ns bigint, effective_ns bigint, stop_ns bigint, recovered_ns bigint, end_ns bigint, "
    "start_ms bigint, end_ms bigint, span int, spans array<int>"
)
REBALANCES = (
    "zone string, partition int, token bigint, peers array<string>, adding array<string>, "
    "attempts bigint, fell_back array<string>, catching_up_ns bigint, caught_up_ns bigint, "
    "joint_ns bigint, stable_ns bigint, start_ns bigint, end_ns bigint, duration_ns bigint, "
    "ended_by string, start_ms bigint, end_ms bigint"
)
EVENTS = (
    "kind string, at_ns bigint, at_ms bigint, source string, clock string, zone string, "
    "partition int, node string, data string"
)
PROBES = (
    "zone string, partition int, function string, vantage string, probes bigint, failed bigint, "
    "interval_ns bigint, first_ns bigint, last_ns bigint, first_ms bigint, last_ms bigint, "
    "silences bigint, longest_silence_ns bigint"
)

OF_THE_VERDICT = {
    "findings": FINDINGS,
    "windows": WINDOWS,
    "faults": FAULTS,
    "rebalances": REBALANCES,
    "events": EVENTS,
    "probes": PROBES,
}
"""Tables of what a verdict rests on: each run has them, if only without rows."""

OF_METRICS = {"metrics": SAMPLES, "metric_series": SERIES, "metric_changes": CHANGES}
"""Tables that only a run with `metrics/` has; `metric_changes` only one with a fault or window."""

TABLES = {
    "ops": ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in OPS),
    **OF_THE_VERDICT,
    **OF_METRICS,
}
"""Every table by its name: its columns as in SQL."""

ABOUT = {
    "ops": "an operation or a transaction's step; of a reset partition one for each lineage",
    "findings": "something that a check found",
    "windows": "a time in which a partition was unavailable to reads or to writes",
    "faults": "a fault, with all its times",
    "rebalances": "a change of a partition's configuration",
    "events": "a line of events.jsonl",
    "probes": "a vantage that probed a partition",
    "metrics": "a sample of Prometheus",
    "metric_series": "a series of Prometheus",
    "metric_changes": "a series in a fault or window, against the quiet phase",
}
"""What a row of each table is."""

_TYPES = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "array<int>": pa.list_(pa.int32()),
    "array<string>": pa.list_(pa.string()),
}


def columns_of(shape: str) -> dict[str, str]:
    """Returns the columns of a table, each with its type as in SQL."""
    return dict(column.split(" ", 1) for column in shape.split(", "))


def arrow_schema(shape: str) -> pa.Schema:
    """Returns the columns for pyarrow; of the types that a table of `OF_THE_VERDICT` has."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in columns_of(shape).items()])
