"""Two sets of runs side by side: what changed, by more than chance, and by more than its bound.
Pure.

    regression   beyond its bound, and beyond the intervals
    suspect      beyond its bound, but chance alone could explain that: unknown, compare more runs
    better       the same in the other direction, beyond the intervals
    missing      bounded, but measured in the base alone, or of one side's windows none is known to
                 be the longest: nothing shows that it did not get worse
    within       none of these
    shown        it has no bound, or the base doesn't have it

With FEWEST_RUNS runs on each side, a change is beyond chance if the bootstrap's interval of the
change leaves out "no change"; with fewer, if the intervals of both sides don't touch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from zonequake_analysis.many_runs import intervals
from zonequake_analysis.many_runs.bounds import KINDS, BoundKind, Bounds
from zonequake_analysis.many_runs.measured_run import (
    NO_PHASES,
    MeasuredRun,
    at_worst,
    for_certain,
    left_out,
    newly_violated,
    uncounted,
    without_scenario,
)
from zonequake_analysis.many_runs.metric_rows import MetricRow, metric_rows
from zonequake_analysis.many_runs.quantities import QUANTITIES, WINDOW, Better, Estimate, Quantity
from zonequake_analysis.text.first_few import first_few
from zonequake_analysis.verdict import Verdict, worst

SURE = 0.05
"""Shares of verdicts differ if Fisher's exact test, one-sided, leaves at most this to chance."""


class RowOutcome(StrEnum):
    """The result of a row."""

    REGRESSION = "regression"
    MISSING = "missing"
    SUSPECT = "suspect"
    BETTER = "better"
    WITHIN = "within"
    SHOWN = "shown"


class Conclusion(StrEnum):
    """The result of the whole comparison."""

    REGRESSION = "regression"
    UNKNOWN = "unknown"
    NO_REGRESSION = "no-regression"


