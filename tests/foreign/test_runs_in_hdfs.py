"""A run in a real HDFS: what each verb does there, and the verdict of the folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.foreign.hdfs_server import HdfsServer, serving, silent
from tests.foreign.place_verbs import each_verb
from tests.foreign.spoilt_runs import without_place, write_spoilt
from tests.processes.store.ports import free_ports
from zonequake_analysis.errors import FolderHeld, LocationError
from zonequake_analysis.inputs.lines import byte_ranges, kept_lines
from zonequake_analysis.storage import analysis_lock, limits, systems, upload
from zonequake_analysis.storage.location import Location
from zonequake_analysis.storage.upload_mark import MARK_FILE, UploadMark

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]

VIOLATED = 1
MARK = UploadMark(run="spoilt-1", host="here", folder="runs/x", command="zonequake upload runs/x")


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    with serving(tmp_path_factory.mktemp("hdfs")) as server:
        yield server


@pytest.fixture(autouse=True)
def environment(hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ.keys() - hdfs.environment().keys():
        monkeypatch.delenv(name)


@pytest.fixture
def run(hdfs: HdfsServer, request: pytest.FixtureRequest) -> Location:
    """A folder of its own for each test."""
    return Location.of(f"{hdfs.uri}/runs/{request.node.name[:60]}")


@each_verb
def test_each_verb_of_a_place_works(run: Location, steps: Callable[[Location], None]) -> None:
    steps(run.parent / steps.__name__)


def test_a_file_has_the_time_of_its_writing(run: Location) -> None:
    (run / "file").write(b"content")
    assert abs(run.modified_s()["file"] - time.time()) < 600


def test_a_name_is_taken_as_it_is(run: Location) -> None:
    file = run / "a b%20é[x].jsonl"
    file.write(b"content")
    assert [one.name for one in run.listed()] == ["a b%20é[x].jsonl"]
    assert file.read_bytes() == b"content"


def test_moves_within_a_file_are_those_of_a_local_one(run: Location, tmp_path: Path) -> None:
    content = os.urandom(3_000_000) + b"\nlast"
    (tmp_path / "file").write_bytes(content)
    (run / "file").write(content)
    size = len(content)
    with (tmp_path / "file").open("rb") as here, (run / "file").open() as there:
        for moved, by in [(0, 0), (size - 4, 0), (size, 0), (size + 9, 0), (-5, 2), (0, 2), (7, 0)]:
            assert there.seek(moved, by) == here.seek(moved, by)
            assert there.read(4) == here.read(4)
            assert there.tell() == here.tell()
        assert there.readline() == here.readline()
        assert there.read() == here.read()
    assert (run / "file").read_range(size - 4, 100) == b"last"
    assert (run / "file").read_range(size + 100, 100) == b""


def test_history_lines_and_tables_are_read_as_those_of_a_folder(
    run: Location, tmp_path: Path
) -> None:
    line = '{"schema":1,"type":"ok","f":"write","process":3,"op":"3-%d","time":%d}'
    text = "\n".join(line % (n, n) for n in range(30_000))
    (tmp_path / "load-0.jsonl").write_text(text)
    (run / "load-0.jsonl").copy_from(tmp_path / "load-0.jsonl")

    def rows(file: Path | Location) -> list[dict[str, object]]:
        parts = byte_ranges([file], 300_000)
        return [row for p in parts for batch in kept_lines(p) for row in batch.to_pylist()]

    assert len(rows(run / "load-0.jsonl")) == 30_000
    assert rows(run / "load-0.jsonl") == rows(tmp_path / "load-0.jsonl")
    table = next(iter(kept_lines(byte_ranges([tmp_path / "load-0.jsonl"], 300_000)[0])))
    pq.write_table(pa.Table.from_batches([table]), tmp_path / "t.parquet", row_group_size=100)
    (run / "t.parquet").copy_from(tmp_path / "t.parquet")
    with (run / "t.parquet").open() as stream:
        opened = pq.ParquetFile(stream)
        assert opened.read_row_group(3).num_rows == 100
        assert opened.read() == pq.read_table(tmp_path / "t.parquet")


def test_a_file_that_is_written_again_is_never_away(run: Location) -> None:
    (run / "file").write(b"old")
    ended = threading.Event()
    seen: list[int] = []

    def look() -> None:
        while not ended.is_set():
            seen.append((run / "file").size_bytes())

    reader = threading.Thread(target=look)
    reader.start()
    for size_bytes in range(4, 40):
        looks = len(seen)
        (run / "file").write(b"x" * size_bytes)
        while len(seen) == looks:  # at least one look at each, however busy the machine is
            assert reader.is_alive()
    ended.set()
    reader.join()
    assert len(seen) >= 36
    assert sorted(seen) == seen, "each is whole, and no older one comes back"


def test_one_analysis_at_a_time_holds_a_folder(
    run: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    with analysis_lock.locked_prefix(run):
        with pytest.raises(FolderHeld, match="another process"), analysis_lock.locked_prefix(run):
            pass
        assert len(run.listed()) == 1, "who gives way leaves nothing"
    assert run.listed() == []
    (run / f"{analysis_lock.PREFIX}of-a-killed-one").write(b"host")
    monkeypatch.setattr(analysis_lock, "DEAD_AFTER_S", -1.0)  # as if that time had gone by
    with analysis_lock.locked_prefix(run):
        assert len(run.listed()) == 1


def test_the_verdict_is_that_of_the_folder(run: Location, tmp_path: Path) -> None:
    folder = write_spoilt(tmp_path / "spoilt")
    run = run / folder.name  # a verdict has it
    upload.upload(folder, run, MARK)
    assert not (run / MARK_FILE).exists()
    assert analyze(str(folder)).returncode == VIOLATED
    ended = analyze(str(run))
    assert ended.returncode == VIOLATED, ended.stderr
    here, there = (
        without_place(document)
        for document in (
            (folder / "verdict.json").read_bytes(),
            (run / "verdict.json").read_bytes(),
        )
    )
    assert json.dumps(there) == json.dumps(here), "the same text"
    failed = {check["name"] for check in there["checks"] if check["verdict"] != "passed"}
    assert len(failed) > 5, "the exact checks had something to find"
    assert (run / "report.html").size_bytes() > 100_000
    assert (run / "tables" / "ops").listed(".parquet")
    local = {file.relative_to(folder).as_posix() for file in (folder / "tables").rglob("*.parquet")}
    stored = {name for name in (run / "tables").sizes_below() if name.endswith(".parquet")}
    assert {name.split("/")[1] for name in local} == {name.split("/")[0] for name in stored}
    assert not [one for one in run.listed() if one.name.startswith(analysis_lock.PREFIX)]
    assert not [name for name in run.sizes_below() if name[-17:-16] == "."], "no draft is left"


def test_a_run_that_is_not_whole_gets_no_verdict(run: Location, tmp_path: Path) -> None:
    upload.put_mark(run, MARK)
    for file in (write_spoilt(tmp_path / "spoilt") / "history").iterdir():
        (run / "history" / file.name).copy_from(file)
    before = run.sizes_below()
    ended = analyze(str(run))
    assert ended.returncode == 255
    assert "the run spoilt-1 is not whole here" in ended.stderr
    assert "`zonequake upload runs/x` on here brings it" in ended.stderr
    assert run.sizes_below() == before


def test_a_user_without_rights_is_told_of_them(
    run: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "file").write(b"x")
    systems.file_system.cache_clear()  # one that is there has its user already
    monkeypatch.setenv("HADOOP_USER_NAME", "mallory")
    try:
        assert (run / "file").read_bytes() == b"x"
        with pytest.raises(LocationError, match=r"needs rights to .* user=mallory") as told:
            (run / "other").write(b"x")
    finally:
        systems.file_system.cache_clear()
    assert str(run) in str(told.value)
    assert "FSPermissionChecker" not in str(told.value), "no stack of the server"


def test_an_address_that_nothing_listens_at_is_told_of_within_a_minute() -> None:
    nowhere = f"hdfs://127.0.0.1:{free_ports(1)[0]}/run"
    begun_s = time.monotonic()
    ended = analyze(nowhere)
    assert time.monotonic() - begun_s < 60
    assert ended.returncode == 255
    assert f"{nowhere}: nothing answers at this store" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_server_that_says_nothing_is_told_of_within_a_minute_and_used_when_it_answers_again(
    run: Location, hdfs: HdfsServer
) -> None:
    (run / "file").write(b"content")
    begun_s = time.monotonic()
    with silent(hdfs), pytest.raises(LocationError, match="nothing answers at this store") as told:
        run.check_reachable()
    assert time.monotonic() - begun_s < 60
    assert str(run) in str(told.value)
    assert told.value.unreachable
    run.check_reachable()
    assert (run / "file").read_bytes() == b"content"


def test_a_file_whose_server_falls_silent_is_told_of_and_leaves_the_old_one(
    run: Location, hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SILENT_S", 1.0)
    file = replace(run / "file", attempts=2)
    file.write(b"old")
    file.write(b"older" * 3_000_000)
    with file.open() as stream:
        stream.read(10)
        stream.seek(10_000_000)
        with silent(hdfs), pytest.raises(LocationError, match=r"nothing answers|no DataNode"):
            stream.read(10)
    with silent(hdfs), pytest.raises(LocationError, match="nothing answers"):
        file.write(b"new")
    assert file.read_bytes() == b"older" * 3_000_000


def test_a_server_that_dies_is_told_of_by_each_verb(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        run = replace(Location.of(f"{server.uri}/runs/x"), attempts=limits.FIRST_ATTEMPTS)
        (run / "file").write(b"content")
        stream = (run / "file").open()
        server.process.kill()
        server.process.wait()
        begun_s = time.monotonic()
        for verb in (
            run.check_reachable,
            run.listed,
            run.make_folder,
            (run / "file").read_bytes,
            lambda: (run / "file").write(b"new"),
            lambda: (run / "file").copy_from(tmp_path / "log"),
            stream.read,
        ):
            with pytest.raises(LocationError, match=rf"{run}.*: (nothing answers|no DataNode)"):
                verb()
        assert time.monotonic() - begun_s < 60


def analyze(run: str) -> subprocess.CompletedProcess[str]:
    code = "from zonequake_analysis.cli import app; app()"
    return subprocess.run(
        [sys.executable, "-c", code, run],
        capture_output=True,
        text=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        check=False,
        timeout=900,
    )
