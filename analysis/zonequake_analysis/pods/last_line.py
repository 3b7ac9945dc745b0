"""The line of an analysis's log that tells its verdict, for those who see only log and exit code.

A JVM that can't start, and Python itself, end with 1, the exit code of a violation. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from zonequake_analysis.storage.location import Location
from zonequake_analysis.text.untrusted_text import one_line
from zonequake_analysis.verdict import Verdict


def last_line(run: Location, verdict: Verdict) -> str:
    """Returns what `analyze` says of a run when its verdict and its report are written."""
    return one_line(f"analyze {run.resolve().name}: {verdict}; report: {run / 'report.html'}")


def told_verdict(run: Location, log: Iterable[str]) -> Verdict | None:
    """Returns the verdict that the log of an analysis of `run` tells; None if it tells none."""
    lines = {last_line(run, verdict): verdict for verdict in Verdict}
    told = [lines[line] for line in log if line in lines]
    return told[-1] if told else None
