"""`analyze --prometheus`: what is asked of a live server, and what a run has of it afterwards."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import cramjam
import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.unit.analysis.tasks_without_spark import without_spark
from zonequake_analysis import cli
from zonequake_analysis.errors import FolderHeld, PrometheusError, SamplesError
from zonequake_analysis.inputs.completeness import RecordedRun
from zonequake_analysis.inputs.prometheus.live_server import LiveServer
from zonequake_analysis.inputs.prometheus.remote_read import (
    MESSAGES,
    READ_PATH,
    SERIES_PATH,
    Samples,
    http_post,
)
from zonequake_analysis.inputs.prometheus.sample_files import READ_FILE, live_read, metric_files
from zonequake_analysis.inputs.prometheus.scrape_interval import looked_at, shortest_ms
from zonequake_analysis.inputs.prometheus.slices import LONGEST_MS
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.metrics import live_samples
from zonequake_analysis.metrics.live_samples import TimeOfRun, check_serves, read_live, time_of_run
from zonequake_analysis.metrics.metric_facts import metric_facts
from zonequake_analysis.storage.location import Location

SECRET = "a-secret-that-nobody-may-read"
SERVER = LiveServer(url="http://prometheus:9090", match='job="db"')
SECOND_NS = 10**9
START_NS, OFFSET_NS = 1000 * SECOND_NS, 1_700_000_000 * SECOND_NS
START_MS = (START_NS + OFFSET_NS) // 1_000_000
MINUTES_MS = 5 * 60 * 1000


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (f"http://me:{SECRET}@prometheus:9090", "found a user's name in the URL"),
        (f"http://me:{SECRET}/x@prometheus:9090", "found a user's name in the URL"),
        (f"ftp://me:{SECRET}@prometheus", "found a user's name in the URL"),
        (f"http://prometheus:9090/?token={SECRET}", "found options in the URL"),
        (f"http://prometheus:9090/#{SECRET}", "found options in the URL"),
        ("prometheus:9090", "found 'prometheus:9090', expected http://host:port"),
        ("http://", "without a host"),
    ],
)
def test_a_url_that_no_server_can_have_is_refused_without_its_credentials(
    url: str, told: str
) -> None:
    for take in (LiveServer.of, http_post):
        with pytest.raises(PrometheusError, match=told) as refused:
            take(url)
        assert SECRET not in str(refused.value)


@pytest.mark.parametrize("match", ['{job="db"}', "job=db", 'job="a" "b"', r'pod=~"zq\."'])
def test_matchers_that_promql_does_not_have_are_refused(match: str) -> None:
    with pytest.raises(PrometheusError, match="expected"):
        LiveServer.of("http://prometheus:9090", match)
    assert LiveServer.of("https://prometheus/x/", 'a="{b}", c!~"d"').url == "https://prometheus/x"


def time_of(**other: Any) -> TimeOfRun:
    given: dict[str, Any] = {
        "start_ns": START_NS,
        "end_ns": START_NS + 60 * SECOND_NS,
        "wall_offset_ns": OFFSET_NS,
        "clocks": ["one"],
        "events": [],
    }
    return time_of_run(**(given | other))


def phase(second: int) -> RecordedEvent:
    return RecordedEvent(kind="run.phase", time=START_NS + second * SECOND_NS)


def test_a_history_alone_is_read_from_five_minutes_before_it_to_five_minutes_after_it() -> None:
    assert time_of() == TimeOfRun(
        start_ms=START_MS - MINUTES_MS, end_ms=START_MS + 60_000 + MINUTES_MS + 1
    )


def test_a_run_of_the_harness_is_read_from_its_first_event_to_its_last() -> None:
    """Beyond them are other runs, whose operations its history does not have."""
    assert time_of(events=[phase(-20), phase(90)]) == TimeOfRun(
        start_ms=START_MS - 20_000, end_ms=START_MS + 90_001
    )
    assert time_of(events=[phase(10), phase(20)]) == TimeOfRun(
        start_ms=START_MS, end_ms=START_MS + 60_001
    )
    cleaned_later = [phase(-20), RecordedEvent(kind="cleaned", time=START_NS * 5)]
    assert time_of(events=cleaned_later).end_ms == START_MS + 60_000 + MINUTES_MS + 1


def test_an_imported_history_whose_times_are_unix_time_needs_no_offset() -> None:
    start = START_NS + OFFSET_NS
    found = time_of(start_ns=start, end_ns=start + 60 * SECOND_NS, wall_offset_ns=0)
    assert found == time_of()


@pytest.mark.parametrize("offset_ns", [0, 1, -OFFSET_NS, 4 * 10**18])
def test_a_history_that_does_not_say_what_time_it_was_is_told_so(offset_ns: int) -> None:
    with pytest.raises(PrometheusError, match="found no time of day in the history, expected `wal"):
        time_of(wall_offset_ns=offset_ns)


def test_a_history_of_several_clocks_is_told_so() -> None:
    with pytest.raises(PrometheusError, match="several clocks in the history, such as a and b"):
        time_of(clocks=["a", "b"])


def test_the_interval_is_measured_at_up_or_at_the_metrics_with_fewest_series() -> None:
    assert looked_at({"up": 7, "a": 1}, 0, 10**9).metrics == ("up",)
    assert looked_at({"wide": 900, "b": 60, "a": 30, "c": 20}, 0, 10**9).metrics == ("c", "a")
    one = looked_at({"wide": 9000}, 0, 10**9)
    assert one.metrics == ("wide",)
    assert one.end_ms - one.start_ms == 150_000, "a scrape each minute shows itself twice"
    whole = looked_at({"a": 1}, 500, 900)
    assert (whole.start_ms, whole.end_ms) == (500, 900)
    assert looked_at({"a": 1}, 0, 10**9).end_ms == 5 * 10**8 + LONGEST_MS // 2


def test_the_shortest_of_the_usual_intervals_counts() -> None:
    some = Samples(
        series=[(("__name__", "a"),), (("__name__", "b"),), (("__name__", "c"),)],
        rows=np.array([0, 0, 0, 1, 1, 1, 2], np.int32),
        t_ms=np.array([0, 60_000, 120_000, 0, 15_000, 90_000, 5], np.int64),
        values=np.zeros(7),
    )
    assert shortest_ms([some]) == 45_000
    assert shortest_ms([some, some]) == 45_000
    assert shortest_ms([]) is None


class FakeServer:
    """Has `a_level`, a sample a minute, and breaks off at the given request for samples."""

    def __init__(self, breaks_at: int = 0, series: int = 1) -> None:
        self.left, self.series = breaks_at, series

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        labels = {"__name__": "a_level", "job": "db"}
        if path == SERIES_PATH:
            return json.dumps({"data": [labels] * self.series}).encode()
        assert path == READ_PATH
        self.left -= 1
        if self.left == 0:
            raise PrometheusError("gone in the middle")
        request = MESSAGES["ReadRequest"]()
        request.ParseFromString(bytes(cramjam.snappy.decompress_raw(body)))
        (query,) = request.queries
        answer = MESSAGES["ReadResponse"]()
        series = answer.results.add().timeseries.add()
        for name, value in labels.items():
            series.labels.add(name=name, value=value)
        for t_ms in range(0, START_MS + 10**8, 60_000)[query.start_timestamp_ms // 60_000 :]:
            if query.start_timestamp_ms <= t_ms <= query.end_timestamp_ms:
                series.samples.add(timestamp=t_ms, value=1.0)
            elif t_ms > query.end_timestamp_ms:
                break
        return bytes(cramjam.snappy.compress_raw(answer.SerializeToString()))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "load-0.jsonl").write_text("{}\n")
    monkeypatch.setattr(live_samples, "in_tasks", without_spark)
    return tmp_path


def read_from(server: FakeServer, run: Path, check: Any = lambda _: None) -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(live_samples, "http_post", lambda *_: server.post)
        time = TimeOfRun(start_ms=START_MS, end_ms=START_MS + 40 * 60_000)
        return read_live(None, Location.of(run), SERVER, time, check=check)  # type: ignore[arg-type]


def test_a_run_has_the_metrics_once_all_are_read(run: Path) -> None:
    told: list[str] = []
    found = read_from(FakeServer(), run, told.append)
    assert (found.samples, len(found.files)) == (40, 4), "a file of each slice of ten minutes"
    assert told == [
        "40 samples read from http://prometheus:9090, 2023-11-14 22:30:00 to 2023-11-14 23:10:00 "
        'UTC of {job="db"}'
    ]
    files = metric_files(run)
    assert live_read(run) == found
    rows = [row for file in files for row in pq.read_table(str(file)).to_pylist()]
    assert sorted(row["ts_ms"] for row in rows) == [START_MS + n * 60_000 for n in range(40)]
    assert dict(rows[0]["labels"]) == {"job": "db"}
    assert RecordedRun.of(run).metrics_bytes == sum(file.size_bytes() for file in files) > 0


@pytest.mark.parametrize("breaks_at", [2, 3, 5])
def test_a_read_that_breaks_off_is_no_metrics_and_leaves_nothing_for_the_next(
    run: Path, breaks_at: int
) -> None:
    with pytest.raises(PrometheusError, match="gone in the middle"):
        read_from(FakeServer(breaks_at=breaks_at), run)
    assert metric_files(run) == []
    assert metric_facts(None, run, **NOTHING) is None  # type: ignore[arg-type]
    found = read_from(FakeServer(), run)
    left = sorted(file.name for file in (run / "metrics" / "from_prometheus").iterdir())
    assert left == list(found.files)


NOTHING: dict[str, Any] = {
    "faults": [],
    "windows": [],
    "events": [],
    "start_ns": 0,
    "end_ns": 0,
    "wall_offset_ns": 0,
}


def test_a_read_for_a_folder_that_another_analysis_may_hold_does_not_count(run: Path) -> None:
    def held(_: str) -> None:
        raise FolderHeld("another process analyses it")

    with pytest.raises(FolderHeld):
        read_from(FakeServer(), run, held)
    assert metric_files(run) == []


def test_a_server_without_a_sample_of_that_time_is_told_of(run: Path) -> None:
    with pytest.raises(PrometheusError, match='found no sample that matches job="db" from 2023-'):
        read_from(FakeServer(series=0), run)
    assert metric_files(run) == []


@pytest.mark.parametrize("text", ["{", "[]", '{"url":"","start_ms":0}', "other"])
def test_a_list_of_files_that_no_analysis_wrote_is_a_problem_of_the_metrics(
    run: Path, text: str
) -> None:
    if text == "other":
        document = {"url": "", "start_ms": 0, "end_ms": 1, "samples": 1}
        text = json.dumps({**document, "files": ["../../x.parquet"]})
    (run / "metrics").mkdir()
    (run / "metrics" / READ_FILE).write_text(text)
    with pytest.raises(SamplesError, match=READ_FILE):
        metric_files(run)
    found = metric_facts(None, run, **NOTHING)  # type: ignore[arg-type]
    assert found is not None
    assert READ_FILE in found.problem


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (401, "expected an address that wants no credentials"),
        (404, "expected a Prometheus, or a server that offers its remote_read"),
        (500, "too busy"),
    ],
)
def test_a_server_that_refuses_is_told_of_with_what_to_do(code: int, advice: str) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(code)
            self.end_headers()
            self.wfile.write(b"too busy\n")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        with pytest.raises(PrometheusError, match=rf"{url}/api/v1/read: {code} .*{advice}"):
            check_serves(LiveServer.of(url))
        server.shutdown()


def content(run: Path) -> dict[str, bytes]:
    files = (file for file in run.rglob("*") if file.is_file())
    return {str(file.relative_to(run)): file.read_bytes() for file in files}


def no_session(**_: object) -> None:
    pytest.fail("Spark was started")


def test_a_run_that_has_metrics_is_left_as_it_is(
    run: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "build_session", no_session)
    (run / "metrics").mkdir()
    (run / "metrics" / "prometheus.parquet").write_bytes(b"")
    (run / "verdict.json").write_text("{}")
    before = content(run)
    assert cli.analyze(run, prometheus=SERVER) == 254
    assert content(run) == before
    said = capfd.readouterr().err
    assert "found --prometheus for a run that has metrics, such as " in said
    assert "leave the option out, or delete the folder metrics/" in said


def test_a_server_that_is_not_there_ends_it_before_spark_starts(
    run: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "build_session", no_session)
    server = LiveServer.of("http://127.0.0.1:9")
    assert cli.analyze(run, prometheus=server) == 255
    assert "http://127.0.0.1:9/api/v1/read: " in (said := capfd.readouterr().err)
    assert "is Prometheus running there?" in said
    assert "is Prometheus running" in json.loads((run / "verdict.json").read_text())["headline"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--prometheus-match", 'a="b"'], "expected --prometheus beside it"),
        (["--prometheus", f"http://me:{SECRET}@x"], "found a user's name in the URL"),
        (["--prometheus", "http://x", "--prometheus-match", "a=b"], "expected name="),
    ],
)
def test_options_that_can_not_be_meant_are_refused_before_anything(
    run: Path, words: list[str], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.app([str(run), *words])
    said = " ".join(capfd.readouterr().err.split())
    assert told in said.replace("│ ", "")
    assert SECRET not in said
    assert sorted(content(run)) == ["history/load-0.jsonl"]
