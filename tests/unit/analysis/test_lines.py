"""Ranges of history files: what is dropped before it is parsed, and what never is."""

import json
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest

from zonequake_analysis.inputs.lines import byte_ranges, kept_lines
from zonequake_analysis.inputs.shapes import CORRUPT, TORN
from zonequake_analysis.storage.location import Location


def line(kind: str, number: int, **fields: object) -> str:
    """A line as the load writes it, up to its times."""
    op = {"schema": 1, "type": kind, "f": "write", "process": 3, "op": f"3-{number}", "key": "k"}
    op |= dict.fromkeys(("value", "expected", "applied", "found"))
    op |= {"sched": 5, "inv": 6, "time": 7, **fields}
    return json.dumps(op, separators=(",", ":"))


def kept(file: Path, size: int = 1 << 20) -> list[dict[str, object]]:
    def rows() -> Iterator[dict[str, object]]:
        for part in byte_ranges([file], size):
            for batch in kept_lines(part):
                yield from batch.to_pylist()

    return sorted(rows(), key=lambda row: int(str(row["at"])))


def written(folder: Path, *lines: str, end: str = "\n") -> Path:
    file = folder / "load-0.jsonl"
    file.write_text("\n".join(lines) + end)
    return file


def test_an_invoke_is_dropped_if_its_completion_is_there(tmp_path: Path) -> None:
    file = written(tmp_path, line("invoke", 1), line("ok", 1), line("invoke", 2))
    found = [(row["type"], row["op"], row["paired"]) for row in kept(file)]
    assert found == [("ok", "3-1", True), ("invoke", "3-2", False)]


def test_what_a_range_can_not_pair_is_kept_on_both_sides(tmp_path: Path) -> None:
    lines = [line(kind, n) for n in range(50) for kind in ("invoke", "ok")]
    file = written(tmp_path, *lines)
    for size in (1, 60, 97, 1000, 1 << 20):
        rows = kept(file, size)
        completions = [row for row in rows if row["type"] == "ok"]
        assert sorted(str(row["op"]) for row in completions) == sorted(f"3-{n}" for n in range(50))
        alone = {row["op"] for row in completions if not row["paired"]}
        assert {row["op"] for row in rows if row["type"] == "invoke"} == alone


def test_lists_and_numbers_become_columns_of_their_own(tmp_path: Path) -> None:
    lines = [line("ok", n, value=value) for n, value in enumerate((7, [1, 2], [], None))]
    found = [(row["value"], row["list"]) for row in kept(written(tmp_path, *lines))]
    assert found == [(7, None), (None, [1, 2]), (None, []), (None, None)]


@pytest.mark.parametrize("more", [[9], [], None, 9, "x", {"list": [9]}])
@pytest.mark.parametrize("name", ["list", "step", "corrupt", "paired", "at"])
@pytest.mark.parametrize("values", [(7, None), ([1, 2], None)], ids=["number", "list"])
def test_a_field_that_the_history_does_not_know_says_nothing(
    tmp_path: Path, values: tuple[object, ...], name: str, more: object
) -> None:
    """Also one whose name a column of the reader has."""
    lines = [line("ok", n, value=value) for n, value in enumerate(values)]
    plain = kept(written(tmp_path, *lines))
    for text in (f'"{name}":{json.dumps(more)}', f'"{name}" : {json.dumps(more)}'):
        of_all = [f"{one[:-1]},{text}}}" for one in lines]
        found = kept(written(tmp_path, *of_all))
        assert [row | {"at": 0} for row in found] == [row | {"at": 0} for row in plain]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ('{"schema":1,"type":"ok","f":"wri', "truncated"),
        ("not json", "malformed"),
        (line("ok", 5, value="words"), "got `str` - at `$.value`"),
        (line("ok", 5, value=2**63), "at `$.value`"),
        (line("ok", 5, value=10**400), "$.value"),
        (line("ok", 5, inv=1.5), "got `float` - at `$.inv`"),
        (line("ok", 5, inv=float("nan")), "malformed"),
        (line("ok", 5, partition=2**31), "at `$.partition`"),
        (line("ok", 5, key=7), "got `int` - at `$.key`"),
        (line("ok", 5, value=[1, "a"]), "got `str` - at `$.value[1]`"),
        ("[" * 5000, "Expected `object`, got `array`"),
        ('{"value":' + "[" * 100_000 + "]" * 100_000 + "}", "Expected"),
        ('{"key":7,"more":' + "[" * 100_000 + "]" * 100_000 + "}", "$.key"),
        ('{"more":' + "[" * 100_000 + "]" * 100_000 + ',"key":7}', "too deep"),
    ],
)
def test_a_bad_line_says_why_and_spoils_no_other(tmp_path: Path, bad: str, why: str) -> None:
    good = line("ok", 1, f="read", value=[4])
    invoke = line("invoke", 1, f="read")
    found = kept(written(tmp_path, invoke, good, bad, line("ok", 2, value=9), end=""))
    assert [row[CORRUPT] is None for row in found] == [True, False, True]
    assert why in str(found[1][CORRUPT])
    assert [row["list"] for row in found] == [[4], None, None]
    assert [row["paired"] for row in found] == [True, False, False]


