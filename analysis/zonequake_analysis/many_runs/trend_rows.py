"""Rows of the table `trend`: one for each run and objective; and series of them in time. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from zonequake_analysis.inputs.run_folder import Expectations
from zonequake_analysis.many_runs import intervals
from zonequake_analysis.many_runs.change_points import ChangePoint, change_points
from zonequake_analysis.many_runs.measured_run import NO_PHASES, SHOWED_TOO_LITTLE, MeasuredRun
from zonequake_analysis.many_runs.quantities import (
    ALL,
    CLASSES,
    LOST,
    P99_RATIO,
    QUANTITIES,
    RESETS,
    SACRIFICED,
    STALE,
    WINDOW,
    WINDOWS,
    Better,
    Estimate,
    Quantity,
    latency,
    number,
    rate,
)
from zonequake_analysis.verdict import Verdict

RUN = "run"
"""The objective of the row that each run has for its verdict; it has no value."""

_JUDGES = {
    WINDOW: "availability",
    latency("faults", ALL, "p99"): "latency",
    P99_RATIO: "latency",
    RESETS: "resets",
    SACRIFICED: "sacrificed-writes",
    LOST: "lost-writes",
    STALE: "stale-reads",
}
"""The check that judges each objective."""

OBJECTIVES = (
    WINDOW,
    WINDOWS,
    latency("faults", ALL, "p99"),
    P99_RATIO,
    *(latency("faults", kind, "p99") for kind in CLASSES if kind != ALL),
    latency("faults", ALL, "p50"),
    rate("faults"),
    latency("before", ALL, "p99"),
    latency("before", ALL, "p50"),
    rate("before"),
    latency("whole", ALL, "p99"),
    rate("whole"),
    RESETS,
    SACRIFICED,
    LOST,
    STALE,
)
"""Quantities that have a trend, in the order of the page."""


class TrendRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table. `verdict`: of the check that judges the objective; the run's in the row
    `run`. `at_most`: how long a window may be that a silence of the probes hides, so that `value`
    is only the least; else None. `problem`: why a folder has no rows; such a row isn't in the
    table. `note`: what a reader must know of the run's numbers, and `usable`: whether they may be
    compared, both in its row `run`; not in the table either."""

    run: str
    folder: str
    time_ns: int
    version: str
    target: str
    scenario: str
    objective: str
    unit: str = ""
    value: float | None = None
    at_most: float | None = None
    bound: float | None = None
    verdict: str | None = None
    problem: str | None = None
    note: str | None = None
    usable: bool = True


def rows_of(run: MeasuredRun, expected: Expectations) -> list[TrendRow]:
    """Returns the rows of a run; its objectives have the bounds of its own `run.yaml`."""
    bounds = _bounds(expected)

    def row(objective: str, verdict: Verdict | None, **fields: object) -> TrendRow:
        known: dict[str, object] = {
            "run": run.run,
            "folder": run.folder,
            "time_ns": run.started_wall_ns,
            "version": run.version,
            "target": run.target,
            "scenario": run.scenario,
            "objective": objective,
            "verdict": None if verdict is None else str(verdict),
        }
        return msgspec.convert(known | fields, TrendRow)

    rows = [row(RUN, run.verdict, note=_note(run), usable=run.usable)]
    for name in OBJECTIVES:
        estimate = run.estimates.get(name)
        if estimate is not None and math.isfinite(estimate.value):
            rows.append(
                row(
                    name,
                    run.checks.get(_JUDGES.get(name, "")),
                    unit=QUANTITIES[name].unit,
                    value=estimate.value,
                    at_most=(run.hidden_window_ms or None) if name == WINDOW else None,
                    bound=bounds.get(name),
                )
            )
    return rows


def _note(run: MeasuredRun) -> str | None:
    told = []
    if run.without_phases:
        told.append(f"measured as a whole, {NO_PHASES}")
    if run.hidden_window_ms:
        told.append(
            "its longest window counts for nothing, as silences of its probes may hide one of "
            f"{number(run.hidden_window_ms)} ms"
        )
    return "; ".join(told) or None


def without_rows(folder: str, name: str, problem: str) -> TrendRow:
    """Returns what stands for a folder that has no rows."""
    return TrendRow(
        run=name,
        folder=folder,
        time_ns=0,
        version="",
        target="",
        scenario="",
        objective="",
        problem=problem,
    )


def each_once(rows: Sequence[TrendRow]) -> list[TrendRow]:
    """Returns the rows without those of folders that are copies of one before: of each copy it says
    so instead. Copies would make a level of few runs look like one of many.
    """
    first: dict[tuple[str, str, int], str] = {}
    copies: dict[str, TrendRow] = {}
    for row in rows:
        if row.objective == RUN and row.time_ns:
            known = first.setdefault((row.run, row.scenario, row.time_ns), row.folder)
            if known != row.folder:
                copies[row.folder] = without_rows(
                    row.folder,
                    row.run,
                    f"{row.folder}: found the run {row.run} again, which is in {known}; expected "
                    "each run once: delete one of the two, or keep it elsewhere",
                )
    return [row for row in rows if row.folder not in copies] + list(copies.values())


