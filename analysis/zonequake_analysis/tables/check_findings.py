"""Findings of the checks that need no single operations: replicas, resets, windows, faults. Pure.

Each check that isn't passed has a row at least: where nothing single can be named, its own summary.
Rows of the checks over operations come from Spark (`operation_findings`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from zonequake_analysis.checks.transactions.of_operations import VIOLATIONS
from zonequake_analysis.judgement.evidence import Evidence, missing_records
from zonequake_analysis.judgement.objectives import windows_over
from zonequake_analysis.tables.rows import Row
from zonequake_analysis.tables.unix_time import UnixTime
from zonequake_analysis.verdict import Check, Verdict

FOUND_BY = "judgement"
"""What these rows have as `found_by`: no check over operations."""

SUMMARY = "summary"
"""The kind of a row that is the summary of its check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """A finding; `count`: how many this row stands for."""

    check: str
    kind: str
    text: str
    zone: str | None = None
    partition: int | None = None
    node: str | None = None
    at_ns: int | None = None
    magnitude_ns: int | None = None
    count: int = 1


def check_findings(
    e: Evidence, checks: Sequence[Check], of_operations: Set[str]
) -> list[CheckFinding]:
    """All of them, by check. `of_operations`: the checks that have findings over operations."""
    found = [
        *_lost_groups(e),
        *_replicas(e),
        *_joints(e),
        *_resets(e),
        *_sacrificed(e),
        *_availability_forbidden(e),
        *_rebalances(e),
        *_windows(e),
        *_history(e),
        *_transactions(e),
    ]
    told = {one.check for one in found} | of_operations
    found += [
        CheckFinding(check=check.name, kind=SUMMARY, text=check.summary)
        for check in checks
        if check.verdict is not Verdict.PASSED and check.name not in told
    ]
    return found


def finding_rows(
    found: Iterable[CheckFinding], verdicts: Mapping[str, str], unix: UnixTime
) -> list[Row]:
    """Rows of the table `findings`. `verdicts`: by the name of the check."""
    return [
        {
            "check": one.check,
            "verdict": verdicts.get(one.check),
            "kind": one.kind,
            "found_by": FOUND_BY,
            "zone": one.zone,
            "partition": one.partition,
            "node": one.node,
            "ops": [],
            "at_ns": one.at_ns,
            "at_ms": unix.ms(one.at_ns),
            "magnitude_ns": one.magnitude_ns,
            "count": one.count,
            "text": one.text,
        }
        for one in found
    ]


def _replicas(e: Evidence) -> Iterator[CheckFinding]:
    """Yields what the checks `diverged` and `replicas` count."""
    apart = {one.where for one in e.audit.disagreements if one.diverged}
    for one in e.audit.disagreements:
        if one.diverged or one.where not in apart:
            yield CheckFinding(
                check="diverged" if one.diverged else "replicas",
                kind=one.kind,
                zone=one.zone,
                partition=one.partition,
                text=one.what,
            )


def _lost_groups(e: Evidence) -> Iterator[CheckFinding]:
    for group in e.lost_groups:
        yield CheckFinding(
            check="lost-groups",
            kind="lost-group",
            zone=group.zone,
            partition=group.partition,
            at_ns=group.at_ns,
            count=group.acknowledged,
            text=group.in_words,
        )


def _joints(e: Evidence) -> Iterator[CheckFinding]:
    for one in e.early_joints:
        yield CheckFinding(
            check="joint-after-caught-up",
            kind="early-joint",
            zone=one.zone,
            partition=one.partition,
            at_ns=one.at_ns,
            text=f"token {one.token}: {one.why}",
        )