def test_lines_with_other_spacing_are_left_to_the_pairing_by_fields(tmp_path: Path) -> None:
    spaced = json.dumps({"schema": 1, "type": "invoke", "op": "3-1", "process": 3})
    found = kept(written(tmp_path, spaced, line("ok", 1)))
    assert [(row["type"], row["paired"]) for row in found] == [("invoke", False), ("ok", False)]


def test_a_key_that_looks_like_a_field_is_still_a_key(tmp_path: Path) -> None:
    key = 'a"value":[1],"op":"3-9"'
    (row,) = kept(written(tmp_path, line("ok", 1, key=key, value=3)))
    assert (row["key"], row["value"], row["list"], row["op"]) == (key, 3, None, "3-1")


def test_a_last_line_without_an_end_is_torn_however_long_it_is(tmp_path: Path) -> None:
    whole = written(tmp_path, line("ok", 1), line("ok", 2, key="k" * 3_000_000), end="")
    assert [row[CORRUPT] for row in kept(whole)] == [None, None]
    torn = written(tmp_path, line("ok", 1), line("ok", 2, key="k" * 3_000_000)[:-20], end="")
    assert [row[CORRUPT] for row in kept(torn)] == [None, TORN]
    invoke = written(tmp_path, line("ok", 1), line("invoke", 2)[:-9] + "}", end="")
    assert [row[CORRUPT] for row in kept(invoke)] == [None, TORN]


@pytest.mark.parametrize("end", ["{", "}", "1", " ", "\r", "\t", "{\n", " \n", "\n\n", "\r\n"])
def test_a_damaged_line_before_a_short_last_one_is_no_torn_end(tmp_path: Path, end: str) -> None:
    damaged = line("ok", 2)[:-9]
    found = [row[CORRUPT] for row in kept(written(tmp_path, line("ok", 1), damaged, end, end=""))]
    assert found[0] is None
    assert "truncated" in str(found[1])
    short = [] if not end.strip() else [TORN] if "\n" not in end else ["Input data was truncated"]
    assert found[2:] == short


@pytest.mark.parametrize("end", ["", "\r", "\n", "\r\n"])
@pytest.mark.parametrize("first", ["invoke", "ok"])
@pytest.mark.parametrize("count", [2, 3, 40])
def test_lines_that_end_with_a_carriage_return_alone_are_told_and_never_torn(
    tmp_path: Path, end: str, first: str, count: int
) -> None:
    """An old editor's file: as one torn line all its writes would be gone without a word."""
    others = [line("ok", n) for n in range(1, count)]
    rows = kept(written(tmp_path, "\r".join([line(first, 0), *others]), end=end))
    assert len(rows) == 1
    assert "found lines that end with a carriage return alone, expected" in str(rows[0][CORRUPT])
    both = kept(written(tmp_path, line("ok", 50), "\r".join([line(first, 0), *others]), end=end))
    assert [row[CORRUPT] is None for row in both] == [True, False]


@pytest.mark.parametrize("invoke", [True, False])
def test_a_whole_line_before_a_blank_last_one_stays_whole(tmp_path: Path, invoke: bool) -> None:
    last = line("invoke" if invoke else "ok", 2)
    for end in (" ", "\r", "\n \n", ""):
        rows = kept(written(tmp_path, line("ok", 1), last, end, end=""))
        assert [(row["op"], row[CORRUPT]) for row in rows] == [("3-1", None), ("3-2", None)]


def test_each_line_knows_its_first_byte(tmp_path: Path) -> None:
    lines = [line("ok", 1), "", line("invoke", 2), line("ok", 3, key="ü"), line("ok", 4)]
    file = written(tmp_path, *lines)
    content = file.read_bytes()
    for size in (1, 60, 1 << 20):
        for row in kept(file, size):
            at = int(str(row["at"]))
            assert str(row["op"]) in content[at : content.index(b"\n", at)].decode()
            assert at == 0 or content[at - 1 : at] == b"\n"


def test_a_long_line_is_read_in_blocks_and_never_byte_by_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []

    class Counted(FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            content = super().read(size)
            reads.append(len(content))
            # Six of the seven ranges begin within the line and look for its end, 1 MB at a time.
            assert len(reads) < 7 * (24 + 3), "reads too little at once"
            return content

        def readline(self, size: int | None = -1, /) -> bytes:
            raise AssertionError("reads byte by byte in a file without a buffer")

    monkeypatch.setattr(Location, "open", lambda place: Counted(place.path))
    file = written(tmp_path, line("ok", 1), line("ok", 2, key="k" * 24_000_000), line("ok", 3))
    assert [row["op"] for row in kept(file, 4_000_000)] == ["3-1", "3-2", "3-3"]
    assert reads


def test_no_invoke_is_dropped_whose_name_another_one_carries(tmp_path: Path) -> None:
    first, again = line("invoke", 1, key="a"), line("invoke", 1, key="b")
    file = written(tmp_path, first, line("ok", 1, key="a"), again)
    found = [(row["type"], row["key"], row["paired"]) for row in kept(file)]
    assert sorted(found, key=str) == [
        ("invoke", "a", False),
        ("invoke", "b", False),
        ("ok", "a", False),
    ]
