"""Unavailability windows per partition and operation class, from probes (research "Windows").

A probe succeeds if it is answered within the deadline of its scheduled start; late, failed and
unknown ones have failed. A window is a maximal run of failures between two successes of a vantage:

    possible   from the finish of the last success to the finish of the next
    certain    from the start of the first failed probe to the start of the last

The outage lies between; a vantage that did not probe for three intervals is *no data*, which is
neither success nor failure. A window is total if every vantage that probed then saw it.

The cause is what happened last before the window began: Prometheus explains windows, it never
measures them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from zonequake_analysis.run_folder import Event
from zonequake_analysis.schema import PROBE_DEADLINE_NS, Function, Outcome, Role

LOOK_BACK_NS = 5_000_000_000
"""A cause lies at most this long before the window: longer than any election or restart here."""

SILENT_INTERVALS = 3
"""A vantage that misses this many intervals has not been probing."""

_CAUSES = (
    "fault.start",
    "leader.change",
    "rebalance.stage",
    "node.stopping",
    "node.started",
    "replica.broken",
    "replica.stopped",
    "pod.event",
)
"""Kinds of events that can take a partition away, the more telling first."""

_OF_ONE_PARTITION = ("leader.change", "rebalance.stage", "replica.broken", "replica.stopped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vantage:
    """What one vantage probed of one partition and class."""

    zone: str
    partition: int
    function: str  # read or write
    vantage: str
    probes: int
    failed: int
    interval_ns: int  # median
    first_ns: int
    last_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Island:
    """A run of failures, or of silence, of one vantage."""

    zone: str
    partition: int
    function: str
    vantage: str
    silent: bool
    failed: int
    possible: tuple[int, int]
    certain: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """An event that may have brought a window about, `lag_ns` before its first failed probe."""

    kind: str
    what: str
    lag_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailability:
    """One window of one partition and class, over all vantages."""

    zone: str
    partition: int
    function: str
    start_ns: int  # possible bounds
    end_ns: int
    certain_ns: int  # length of the certain part
    failed: int
    vantages: tuple[str, ...]
    total: bool
    causes: tuple[Cause, ...]  # the leading one first; empty: unexplained

    @property
    def possible_ns(self) -> int:
        """Length of the window by its possible bounds."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """All that the probes say."""

    windows: tuple[Unavailability, ...]
    vantages: tuple[Vantage, ...]
    silences: tuple[Island, ...]
    resolution_ns: int  # the longest median interval; 0 without probes


def availability(ops: DataFrame, events: Sequence[Event]) -> Availability:
    """Windows, what was probed, and where no vantage looked."""
    vantages, islands = _collect(ops)
    failures = [island for island in islands if not island.silent]
    return Availability(
        windows=tuple(_merge(failures, vantages, events)),
        vantages=tuple(vantages),
        silences=tuple(island for island in islands if island.silent),
        resolution_ns=max((v.interval_ns for v in vantages), default=0),
    )


def _collect(ops: DataFrame) -> tuple[list[Vantage], list[Island]]:
    """One pass over the probes: per vantage the numbers and the runs of failures and silence."""
    series = ["partition_id", "zone", "partition", "reads", "vantage"]
    by_time = Window.partitionBy(*series).orderBy("sched")
    before = by_time.rowsBetween(Window.unboundedPreceding, -1)
    after = by_time.rowsBetween(1, Window.unboundedFollowing)
    on_time = (F.col("outcome") == Outcome.OK.value) & (
        F.col("fin") - F.col("sched") <= PROBE_DEADLINE_NS
    )
    probes = (
        ops.where(F.col("role") == Role.PROBE.value)
        .select(
            "partition_id",
            "zone",
            "partition",
            (F.col("f") == Function.READ.value).alias("reads"),
            F.coalesce("vantage", F.lit("")).alias("vantage"),
            "sched",
            F.when(on_time, F.col("fin")).alias("answered"),
        )
        .withColumns(
            {
                "island": F.count("answered").over(before),
                "last_success": F.max("answered").over(before),
                "next_success": F.min("answered").over(after),
                "gap": F.lead("sched").over(by_time) - F.col("sched"),
            }
        )
        .withColumn("usual_gap", F.percentile_approx("gap", 0.5).over(Window.partitionBy(*series)))
    )
    silent = F.col("gap") > SILENT_INTERVALS * F.col("usual_gap")
    marked = F.explode(
        F.filter(
            F.array(
                F.struct(F.lit("all").alias("what"), F.lit(0).cast("bigint").alias("number")),
                F.when(
                    F.col("answered").isNull(),
                    F.struct(F.lit("failed").alias("what"), F.col("island").alias("number")),
                ),
                F.when(
                    silent, F.struct(F.lit("silent").alias("what"), F.col("sched").alias("number"))
                ),
            ),
            lambda mark: mark.isNotNull(),
        )
    )
    rows = (
        probes.withColumn("mark", marked)
        .groupBy(*series, F.col("mark.what").alias("what"), F.col("mark.number").alias("number"))
        .agg(
            F.count(F.lit(1)).alias("probes"),
            F.count_if(F.col("answered").isNull()).alias("failed"),
            F.min("sched").alias("first"),
            F.max("sched").alias("last"),
            F.max("last_success").alias("last_success"),
            F.min("next_success").alias("next_success"),
            F.max("usual_gap").alias("usual_gap"),
            F.max("gap").alias("gap"),
        )
        .collect()
    )
    vantages, islands = [], []
    for row in rows:
        place = {
            "zone": row["zone"],
            "partition": row["partition"],
            "function": "read" if row["reads"] else "write",
            "vantage": row["vantage"],
        }
        first, last = row["first"], row["last"]
        if row["what"] == "all":
            vantages.append(
                Vantage(
                    **place,
                    probes=row["probes"],
                    failed=row["failed"],
                    interval_ns=row["usual_gap"] or 0,
                    first_ns=first,
                    last_ns=last,
                )
            )
            continue
        is_silent = row["what"] == "silent"
        known_from = first if is_silent else row["last_success"] or first
        known_to = first + row["gap"] if is_silent else row["next_success"] or last
        islands.append(
            Island(
                **place,
                silent=is_silent,
                failed=row["failed"],
                possible=(min(known_from, first), max(known_to, last)),
                certain=(first, first if is_silent else last),
            )
        )
    return vantages, islands


def _merge(
    failures: Iterable[Island], vantages: Sequence[Vantage], events: Sequence[Event]
) -> list[Unavailability]:
    """Joins the vantages' runs that overlap in their certain parts into windows."""
    by_place: dict[tuple[str, int, str], list[Island]] = defaultdict(list)
    for island in failures:
        by_place[island.zone, island.partition, island.function].append(island)
    watching: dict[tuple[str, int, str], list[Vantage]] = defaultdict(list)
    for vantage in vantages:
        watching[vantage.zone, vantage.partition, vantage.function].append(vantage)
    windows = []
    for place, islands in sorted(by_place.items()):
        islands.sort(key=lambda island: island.possible)
        group: list[Island] = []
        end = 0
        for island in islands:
            if group and island.possible[0] > end:
                windows.append(_window(group, watching[place], events))
                group = []
            group.append(island)
            end = max(end, island.possible[1])
        windows.append(_window(group, watching[place], events))
    return sorted(windows, key=lambda window: window.start_ns)


