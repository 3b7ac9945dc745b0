"""Porcupine judges each step of a transaction at its key, as our checks of single keys do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.foreign.porcupine_judge import Judge, KeyVerdict
from tests.unit.analysis.judged_lines import operation, written
from tests.unit.analysis.transaction_lines import append, read, transaction

pytestmark = pytest.mark.timeout(600)


def verdicts(porcupine: Judge, run: Path, *lines: str) -> dict[str, KeyVerdict]:
    written(run, lines)
    return {one.key: one.verdict for one in porcupine.judged(run / "history")}


def test_steps_in_an_order_are_legal_whatever_showed_them(porcupine: Judge, tmp_path: Path) -> None:
    found = verdicts(
        porcupine,
        tmp_path,
        *transaction(1, append("a", 1), append("b", 2)),
        *transaction(2, read("a", 1), append("b", 3)),
        *transaction(3, append("a", 9), append("b", 8), type="fail", index=None),
        transaction(4, append("a", 4), append("b", 5))[0],
        *operation(5, f="read", key="b", value=[2, 3, 5]),
        *operation(6, f="read", key="a", value=[1]),
    )
    assert found == dict.fromkeys("ab", KeyVerdict.LEGAL)


def test_a_step_that_misses_what_was_answered_is_illegal_at_its_key(
    porcupine: Judge, tmp_path: Path
) -> None:
    found = verdicts(
        porcupine,
        tmp_path,
        *transaction(1, append("a", 1), append("b", 2)),
        *transaction(2, read("a"), append("b", 3)),
        *operation(3, f="read", key="b", value=[2, 3]),
    )
    assert found == {"a": KeyVerdict.ILLEGAL, "b": KeyVerdict.LEGAL}