EXIT_CODES = {Conclusion.REGRESSION: 3, Conclusion.UNKNOWN: 2, Conclusion.NO_REGRESSION: 0}
"""The codes of a missed objective, of a run that showed too little, and of a pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRow:
    """One quantity on both sides; None if a side doesn't have it. `change` is a ratio or a
    difference, with its interval if one is known.
    """

    quantity: Quantity
    base: Estimate | None
    candidate: Estimate | None
    kind: BoundKind
    change: Estimate | None
    bound: float | None
    outcome: RowOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSide:
    """The runs of one side: those that count, and those that showed too little."""

    used: tuple[MeasuredRun, ...]
    left_out: tuple[MeasuredRun, ...]

    @property
    def verdicts(self) -> Counter[Verdict]:
        return Counter(run.verdict for run in (*self.used, *self.left_out))

    @property
    def enough(self) -> bool:
        """Whether at least half of the runs count."""
        return bool(self.used) and len(self.used) >= len(self.left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """The content of a comparison. `verdict_note` says how the candidate's verdicts are worse;
    `newly_violated`: checks that a candidate run violates, and no run of the base."""

    base: ComparedSide
    candidate: ComparedSide
    rows: tuple[ComparedRow, ...]
    metrics: tuple[MetricRow, ...]
    verdict_note: str
    newly_violated: tuple[str, ...]
    notes: tuple[str, ...]
    conclusion: Conclusion
    headline: str

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.conclusion]


def compare(
    base: Sequence[MeasuredRun], candidate: Sequence[MeasuredRun], bounds: Bounds
) -> RunComparison:
    """Compares at least one run with at least one. Raises ValueError for several scenarios, and for
    a run that is there twice."""
    _check_each_once((*base, *candidate))
    scenarios = sorted({run.scenario for run in (*base, *candidate)} - {""})
    if len(scenarios) > 1:
        raise ValueError(
            f"found runs of the scenarios {', '.join(scenarios)}, expected runs of one scenario: "
            "other faults have other numbers"
        )
    old, new = _side(base), _side(candidate)
    names = {name for run in (*old.used, *new.used) for name in run.estimates}
    window, hidden = _window_row(old, new, bounds)
    rows = tuple(
        window if name == WINDOW else _row(quantity, _of(old, name), _of(new, name), bounds)
        for name, quantity in QUANTITIES.items()
        if name in names
    )
    fresh = newly_violated(base, candidate)
    verdicts, note = _worse_verdicts(old, new, fresh)
    conclusion, headline = _concluded(old, new, rows, verdicts, note)
    return RunComparison(
        base=old,
        candidate=new,
        rows=rows,
        metrics=metric_rows(old.used, new.used),
        verdict_note=note,
        newly_violated=tuple(fresh),
        notes=(
            *without_scenario(base, "base", scenarios),
            *without_scenario(candidate, "candidate", scenarios),
            *_notes(old, new),
            *uncounted(old.used, "base"),
            *uncounted(new.used, "candidate"),
            *hidden,
        ),
        conclusion=conclusion,
        headline=headline,
    )


def _check_each_once(runs: Sequence[MeasuredRun]) -> None:
    """Raises ValueError for copies, which differ by nothing: intervals would be too narrow."""
    first: dict[str, MeasuredRun] = {}
    for run in runs:
        known = first.setdefault(run.identity, run) if run.identity else run
        if known is not run:
            raise ValueError(
                f"found the run {run.run} twice, in {known.folder} and in {run.folder}, expected "
                "each run once: leave one of the two out; a copy shows nothing of the next run"
            )


def _side(runs: Sequence[MeasuredRun]) -> ComparedSide:
    return ComparedSide(
        used=tuple(run for run in runs if run.usable),
        left_out=tuple(run for run in runs if not run.usable),
    )


def _of(side: ComparedSide, name: str) -> list[Estimate]:
    return [run.estimates[name] for run in side.used if name in run.estimates]


def _row(
    quantity: Quantity, old: Sequence[Estimate], new: Sequence[Estimate], bounds: Bounds
) -> ComparedRow:
    kind, bound = KINDS[quantity.family], bounds.by_family.get(quantity.family)
    base = intervals.of_runs(old, f"base {quantity.name}") if old else None
    candidate = intervals.of_runs(new, f"candidate {quantity.name}") if new else None
    change = None
    if base is not None and candidate is not None:
        change = _change(kind, quantity.name, old, new, base, candidate)
    outcome = RowOutcome.SHOWN
    if bound is not None and base is not None:
        outcome = RowOutcome.MISSING
        if candidate is not None and change is not None:
            outcome = _judged(quantity, kind, bound, change, candidate, bounds.above_ms)
    return ComparedRow(
        quantity=quantity,
        base=base,
        candidate=candidate,
        kind=kind,
        change=change,
        bound=bound,
        outcome=outcome,
    )


def _window_row(
    old: ComparedSide, new: ComparedSide, bounds: Bounds
) -> tuple[ComparedRow, Sequence[str]]:
    """Returns the row of the longest window, and what a reader must know of it.

    Of a run whose vantages were silent for longer it is only known to be no shorter. Such runs
    count where the outcome is the same whatever is hidden, else they are left out.
    """
    quantity, base, candidate = QUANTITIES[WINDOW], _of(old, WINDOW), _of(new, WINDOW)
    as_known = _row(quantity, base, candidate, bounds)
    if not any(run.hidden_window_ms for run in (*old.used, *new.used)):
        return as_known, ()
    if _row(quantity, at_worst(old.used), candidate, bounds).outcome is RowOutcome.REGRESSION:
        return as_known, ()
    worse = _row(quantity, base, at_worst(new.used), bounds).outcome
    if worse in (RowOutcome.WITHIN, RowOutcome.BETTER):
        return replace(as_known, outcome=worse), ()
    sure = for_certain(old.used), for_certain(new.used)
    rest = _row(quantity, *sure, bounds)
    if rest.bound is not None and base and not all(sure):
        rest = replace(rest, outcome=RowOutcome.MISSING)
    return rest, (*left_out(old.used, "base"), *left_out(new.used, "candidate"))


def _change(
    kind: BoundKind,
    name: str,
    old: Sequence[Estimate],
    new: Sequence[Estimate],
    base: Estimate,
    candidate: Estimate,
) -> Estimate:
    """Returns the change of the candidate against the base, with an interval that leaves out "no
    change" exactly if the change is beyond chance."""
    value = _apart(kind, base.value, candidate.value)
    if min(len(old), len(new)) < intervals.FEWEST_RUNS:
        return Estimate(
            value=value,
            low=_apart(kind, base.high, candidate.low),
            high=_apart(kind, base.low, candidate.high),
        )
    before = intervals.drawn_medians([one.value for one in old], f"base {name}")
    after = intervals.drawn_medians([one.value for one in new], f"candidate {name}")
    if kind is BoundKind.ADDED:
        draws = after - before
    else:
        ended = np.where(after > 0, np.inf, np.where(before > 0, 0.0, 1.0))
        draws = np.divide(after, before, out=ended, where=(before > 0) & (after > 0))
    low, high = intervals.between(draws)
    return Estimate(value=value, low=low, high=high)


