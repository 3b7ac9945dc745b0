"""The whole job: reads a run folder and returns everything that is known about it.

ingest, screens, windows and numbers (one pass) → exact checks of the suspects, if there are any
    → names and witnesses for what was found → verdict
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession

from zonequake_analysis.checks.counted_findings import (
    CountedFindings,
    KeysByChecks,
    counted_findings,
)
from zonequake_analysis.checks.exact_checks import FEW_LINES, among_suspects, kept
from zonequake_analysis.checks.repeated_values import (
    VALUE_TWICE,
    BySearch,
    by_search,
    searched,
    settled,
)
from zonequake_analysis.inputs.completeness import RecordedRun
from zonequake_analysis.inputs.ids import name_id
from zonequake_analysis.inputs.lineages import read_lineages
from zonequake_analysis.inputs.prometheus.live_server import LiveServer
from zonequake_analysis.inputs.run_folder import (
    RecordedEvent,
    RunDescription,
    read_dumps,
    read_events,
)
from zonequake_analysis.judgement.evidence import (
    Evidence,
    OperationFindings,
    WithoutOrder,
    missing_histories,
)
from zonequake_analysis.judgement.latency import P99s
from zonequake_analysis.judgement.metric_checks import metric_checks
from zonequake_analysis.judgement.objectives import objective_checks
from zonequake_analysis.judgement.reset_checks import reset_checks
from zonequake_analysis.judgement.safety import safety_checks
from zonequake_analysis.judgement.sufficiency import sufficiency_checks
from zonequake_analysis.judgement.writes_at_two_places import counted, meaning
from zonequake_analysis.measures.answered_writes import answered_writes
from zonequake_analysis.measures.availability.windows import availability
from zonequake_analysis.measures.hidden_writes import LOST, count_hidden, lost_writes
from zonequake_analysis.measures.load_rate import load_rate
from zonequake_analysis.measures.lost_groups import leaderless, lost_groups, with_writes
from zonequake_analysis.measures.majorities import known_groups, without_majority
from zonequake_analysis.measures.rebalances import early_joints, fault_landings, rebalances
from zonequake_analysis.measures.replica_audit import audit
from zonequake_analysis.measures.resets import journalled, resets
from zonequake_analysis.measures.timeline import Timeline, all_of, timeline
from zonequake_analysis.metrics.live_samples import read_live, time_of_run
from zonequake_analysis.metrics.metric_facts import metric_facts
from zonequake_analysis.post_mortem.over_time import FindingsOverTime, findings_over_time
from zonequake_analysis.post_mortem.witnessed_findings import WitnessedFinding, witnesses
from zonequake_analysis.spark_pass.bucket import Known
from zonequake_analysis.spark_pass.ingest import Ingested, ingest
from zonequake_analysis.spark_pass.placement import Placement, placement_of
from zonequake_analysis.spark_pass.transactions import transaction_findings
from zonequake_analysis.storage.location import Location
from zonequake_analysis.tables.write import OfOperations, write_tables_of_verdict
from zonequake_analysis.verdict import Check, Verdict, most_severe_first, worst

_T = TypeVar("_T")

_UNPROVEN = ("phantom",)
"""Kinds of findings that leave a key unproven if lines of unknown keys or whole files are missing:
a value that no line writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The judgement of one run: verdict, checks, their evidence, and what else a report shows."""

    description: RunDescription
    verdict: Verdict
    checks: Sequence[Check]
    evidence: Evidence
    ingested: Ingested
    events: Sequence[RecordedEvent]
    timeline: Timeline
    shown: Sequence[WitnessedFinding]
    over_time: FindingsOverTime
    steps_s: dict[str, float]
    placement: Placement | None


def judge_run(
    spark: SparkSession,
    run: Path | Location | RecordedRun,
    *,
    progress: Callable[[str], None] = lambda _: None,
    prometheus: LiveServer | None = None,
) -> Judgement:
    """Judges the run folder `run`; writes its `tables/`, and `metrics/` if it has none and
    `prometheus` is to give them. Raises RunFolderError, PrometheusError.
    """
    with ExitStack() as at_end:
        return _judged(spark, RecordedRun.of(run), progress, prometheus, at_end)


def _judged(
    spark: SparkSession,
    record: RecordedRun,
    progress: Callable[[str], None],
    prometheus: LiveServer | None,
    at_end: ExitStack,
) -> Judgement:
    steps: dict[str, float] = {}
    began = time.monotonic()

    def done(step: str) -> None:
        nonlocal began
        now = time.monotonic()
        steps[step] = now - began
        progress(f"{step}: {now - began:.1f} s")
        began = now

    run, description = record.location, record.description
    events, bad_events = read_events(run)
    dumps = read_dumps(run)
    lineages, lost = read_lineages(events), without_majority(events)
    groups = lost_groups(events, description.volatile_zones)
    ingested = ingest(
        spark,
        record,
        clock_offset_ns=description.clock_offset_ns,
        dumps=bool(dumps),
        known=Known(
            lineages=_by_id(lineages),
            without_majority=_by_id(lost),
            one_clock=of_one_clock(events),
            lost_groups=frozenset(_by_id(groups)),
        ),
    )
    buckets = ingested.buckets
    one_clock = of_one_clock(events, ingested.quality.clocks)
    done("ingest")
    if ingested.unused:
        progress(ingested.unused)
    if prometheus is not None:
        time_ = time_of_run(
            start_ns=ingested.start_ns,
            end_ns=ingested.end_ns,
            wall_offset_ns=ingested.wall_offset_ns,
            clocks=ingested.quality.clocks,
            events=events,
        )
        read_live(spark, run, prometheus, time_, check=progress)
        done("prometheus")
    suspects = [bucket.suspects for bucket in buckets]
    among = None
    if ingested.suspected:
        among = among_suspects(
            ingested.ops,
            suspects,
            unplaced=ingested.quality.unplaced,
            folder=run.resolve() / "tables" / "ops",
        )
    incomplete = record.incomplete
    unread = record.histories.unread
    gaps = ingested.quality.keyless_lines or missing_histories(incomplete) or unread
    unproven = _UNPROVEN if gaps else ()
    counts, repeated = CountedFindings(), BySearch()
    missing, lost_on_replica = None, 0
    if among is not None:
        few = ingested.quality.lines <= FEW_LINES
        among = replace(among, found=kept(among.found, at_end, few=few))
        counts = counted_findings(among.found, unproven)
        if counts.totals.get(VALUE_TWICE):
            answers = searched(among.ops, among.found)
            at_end.callback(answers.persist().unpersist)
            repeated = by_search(answers)
            among = replace(among, found=kept(settled(among.found, answers), at_end, few=few))
            counts = counted_findings(among.found, unproven)
        if counts.totals.get(LOST):
            missing = lost_writes(among.ops, among.found)
            if dumps:  # then it is needed twice
                at_end.callback(missing.persist().unpersist)
            lost_on_replica = count_hidden(among.ops, missing, dumps)
    drawn = timeline(
        (bucket.tally for bucket in buckets), start_ns=ingested.start_ns, end_ns=ingested.end_ns
    )
    done("checks")
    compared = audit([one for bucket in buckets for one in bucket.held], events, dumps)
    of_two_places = meaning(counts.totals, compared)
    operations = (run.resolve() / "tables" / "ops").all_below(".parquet")
    of_transactions = None
    if any(bucket.transactions for bucket in buckets):
        of_transactions = transaction_findings(spark, operations)
    shown = witnesses(spark, operations, counts.first, of_two_places=of_two_places)
    done("witnesses")
    faults = fault_landings(events)
    evidence = Evidence(
        description=description,
        quality=ingested.quality,
        bad_events=bad_events,
        found=OperationFindings(
            counts=counted(counts.totals, compared),
            without_order=_without_order(counts.keys),
            lost_on_replica=lost_on_replica,
            by_search=repeated,
        ),
        counts=drawn.counts,
        steps=drawn.steps,
        acknowledged=sum(bucket.acknowledged for bucket in buckets),
        uncovered=sum(bucket.uncovered for bucket in buckets),
        compared_writes=sum(bucket.compared_writes for bucket in buckets),
        compared_reads=sum(bucket.compared_reads for bucket in buckets),
        placed=sum(bucket.placed for bucket in buckets),
        availability=availability(
            [vantage for bucket in buckets for vantage in bucket.vantages],
            [island for bucket in buckets for island in bucket.islands],
            events,
            partitions=[(row.zone, row.partition) for row in drawn.partitions],
            one_clock=one_clock,
        ),
        rebalances=rebalances(events),
        early_joints=early_joints(events),
        faults=faults,
        audit=compared,
        journalled=journalled(events),
        known_groups=known_groups(events),
        resets=resets(lineages, events, lost),
        cuts=[one for bucket in buckets for one in bucket.cuts],
        unfounded=[one for bucket in buckets for one in bucket.unfounded],
        one_clock=one_clock,
        p99=_p99s(drawn, events) if one_clock else P99s(),
        writes=answered_writes(drawn, events, wall_offset_ns=ingested.wall_offset_ns),
        load=load_rate(
            description.load_per_s,
            drawn,
            events,
            is_ceiling=description.load_is_closed,
        ),
        incomplete=incomplete,
        unread_histories=unread,
        lost_groups=with_writes(groups, (one for b in buckets for one in b.of_lost_groups)),
        leaderless=leaderless(events),
        transactions=of_transactions,
    )
    facts = metric_facts(
        spark,
        run,
        faults=evidence.faults,
        windows=evidence.availability.windows,
        events=events,
        start_ns=ingested.start_ns,
        end_ns=ingested.end_ns,
        wall_offset_ns=ingested.wall_offset_ns,
        declared=description.server_metrics,
    )
    done("metrics")
    evidence = replace(evidence, metrics=facts)
    checks = judge(evidence)
    written = write_tables_of_verdict(
        spark,
        run,
        evidence,
        checks,
        events,
        OfOperations(
            among=among,
            lost=missing,
            all_named=counts.all_named,
            of_two_places=of_two_places,
            dumps=dumps,
        ),
        wall_offset_ns=ingested.wall_offset_ns,
    )
    if written.of_operations is not None:
        at_end.callback(written.of_operations.unpersist)
    done("tables")
    over_time = findings_over_time(
        spark,
        of_operations=written.of_operations,
        of_checks=written.of_checks,
        operations=operations,
        checks=checks,
        start_ns=drawn.start_ns,
        end_ns=drawn.end_ns,
        kinds=len(evidence.found.counts),
        partitions=len(drawn.partitions),
    )
    done("post-mortem")
    return Judgement(
        description=description,
        verdict=worst(check.verdict for check in checks),
        checks=checks,
        evidence=evidence,
        ingested=ingested,
        events=events,
        timeline=drawn,
        shown=shown,
        over_time=over_time,
        steps_s=steps,
        placement=placement_of(spark),
    )


def of_one_clock(events: Sequence[RecordedEvent], of_operations: Sequence[str] = ()) -> bool:
    """Returns whether all times are of one clock; `of_operations`: the clocks of the history."""
    return len({event.clock for event in events if event.clock}.union(of_operations)) <= 1


def _by_id(places: Mapping[tuple[str, int], _T]) -> dict[int, _T]:
    """Returns the values by the id that the layout gives each zone and partition."""
    return {name_id(zone, str(number)): found for (zone, number), found in places.items()}


def judge(evidence: Evidence) -> list[Check]:
    """Returns every check of a run, the most severe first; of one verdict, safety first."""
    return most_severe_first(
        [
            *safety_checks(evidence),
            *reset_checks(evidence),
            *sufficiency_checks(evidence),
            *objective_checks(evidence),
            *metric_checks(evidence),
        ]
    )


def _without_order(keys: KeysByChecks) -> WithoutOrder:
    return WithoutOrder(
        by_both=keys.get((True, True), 0),
        by_claim_only=keys.get((True, False), 0),
        by_black_box_only=keys.get((False, True), 0),
    )


def _p99s(drawn: Timeline, events: Sequence[RecordedEvent]) -> P99s:
    """Returns p99 of the load by phase, as the runner recorded when each began."""
    phases = {event.text("phase"): event.time for event in events if event.kind == "run.phase"}
    if not {"before", "faults"} <= phases.keys() or not drawn.latencies:
        return P99s()
    load = all_of(drawn.latencies.values())

    def between(begin: str, end: str) -> float:
        last = drawn.slice_of(phases.get(end, drawn.end_ns))
        return load.percentile_ns(0.99, drawn.slice_of(phases[begin]), last)

    if "control" not in phases:
        return P99s(before_ns=between("before", "faults"), during_ns=between("faults", "quiet"))
    return P99s(
        before_ns=between("before", "control"),
        control_ns=between("control", "faults"),
        during_ns=between("faults", "quiet"),
    )
