"""Checks of the harness by its own report: whether it did its work, and cleaned up after it.

Pure, and light to load: a run that broke off early gets no other checks.
"""

from __future__ import annotations

from zonequake_analysis.harness_report import HarnessReport
from zonequake_analysis.verdict import Check, Kind, Verdict


def harness_checks(harness: HarnessReport | None) -> list[Check]:
    """Returns the checks of the harness; none if no harness made the folder."""
    if harness is None:
        return []
    if harness.unclean is None:
        return [harness_check(harness)]
    return [harness_check(harness), cleanup_check(harness.unclean)]


def harness_check(harness: HarnessReport) -> Check:
    """Returns the check of the harness's own report in `run.yaml`; a run that broke off has no
    report there.
    """
    good = "Every planned step was done."
    silent = "the harness left no word of its end: the run broke off"
    verdict = harness.verdict if harness.work is None else harness.work
    problems = [text for text in harness.problems if text not in (harness.unclean or [])]
    passed = verdict is Verdict.PASSED
    return Check(
        kind=Kind.HARNESS,
        name="harness",
        verdict=verdict,
        summary="; ".join(problems) or (good if passed else silent),
        violations=len(problems),
        checked=1,
    )


def cleanup_check(unclean: list[str]) -> Check:
    """Checks that everything that the run made and did is undone; `unclean`: what isn't."""
    return Check(
        kind=Kind.CLEANUP,
        name="cleanup",
        verdict=Verdict.CLEANUP_NOT_PROVEN if unclean else Verdict.PASSED,
        summary="; ".join(unclean) or "All that the run did and made is undone.",
        violations=len(unclean),
        checked=1,
    )
