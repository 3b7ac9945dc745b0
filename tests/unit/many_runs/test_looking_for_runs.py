"""Looking for runs costs a store one listing of each folder."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyarrow import fs

from zonequake_analysis import cli
from zonequake_analysis.many_runs.folders import run_folders
from zonequake_analysis.storage import systems
from zonequake_analysis.storage.location import Location

RUNS = Location("s3://bucket/runs")


class CountedStore:
    """A store whose objects are files in a folder; `asked`: how often for each path."""

    def __init__(self, folder: Path) -> None:
        self.asked: Counter[str] = Counter()
        self._system = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())

    def get_file_info(self, what: str | fs.FileSelector) -> object:
        self.asked[what if isinstance(what, str) else what.base_dir] += 1
        return self._system.get_file_info(what)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CountedStore:
    for file in (
        "judged/verdict.json",
        "judged/history/load-0.jsonl",
        "recorded/run.yaml",
        "promised/.upload.json",
        "bare/history/load-0.jsonl",
        "week/1/judged/verdict.json",
        "week/1/notes/history/notes.txt",
    ):
        path = tmp_path / "bucket" / "runs" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    made = CountedStore(tmp_path)
    monkeypatch.setattr(systems, "file_system", lambda *_, **__: made)
    return made


def test_each_folder_is_listed_once_and_the_history_of_a_bare_one(store: CountedStore) -> None:
    assert run_folders(RUNS) == [
        RUNS / name for name in ("bare", "judged", "promised", "recorded", "week/1/judged")
    ]
    folders = ("", "/bare", "/judged", "/promised", "/recorded", "/week", "/week/1")
    below = ("/bare/history", "/week/1/judged", "/week/1/notes", "/week/1/notes/history")
    assert store.asked == {f"bucket/runs{name}": 1 for name in (*folders, *below)}


def test_a_folder_of_no_run_is_refused_after_one_listing(
    store: CountedStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.analyze(RUNS / "week") == 254
    assert "week is no run folder" in capsys.readouterr().err
    assert store.asked["bucket/runs/week"] == 2, "and one to see whether the store answers"
    assert set(store.asked) == {"bucket/runs/week"}
