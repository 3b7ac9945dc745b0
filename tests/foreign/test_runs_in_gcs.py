"""A run in Google's store: what each verb does there, and the verdict of the folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.foreign.gcs_server import BUCKET, GcsServer, serving
from tests.foreign.place_verbs import each_verb
from tests.foreign.spoilt_runs import without_place, write_spoilt
from zonequake_analysis.storage.location import Location

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]

VIOLATED = 1


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcsServer]:
    with serving(tmp_path_factory.mktemp("gcs")) as server:
        yield server


@pytest.fixture(autouse=True)
def environment(google: GcsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in google.environment().items():
        monkeypatch.setenv(name, value)


@each_verb
def test_each_verb_of_a_place_works(steps: Callable[[Location], None]) -> None:
    steps(Location.of(f"gs://{BUCKET}/{steps.__name__}"))


def test_a_file_is_an_object_of_the_server(google: GcsServer) -> None:
    (Location.of(f"gs://{BUCKET}/run") / "history" / "load-0.jsonl").write(b"content")
    there = google.folder / BUCKET / "run" / "history" / "load-0.jsonl"
    assert there.read_bytes() == b"content"


def test_the_verdict_is_that_of_the_folder(google: GcsServer, tmp_path: Path) -> None:
    run = write_spoilt(tmp_path / "spoilt")
    uri = f"gs://{BUCKET}/judged/{run.name}"
    for file in (file for file in run.rglob("*") if file.is_file()):
        (Location.of(uri) / str(file.relative_to(run))).write(file.read_bytes())
    assert analyze(str(run), {}).returncode == VIOLATED
    ended = analyze(uri, google.environment())
    assert ended.returncode == VIOLATED, ended.stderr
    there = google.folder / BUCKET / "judged" / run.name
    here, stored = (without_place((one / "verdict.json").read_bytes()) for one in (run, there))
    assert stored == here
    assert (there / "report.html").stat().st_size > 100_000
    assert list((there / "tables" / "ops").glob("part-*.parquet"))
    assert not list(there.glob(".analysis-*")), "the claim is given back"


def test_a_bucket_that_is_not_there_is_an_error_with_its_name(google: GcsServer) -> None:
    ended = analyze("gs://nowhere/run", google.environment())
    assert ended.returncode == 255
    assert "gs://nowhere" in ended.stderr
    assert "Traceback" not in ended.stderr


def analyze(run: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    code = "from zonequake_analysis.cli import app; app()"
    return subprocess.run(
        [sys.executable, "-c", code, run],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            **environment,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        check=False,
        timeout=500,
    )
