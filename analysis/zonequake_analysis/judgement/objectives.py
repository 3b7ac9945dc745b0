"""Checks of objectives: rebalances that end, unavailability windows, latency. Pure."""

from __future__ import annotations

import math

from zonequake_analysis.judgement.evidence import Evidence
from zonequake_analysis.judgement.latency import latency_check
from zonequake_analysis.measures.availability.windows import Unavailability
from zonequake_analysis.text.first_few import first_few
from zonequake_analysis.verdict import Check, Kind, Verdict

_MOST_TOLD = 4
"""Most partitions that a sentence names; the rest is counted."""


def objective_checks(e: Evidence) -> list[Check]:
    """Checks whether the store met the run's objectives; a miss is no violation."""
    latency = latency_check(
        e.p99,
        e.description.expectations,
        has_control=e.description.has_control,
        one_clock=e.one_clock,
    )
    return [_rebalances_end(e), _windows(e), latency]


def _rebalances_end(e: Evidence) -> Check:
    running = [r for r in e.rebalances if r.ended_ns is None]
    judged = e.description.expectations.all_rebalances_end
    summary = f"all {len(e.rebalances)} rebalances ended"
    if running:
        summary = (
            f"{len(running)} of {len(e.rebalances)} rebalances have not ended, for instance "
            f"partition {running[0].partition} (token {running[0].token})"
        )
    elif not e.rebalances:
        summary = "not judged: the events show no rebalance"
    return Check(
        kind=Kind.OBJECTIVE,
        name="rebalances-end",
        verdict=Verdict.SLO_BREACHED if running and judged else Verdict.PASSED,
        summary=summary,
        violations=len(running),
        checked=len(e.rebalances),
    )


def _windows(e: Evidence) -> Check:
    a, expected = e.availability, e.description.expectations
    limit, reset_limit = expected.max_window_ms, expected.max_reset_window_ms
    proven_limit = expected.max_reset_after_proof_ms
    words = ("", " with a reset", " after its proof")
    limits = [
        (most, f"{most:,.0f} ms{word}")
        for most, word in zip((limit, reset_limit, proven_limit), words, strict=True)
        if most is not None
    ]

    strictest_ms = min((most for most, _ in limits), default=math.inf)
    longest = max((w.certain_ns for w in a.windows), default=0) / 1e6
    possible = max((w.possible_ns for w in a.windows), default=0) / 1e6
    unexplained = f"{sum(not w.causes for w in a.windows)} unexplained"
    if any(w.causes is None for w in a.windows):
        unexplained = "their causes aren't known, as events and history are of several clocks"
    by_reset = [w for w in a.windows if w.by_reset]
    over = len(windows_over(e))
    undecided = 0
    if (reset_limit, proven_limit) != (None, None):
        undecided = sum(w.by_reset is None and w.certain_ns / 1e6 > strictest_ms for w in a.windows)
    summary = "no unavailability window"
    if a.windows:
        summary = (
            f"{len(a.windows)} windows, the longest {longest:,.0f} ms for certain and "
            f"{possible:,.0f} ms at most; {unexplained}"
        )
    if by_reset:
        most = max(w.certain_ns for w in by_reset) / 1e6
        proven = max(w.proven_ns for w in by_reset) / 1e6
        summary += (
            f"; {len(by_reset)} ended by a reset, the longest {most:,.0f} ms, and {proven:,.0f} ms "
            f"after the proof of the last loss"
        )
    summary += f"; resolution {a.resolution_ns / 1e6:,.0f} ms"
    verdict = Verdict.PASSED
    if not a.vantages:
        verdict = Verdict.UNKNOWN if limits else Verdict.PASSED
        summary = "not judged: there are no probes"
    elif over:
        verdict = Verdict.SLO_BREACHED
        summary += f"; {over} are certainly longer than {' or '.join(text for _, text in limits)}"
    elif undecided:
        verdict = Verdict.UNKNOWN
        summary += (
            f"; {undecided} are longer than {strictest_ms:,.0f} ms, and whether a reset ended them "
            "can't be told"
        )
    elif a.never_probed and limits:
        verdict = Verdict.UNKNOWN
        names = [f"{zone}/{partition}" for zone, partition in a.never_probed]
        summary += (
            f"; {len(names)} partitions were never probed, or not by every class: "
            f"{first_few(names, _MOST_TOLD, separator=', ')}"
        )
    elif a.silences:
        hidden_ms = a.hidden_ns / 1e6
        summary += f"; {len(a.silences)} times a vantage did not probe"
        if hidden_ms > strictest_ms:
            verdict = Verdict.UNKNOWN
            summary += (
                f", which can hide a window of {hidden_ms:,.0f} ms, longer than the "
                f"{strictest_ms:,.0f} ms that are allowed: was there too little processor time?"
            )
    elif limit is not None and possible > limit:
        summary += "; none is certainly longer than allowed"
    return Check(
        kind=Kind.OBJECTIVE,
        name="availability",
        verdict=verdict,
        summary=summary,
        violations=over,
        checked=sum(v.probes for v in a.vantages),
        excluded=len(a.silences),
    )


def windows_over(e: Evidence) -> list[Unavailability]:
    """Returns the windows that are certainly longer than the run expects; where it isn't known
    which ones a reset ended, those beyond the limits of both."""
    expected = e.description.expectations
    limit, reset_limit = expected.max_window_ms, expected.max_reset_window_ms
    proven_limit = expected.max_reset_after_proof_ms

    def is_over(window: Unavailability) -> bool:
        is_long = limit is not None and window.certain_ns / 1e6 > limit
        if window.by_reset is False or (reset_limit is None and proven_limit is None):
            return is_long
        by_reset = reset_limit is not None and window.certain_ns / 1e6 > reset_limit
        if window.by_reset is None:
            return is_long and by_reset
        return by_reset or (proven_limit is not None and window.proven_ns / 1e6 > proven_limit)

    return [window for window in e.availability.windows if is_over(window)]
