"""Whether all that a run left is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from zonequake_analysis.errors import RunFolderError
from zonequake_analysis.inputs.completeness import incomplete_files
from zonequake_analysis.inputs.run_folder import read_description


def test_files_that_are_missing_or_shorter_are_named_and_longer_ones_are_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "run.yaml").write_text(
        "files: {events.jsonl: 4, history/load-0.jsonl: 4, history/load-1.jsonl: 0, run: 4}"
    )
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "load-0.jsonl").write_text("{}\n")
    (tmp_path / "events.jsonl").write_text("{}\n{}\n")
    files = read_description(tmp_path).files
    assert incomplete_files(tmp_path, files) == [
        "history/load-0.jsonl",
        "history/load-1.jsonl",
        "run",
    ]


def test_a_folder_of_histories_alone_misses_nothing(tmp_path: Path) -> None:
    assert incomplete_files(tmp_path, read_description(tmp_path).files) == []


def test_a_list_of_files_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("files: [events.jsonl]")
    with pytest.raises(RunFolderError, match=r"run\.yaml"):
        read_description(tmp_path)
