"""The harness's report on itself in `run.yaml`: the harness writes it, the analysis judges it."""

from __future__ import annotations

import msgspec

from zonequake_analysis.verdict import Verdict

INTERRUPTED = "interrupted"
"""The problem of a run that SIGINT or SIGTERM ended."""

ABORTED = "aborted by `zonequake abort`"
"""The problem of a run that `zonequake abort` ended."""


class HarnessReport(msgspec.Struct, frozen=True, kw_only=True):
    """The harness's report on itself: `verdict` is `passed` if it met no problem.

    `unclean`: the problems that were not proven to be undone; None if this was not checked. `work`:
    the verdict without them.
    """

    verdict: Verdict = Verdict.UNKNOWN
    problems: list[str] = []
    work: Verdict | None = None
    unclean: list[str] | None = None

    @property
    def interrupted(self) -> bool:
        """Whether the user ended the run, by a signal or `zonequake abort`, and wants no further
        one.
        """
        return not {INTERRUPTED, ABORTED}.isdisjoint(self.problems)