def _apart(kind: BoundKind, base: float, candidate: float) -> float:
    """Returns the change from `base` to `candidate`; between open ends, the widest possible one."""
    if kind is BoundKind.ADDED:
        return candidate - base
    if math.isinf(base) or candidate <= 0:
        return 1.0 if base == candidate else 0.0
    return candidate / base if base > 0 else math.inf


def _judged(
    quantity: Quantity,
    kind: BoundKind,
    bound: float,
    change: Estimate,
    candidate: Estimate,
    above_ms: float,
) -> RowOutcome:
    same = 1.0 if kind is BoundKind.RATIO else 0.0
    is_lower_better = quantity.better is Better.LOWER
    is_sure = change.low > same if is_lower_better else change.high < same
    is_over = change.value > bound if is_lower_better else change.value < bound
    is_felt = kind is not BoundKind.RATIO or quantity.unit != "ms" or candidate.value > above_ms
    if is_over and is_felt:
        return RowOutcome.REGRESSION if is_sure else RowOutcome.SUSPECT
    is_better = change.high < same if is_lower_better else change.low > same
    opposite = -bound if kind is BoundKind.ADDED else (1 / bound if bound else math.inf)
    far = change.value < opposite if is_lower_better else change.value > opposite
    return RowOutcome.BETTER if is_better and far else RowOutcome.WITHIN


def _worse_verdicts(
    old: ComparedSide, new: ComparedSide, fresh: Mapping[str, int]
) -> tuple[RowOutcome, str]:
    """Judges the candidate's verdicts as a row: regression, suspect or within, and how they are
    worse. Of sets they are suspect if the median run turned bad, and chance could do that. `fresh`:
    checks that are violated there alone, and in how many runs."""
    before, after = old.verdicts, new.verdicts
    violated, every = after[Verdict.VIOLATED], after.total()
    if violated and not before[Verdict.VIOLATED]:
        named = f" ({first_few(list(fresh), 4, separator=', ')})" if fresh else ""
        note = f"{violated} of {every} candidate runs are violated{named}, none was"
        return RowOutcome.REGRESSION, note
    if fresh:
        told = [f"{name} is violated in {runs} of {every}" for name, runs in fresh.items()]
        named = first_few(told, 4, separator=", ")
        return RowOutcome.REGRESSION, f"{named} candidate runs and in none of the base"
    if not old.used or not new.used:
        return RowOutcome.WITHIN, ""
    if min(len(old.used), len(new.used)) < intervals.FEWEST_RUNS:
        was, now = worst(r.found for r in old.used), worst(r.found for r in new.used)
        order = list(Verdict)
        if order.index(now) < order.index(was):
            return RowOutcome.REGRESSION, f"{now}, where the base is {was}"
        return RowOutcome.WITHIN, ""
    bad = (Verdict.VIOLATED, Verdict.SLO_BREACHED)
    old_bad, new_bad = (sum(run.found in bad for run in s.used) for s in (old, new))
    chance = fisher(old_bad, len(old.used), new_bad, len(new.used))
    note = (
        f"{new_bad} of {len(new.used)} candidate runs miss an objective or are violated, and "
        f"{old_bad} of {len(old.used)} did (chance alone: {chance:.3f})"
    )
    if chance <= SURE:
        return RowOutcome.REGRESSION, note
    if 2 * old_bad <= len(old.used) and 2 * new_bad > len(new.used):
        return RowOutcome.SUSPECT, note
    return RowOutcome.WITHIN, ""


