"""What each verb of a place does, alike on this machine and in every store: steps that tests of a
store call with a place of theirs, where nothing is yet."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import pytest

from zonequake_analysis.storage.location import Location


def _in(folder: Location) -> Location:
    """Returns the folder, made where a file needs one."""
    if folder.local is not None:
        folder.make_folder()
    return folder


def write_list_read_and_delete(run: Location) -> None:
    file = run / "history" / "load-0.jsonl"
    assert not run.exists()
    assert run.listed() == []
    assert run.folders() == []
    _in(run / "history")
    file.write(b"first\nsecond\n" * 100_000)
    (run / "history" / "notes.txt").write(b"")
    assert run.exists()
    listed = (run / "history").listed()
    assert [one.name for one in listed] == ["load-0.jsonl", "notes.txt"], "no draft is left"
    assert (run / "history").listed(".jsonl") == [file]
    assert run.folders() == [run / "history"]
    if run.local is None:
        assert run.listed() == [], "a folder is no file"
    assert file.size_bytes() == 1_300_000
    assert file.read_range(6, 6) == b"second"
    with file.open() as stream:
        stream.seek(1_299_987)
        assert stream.readline() == b"first\n"
        assert stream.read() == b"second\n"
    file.delete()
    file.delete()
    assert not file.exists()
    for read in (Location.read_bytes, Location.size_bytes, Location.open):
        with pytest.raises(FileNotFoundError, match=re.escape(str(run))):
            read(file)


def write_again(run: Location) -> None:
    for content in (b"old", os.urandom(30_000_000), b"", b"new"):
        (_in(run) / "file").write(content)
        assert (run / "file").read_bytes() == content
    assert run.listed() == [run / "file"]


def find_empty_and_delete_folders(run: Location) -> None:
    for folder, name in (("t", "b.parquet"), ("t/hour=1", "a.parquet"), ("t", "_SUCCESS")):
        (_in(run / folder) / name).write(b"x")
    (_in(run / "tt") / "c.parquet").write(b"old")
    assert run.folders() == [run / "t", run / "tt"]
    found = (run / "t").all_below(".parquet")
    assert found == [run / "t" / "b.parquet", run / "t" / "hour=1" / "a.parquet"]
    assert found[1].read_bytes() == b"x"
    assert (run / "gone").all_below(".parquet") == []
    assert (run / "gone").folders() == []
    for folder in ("t", "t", "gone"):
        (run / folder).delete_folder()
        assert (run / folder).all_below("") == []
    assert (run / "tt" / "c.parquet").exists()
    (run / "tt").empty_folder()
    assert (run / "tt").listed() == []
    (run / "tt" / "c.parquet").write(b"new")
    assert [one.read_bytes() for one in (run / "tt").listed()] == [b"new"]


STEPS: tuple[Callable[[Location], None], ...] = (
    write_list_read_and_delete,
    write_again,
    find_empty_and_delete_folders,
)

each_verb = pytest.mark.parametrize("steps", STEPS, ids=[one.__name__ for one in STEPS])
