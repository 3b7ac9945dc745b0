"""Prometheus by `remote_read`: raw samples, and the only way that shows staleness markers.

The query API evaluates at steps and repeats old values for five minutes, so a series that ended
would look alive. Requests ask for slices of time × metrics (`slices`), because a server limits the
samples of one answer and we limit our memory. Intervals are half open, so that no sample comes
twice (remote_read itself includes both ends).

Protocol: protobuf ReadRequest/ReadResponse in a snappy block, response type SAMPLES
(prometheus/prompb/remote.proto and types.proto; only the fields used are declared here).
"""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import cramjam
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from numpy.typing import NDArray

from zonequake_analysis.errors import NO_JSON, PrometheusError
from zonequake_analysis.inputs.prometheus.live_server import check_url
from zonequake_analysis.inputs.prometheus.matchers import TYPES, matcher
from zonequake_analysis.inputs.prometheus.slices import Slice, slices

READ_PATH = "/api/v1/read"
SERIES_PATH = "/api/v1/series"
HEADERS = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Read-Version": "0.1.0",
    "User-Agent": "zonequake",
}
FORM = {"Content-Type": "application/x-www-form-urlencoded", "User-Agent": "zonequake"}

PULLED_SAMPLES = 250_000
"""Samples that `pull` asks for at once, about: some 50 MB while they are decoded."""

BATCH_ROWS = 65_536
"""Most rows of one Arrow batch: labels are repeated in every row."""

STALE_BITS = 0x7FF0000000000002
"""The NaN that marks the end of a series (prometheus/model/value)."""

FILE = "prometheus.parquet"

PostBytes = Callable[[str, bytes, Mapping[str, str]], bytes]
"""`post(path, body, headers)` → the answer's body; raises on any other status than 200."""

Labels = tuple[tuple[str, str], ...]

