"""The harness's report on itself in `run.yaml`: written by it, and judged with the rest."""

from __future__ import annotations

import msgspec

from zonequake_analysis.verdict import Verdict

INTERRUPTED = "interrupted"
"""The problem of a run that SIGINT or SIGTERM ended."""

ABORTED = "aborted by `zonequake abort`"
"""The problem of a run that was told to end."""


class HarnessReport(msgspec.Struct, frozen=True, kw_only=True):
    """The harness's report on itself: `verdict` is `passed` if nothing stood in its way.

    `unclean`: of the problems, what is not proven to be undone; None if nobody looked. `work`: the
    verdict without them.
    """

    verdict: Verdict = Verdict.UNKNOWN
    problems: list[str] = []
    work: Verdict | None = None
    unclean: list[str] | None = None

    @property
    def interrupted(self) -> bool:
        """The user ended the run, by a signal or `zonequake abort`: no further one is wanted."""
        return not {INTERRUPTED, ABORTED}.isdisjoint(self.problems)
