"""Samples as text are read as Prometheus itself reads them, by its own parser and storage."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow.parquet as pq

from tests.unit.importing.test_metrics import TEXT
from zonequake_analysis.importing.metrics_command import import_metrics


def in_the_file(run: Path) -> list[tuple[dict[str, str], str, int]]:
    rows = pq.read_table(run / "metrics" / "dump.parquet").to_pylist()
    return [
        ({"__name__": row["metric"], **dict(row["labels"])}, str(row["value"]), row["ts_ms"])
        for row in rows
    ]


def test_the_samples_are_those_that_prometheus_reads_out_of_the_text_and_dumps(
    tmp_path: Path,
) -> None:
    given, dumped, blocks = (tmp_path / name for name in ("given", "dumped", "blocks"))
    for folder in (given, dumped, blocks / "wal"):
        folder.mkdir(parents=True)
    (given / "dump.txt").write_text(TEXT)
    made = ["create-blocks-from", "openmetrics", str(given / "dump.txt"), str(blocks)]
    subprocess.run(["promtool", "tsdb", *made], check=True, capture_output=True)
    with (dumped / "dump.txt").open("wb") as file:
        subprocess.run(["promtool", "tsdb", "dump", blocks], check=True, stdout=file)
    for folder in (given, dumped):
        import_metrics(folder / "dump.txt", folder)
    found, theirs = in_the_file(given), in_the_file(dumped)
    assert len(found) == 5
    assert sorted(map(str, found)) == sorted(map(str, theirs))
    assert found[3] == (
        {"__name__": "odd", "text": 'a "quoted" \\ back, and {braces} = #'},
        "-0.001",
        1_700_000_000_125,
    )
