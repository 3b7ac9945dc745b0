"""Samples out of a Prometheus' storage, as text: `promtool tsdb dump-openmetrics`, or `tsdb dump`.

    zonequake_op_seconds_count{pod="zq-0"} 17 1700000000.123          seconds, OpenMetrics
    {__name__="zonequake_op_seconds_count", pod="zq-0"} 17 1700000000123    ms, `tsdb dump`

Both write the marker that ends a series as `NaN`, like any other NaN; so each NaN is taken for it.
Memory holds a group of samples and the names of all series. Exemplars aren't read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from zonequake_analysis.errors import ImportRefused
from zonequake_analysis.inputs.prometheus.remote_read import (
    PULLED_SAMPLES,
    SCHEMA,
    STALE_BITS,
    Labels,
    Samples,
    rows_of_file,
)
from zonequake_analysis.text.untrusted_text import one_line

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_SERIES = re.compile(rf"({_NAME})?(?:\{{((?:{_LABEL.pattern}(?:, ?|(?=\}})))*)\}})?")
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_EXPECTED = (
    'expected name{label="value"} value timestamp, each label once, as of '
    "`promtool tsdb dump-openmetrics`"
)
_LAST_MS = 2**53
_MOST_SHOWN = 100
_STALE = float(np.array([STALE_BITS], np.uint64).view(np.float64)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    labels: Labels
    is_in_ms: bool


def convert(text: Path, file: Path) -> int:
    """Writes the samples of a text as `metrics/*.parquet` has them; returns their number.

    Raises ImportRefused with the line that can't be read, and for a text without a sample; OSError.
    """
    samples = 0
    with text.open("rb") as stream, pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        for found in groups(stream, str(text)):
            writer.write_batch(rows_of_file(found))
            samples += len(found.t_ms)
    if not samples:
        raise ImportRefused(
            str(text), 1, "", f"found no sample in the file, {_EXPECTED}; was its time range empty?"
        )
    return samples


def groups(lines: Iterable[bytes], name: str, *, size: int = PULLED_SAMPLES) -> Iterator[Samples]:
    """Yields the samples of a text, so many at once. Raises ImportRefused."""
    known: dict[bytes, _Series] = {}
    numbers: dict[bytes, int] = {}
    rows: list[int] = []
    t_ms: list[int] = []
    values: list[float] = []

    def group() -> Samples:
        return Samples(
            series=[known[head].labels for head in numbers],
            rows=np.array(rows, np.int32),
            t_ms=np.array(t_ms, np.int64),
            values=np.array(values, np.float64),
        )

    for number, line in enumerate(lines, 1):
        if line.startswith(b"#") or not line.strip():
            continue
        try:
            head, value, stamp = line.rsplit(None, 2)
            series = known.get(head) or known.setdefault(head, _series(head.decode()))
            at = float(stamp)
            at_ms = round(at if series.is_in_ms else at * 1000)
            if abs(at_ms) > _LAST_MS:
                raise OverflowError
            shown = float(value)
        except (ValueError, OverflowError) as error:
            found = one_line(line[:_MOST_SHOWN].decode(errors="replace"))
            if len(line) > _MOST_SHOWN:
                found += " …"
            raise ImportRefused(name, number, "", f"found {found}, {_EXPECTED}") from error
        rows.append(numbers.setdefault(head, len(numbers)))
        t_ms.append(at_ms)
        values.append(_STALE if math.isnan(shown) else shown)
        if len(rows) == size:
            yield group()
            for each in (numbers, rows, t_ms, values):
                each.clear()
    if rows:
        yield group()


def _series(head: str) -> _Series:
    """Returns the labels of a series. Raises ValueError."""
    found = _SERIES.fullmatch(head)
    if found is None:
        raise ValueError("no series")
    pairs = _LABEL.findall(found[2] or "")
    labels = {name: _unescaped(value) for name, value in pairs}
    if len(labels) < len(pairs):
        raise ValueError("a label twice")
    is_dump = found[1] is None
    if is_dump == ("__name__" not in labels):
        raise ValueError("no metric, or two")
    name = labels.pop("__name__") if is_dump else found[1]
    return _Series(labels=(("__name__", name), *sorted(labels.items())), is_in_ms=is_dump)


def _unescaped(value: str) -> str:
    return re.sub(r"\\.", lambda found: _ESCAPES.get(found[0], found[0]), value)
