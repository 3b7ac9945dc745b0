"""Ranges of history files: what is dropped before it is parsed, and what never is."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from zonequake_analysis.inputs.lines import byte_ranges, kept_lines
from zonequake_analysis.inputs.shapes import CORRUPT


def line(kind: str, number: int, **fields: object) -> str:
    op = {"schema": 1, "type": kind, "f": "write", "process": 3, "op": f"3-{number}", **fields}
    return json.dumps(op, separators=(",", ":"))


def kept(file: Path, size: int = 1 << 20) -> list[dict[str, object]]:
    def rows() -> Iterator[dict[str, object]]:
        for part in byte_ranges([file], size):
            for batch in kept_lines(part):
                yield from batch.to_pylist()

    return list(rows())


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


@pytest.mark.parametrize(
    "bad",
    [
        '{"schema":1,"type":"ok","f":"wri',
        "not json",
        line("ok", 5, value="words"),
        line("ok", 5, value=2**63),
        line("ok", 5, inv=1.5),
        line("ok", 5, partition=2**31),
    ],
)
def test_a_bad_line_is_kept_as_it_is_and_spoils_no_other(tmp_path: Path, bad: str) -> None:
    good = line("ok", 1, value=[4])
    found = kept(written(tmp_path, line("invoke", 1), good, bad, line("ok", 2, value=9), end=""))
    assert [row[CORRUPT] for row in found] == [None, bad, None]
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
