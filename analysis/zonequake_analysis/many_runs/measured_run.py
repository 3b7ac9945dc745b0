"""One run as a few numbers: from its verdict, and from the operations of its load. Pure.

The verdict alone is enough. If there is `tables/ops` too, quantiles come with intervals, and for
each class; without it there is p99 of all operations, from the verdict.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from zonequake_analysis.judgement.verdict_json import HARNESS, RunFacts, VerdictDocument
from zonequake_analysis.many_runs import intervals
from zonequake_analysis.many_runs.quantities import (
    ALL,
    CLASSES,
    LOST,
    P99_RATIO,
    PARTITIONS_OUT,
    QUANTILES,
    RESETS,
    SACRIFICED,
    STALE,
    UNEXPLAINED,
    WINDOW,
    WINDOWS,
    Estimate,
    latency,
    rate,
)
from zonequake_analysis.text.first_few import first_few
from zonequake_analysis.verdict import Verdict

SHOWED_TOO_LITTLE = frozenset({Verdict.UNKNOWN, Verdict.HARNESS_FAILED})
"""Verdicts of runs whose numbers mean little: a fault missed, or the harness broke off."""

_MOST_NAMED = 5
"""Runs that a sentence names."""

_PHASES = frozenset({"before", "faults"})
"""Phases without which a run can't be cut into parts."""

_JUDGED_PHASES = ("before", "during")

