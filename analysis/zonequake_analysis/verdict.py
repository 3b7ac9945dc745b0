"""The verdicts of a check or a run, with their exit codes.

    violated › cleanup-not-proven › harness-failed › unknown › slo-breached › passed

No other state masks a violation, and a run that showed too little never passes (design §6).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar


class Verdict(StrEnum):
    """The verdict of a check or of the run; declared in order of precedence."""

    VIOLATED = "violated"
    CLEANUP_NOT_PROVEN = "cleanup-not-proven"
    HARNESS_FAILED = "harness-failed"
    UNKNOWN = "unknown"
    SLO_BREACHED = "slo-breached"
    PASSED = "passed"


EXIT_CODES = {
    Verdict.VIOLATED: 1,
    Verdict.CLEANUP_NOT_PROVEN: 4,
    Verdict.HARNESS_FAILED: 255,
    Verdict.UNKNOWN: 2,
    Verdict.SLO_BREACHED: 3,
    Verdict.PASSED: 0,
}

USAGE_EXIT_CODE = 254
"""A usage error has an exit code and no verdict (docs/interfaces.md)."""

MARKS = {
    Verdict.PASSED: "✓",
    Verdict.VIOLATED: "✗",
    Verdict.UNKNOWN: "?",
    Verdict.SLO_BREACHED: "!",
    Verdict.HARNESS_FAILED: "✗",
    Verdict.CLEANUP_NOT_PROVEN: "!",
}
"""A sign for each verdict, in reports."""


class Kind(StrEnum):
    """The subject of a check."""

    SAFETY = "safety"
    OBJECTIVE = "objective"
    COVERAGE = "coverage"
    HARNESS = "harness"
    CLEANUP = "cleanup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One property: what was judged, how much of it, and what was left out."""

    kind: Kind = Kind.SAFETY
    name: str
    verdict: Verdict
    summary: str
    violations: int = 0
    checked: int = 0
    excluded: int = 0

    @property
    def judged(self) -> bool:
        """Whether there was anything to judge; a pass without it says nothing."""
        return self.verdict is not Verdict.PASSED or self.checked > 0


class Judged(Protocol):
    """An object with a verdict, which says whether there was anything to judge."""

    @property
    def verdict(self) -> Verdict: ...

    @property
    def judged(self) -> bool: ...


_J = TypeVar("_J", bound=Judged)


def severity(verdict: Verdict) -> int:
    """Returns the place of a verdict among all, the worst first: lists of verdicts sort by it."""
    return list(Verdict).index(verdict)


def most_severe_first(checks: Iterable[_J]) -> list[_J]:
    """Returns the checks in the order of every file that lists them, those that judged nothing
    last.

    Checks of one verdict stay in the order in which they were given.
    """
    return sorted(checks, key=lambda check: (severity(check.verdict), not check.judged))


def verdicts_of(checks: Iterable[Check]) -> dict[str, str]:
    """Returns the verdict of each check by its name, as the table `findings` has it."""
    return {check.name: str(check.verdict) for check in checks}


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Returns the verdict that outranks the others; `unknown` if there is none: nothing was
    shown.
    """
    return min(verdicts, key=severity, default=Verdict.UNKNOWN)


def limited(count: int, allowed: int) -> Verdict:
    """Returns `violated` if `count` is more than `allowed`, else `passed`."""
    return Verdict.VIOLATED if count > allowed else Verdict.PASSED
