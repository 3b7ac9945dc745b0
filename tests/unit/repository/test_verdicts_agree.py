"""Harness and analysis name verdicts alike, though neither may import the other."""

from __future__ import annotations

import itertools

from zonequake_analysis import verdict as analysis
from zonequake_chaos.record import outcome as chaos


def test_both_have_the_same_verdicts_in_the_same_precedence() -> None:
    assert [v.value for v in analysis.Verdict] == [v.value for v in chaos.RunVerdict]


def test_both_end_with_the_same_exit_codes() -> None:
    assert {v.value: code for v, code in analysis.EXIT_CODES.items()} == {
        v.value: code for v, code in chaos.EXIT_CODES.items()
    }


def test_both_find_the_same_verdict_worst() -> None:
    for names in itertools.product([v.value for v in chaos.RunVerdict], repeat=2):
        by_analysis = analysis.worst(analysis.Verdict(name) for name in names)
        assert by_analysis.value == chaos.worst(chaos.RunVerdict(name) for name in names).value
    assert analysis.worst([]).value == chaos.worst([]).value