def fisher(old_bad: int, old_all: int, new_bad: int, new_all: int) -> float:
    """Returns the probability that at least `new_bad` of the bad runs are new ones by chance
    (Fisher's exact test, one-sided)."""
    bad = old_bad + new_bad
    ways = math.comb(old_all + new_all, bad)
    above = range(new_bad, min(bad, new_all) + 1)
    return sum(math.comb(new_all, k) * math.comb(old_all, bad - k) for k in above) / ways


def _concluded(
    old: ComparedSide,
    new: ComparedSide,
    rows: Sequence[ComparedRow],
    verdicts: RowOutcome,
    note: str,
) -> tuple[Conclusion, str]:
    regressions = [row.quantity.words for row in rows if row.outcome is RowOutcome.REGRESSION]
    told = ([note] if verdicts is RowOutcome.REGRESSION else []) + regressions
    if told:
        return Conclusion.REGRESSION, f"Regression: {first_few(told, 4)}."
    for side, name in ((old, "base"), (new, "candidate")):
        if not side.enough:
            return Conclusion.UNKNOWN, (
                f"Unknown: {len(side.left_out)} of {len(side.left_out) + len(side.used)} runs of "
                f"the {name} showed too little (unknown or harness-failed). Run them again."
            )
    if verdicts is RowOutcome.SUSPECT:
        few = f"Compare more than {len(new.used)} runs on each side."
        return Conclusion.UNKNOWN, f"Unknown: {note}. {few}"
    missing = [row for row in rows if row.outcome is RowOutcome.MISSING]
    if missing:
        without = "base" if all(row.base is None for row in missing) else "candidate"
        words = first_few([f"no {row.quantity.words}" for row in missing], 3)
        return Conclusion.UNKNOWN, (
            f"Unknown: the {without} has {words}. Run `zonequake analyze` over its folders if "
            "tables/ops is absent."
        )
    judged = [row for row in rows if row.bound is not None and row.outcome is not RowOutcome.SHOWN]
    if not judged:
        return Conclusion.UNKNOWN, "Unknown: nothing that has a bound was measured in the base."
    if suspects := [row for row in judged if row.outcome is RowOutcome.SUSPECT]:
        return Conclusion.UNKNOWN, _suspected(suspects)
    return Conclusion.NO_REGRESSION, f"No regression in {len(judged)} quantities with a bound."


def _suspected(rows: Sequence[ComparedRow]) -> str:
    """Returns what is beyond its bound and may be chance, and whose intervals are open."""
    words = first_few([row.quantity.words for row in rows], 3)
    endless = sum(math.isinf(max(s.high for s in (r.base, r.candidate) if s)) for r in rows)
    no_end = f" The intervals of {endless} have no upper end (∞)." if endless else ""
    return (
        f"Unknown: {len(rows)} are beyond their bound and within what chance can do: {words}."
        f"{no_end} Compare {intervals.FEWEST_RUNS} runs or more on each side."
    )


def _notes(old: ComparedSide, new: ComparedSide) -> list[str]:
    """Returns what a reader must know before the numbers."""
    found = []
    for side, name in ((old, "base"), (new, "candidate")):
        if side.left_out:
            listed = first_few(
                [f"{run.run} ({run.verdict})" for run in side.left_out], 5, separator=", "
            )
            found.append(f"left out of the {name}, for they showed too little: {listed}")
        absent = [run.run for run in side.used if not run.has_operations]
        if absent:
            found.append(
                f"without tables/ops in the {name}, so p99 of all operations alone and without an "
                f"interval: {first_few(absent, 5, separator=', ')}; run `zonequake analyze` over "
                "them"
            )
        whole = [run.run for run in side.used if run.without_phases]
        if whole:
            found.append(f"measured as a whole in the {name}, {NO_PHASES}: {first_few(whole, 5)}")
    targets = [sorted({run.target for run in side.used} - {""}) for side in (old, new)]
    if targets[0] != targets[1]:
        found.append(f"targets: {', '.join(targets[0]) or '–'} → {', '.join(targets[1]) or '–'}")
    if 0 < min(len(old.used), len(new.used)) < intervals.FEWEST_RUNS:
        found.append(
            "intervals are those within a run: how much one run differs from the next can be told "
            f"from {intervals.FEWEST_RUNS} runs on each side on"
        )
    return found
