"""The log lines around a finding are those of its node and time, and few."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from zonequake_analysis.post_mortem.log_excerpts import (
    MOST_CHARACTERS,
    MOST_LINES,
    NEAR_MS,
    excerpts,
)

AT_MS = 1_700_000_000_000


def stamped(at_ms: int, text: str) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}456789Z {text}"


def write_log(run: Path, name: str, lines: list[str], end: str = "\n") -> None:
    (run / "logs").mkdir(exist_ok=True)
    (run / "logs" / name).write_bytes(
        "\n".join([*lines, ""]).encode().removesuffix(b"\n") + end.encode()
    )


def texts(run: Path, node: str, at_ms: int = AT_MS) -> list[str]:
    return [line.text for line in excerpts(run, [(node, at_ms)]).get((node, at_ms), [])]


def test_lines_of_the_node_within_two_seconds_are_shown_in_order(tmp_path: Path) -> None:
    for node in ("n1", "n2"):
        lines = [stamped(AT_MS + s * 500, f"{node} {s}") for s in range(-20, 21)]
        write_log(tmp_path, f"{node}.log", lines)
    assert texts(tmp_path, "n2") == [f"n2 {s}" for s in range(-4, 5)]


@pytest.mark.parametrize("block_bytes", [64, 1000, 4 * 1024 * 1024])
def test_blocks_cut_no_line_and_hide_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr("zonequake_analysis.post_mortem.log_excerpts._BLOCK_BYTES", block_bytes)
    lines = [stamped(AT_MS + n * 1000, f"line {n}") for n in range(-300, 300)]
    write_log(tmp_path, "n1.log", lines, end="")
    found = excerpts(tmp_path, [("n1", AT_MS + n * 1000) for n in (-300, 0, 299)])
    assert [line.text for line in found["n1", AT_MS - 300_000]] == [
        f"line {n}" for n in (-300, -299, -298)
    ]
    assert [line.text for line in found["n1", AT_MS]] == [f"line {n}" for n in range(-2, 3)]
    assert [line.text for line in found["n1", AT_MS + 299_000]] == [
        f"line {n}" for n in (297, 298, 299)
    ]


def test_of_many_lines_the_nearest_are_kept_and_long_ones_are_cut(tmp_path: Path) -> None:
    lines = [stamped(AT_MS + n, f"{n} " + "x" * 1000) for n in range(-NEAR_MS, NEAR_MS)]
    write_log(tmp_path, "n1.log", lines)
    found = texts(tmp_path, "n1")
    assert len(found) == MOST_LINES
    numbers = [int(text.split()[0]) for text in found]
    assert numbers == sorted(numbers)
    assert max(map(abs, numbers)) <= MOST_LINES / 2
    assert max(map(len, found)) == MOST_CHARACTERS + 1


def test_the_container_before_a_restart_belongs_to_the_node(tmp_path: Path) -> None:
    write_log(tmp_path, "n1.before.log", [stamped(AT_MS - 100, "dies")])
    write_log(tmp_path, "n1.log", [stamped(AT_MS + 900, "starts")])
    assert texts(tmp_path, "n1") == ["dies", "starts"]


def test_lines_without_a_time_logs_that_are_not_there_and_strange_names_say_nothing(
    tmp_path: Path,
) -> None:
    assert texts(tmp_path, "n1") == []
    write_log(tmp_path, "n1.log", ["no time", stamped(AT_MS, "timed"), "2023-99-99T00:00:00Z x"])
    (tmp_path / "logs" / "n2.log").write_bytes(b"\xff\x00" * 99)
    (tmp_path / "logs" / "n3.log").mkdir()
    (tmp_path / "secret.log").write_text(stamped(AT_MS, "elsewhere"))
    assert texts(tmp_path, "n1") == ["timed"]
    assert texts(tmp_path, "n2") == texts(tmp_path, "n3") == []
    assert texts(tmp_path, "../secret") == []
