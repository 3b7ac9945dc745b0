"""Prometheus by `remote_read`: raw samples, and the only way that shows staleness markers.

The query API evaluates at steps and repeats old values for five minutes; a series that ended would
look alive. Asked in chunks of time, because a server bounds the samples of one answer; intervals
are half open, so that no sample comes twice (remote_read itself includes both ends).

Protocol: protobuf ReadRequest/ReadResponse in a snappy block, response type SAMPLES
(prometheus/prompb/remote.proto and types.proto; only the fields used are declared here).
"""

from __future__ import annotations

import math
import struct
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cramjam
import pyarrow as pa
import pyarrow.parquet as pq
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from zonequake_analysis.errors import PrometheusError

READ_PATH = "/api/v1/read"
HEADERS = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Read-Version": "0.1.0",
    "User-Agent": "zonequake",
}
CHUNK_MS = 10 * 60 * 1000
"""Time asked for at once."""

STALE_BITS = 0x7FF0000000000002
"""The NaN that marks the end of a series (prometheus/model/value)."""

Post = Callable[[str, bytes, Mapping[str, str]], bytes]
"""`post(path, body, headers)` → the answer's body; raises on any other status than 200."""

SCHEMA = pa.schema(
    [
        ("metric", pa.string()),
        ("labels", pa.map_(pa.string(), pa.string())),
        ("series_id", pa.int64()),
        ("ts_ms", pa.int64()),
        ("value", pa.float64()),
        ("stale", pa.bool_()),
    ]
)

_TYPES = {"=": 0, "!=": 1, "=~": 2, "!~": 3}


def pull(
    source: str | Post,
    start_ms: int,
    end_ms: int,
    matchers: Sequence[str],
    out: Path,
) -> int:
    """Reads all samples with start_ms ≤ t < end_ms (unix ms) into `out`/prometheus.parquet.

    `source` is a base URL, or a function that posts to the server in some other way, for instance
    through the Kubernetes API's service proxy. `matchers` are label matchers, which all must hold:
    `__name__=~"zonequake_.*"`; none means everything. Returns the number of samples. Raises
    PrometheusError.
    """
    post = http_post(source) if isinstance(source, str) else source
    labels = [_matcher(text) for text in matchers or ['__name__=~".+"']]
    out.mkdir(parents=True, exist_ok=True)
    ids: dict[tuple[tuple[str, str], ...], int] = {}
    samples = 0
    target = out / "prometheus.parquet"
    with pq.ParquetWriter(target, SCHEMA, compression="zstd") as writer:
        for first in range(start_ms, end_ms, CHUNK_MS):
            last = min(first + CHUNK_MS, end_ms)
            answer = _read(post, first, last, labels)
            table = _table(answer, first, last, ids)
            writer.write_table(table)
            samples += table.num_rows
    return samples


def http_post(base_url: str, timeout_s: float = 60.0) -> Post:
    """A `Post` to a server reached directly, for instance `http://127.0.0.1:9090`."""
    if not base_url.startswith(("http://", "https://")):
        raise PrometheusError(f"found {base_url!r}, expected http://host:port")

    def post(path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
            base_url.rstrip("/") + path, data=body, headers=dict(headers), method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            said = error.read(200).decode(errors="replace")
            raise PrometheusError(f"{base_url}{path}: {error.code} {said}") from error
        except OSError as error:
            raise PrometheusError(f"{base_url}{path}: {error}; is Prometheus running?") from error

    return post


def _matcher(text: str) -> tuple[int, str, str]:
    """`name=~"value"` as (type, name, value)."""
    for operator in ("=~", "!~", "!=", "="):
        name, found, value = text.partition(operator)
        if found and name and value[:1] == value[-1:] == '"' and len(value) >= 2:
            return _TYPES[operator], name.strip(), value[1:-1]
    raise PrometheusError(f'matcher {text!r}: expected name="value" with =, !=, =~ or !~')


def _read(
    post: Post, start_ms: int, end_ms: int, matchers: Sequence[tuple[int, str, str]]
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


def _table(
    answer: Message, start_ms: int, end_ms: int, ids: dict[tuple[tuple[str, str], ...], int]
) -> pa.Table:
    """An answer as rows; `ids` numbers the series of all chunks."""
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    results: Any = answer.results  # type: ignore[attr-defined]  # built at run time
    for result in results:
        for series in result.timeseries:
            labels = tuple((label.name, label.value) for label in series.labels)
            number = ids.setdefault(labels, len(ids))
            rest = [(name, value) for name, value in labels if name != "__name__"]
            metric = dict(labels).get("__name__", "")
            kept = [s for s in series.samples if start_ms <= s.timestamp < end_ms]
            columns["metric"] += [metric] * len(kept)
            columns["labels"] += [rest] * len(kept)
            columns["series_id"] += [number] * len(kept)
            columns["ts_ms"] += [s.timestamp for s in kept]
            columns["value"] += [s.value for s in kept]
            columns["stale"] += [is_stale(s.value) for s in kept]
    return pa.table(columns, schema=SCHEMA)


def is_stale(value: float) -> bool:
    """Returns whether a sample says that its series has ended, and isn't an ordinary NaN."""
    return math.isnan(value) and struct.unpack("<Q", struct.pack("<d", value))[0] == STALE_BITS


def _messages() -> dict[str, Any]:
    """The message classes, from descriptors built here: no generated code, no compiler."""
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
"""Message classes by name; tests use them to play the server."""