NO_PHASES = (
    "for its own judgement could not tell the load before the faults from that during them (events "
    "of another clock than the history, or no load in these phases)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOperations:
    """Answered operations of the load: when each was due, how long it took, and its class."""

    due_ns: NDArray[np.int64]
    took_ns: NDArray[np.int64]
    kind: NDArray[np.str_]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredMetric:
    """A Prometheus metric during the faults: of its series the one that moved most. `measure`:
    level, rate or a quantile; `score`: how far it moved, in units of its spread before the faults.
    """

    name: str
    measure: str
    unit: str
    before: float
    during: float
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """A run's facts, and its estimates by the name of their quantity; `has_operations`: whether
    `tables/ops` exists; `identity`: equal in copies of a run, empty if nothing tells them apart;
    `without_phases`: its events have phases, which its own judgement couldn't use either;
    `hidden_window_ms`: how long a window may be that a vantage's silence hides, if none that is
    known is as long; else 0. `hides_windows`: whether a silence may hide any."""

    folder: str
    run: str
    scenario: str
    seed: str
    version: str
    target: str
    started_wall_ns: int
    verdict: Verdict
    checks: Mapping[str, Verdict]
    estimates: Mapping[str, Estimate]
    has_operations: bool
    metrics: tuple[MeasuredMetric, ...] = field(default=())
    identity: str = ""
    without_phases: bool = False
    hidden_window_ms: float = 0.0
    hides_windows: bool = False

    @property
    def usable(self) -> bool:
        """Whether its numbers may be compared: it showed enough.

        A cleanup that is not proven hides by its rank that a check says it did not.
        """
        told = {self.verdict}
        if self.verdict is Verdict.CLEANUP_NOT_PROVEN:
            told.update(self.checks.values())
        return told.isdisjoint(SHOWED_TOO_LITTLE)

    @property
    def found(self) -> Verdict:
        """The store's part of the verdict: a violation, a missed objective, or neither."""
        for verdict in (Verdict.VIOLATED, Verdict.SLO_BREACHED):
            if verdict in (self.verdict, *self.checks.values()):
                return verdict
        return Verdict.PASSED


def measured(
    folder: str,
    name: str,
    document: VerdictDocument,
    operations: LoadOperations | None,
    phases_ns: Mapping[str, int],
    metrics: tuple[MeasuredMetric, ...] = (),
) -> MeasuredRun:
    """Returns the numbers of a run. `name`: of its folder; `phases_ns`: when each phase began by
    the events, whose clock may be another one than the history's."""
    facts = document.run
    estimates = of_verdict(document)
    usable = _phases_were_judged(document)
    if operations is not None:
        estimates |= of_operations(operations, phases_ns if usable else {})
    return MeasuredRun(
        folder=folder,
        run=(facts.run if facts is not None else "") or name,
        scenario=facts.scenario if facts is not None else "",
        seed=facts.seed if facts is not None else "",
        version=version_of(facts),
        target=facts.target if facts is not None else "",
        started_wall_ns=facts.started_wall_ns if facts is not None else 0,
        verdict=document.verdict,
        checks={check.name: check.verdict for check in document.checks if check.judged},
        estimates=estimates,
        has_operations=operations is not None,
        metrics=metrics,
        identity=_identity(facts, operations),
        without_phases=operations is not None and phases_ns.keys() >= _PHASES and not usable,
        hidden_window_ms=_hidden_window_ms(document, estimates),
        hides_windows=_hidden_ms(document) > 0,
    )


def _hidden_ms(document: VerdictDocument) -> float:
    return float(document.numbers.get("longest_window_hidden_ms") or 0.0)


def _hidden_window_ms(document: VerdictDocument, estimates: Mapping[str, Estimate]) -> float:
    hidden_ms, window = _hidden_ms(document), estimates.get(WINDOW)
    return hidden_ms if window is not None and hidden_ms > window.high else 0.0


def _phases_were_judged(document: VerdictDocument) -> bool:
    """Returns whether the run's own judgement measured the load by phase: it doesn't where events
    and history are of several clocks."""
    return any(document.numbers.get(f"p99_{phase}_ms") is not None for phase in _JUDGED_PHASES)


def _identity(facts: RunFacts | None, operations: LoadOperations | None) -> str:
    """Returns what copies of a run share, and no other run has: name, seed and beginning; of one
    that doesn't say when it began, all times of its load."""
    if facts is not None and facts.started_wall_ns:
        return f"{facts.run} {facts.seed} {facts.started_wall_ns}"
    if operations is None or not len(operations.due_ns):
        return ""
    order = np.lexsort((operations.took_ns, operations.due_ns))
    times = np.stack([operations.due_ns[order], operations.took_ns[order]])
    return hashlib.sha256(times.tobytes()).hexdigest()


def version_of(facts: RunFacts | None) -> str:
    """Returns the version of the store under test: the target's own, else zonequake's."""
    if facts is None:
        return ""
    _, _, version = facts.target.partition(" ")
    if version:
        return version if facts.tests_itself else facts.target
    return facts.versions.get(HARNESS, "")


def of_verdict(document: VerdictDocument) -> dict[str, Estimate]:
    """Returns what `verdict.json` alone says, without quantities that were not measured."""
    numbers, judged = document.numbers, {c.name: c for c in document.checks if c.judged}
    found: dict[str, Estimate] = {}
    certain = numbers.get("longest_window_certain_ms")
    probed = judged.get("availability")
    if certain is not None and probed is not None and probed.checked:
        possible = numbers.get("longest_window_possible_ms")
        found[WINDOW] = Estimate(
            value=float(certain),
            low=float(certain),
            high=max(float(certain), float(possible or 0)),
        )
        found[PARTITIONS_OUT] = Estimate.exact(len(document.windows))
        for name, number in ((WINDOWS, "windows"), (UNEXPLAINED, "windows_unexplained")):
            count = numbers.get(number)
            if count is not None:
                found[name] = Estimate.exact(float(count))
    for span, number in (("before", "p99_before_ms"), ("faults", "p99_during_ms")):
        p99 = numbers.get(number)
        if p99 is not None:
            found[latency(span, ALL, "p99")] = Estimate.unsure(float(p99))
    if "resets" in judged:
        found[RESETS] = Estimate.exact(len(document.resets))
    for name, checks in (
        (SACRIFICED, ("sacrificed-writes",)),
        (LOST, ("lost-writes", "lost-groups")),
        (STALE, ("stale-reads",)),
    ):
        counts = [judged[check].violations for check in checks if check in judged]
        if counts:
            found[name] = Estimate.exact(sum(counts))
    during = numbers.get("p99_during_ms")
    quiet = max((numbers.get(f"p99_{name}_ms") or 0.0) for name in ("before", "control"))
    if during is not None and quiet > 0:
        found[P99_RATIO] = Estimate.unsure(during / quiet)
    return found


def spans_ns(
    operations: LoadOperations, phases_ns: Mapping[str, int]
) -> dict[str, tuple[int, int]]:
    """Returns each measured part of the run, from its begin to its end."""
    end_ns = int((operations.due_ns + operations.took_ns).max())
    if not phases_ns.keys() >= _PHASES:
        return {"whole": (int(operations.due_ns.min()), end_ns)}
    quiet_ns = phases_ns.get("quiet", end_ns)
    first_ns = phases_ns.get("control", phases_ns["faults"])
    return {
        "before": (phases_ns["before"], first_ns),
        "faults": (phases_ns["faults"], quiet_ns),
    }


def of_operations(operations: LoadOperations, phases_ns: Mapping[str, int]) -> dict[str, Estimate]:
    """Returns latencies in ms by span, class and quantile, and rates, with their intervals."""
    found: dict[str, Estimate] = {}
    if not len(operations.due_ns):
        return found
    for span, (begin_ns, end_ns) in spans_ns(operations, phases_ns).items():
        if end_ns <= begin_ns:
            continue
        inside = (operations.due_ns >= begin_ns) & (operations.due_ns < end_ns)
        offset = operations.due_ns[inside] - begin_ns
        part = offset * intervals.PARTS // (end_ns - begin_ns)
        took_ms = operations.took_ns[inside] / 1e6
        kind = operations.kind[inside]
        found[rate(span)] = intervals.rate(part, (end_ns - begin_ns) / 1e9)
        for name in CLASSES:
            chosen = np.ones(len(part), bool) if name == ALL else kind == name
            if not chosen.any():
                continue
            for quantile, estimate in intervals.quantiles(
                took_ms[chosen], part[chosen], QUANTILES
            ).items():
                found[latency(span, name, quantile)] = estimate
    return found


def at_worst(runs: Sequence[MeasuredRun]) -> list[Estimate]:
    """Returns the longest window of each run, as long as a silence may hide one."""
    return [
        replace(run.estimates[WINDOW], value=run.hidden_window_ms, high=run.hidden_window_ms)
        if run.hidden_window_ms
        else run.estimates[WINDOW]
        for run in runs
        if WINDOW in run.estimates
    ]


def for_certain(runs: Sequence[MeasuredRun]) -> list[Estimate]:
    """Returns the longest window of each run in which none can hide a longer one."""
    return [
        run.estimates[WINDOW]
        for run in runs
        if WINDOW in run.estimates and not run.hidden_window_ms
    ]


def newly_violated(base: Sequence[MeasuredRun], candidate: Sequence[MeasuredRun]) -> dict[str, int]:
    """Returns the checks that no base run violates, each with how many candidate runs do."""
    known, found = (
        Counter(name for run in side for name, v in run.checks.items() if v is Verdict.VIOLATED)
        for side in (base, candidate)
    )
    return {name: runs for name, runs in found.items() if name not in known}


def without_scenario(runs: Sequence[MeasuredRun], side: str, scenarios: Sequence[str]) -> list[str]:
    """Returns a sentence on the runs that don't say their scenario, where others do."""
    nameless = [run.run for run in runs if not run.scenario]
    if not nameless or not scenarios:
        return []
    return [
        f"without a scenario in the {side}, so perhaps of other faults and another load than "
        f"{scenarios[0]}: {first_few(nameless, _MOST_NAMED, separator=', ')}"
    ]


def left_out(runs: Sequence[MeasuredRun], side: str) -> list[str]:
    """Returns a sentence on the runs whose longest window isn't known, if there are any."""
    hidden = [run.run for run in runs if run.hidden_window_ms]
    if not hidden:
        return []
    return [
        f"the longest window of {len(hidden)} of {len(runs)} runs of the {side} is left out, as "
        "silences of their probes may hide a longer one: "
        + first_few(hidden, _MOST_NAMED, separator=", ")
    ]


def uncounted(runs: Sequence[MeasuredRun], side: str) -> list[str]:
    """Returns a sentence on the runs that may have had more windows, if there are any."""
    silent = [run.run for run in runs if run.hides_windows and WINDOWS in run.estimates]
    if not silent:
        return []
    return [
        f"the numbers of windows, and of partitions with one, of {len(silent)} of {len(runs)} runs "
        f"of the {side} are the least that there were, as silences of their probes may hide more: "
        + first_few(silent, _MOST_NAMED, separator=", ")
    ]