LABELS = pa.map_(pa.string(), pa.string())
SCHEMA = pa.schema(
    [
        ("metric", pa.string()),
        ("labels", LABELS),
        ("series_id", pa.int64()),
        ("ts_ms", pa.int64()),
        ("value", pa.float64()),
        ("stale", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Some samples of several series; `rows` says for each sample which series it is of."""

    series: Sequence[Labels]
    rows: NDArray[np.int32]
    t_ms: NDArray[np.int64]
    values: NDArray[np.float64]

    @property
    def stale(self) -> NDArray[np.bool_]:
        """Returns which samples say that their series has ended, and aren't an ordinary NaN."""
        return np.equal(self.values.view(np.uint64), np.uint64(STALE_BITS))

    def repeated(self, of_series: Sequence[Any], type_: pa.DataType) -> pa.Array:
        """Returns one value of each series as a column, repeated for every sample."""
        return pa.array(of_series, type_).take(pa.array(self.rows))


def pull(
    source: str | PostBytes,
    start_ms: int,
    end_ms: int,
    matchers: Sequence[str],
    out: Path,
) -> int:
    """Reads all samples with start_ms ≤ t < end_ms (unix ms) into `out`/prometheus.parquet.

    `source` is a base URL, or a function that posts to the server in some other way, for instance
    through the Kubernetes API's service proxy. `matchers` are label matchers, which must all hold:
    `__name__=~"zonequake_.*"`; none means everything. Returns the number of samples. Memory holds
    one slice at a time, which becomes row groups of the file; the file appears whole or not at all.
    Raises PrometheusError.
    """
    post = http_post(source) if isinstance(source, str) else source
    counts = series_counts(post, start_ms, end_ms, matchers)
    out.mkdir(parents=True, exist_ok=True)
    samples = 0
    part = out / f".{FILE}.part"
    try:
        with pq.ParquetWriter(part, SCHEMA, compression="zstd") as writer:
            for one in slices(counts, start_ms, end_ms, samples=PULLED_SAMPLES):
                batches = [rows_of_file(found) for found in read(post, one, matchers)]
                if batches:
                    writer.write_table(pa.Table.from_batches(batches))
                samples += sum(batch.num_rows for batch in batches)
        part.replace(out / FILE)
    finally:
        part.unlink(missing_ok=True)
    return samples


def series_counts(
    post: PostBytes, start_ms: int, end_ms: int, matchers: Sequence[str]
) -> dict[str, int]:
    """Returns the number of series of each metric in that time. Raises PrometheusError."""
    for text in matchers:
        matcher(text)
    selector = "{" + ",".join(matchers or ['__name__=~".+"']) + "}"
    form = {"match[]": selector, "start": start_ms / 1000, "end": end_ms / 1000}
    raw = post(SERIES_PATH, urlencode(form).encode(), FORM)
    try:
        answer = msgspec.json.decode(raw, type=_SeriesAnswer)
    except NO_JSON as error:
        raise PrometheusError(
            f"{SERIES_PATH}: the answer of {len(raw)} bytes lists no series: {error}; expected "
            "what Prometheus says"
        ) from error
    return dict(Counter(one.name for one in answer.data))


class _NamedSeries(msgspec.Struct, frozen=True):
    """The one label by which series are counted."""

    name: str = msgspec.field(default="", name="__name__")


class _SeriesAnswer(msgspec.Struct, frozen=True):
    data: list[_NamedSeries]


def read(
    post: PostBytes, one: Slice, matchers: Sequence[str], *, batch_rows: int = BATCH_ROWS
) -> Iterator[Samples]:
    """Yields a slice, in pieces of `batch_rows` samples at most. Raises PrometheusError."""
    operator, value = one.matcher
    asked = [*map(matcher, matchers), (TYPES[operator], "__name__", value)]
    answer: Any = _read(post, one.start_ms, one.end_ms, asked)
    parts: list[tuple[Labels, NDArray[np.int64], NDArray[np.float64]]] = []
    rows = 0
    for result in answer.results:
        for series in result.timeseries:
            labels = tuple((label.name, label.value) for label in series.labels)
            found = series.samples
            t_ms = np.fromiter((s.timestamp for s in found), np.int64, len(found))
            values = np.fromiter((s.value for s in found), np.float64, len(found))
            kept = (t_ms >= one.start_ms) & (t_ms < one.end_ms)
            t_ms, values = t_ms[kept], values[kept]
            for first in range(0, len(t_ms), batch_rows):
                piece = t_ms[first : first + batch_rows]
                if rows + len(piece) > batch_rows:
                    yield _joined(parts)
                    parts, rows = [], 0
                parts.append((labels, piece, values[first : first + batch_rows]))
                rows += len(piece)
    if parts:
        yield _joined(parts)


def _joined(parts: Sequence[tuple[Labels, NDArray[np.int64], NDArray[np.float64]]]) -> Samples:
    lengths = [len(t_ms) for _, t_ms, _ in parts]
    return Samples(
        series=[labels for labels, _, _ in parts],
        rows=np.repeat(np.arange(len(parts), dtype=np.int32), lengths),
        t_ms=np.concatenate([t_ms for _, t_ms, _ in parts]),
        values=np.concatenate([values for _, _, values in parts]),
    )


def metric_of(labels: Labels) -> str:
    """Returns the name of a series' metric."""
    return dict(labels).get("__name__", "")


def without_name(labels: Labels) -> list[tuple[str, str]]:
    """Returns a series' labels without its metric's name."""
    return [(name, value) for name, value in labels if name != "__name__"]


def series_id(labels: Labels) -> int:
    """Returns a number that identifies a series in every reader."""
    digest = hashlib.blake2b(repr(sorted(labels)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def rows_of_file(found: Samples) -> pa.RecordBatch:
    """Returns samples as rows of the file."""
    return pa.RecordBatch.from_arrays(
        [
            found.repeated([metric_of(labels) for labels in found.series], pa.string()),
            found.repeated([without_name(labels) for labels in found.series], LABELS),
            found.repeated([series_id(labels) for labels in found.series], pa.int64()),
            pa.array(found.t_ms),
            pa.array(found.values),
            pa.array(found.stale),
        ],
        schema=SCHEMA,
    )


def http_post(base_url: str, timeout_s: float = 60.0) -> PostBytes:
    """Returns a `PostBytes` to a server reached directly, for instance `http://127.0.0.1:9090`."""
    check_url(base_url)

    def post(path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        try:
            request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
                base_url.rstrip("/") + path, data=body, headers=dict(headers), method="POST"
            )
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            said = error.read(200).decode(errors="replace")
            raise PrometheusError(
                f"{base_url}{path}: {error.code} {said.strip()}{_advice(error.code)}"
            ) from error
        except (OSError, HTTPException, ValueError) as error:  # the last of a URL that can't be
            raise PrometheusError(
                f"{base_url}{path}: {type(error).__name__}: {error}; is Prometheus running there?"
            ) from error

    return post


def _advice(code: int) -> str:
    """Returns what to do about a refusal, empty if the server's own words say it."""
    if code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return "; expected an address that wants no credentials, since none are sent"
    if code in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED):
        return "; expected a Prometheus, or a server that offers its remote_read, at this URL"
    return ""


def _read(
    post: PostBytes, start_ms: int, end_ms: int, matchers: Sequence[tuple[int, str, str]]
) -> Message:
    request = MESSAGES["ReadRequest"]()
    query = request.queries.add(start_timestamp_ms=start_ms, end_timestamp_ms=end_ms - 1)
    for type_, name, value in matchers:
        query.matchers.add(type=type_, name=name, value=value)
    body = bytes(cramjam.snappy.compress_raw(request.SerializeToString()))
    raw = post(READ_PATH, body, HEADERS)
    answer: Message = MESSAGES["ReadResponse"]()
    try:
        answer.ParseFromString(bytes(cramjam.snappy.decompress_raw(raw)))
    except (cramjam.DecompressionError, DecodeError) as error:
        raise PrometheusError(
            f"the answer of {len(raw)} bytes is no snappy-compressed ReadResponse: {error}"
        ) from error
    return answer


def _messages() -> dict[str, Any]:
    """Returns the message classes, from descriptors built here: no generated code, no compiler."""
    field = descriptor_pb2.FieldDescriptorProto
    scalars = {
        "string": field.TYPE_STRING,
        "int64": field.TYPE_INT64,
        "int32": field.TYPE_INT32,
        "double": field.TYPE_DOUBLE,
    }
    shapes: dict[str, list[tuple[str, int, str, bool]]] = {
        "Label": [("name", 1, "string", False), ("value", 2, "string", False)],
        "Sample": [("value", 1, "double", False), ("timestamp", 2, "int64", False)],
        "TimeSeries": [("labels", 1, "Label", True), ("samples", 2, "Sample", True)],
        "LabelMatcher": [
            ("type", 1, "int32", False),  # an enum on the wire is an int32
            ("name", 2, "string", False),
            ("value", 3, "string", False),
        ],
        "Query": [
            ("start_timestamp_ms", 1, "int64", False),
            ("end_timestamp_ms", 2, "int64", False),
            ("matchers", 3, "LabelMatcher", True),
        ],
        "ReadRequest": [("queries", 1, "Query", True)],
        "QueryResult": [("timeseries", 1, "TimeSeries", True)],
        "ReadResponse": [("results", 1, "QueryResult", True)],
    }
    file = descriptor_pb2.FileDescriptorProto(
        name="zonequake/remote_read.proto", package="zonequake.prometheus", syntax="proto3"
    )
    for name, fields in shapes.items():
        message = file.message_type.add(name=name)
        for its_name, number, kind, repeated in fields:
            added = message.field.add(
                name=its_name,
                number=number,
                label=field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL,
                type=scalars.get(kind, field.TYPE_MESSAGE),
            )
            if kind not in scalars:
                added.type_name = f".zonequake.prometheus.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"zonequake.prometheus.{name}")
        )
        for name in shapes
    }


MESSAGES = _messages()
"""Message classes by name; tests use them to act as the server."""
