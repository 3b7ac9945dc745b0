"""Verdicts, their precedence and their exit codes (docs/interfaces.md, "Verdicts").

    violated 1 › cleanup-not-proven 4 › harness-failed 255 › unknown 2 › slo-breached 3 › passed 0

A violation is never masked by another state, and what was not shown never passes.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class RunVerdict(StrEnum):
    """What a run, or one part of it, ended as; declared in order of precedence."""

    VIOLATED = "violated"
    CLEANUP_NOT_PROVEN = "cleanup-not-proven"
    HARNESS_FAILED = "harness-failed"
    UNKNOWN = "unknown"
    SLO_BREACHED = "slo-breached"
    PASSED = "passed"


EXIT_CODES = {
    RunVerdict.VIOLATED: 1,
    RunVerdict.CLEANUP_NOT_PROVEN: 4,
    RunVerdict.HARNESS_FAILED: 255,
    RunVerdict.UNKNOWN: 2,
    RunVerdict.SLO_BREACHED: 3,
    RunVerdict.PASSED: 0,
}
_PRECEDENCE = tuple(RunVerdict)


def worst(verdicts: Iterable[RunVerdict]) -> RunVerdict:
    """The verdict that outranks all others; `unknown` of nothing, as nothing was shown."""
    return min(verdicts, key=_PRECEDENCE.index, default=RunVerdict.UNKNOWN)
