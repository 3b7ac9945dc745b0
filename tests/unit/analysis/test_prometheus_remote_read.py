"""remote_read: what is asked, and what becomes of the answer."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cramjam
import pyarrow.parquet as pq
import pytest

from zonequake_analysis.errors import PrometheusError
from zonequake_analysis.inputs.remote_read import (
    CHUNK_MS,
    MESSAGES,
    READ_PATH,
    STALE_BITS,
    Post,
    pull,
)


def _server(asked: list[Any]) -> Post:
    """Answers every chunk with a sample at each of its ends, and a stale marker in the middle."""

    def post(path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        assert path == READ_PATH
        assert headers["Content-Encoding"] == "snappy"
        request = MESSAGES["ReadRequest"]()
        request.ParseFromString(bytes(cramjam.snappy.decompress_raw(body)))
        (query,) = request.queries
        asked.append(query)
        answer = MESSAGES["ReadResponse"]()
        series = answer.results.add().timeseries.add()
        series.labels.add(name="__name__", value="up")
        series.labels.add(name="pod", value="zq-default-0")
        first, last = query.start_timestamp_ms, query.end_timestamp_ms
        series.samples.add(timestamp=first, value=1.0)
        stale = struct.unpack("<d", struct.pack("<Q", STALE_BITS))[0]
        series.samples.add(timestamp=(first + last) // 2, value=stale)
        series.samples.add(timestamp=last + 1, value=3.0)
        return bytes(cramjam.snappy.compress_raw(answer.SerializeToString()))

    return post


def test_samples_come_in_half_open_chunks_with_their_staleness(tmp_path: Path) -> None:
    asked: list[Any] = []
    count = pull(_server(asked), 0, 2 * CHUNK_MS, ['__name__=~"up|zonequake_.*"'], tmp_path)
    assert [(q.start_timestamp_ms, q.end_timestamp_ms) for q in asked] == [
        (0, CHUNK_MS - 1),
        (CHUNK_MS, 2 * CHUNK_MS - 1),
    ]
    assert asked[0].matchers[0].type == 2
    rows = pq.read_table(tmp_path / "prometheus.parquet").to_pylist()
    assert count == len(rows) == 4, "the sample at each chunk's end belongs to the next"
    assert [row["stale"] for row in rows] == [False, True, False, True]
    assert {row["series_id"] for row in rows} == {0}
    assert dict(rows[0]["labels"]) == {"pod": "zq-default-0"}


def test_an_answer_that_is_not_snappy_is_named(tmp_path: Path) -> None:
    with pytest.raises(PrometheusError, match="no snappy-compressed ReadResponse"):
        pull(lambda *_: b"<html>", 0, 1000, [], tmp_path)


def test_a_matcher_without_quotes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PrometheusError, match="expected name="):
        pull(_server([]), 0, 1000, ["up=1"], tmp_path)