def _window(
    group: Sequence[Island], watching: Sequence[Vantage], events: Sequence[Event]
) -> Unavailability:
    zone, partition, function = group[0].zone, group[0].partition, group[0].function
    saw = {island.vantage for island in group}
    first_failed = min(island.certain[0] for island in group)
    last_failed = max(island.certain[1] for island in group)
    looked = {
        v.vantage for v in watching if v.first_ns <= last_failed and v.last_ns >= first_failed
    }
    total = looked <= saw
    # What all vantages saw is bounded by the tightest of their successes, certain by any of them.
    start = max(i.possible[0] for i in group) if total else min(i.possible[0] for i in group)
    end = min(i.possible[1] for i in group) if total else max(i.possible[1] for i in group)
    if start >= end:  # the vantages failed one after another
        total = False
        start = min(i.possible[0] for i in group)
        end = max(i.possible[1] for i in group)
    certain = max(island.certain[1] - island.certain[0] for island in group)
    return Unavailability(
        zone=zone,
        partition=partition,
        function=function,
        start_ns=start,
        end_ns=end,
        certain_ns=min(certain, end - start),
        failed=sum(island.failed for island in group),
        vantages=tuple(sorted(saw)),
        total=total,
        causes=tuple(_causes(zone, partition, first_failed, end, events)),
    )


def _causes(
    zone: str, partition: int, first_failed_ns: int, end_ns: int, events: Sequence[Event]
) -> list[Cause]:
    """Events that can explain a window; a fault leads, then the nearest of the most telling kind.

    A fault acts from its start until it has recovered, so one that began long before still counts.
    """
    recovered = {
        event.text("fault"): event.time for event in events if event.kind == "fault.recovered"
    }
    found = []
    for event in events:
        if event.kind not in _CAUSES or event.time > end_ns:
            continue
        if event.kind in _OF_ONE_PARTITION and (event.zone, event.partition) != (zone, partition):
            continue
        lasting = event.kind == "fault.start" and (
            recovered.get(event.text("fault"), event.time) >= first_failed_ns
        )
        if event.time < first_failed_ns - LOOK_BACK_NS and not lasting:
            continue
        lag = first_failed_ns - event.time
        rank = (_CAUSES.index(event.kind), abs(lag))
        found.append((rank, Cause(kind=event.kind, what=describe(event), lag_ns=lag)))
    found.sort(key=lambda pair: pair[0])
    named: dict[str, Cause] = {}
    for _, cause in found:
        named.setdefault(cause.kind, cause)
    return list(named.values())


def describe(event: Event) -> str:
    """An event in a few words."""
    match event.kind.partition(".")[0]:
        case "fault":
            targets = event.data.get("targets")
            on = (
                f" on {', '.join(map(str, targets))}"
                if isinstance(targets, list) and targets
                else ""
            )
            return f"{event.text('fault')} ({event.text('type')}{on})"
        case "leader":
            return f"leader {event.text('leader') or 'none'} in term {event.text('term')}"
        case "rebalance":
            return f"stage {event.text('stage')} of token {event.text('token')}"
        case "pod":
            return f"{event.text('pod') or event.node} {event.text('type')} {event.text('reason')}"
        case _:
            return f"{event.kind} {event.node or ''}".strip()
