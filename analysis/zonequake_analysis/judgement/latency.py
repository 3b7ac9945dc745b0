"""The objective of latency: p99 of the load during the faults, against its reference. Pure.

    before │ control │ during          one run, one machine, the same load throughout

A ratio alone is a weak witness: if 15 ms become 60, the cause may be the machine, not the store. So
the ratio is against the larger of the quiet time before and of the control (the same restarts of
nodes that hold nothing), and is judged only above a bound that no client minds. An absolute limit
complements it: a run that is slow before and in the control, too, has a ratio of one. Then the
store can't be told from the machine, so such a run is unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from zonequake_analysis.inputs.run_folder import Expectations
from zonequake_analysis.verdict import Check, Kind, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class P99s:
    """p99 of the load in ns by phase, nan if nothing was measured.

    `before`: from the steady load to the control or the faults. `control`: from its first restart
    to the faults. `during`: from the first fault to the end of recovery.
    """

    before_ns: float = math.nan
    control_ns: float = math.nan
    during_ns: float = math.nan

    @property
    def against(self) -> str:
        """The base that `during` is compared with: `before`, `control`, or nothing."""
        if math.isnan(self.before_ns):
            return ""
        return "control" if self.control_ns > self.before_ns else "before"

    @property
    def reference_ns(self) -> float:
        """The larger of `before` and `control`; nan without `before`."""
        return self.control_ns if self.against == "control" else self.before_ns

    @property
    def ratio(self) -> float:
        """`during` over the larger of the two others; nan if either isn't known."""
        return self.during_ns / self.reference_ns


def latency_check(
    p99: P99s, wanted: Expectations, *, has_control: bool, one_clock: bool = True
) -> Check:
    """Checks whether clients waited longer than the run allows. `has_control`: the plan has one;
    `one_clock`: the events say by the operations' own clock when a phase began."""
    known = not math.isnan(p99.ratio) and one_clock
    verdict, summary = Verdict.PASSED, "not judged: the events show no phase before the faults"
    if not one_clock:
        summary = "not judged: the events and the history are of several clocks"
    if known:
        verdict, summary = _judged(p99, wanted, has_control=has_control)
    elif wanted.p99_ratio is not None or wanted.max_p99_ms is not None:
        verdict = Verdict.UNKNOWN
    return Check(
        kind=Kind.OBJECTIVE, name="latency", verdict=verdict, summary=summary, checked=int(known)
    )


def _judged(p99: P99s, wanted: Expectations, *, has_control: bool) -> tuple[Verdict, str]:
    during_ms, ratio, most = p99.during_ns / 1e6, p99.ratio, wanted.p99_ratio
    summary = _in_words(p99)
    limit_ms, over = wanted.max_p99_ms, False
    if limit_ms is not None and during_ms > limit_ms:
        over = True
        summary += f"; more than the {limit_ms:g} ms that are allowed"
        if p99.reference_ns / 1e6 > limit_ms and (most is None or ratio <= most):
            return Verdict.UNKNOWN, (
                f"{summary}, and so was it without the faults: was there too little processor time?"
            )
    if has_control and math.isnan(p99.control_ns) and not over:
        return (
            Verdict.UNKNOWN,
            f"{summary}; the control, which was to say what is the machine's, is missing",
        )
    if most is not None and ratio > most:
        if during_ms > wanted.p99_ratio_above_ms:
            over = True
            summary += f"; more than {most:g} times"
        else:
            summary += f"; a ratio counts above {wanted.p99_ratio_above_ms:g} ms"
    return (Verdict.SLO_BREACHED if over else Verdict.PASSED), summary


def _in_words(p99: P99s) -> str:
    control = ""
    if not math.isnan(p99.control_ns):
        control = f", {p99.control_ns / 1e6:,.1f} ms in the control"
    return (
        f"p99 {p99.before_ns / 1e6:,.1f} ms before{control} and {p99.during_ns / 1e6:,.1f} ms "
        f"during the faults: {p99.ratio:.2f} times as {_AGAINST[p99.against]}"
    )


_AGAINST = {"before": "before", "control": "in the control"}
