"""A run without metrics is analyzed with those of a real Prometheus, which tasks read."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.histories.synthesize import START_NS, Shape, synthesize
from tests.spark.metrics.real_prometheus import Target, prometheus, wait_until
from zonequake_analysis import cli
from zonequake_analysis.inputs.prometheus.live_server import LiveServer
from zonequake_analysis.inputs.prometheus.remote_read import FILE, READ_PATH, pull
from zonequake_analysis.inputs.prometheus.sample_files import live_read, metric_files

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SERIES = 200
"""As many of two targets are too many for one slice together with the other metrics."""

SECONDS = 6
MATCH = 'job="made"'


def write_run(run: Path, start_ns: int) -> None:
    """A history that began at that time of day, with a fault in it."""
    synthesize(run, Shape(operations=50 * SECONDS, rate=50, files=1, partitions=2, keys=8))
    for file in (run / "history").iterdir():
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:
            line["wall"] = line["time"] - START_NS + start_ns
        file.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    data: dict[str, object] = {"fault": "kill", "type": "pod_kill", "targets": ["zq-default-0"]}
    events = [
        {"kind": kind, "data": data, "time": START_NS + second * 10**9}
        for kind, second in (("fault.start", 3), ("fault.recovered", 4))
    ]
    (run / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


def samples(rows: list[dict[str, Any]], time_of: str, before_ms: int) -> list[tuple[object, ...]]:
    return sorted(
        (row["metric"], *map(str, sorted(dict(row["labels"]).items())), row[time_of], row["value"])
        for row in rows
        if row[time_of] < before_ms and not row["stale"]
    )


def test_tasks_read_the_metrics_of_a_run_from_a_live_server_once(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "build_session", lambda **_: spark)
    asked: list[str] = []
    urlopen = urllib.request.urlopen

    def asking(request: urllib.request.Request, **options: Any) -> Any:
        asked.append(request.full_url)
        return urlopen(request, **options)

    run, server, pulled = (tmp_path / name for name in ("run", "server", "pulled"))
    server.mkdir()
    targets = [Target(SERIES), Target(SERIES)]
    start_ns = time.time_ns()
    with prometheus(server, [target.port for target in targets]) as url:
        wait_until(lambda: min(target.scrapes for target in targets) >= 5 * SECONDS, "scrapes")
        write_run(run, start_ns)
        before_ms = int(time.time() * 1000) - 1000
        none = LiveServer.of(url, 'job="nothing"')
        assert cli.analyze(run, prometheus=none) == 255
        assert (
            f'{url}: found no sample that matches job="nothing" from 20' in capfd.readouterr().err
        )
        assert metric_files(run) == []

        with monkeypatch.context() as patched:
            patched.setattr(urllib.request, "urlopen", asking)
            code = cli.analyze(run, prometheus=LiveServer.of(url, MATCH))
        assert code not in (254, 255), capfd.readouterr().err
        assert asked == [f"{url}{READ_PATH}"], "once, before Spark starts: the rest is of tasks"
        pull(url, start_ns // 1_000_000, before_ms, [MATCH], pulled)
    for target in targets:
        target.close()

    read = live_read(run)
    assert read is not None
    assert len(read.files) > 1, "several tasks"
    assert (read.url, read.match) == (url, MATCH)
    found = pq.read_table(run / "tables" / "metrics").to_pylist()
    assert len(found) == read.samples
    expected = samples(pq.read_table(pulled / FILE).to_pylist(), "ts_ms", before_ms)
    assert samples(found, "t_ms", before_ms) == expected
    assert len(expected) > 2 * SERIES * SECONDS
    shown = f"{read.samples:,} samples of {2 * SERIES + 10:,} series"
    page = (run / "report.html").read_text()
    assert shown in page
    assert f"read from {url}, " in page
    assert (run / "tables" / "metric_changes").is_dir()

    assert cli.analyze(run) == code, "without the server, which is gone"
    assert shown in (run / "report.html").read_text()
    assert cli.analyze(run, prometheus=LiveServer.of(url)) == 254
    assert shown in (run / "report.html").read_text(), "nothing changed"

    other = tmp_path / "other"
    write_run(other, start_ns)
    capfd.readouterr()
    assert cli.analyze(other, prometheus=LiveServer.of(url)) == 255
    assert "is Prometheus running there?" in capfd.readouterr().err
