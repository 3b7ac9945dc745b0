"""The run in numbers and in one sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from zonequake_analysis.judgement.evidence import Evidence
from zonequake_analysis.judgement.judge import Judgement
from zonequake_analysis.judgement.sufficiency import LOAD
from zonequake_analysis.judgement.verdict_json import MOST_TOLD
from zonequake_analysis.measures.availability.windows import Unavailability
from zonequake_analysis.measures.rebalances import FaultLanding
from zonequake_analysis.text.first_few import first_few
from zonequake_analysis.verdict import Verdict

RESET_COLUMNS = (
    "reset",
    "survivor",
    "unwound to",
    "pending written after the loss",
    "leads",
    "first write",
    "first write after the last return",
)
"""Times count from the last proven death of the majority, or from the last node's return."""

MOST_SAID = 200
"""Characters of a check's summary in a short headline; the table of checks has all of it."""


def numbers(judgement: Judgement) -> dict[str, float | int | None]:
    """Returns the numbers of `verdict.json`; None if nothing was measured."""
    e, drawn = judgement.evidence, judgement.timeline
    windows = e.availability.windows
    probed = bool(e.availability.vantages or windows)

    def ms(ns: float) -> float | None:
        return None if math.isnan(ns) else round(ns / 1e6, 3)

    def longest_ms(each_ns: Iterable[int]) -> float | None:
        return ms(max(each_ns, default=0)) if probed else None

    return {
        "operations": drawn.total(),
        "ok": drawn.total(outcome="ok"),
        "fail": drawn.total(outcome="fail"),
        "info": drawn.total(outcome="info"),
        "acknowledged_writes": e.acknowledged,
        "uncovered_writes": e.uncovered,
        "duration_s": round((judgement.ingested.end_ns - judgement.ingested.start_ns) / 1e9, 3),
        "partitions": len(drawn.partitions),
        "windows": len(windows) if probed else None,
        "windows_unexplained": _unexplained(windows) if probed else None,
        "longest_window_certain_ms": longest_ms(w.certain_ns for w in windows),
        "longest_window_possible_ms": longest_ms(w.possible_ns for w in windows),
        "longest_window_hidden_ms": ms(e.availability.hidden_ns) if probed else None,
        "probe_resolution_ms": ms(e.availability.resolution_ns) if probed else None,
        "p99_before_ms": ms(e.p99.before_ns),
        "p99_control_ms": ms(e.p99.control_ns),
        "p99_during_ms": ms(e.p99.during_ns),
        "load_asked_per_s": e.load.asked_per_s if e.load else None,
        "load_delivered_per_s": round(e.load.delivered_per_s, 1) if e.load else None,
        "rebalances": len(e.rebalances),
        "faults": sum(fault.times for fault in e.faults),
        "analysis_s": round(sum(judgement.steps_s.values()), 1),
    }


def _unexplained(windows: Sequence[Unavailability]) -> int | None:
    """Returns how many windows have no cause; None if causes aren't known."""
    if any(window.causes is None for window in windows):
        return None
    return sum(not window.causes for window in windows)


def headline(judgement: Judgement, *, short: bool = False) -> str:
    """Returns the verdict in one sentence: the worst check, or what was shown.

    A load that was not there has a sentence of its own: then the run tested little. `short`: of
    each check its first sentence, cut to MOST_SAID characters.
    """
    e = judgement.evidence
    if judgement.verdict is Verdict.PASSED:
        # One without a proven effect, which a run may allow, was nothing to stand.
        stood = [
            replace(fault, times=max(1, fault.effective))
            for fault in e.faults
            if fault.effective_ns is not None
        ]
        faults = f" through {faults_in_words(stood)}" if stood else ""
        return f"{_passed(judgement)}{faults}."
    idle = [c for c in judgement.checks if c.name == LOAD and c.verdict is not Verdict.PASSED]
    worst = [c for c in judgement.checks if c.verdict is judgement.verdict and c not in idle]
    said = _short if short else str
    found = [first_few([said(check.summary) for check in worst], MOST_TOLD)] if worst else []
    found += [check.summary[0].upper() + check.summary[1:] for check in idle]
    return " ".join(text if text.endswith("…") else f"{text}." for text in found)


def _passed(judgement: Judgement) -> str:
    """Returns what a run that passed has shown; what it was allowed to lose is no part of that."""
    judged = {check.name: check for check in judgement.checks if check.judged}
    if not judged.keys() >= {"lost-writes", "stale-reads"}:
        return "Every key is linearizable"
    lost = sum(judged[name].violations for name in ("lost-writes", "lost-groups") if name in judged)
    stale = judged["stale-reads"].violations
    if lost or stale:
        return (
            f"{lost:,} acknowledged writes were lost and {stale:,} reads were stale, which the run "
            "allows; every key is linearizable"
        )
    return (
        f"No acknowledged write of {judged['lost-writes'].checked:,} was lost, no read was stale, "
        "and every key is linearizable"
    )


def _short(summary: str) -> str:
    """Returns its first sentence, or what fits into MOST_SAID: a history may have many faults."""
    end = summary.find(". ")
    first = summary if end < 0 else summary[:end]
    if len(first) > MOST_SAID:
        first = first[:MOST_SAID].rsplit(" ", 1)[0].rstrip(" ,;:")
    return first if first == summary else f"{first} …"


def faults_in_words(faults: Sequence[FaultLanding]) -> str:
    """Returns `kill`, or `19 faults: grow, kill (18 times)` if any fault was repeated."""
    names = ", ".join(
        f"{fault.name} ({fault.times} times)" if fault.times > 1 else fault.name for fault in faults
    )
    count = sum(fault.times for fault in faults)
    return f"{count} faults: {names}" if count > len(faults) else names


def reset_rows(e: Evidence) -> list[tuple[str, ...]]:
    """Returns how long each reset took, as far as it is known: a row for `RESET_COLUMNS`."""
    first_writes = {(cut.zone, cut.partition): cut.first_write_ns for cut in e.cuts}

    def since(begin_ns: int | None, end_ns: int | None) -> str:
        if begin_ns is None or end_ns is None:
            return "–"
        return f"{(end_ns - begin_ns) / 1e9:.2f} s"

    rows: list[tuple[str, ...]] = []
    for reset in e.resets:
        writes = first_writes.get((reset.zone, reset.partition), {})
        first_write_ns = writes.get(reset.lineage)
        rows.append(
            (
                f"{reset.zone}/{reset.partition}, lineage {reset.lineage}",
                reset.survivor,
                "by hand" if reset.by_hand else ", ".join(reset.unwound_to) or "–",
                since(reset.lost_ns, reset.written_ns),
                since(reset.lost_ns, reset.at_ns),
                since(reset.lost_ns, first_write_ns),
                since(reset.returned_ns, first_write_ns),
            )
        )
    return rows
