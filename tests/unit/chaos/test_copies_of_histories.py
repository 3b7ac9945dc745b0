"""A copied history is the history, in pieces that end with a line and don't grow any more."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonequake_chaos.load.histories import HistoryCopy

PIECE_BYTES = 40
LINES = st.lists(st.integers(0, 3 * PIECE_BYTES).map(lambda size: b"x" * size + b"\n"))


def pieces(folder: Path) -> list[bytes]:
    """Those of `a.jsonl`, in their order."""
    names = [
        "a.jsonl",
        *(f"a.{number:04}.jsonl" for number in range(1, len(list(folder.iterdir())))),
    ]
    assert {file.name for file in folder.iterdir()} <= set(names)
    return [(folder / name).read_bytes() for name in names if (folder / name).exists()]


@settings(deadline=None)
@given(lines=LINES, torn=st.integers(0, 30), cuts=st.lists(st.integers(1, 2 * PIECE_BYTES)))
def test_the_pieces_are_the_history_however_it_arrives(
    lines: list[bytes], torn: int, cuts: list[int]
) -> None:
    whole = b"".join(lines) + b"x" * torn
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        told: list[str] = []
        copy = HistoryCopy(folder, "a.jsonl", piece_bytes=PIECE_BYTES, piece_ended=told.append)
        ended: list[bytes] = []
        rest = whole
        for size in (*cuts, len(whole)):
            copy.write(rest[:size])
            rest = rest[size:]
            found = pieces(folder)
            assert found[: len(ended)] == ended, "a piece that ended grew"
            ended = [(folder / name).read_bytes() for name in told]
            assert ended[: len(found) - 1] == found[:-1], "each is told of, in order"
        assert b"".join(found) == whole
        assert copy.size_bytes == len(whole)
        for piece in ended:
            assert piece.endswith(b"\n")
            assert len(piece) >= PIECE_BYTES
            assert piece[:-1].rfind(b"\n") + 1 < PIECE_BYTES, "it ends with its first line beyond"


def test_a_write_that_failed_on_its_way_is_repeated_without_a_trace(tmp_path: Path) -> None:
    copy = HistoryCopy(tmp_path, "a.jsonl", piece_bytes=PIECE_BYTES)
    copy.write(b"first\n")
    with (tmp_path / "a.jsonl").open("ab") as file:
        file.write(b"a part of what didn't fit")  # as a full disk leaves it
    copy.write(b"second\n")
    assert pieces(tmp_path) == [b"first\nsecond\n"]


class FullDisk:
    """Takes `room` bytes, of one write a part, and then no more until it is emptied."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room = room
        opened = Path.open

        def limited(path: Path, mode: str = "r") -> Any:
            file = opened(path, mode, buffering=0)
            disk = self

            class Limited:
                def __enter__(self) -> Limited:
                    return self

                def __exit__(self, *_: object) -> None:
                    file.close()

                def __getattr__(self, name: str) -> Any:
                    return getattr(file, name)

                def write(self, part: bytes) -> None:
                    taken, disk.room = part[: disk.room], disk.room - len(part[: disk.room])
                    file.write(taken)
                    if len(taken) < len(part):
                        raise OSError(errno.ENOSPC, "no space left on device")

            return Limited() if "b" in mode and mode != "rb" else file

        monkeypatch.setattr(Path, "open", limited)


@pytest.mark.parametrize("room", range(0, 130, 7))
def test_a_copy_goes_on_where_a_full_disk_stopped_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Also at the beginning of a piece, of which a part may be there."""
    whole = b"".join(b"%d" % number * 11 + b"\n" for number in range(1, 12))
    copy = HistoryCopy(tmp_path, "a.jsonl", piece_bytes=PIECE_BYTES)
    disk = FullDisk(monkeypatch, room)
    for _ in range(3):
        with pytest.raises(OSError, match="no space left"):
            copy.write(whole[copy.size_bytes :])
    disk.room = len(whole)
    copy.write(whole[copy.size_bytes :])
    monkeypatch.undo()
    found = pieces(tmp_path)
    assert b"".join(found) == whole, "nothing is lost, and nothing there twice"
    assert len(found) == len(list(tmp_path.iterdir())), "no piece is left out"
    assert copy.size_bytes == len(whole)