def left_out(rows: Sequence[TrendRow]) -> list[tuple[str, str]]:
    """Returns the runs that have no place in a trend, each with the reason and what to do."""
    return [(row.run, row.problem) for row in rows if row.problem is not None] + [
        (
            row.run,
            f"{row.folder}: found no started_wall_ns in run.yaml, expected when the run began, in "
            "unix nanoseconds: add it and run `zonequake analyze` again",
        )
        for row in rows
        if row.problem is None and row.objective == RUN and not row.time_ns
    ]


def notes(rows: Sequence[TrendRow]) -> list[tuple[str, str]]:
    """Returns the runs whose numbers a reader may take for others, each with the reason."""
    return [(row.run, row.note) for row in rows if row.note is not None]


def _bounds(expected: Expectations) -> dict[str, float | None]:
    return {
        WINDOW: expected.max_window_ms,
        latency("faults", ALL, "p99"): expected.max_p99_ms,
        P99_RATIO: expected.p99_ratio,
        RESETS: expected.resets,
        SACRIFICED: expected.sacrificed_at_most,
        LOST: expected.lost,
        STALE: expected.stale,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One run in a series; `number` is its place among the scenario's runs. `is_least`: the value
    may be higher; its verdict is `unknown` then."""

    number: int
    value: float
    verdict: str
    counts: bool  # whether the run showed enough to be a part of levels and change points
    is_least: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelChange:
    """A change point with the run that begins the new level."""

    number: int
    point: ChangePoint
    is_worse: bool

    @property
    def ratio(self) -> float:
        """The new level over the old one; infinite if the old one is 0."""
        if self.point.before > 0:
            return self.point.after / self.point.before
        return math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """An objective of a scenario over time, with its change points in order."""

    quantity: Quantity
    points: tuple[Point, ...]
    bound: float | None  # of the newest run
    steps: tuple[LevelChange, ...]
    by_version: Mapping[str, Estimate]

    @property
    def is_constant(self) -> bool:
        """Whether every run has the same value, so that a drawing adds nothing."""
        values = {point.value for point in self.points}
        return len(values) == 1 and not any(point.is_least for point in self.points)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioTrend:
    """All runs of a scenario against a target, in order of their times, and their objectives."""

    scenario: str
    target: str
    runs: tuple[TrendRow, ...]
    series: tuple[Series, ...]


def trends(rows: Sequence[TrendRow]) -> list[ScenarioTrend]:
    """Returns each scenario against each target, with its change points; rows with a problem and
    rows without a time are left out."""
    groups: dict[tuple[str, str], list[TrendRow]] = defaultdict(list)
    for row in rows:
        if row.problem is None and row.time_ns:
            groups[row.scenario, row.target.partition(" ")[0]].append(row)
    return [_trend(scenario, target, found) for (scenario, target), found in sorted(groups.items())]


def _trend(scenario: str, target: str, rows: Sequence[TrendRow]) -> ScenarioTrend:
    runs = sorted(
        (row for row in rows if row.objective == RUN), key=lambda row: (row.time_ns, row.folder)
    )
    numbers = {row.folder: number for number, row in enumerate(runs)}
    by_objective: dict[str, list[TrendRow]] = defaultdict(list)
    for row in rows:
        if row.value is not None:
            by_objective[row.objective].append(row)
    return ScenarioTrend(
        scenario=scenario,
        target=target,
        runs=tuple(runs),
        series=tuple(
            _series(QUANTITIES[name], by_objective[name], numbers, runs)
            for name in OBJECTIVES
            if name in by_objective
        ),
    )


def _series(
    quantity: Quantity,
    rows: Sequence[TrendRow],
    numbers: Mapping[str, int],
    runs: Sequence[TrendRow],
) -> Series:
    ordered = sorted(rows, key=lambda row: numbers[row.folder])
    points = tuple(
        Point(
            number=numbers[row.folder],
            value=row.value,
            verdict=(run.verdict or "") if row.at_most is None else Verdict.UNKNOWN,
            counts=run.usable and row.at_most is None and run.verdict not in SHOWED_TOO_LITTLE,
            is_least=row.at_most is not None,
        )
        for row in ordered
        for run in [runs[numbers[row.folder]]]
        if row.value is not None
    )
    counted = [point for point in points if point.counts]
    worse = 1 if quantity.better is Better.LOWER else -1
    by_version: dict[str, list[Estimate]] = defaultdict(list)
    for point in counted:
        by_version[runs[point.number].version].append(Estimate.exact(point.value))
    return Series(
        quantity=quantity,
        points=points,
        bound=ordered[-1].bound,
        steps=tuple(
            LevelChange(
                number=counted[found.index].number,
                point=found,
                is_worse=(found.after - found.before) * worse > 0,
            )
            for found in change_points([point.value for point in counted])
        ),
        by_version={
            version: intervals.of_runs(values, f"{version} {quantity.name}")
            for version, values in by_version.items()
        },
    )
