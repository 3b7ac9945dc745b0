"""The claimed order and the black box, side by side: what both together say of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.analysis.made_up_evidence import evidence, found
from zonequake_analysis.checks import sets
from zonequake_analysis.judgement.evidence import WithoutOrder
from zonequake_analysis.judgement.judge import judge
from zonequake_analysis.verdict import Check, Verdict


def judged(*, both: int = 0, claim: int = 0, black_box: int = 0) -> Check:
    keys = WithoutOrder(by_both=both, by_claim_only=claim, by_black_box_only=black_box)
    checks = judge(evidence(found=replace(found(), without_order=keys)))
    return next(check for check in checks if check.name == "linearizability")


@pytest.mark.parametrize(
    ("check", "verdict", "words"),
    [
        (judged(), Verdict.PASSED, "every key is linearizable"),
        (judged(both=1), Verdict.VIOLATED, "1 key is not linearizable"),
        (judged(both=2), Verdict.VIOLATED, "2 keys are not linearizable"),
        (judged(both=2, claim=1, black_box=1), Verdict.VIOLATED, "3 keys are not linearizable"),
        (judged(claim=1, black_box=1), Verdict.VIOLATED, "the store's claim is wrong at 1 keys"),
        (judged(black_box=1), Verdict.HARNESS_FAILED, "the checkers contradict each other at 1"),
    ],
    ids=["none", "one", "both", "all", "claim", "black box"],
)
def test_a_claim_that_fails_is_violated_and_checkers_that_contradict_each_other_are_no_pass(
    check: Check, verdict: Verdict, words: str
) -> None:
    assert check.verdict is verdict
    assert check.summary.startswith(words)
    assert (check.violations > 0) is (verdict is not Verdict.PASSED)


def test_a_key_with_a_wrong_refusal_is_in_no_order() -> None:
    """Both orders pass by a refused cas; that what it expected was there is found by itself."""
    counts = {(sets.CHECK, "wrong-refusal"): 1}
    check = next(c for c in judge(evidence(found=found(counts))) if c.name == "linearizability")
    assert (check.verdict, check.violations) == (Verdict.VIOLATED, 1)
    assert check.summary.startswith("no order explains 1 answers: cas were refused")


@pytest.mark.parametrize("answered", [0, 3])
def test_refusals_are_judged_by_the_cas_that_were_answered(answered: int) -> None:
    e = evidence()
    counts = dict(e.counts) | ({("load", "cas", "ok"): answered} if answered else {})
    check = next(c for c in judge(replace(e, counts=counts)) if c.name == "refusals")
    assert (check.checked, check.verdict) == (answered, Verdict.PASSED)
    assert check.summary.startswith("not judged") is (answered == 0)