def _resets(e: Evidence) -> Iterator[CheckFinding]:
    wanted = e.description.expectations.resets
    for reset in e.resets:
        told = {"against-the-rules": reset.unnamed}
        if wanted is not None and len(e.resets) > wanted:
            told["unexpected"] = f"{len(e.resets)} resets, where {wanted} were expected"
        for kind, text in told.items():
            if text:
                yield CheckFinding(
                    check="resets",
                    kind=kind,
                    zone=reset.zone,
                    partition=reset.partition,
                    node=reset.survivor,
                    at_ns=reset.at_ns,
                    text=f"lineage {reset.lineage}: {text}",
                )
    for cut in e.cuts:
        for lineage in cut.unrecorded:
            yield CheckFinding(
                check="resets",
                kind="unrecorded",
                zone=cut.zone,
                partition=cut.partition,
                text=f"lineage {lineage}: no data node recorded how it began",
            )


def _sacrificed(e: Evidence) -> Iterator[CheckFinding]:
    """Legal losses, too: the column `verdict` tells them apart."""
    begun = {(r.zone, r.partition, r.lineage): r for r in e.resets}
    for cut in e.cuts:
        for lineage, count in sorted(cut.sacrificed.items()):
            reset = begun.get((cut.zone, cut.partition, lineage))
            yield CheckFinding(
                check="sacrificed-writes",
                kind="sacrificed",
                zone=cut.zone,
                partition=cut.partition,
                node=None if reset is None else reset.survivor,
                at_ns=None if reset is None else reset.at_ns,
                count=count,
                text=f"lineage {lineage} cut off {count} acknowledged writes",
            )


def _availability_forbidden(e: Evidence) -> Iterator[CheckFinding]:
    for one in e.unfounded:
        yield CheckFinding(
            check="forbidden-availability",
            kind="without-majority",
            zone=one.zone,
            partition=one.partition,
            count=one.count,
            text=f"answers while no majority lived, for instance {'; '.join(one.examples)}",
        )
    for cut in e.cuts:
        if cut.beside:
            yield CheckFinding(
                check="forbidden-availability",
                kind="older-lineage",
                zone=cut.zone,
                partition=cut.partition,
                count=cut.beside,
                text="answers of an older lineage after a newer one led, for instance "
                + "; ".join(cut.examples),
            )


def _rebalances(e: Evidence) -> Iterator[CheckFinding]:
    for one in e.rebalances:
        if one.ended_ns is None:
            stage = max(one.stage_ns, key=lambda name: one.stage_ns[name], default="none")
            yield CheckFinding(
                check="rebalances-end",
                kind="not-ended",
                zone=one.zone,
                partition=one.partition,
                at_ns=min(one.stage_ns.values(), default=None),
                text=f"token {one.token}: has not ended; last new stage {stage}",
            )


def _windows(e: Evidence) -> Iterator[CheckFinding]:
    for window in windows_over(e):
        cause = window.told_cause or "unexplained"
        yield CheckFinding(
            check="availability",
            kind="too-long",
            zone=window.zone,
            partition=window.partition,
            at_ns=window.start_ns,
            magnitude_ns=window.certain_ns,
            text=f"{window.function}: {window.certain_ns / 1e6:,.0f} ms for certain; {cause}",
        )


def _transactions(e: Evidence) -> Iterator[CheckFinding]:
    """Yields the examples of each kind; the first of a kind counts those without a row, too."""
    if e.transactions is None:
        return
    examples = [one for one in e.transactions.examples if one.kind in VIOLATIONS]
    shown = Counter(one.kind for one in examples)
    first = set[str]()
    for one in examples:
        more = 0 if one.kind in first else e.transactions.counts[one.kind] - shown[one.kind]
        first.add(one.kind)
        yield CheckFinding(
            check="transactions",
            kind=one.kind,
            zone=one.zone,
            partition=one.partition,
            at_ns=one.at_ns,
            count=1 + more,
            text=one.text,
        )


def _history(e: Evidence) -> Iterator[CheckFinding]:
    told = {
        "fault": e.quality.told_faults,
        "event": e.bad_events,
        "incomplete-file": [
            f"{file}: missing, or shorter than when the run ended"
            for file in missing_records(e.incomplete)
        ],
        "unread-file": [
            f"{file}: not read; expected `*.jsonl`, directly in `history`"
            for file in e.unread_histories
        ],
    }
    for kind, texts in told.items():
        for text in texts:
            yield CheckFinding(check="history", kind=kind, text=text)
