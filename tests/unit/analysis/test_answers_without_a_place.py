"""What is judged, and told, of a store that claims no order: its answers have no place."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.analysis.judged_lines import judged, operation, written
from tests.unit.analysis.made_up_evidence import evidence, found
from zonequake_analysis.checks import loss
from zonequake_analysis.checks.repeated_values import BySearch
from zonequake_analysis.judgement.evidence import Evidence
from zonequake_analysis.judgement.judge import judge
from zonequake_analysis.judgement.verdict_json import entry
from zonequake_analysis.report.summary import headline
from zonequake_analysis.verdict import Verdict

BY_LOSS = ("lost-writes", "hidden-writes", "stale-reads", "flicker")


def register(first: int, **fields: object) -> list[str]:
    """A write, two reads of its value, and one of another register that is absent."""
    return [
        *operation(first, key=f"r{first}", **fields),
        *operation(first + 1, key=f"r{first}", f="read", value=first, **fields),
        *operation(first + 2, key=f"r{first}", f="read", value=first, **fields),
        *operation(first + 3, key=f"absent{first}", f="read", value=None, **fields),
    ]


def a_list(first: int, **fields: object) -> list[str]:
    """Two appends, and two reads that show one and both."""
    key = f"l{first}"
    return [
        *operation(first, key=key, f="append", **fields),
        *operation(first + 1, key=key, f="read", value=[first], **fields),
        *operation(first + 2, key=key, f="append", **fields),
        *operation(first + 3, key=key, f="read", value=[first, first + 2], **fields),
    ]


@pytest.mark.parametrize(
    ("lines", "writes", "reads", "placed"),
    [
        (register(1), 1, 2, 4),
        (register(1, index=None), 0, 0, 0),
        (a_list(1), 2, 2, 4),
        (a_list(1, index=None), 2, 2, 0),
        ([*register(1, index=None), *a_list(11, index=None)], 2, 2, 0),
        ([*register(1, index=None), *register(11)], 1, 2, 4),
        ([*operation(1, index=None), *operation(2, f="read", value=1)], 1, 1, 1),
        ([*operation(1), *operation(2, f="read", value=1, read="bounded")], 0, 0, 2),
    ],
)
def test_only_lists_and_registers_with_places_are_compared(
    tmp_path: Path, lines: list[str], writes: int, reads: int, placed: int
) -> None:
    buckets, _ = judged(written(tmp_path, lines), tmp_path / "ops")
    numbers = [(one.compared_writes, one.compared_reads, one.placed) for one in buckets]
    assert tuple(map(sum, zip(*numbers, strict=True))) == (writes, reads, placed)


def test_what_can_not_be_compared_without_places_is_not_judged_and_says_so() -> None:
    e = evidence(compared_writes=0, compared_reads=0, placed=0)
    e = replace(e, quality=replace(e.quality, unplaced=204))
    checks = {check.name: check for check in judge(e)}
    for name in (*BY_LOSS, "sessions"):
        assert not entry(checks[name]).judged, name
        assert checks[name].summary.startswith("not judged: no answer has a place"), name
    assert checks["lost-writes"].excluded == 100
    assert checks["linearizability"].judged


def test_the_headline_of_a_run_claims_only_what_was_judged() -> None:
    def told(e: Evidence) -> str:
        judgement: Any = SimpleNamespace(evidence=e, checks=judge(e), verdict=Verdict.PASSED)
        return headline(judgement)

    some = told(evidence(compared_writes=60))
    assert some.startswith("No acknowledged write of 60 was lost, no read was stale")
    e = evidence(compared_writes=0, compared_reads=0, placed=0)
    e = replace(e, quality=replace(e.quality, unplaced=204))
    assert told(e).startswith("Every key is linearizable")


def test_keys_whose_values_repeat_are_told_as_left_out_where_others_are_judged() -> None:
    e = evidence(found=replace(found(), by_search=BySearch(with_order=6)))
    (stale,) = [check for check in judge(e) if check.name == "stale-reads"]
    assert stale.summary.endswith("reads are stale; 6 keys whose values repeat are left out")


def test_lists_without_places_are_judged() -> None:
    e = evidence(placed=0)
    e = replace(e, quality=replace(e.quality, unplaced=204))
    sound = {check.name: check for check in judge(e)}
    assert all(sound[name].judged for name in BY_LOSS)
    assert not sound["sessions"].judged
    e = replace(e, found=replace(e.found, counts=Counter({(loss.CHECK, "lost"): 2})))
    (lost,) = [check for check in judge(e) if check.name == "lost-writes"]
    assert (lost.verdict, lost.violations) == (Verdict.VIOLATED, 2)
