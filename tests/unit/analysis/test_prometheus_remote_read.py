"""remote_read: what is asked, and what becomes of the answer."""

import json
import struct
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import cramjam
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import InputPartition

from zonequake_analysis.errors import PrometheusError
from zonequake_analysis.inputs.prometheus import remote_read
from zonequake_analysis.inputs.prometheus.remote_read import (
    FILE,
    MESSAGES,
    READ_PATH,
    SERIES_PATH,
    STALE_BITS,
    PostBytes,
    http_post,
    pull,
    read,
)
from zonequake_analysis.inputs.prometheus.slices import LONGEST_MS, Slice, slices
from zonequake_analysis.metrics.data_source import PrometheusSource

SECRET = "a-secret-that-nobody-may-read"


def _server(asked: list[Any], series: Mapping[str, int] | None = None) -> PostBytes:
    """Answers every slice with a sample at each of its ends, and a stale marker in the middle."""
    counts = {"up": 1} if series is None else series

    def post(path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        if path == SERIES_PATH:
            asked.append(parse_qs(body.decode()))
            names = [name for name, count in counts.items() for _ in range(count)]
            return json.dumps({"data": [{"__name__": name, "pod": "x"} for name in names]}).encode()
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


def test_samples_come_in_half_open_slices_with_their_staleness(tmp_path: Path) -> None:
    asked: list[Any] = []
    count = pull(_server(asked), 0, 2 * LONGEST_MS, ['__name__=~"up|zonequake_.*"'], tmp_path)
    form, *queries = asked
    assert form["match[]"] == ['{__name__=~"up|zonequake_.*"}']
    assert [(q.start_timestamp_ms, q.end_timestamp_ms) for q in queries] == [
        (0, LONGEST_MS - 1),
        (LONGEST_MS, 2 * LONGEST_MS - 1),
    ]
    assert [(m.type, m.value) for m in queries[0].matchers] == [(2, "up|zonequake_.*"), (0, "up")]
    rows = pq.read_table(tmp_path / FILE).to_pylist()
    assert count == len(rows) == 4, "the sample at each slice's end belongs to the next"
    assert [row["stale"] for row in rows] == [False, True, False, True]
    assert len({row["series_id"] for row in rows}) == 1
    assert dict(rows[0]["labels"]) == {"pod": "zq-default-0"}


def test_each_slice_is_a_row_group_of_its_own_so_that_memory_holds_one(tmp_path: Path) -> None:
    pull(_server([], {"up": 1, "wide": 416}), 0, 2 * LONGEST_MS, [], tmp_path)
    file = pq.ParquetFile(tmp_path / FILE)
    groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    assert groups == [2, 2, 2, 2], "two metrics whose series together are too many for one slice"


def test_a_pull_that_breaks_off_leaves_no_file(tmp_path: Path) -> None:
    answers = _server([])
    left = [3]

    def post(path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        left[0] -= 1
        if not left[0]:
            raise PrometheusError("gone")
        return answers(path, body, headers)

    with pytest.raises(PrometheusError, match="gone"):
        pull(post, 0, 3 * LONGEST_MS, [], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_slice_comes_in_batches_of_a_bounded_size() -> None:
    one = Slice(metrics=("up",), start_ms=0, end_ms=1000)
    batches = list(read(_server([]), one, [], batch_rows=1))
    assert [batch.t_ms.tolist() for batch in batches] == [[0], [499]]
    assert [batch.stale.tolist() for batch in batches] == [[False], [True]]


def test_slices_hold_everything_once_and_no_more_than_was_asked_for() -> None:
    series = {f"m{number}": number * 40 for number in range(1, 30)} | {"one.only": 1}
    start, end, most = 7, 3 * LONGEST_MS + 5, 100_000
    cut = slices(series, start, end, samples=most)
    for name in series:
        own = sorted((s.start_ms, s.end_ms) for s in cut if name in s.metrics)
        assert own[0][0] == start
        assert own[-1][1] == end
        assert all(a[1] == b[0] for a, b in pairwise(own))
    for one in cut:
        assert sum(series[m] for m in one.metrics) * (one.end_ms - one.start_ms) / 1000 <= most
    assert len(cut) < 2 * sum(series.values()) * (end - start) / 1000 / most + 10
    assert slices({}, start, end, samples=most) == []


def test_a_group_of_metrics_is_asked_for_by_their_escaped_names() -> None:
    assert Slice(metrics=("a.b", "c"), start_ms=0, end_ms=1).matcher == ("=~", r"a\.b|c")


def test_an_answer_that_is_not_snappy_is_named() -> None:
    one = Slice(metrics=("up",), start_ms=0, end_ms=1000)
    with pytest.raises(PrometheusError, match="no snappy-compressed ReadResponse"):
        list(read(lambda *_: b"<html>", one, []))


def test_an_answer_that_lists_no_series_is_named(tmp_path: Path) -> None:
    with pytest.raises(PrometheusError, match="lists no series"):
        pull(lambda *_: b"<html>", 0, 1000, [], tmp_path)


def test_a_matcher_without_quotes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PrometheusError, match="expected name="):
        pull(_server([]), 0, 1000, ["up=1"], tmp_path)


def test_a_matcher_asks_for_the_same_in_both_requests(tmp_path: Path) -> None:
    """A selector is PromQL, with its escapes, and remote_read takes what they mean."""
    asked: list[Any] = []
    matcher = r'pod=~"zq\\.\"x\""'
    pull(_server(asked), 0, 1000, [matcher], tmp_path)
    form, query = asked
    assert form["match[]"] == [f"{{{matcher}}}"]
    assert query.matchers[0].value == r'zq\."x"'
    with pytest.raises(PrometheusError, match="for a backslash"):
        pull(_server([]), 0, 1000, [r'pod=~"zq\."'], tmp_path)


def test_a_server_without_series_is_a_source_without_rows() -> None:
    options = {"url": "http://127.0.0.1:9", "start_ms": "0", "end_ms": "1000"}
    reader = PrometheusSource(options).reader(None)  # type: ignore[arg-type]
    assert list(reader.read(InputPartition(None))) == [], "what Spark reads of no partitions"


@pytest.mark.parametrize("url", ["http://127.0.0.1:90x", "http://[::1", "http://127.0.0.1:9\n"])
def test_a_url_that_can_not_be_is_told_in_a_sentence(url: str) -> None:
    with pytest.raises(PrometheusError, match="is Prometheus running"):
        http_post(url)(READ_PATH, b"", {})


def test_a_list_of_series_that_is_no_utf_8_is_named() -> None:
    answer = b'{"data":[{"__name__":"\xff"}]}'
    with pytest.raises(PrometheusError, match=r"lists no series: .*0xff"):
        remote_read.series_counts(lambda *_: answer, 0, 1000, [])


def test_a_url_with_a_password_is_refused_and_not_shown() -> None:
    with pytest.raises(PrometheusError, match="expected http://host:port") as told:
        http_post(f"http://me:{SECRET}@127.0.0.1:9")
    assert SECRET not in str(told.value)


def test_a_series_has_the_same_number_in_whatever_order_its_labels_come() -> None:
    one, other = (("a", "1"), ("b", "2")), (("b", "2"), ("a", "1"))
    assert remote_read.series_id(one) == remote_read.series_id(other)
    assert remote_read.series_id(one) != remote_read.series_id((("a", "12"), ("b", "")))
