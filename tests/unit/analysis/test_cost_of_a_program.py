"""Measuring a program costs it little: its memory is read seldom, its CPU often."""

from __future__ import annotations

import sys

import pytest

from benchmarks.analysis import engines
from benchmarks.analysis.engines import ProcessTree, cost_of

MIB = 2**20


def test_memory_is_read_once_a_second_and_cpu_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(9))
    held = iter([3 * MIB, 1 * MIB, 7 * MIB, 2 * MIB, 5 * MIB, 5 * MIB])
    monkeypatch.setattr(engines, "_ticks", lambda root: dict.fromkeys((root, 8), next(ticks)))
    monkeypatch.setattr(engines, "_proportional_bytes", lambda _: next(held))
    tree, peaks = ProcessTree(root=7), []
    for quarter in range(9):
        tree.sample(quarter / 4)
        peaks.append(tree.peak_bytes // MIB)
    assert peaks == [4] * 4 + [9] * 4 + [10]
    assert tree.ticks == {7: 8, 8: 8}
    assert list(held) == []


def test_a_program_is_measured_from_its_start_to_its_end() -> None:
    cost = cost_of([sys.executable, "-c", "print('done'); raise SystemExit(3)"])
    assert (cost.exit_code, cost.output, cost.ended) == (3, b"done\n", False)
    assert cost.cpu_seconds > 0


def test_a_program_that_takes_too_much_memory_is_ended() -> None:
    waits = "import threading; threading.Event().wait()"
    cost = cost_of([sys.executable, "-c", waits], limit_gib=0.001, limit_s=300)
    assert cost.ended
    assert cost.peak_gib > 0.001
