"""The rows of the small tables, from what the judgement knows already. Pure.

Each function returns rows for one table of `schemas`, by the names of its columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.measures.availability.windows import Availability, Unavailability
from zonequake_analysis.measures.rebalances import FaultLanding, Rebalance
from zonequake_analysis.metrics.spans import Spans, begun_faults, longest_first
from zonequake_analysis.tables.unix_time import UnixTime

Row = dict[str, object]

_MOST = 2**63 - 1


def window_rows(
    windows: Sequence[Unavailability], spans: Spans | None, unix: UnixTime
) -> list[Row]:
    """Lists the windows by their start; `span` is the one of `metric_changes`."""
    own = zip(longest_first(windows), _numbers(spans, kind="window"), strict=False)
    numbers = {id(window): number for window, number in own}
    rows = []
    for number, window in enumerate(sorted(windows, key=lambda w: (w.start_ns, w.end_ns)), 1):
        cause = window.causes[0] if window.causes else None
        rows.append(
            {
                "number": number,
                "zone": window.zone,
                "partition": window.partition,
                "function": window.function,
                "start_ns": window.start_ns,
                "end_ns": window.end_ns,
                "start_ms": unix.ms(window.start_ns),
                "end_ms": unix.ms(window.end_ns),
                "certain_ns": window.certain_ns,
                "possible_ns": window.possible_ns,
                "proven_ns": window.proven_ns,
                "failed": window.failed,
                "vantages": list(window.vantages),
                "total": window.total,
                "by_reset": window.by_reset,
                "cause_kind": None if cause is None else cause.kind,
                "cause": None if cause is None else cause.what,
                "cause_lag_ns": None if cause is None else cause.lag_ns,
                "span": numbers.get(id(window)),
            }
        )
    return rows


def fault_rows(faults: Sequence[FaultLanding], spans: Spans | None, unix: UnixTime) -> list[Row]:
    """Lists the faults by their first event; `spans` are those of their repetitions in
    `metric_changes`.
    """
    numbers: dict[str, list[int]] = defaultdict(list)
    for begun, number in zip(begun_faults(faults), _numbers(spans, kind="fault"), strict=False):
        numbers[begun.fault.name].append(number)
    return [
        {
            "name": fault.name,
            "type": fault.type,
            "targets": list(fault.targets),
            "times": fault.times,
            "effective": fault.effective,
            "hit": fault.hit,
            "missed": fault.missed or None,
            "asked": fault.asked or None,
            "landed": fault.landed or None,
            "progress": fault.progress,
            "partition": _within(fault.partition, 2**31 - 1),
            "start_ns": fault.start_ns,
            "effective_ns": fault.effective_ns,
            "stop_ns": fault.stop_ns,
            "recovered_ns": fault.recovered_ns,
            "end_ns": fault.over_ns,
            "start_ms": unix.ms(fault.start_ns),
            "end_ms": unix.ms(fault.over_ns),
            "span": next(iter(numbers[fault.name]), None),
            "spans": numbers[fault.name],
        }
        for fault in faults
    ]


def _numbers(spans: Spans | None, *, kind: str) -> list[int]:
    """Returns the numbers of these spans, which are in the order of what they are made of."""
    return [] if spans is None else [span.number for span in spans.spans if span.kind == kind]


def rebalance_rows(rebalances: Iterable[Rebalance], unix: UnixTime) -> list[Row]:
    """Lists the rebalances by their first stage."""
    rows = []
    for one in rebalances:
        start_ns = min(one.stage_ns.values(), default=None)
        is_whole = start_ns is not None and one.ended_ns is not None
        rows.append(
            {
                "zone": one.zone,
                "partition": one.partition,
                "token": _within(one.token, _MOST),
                "peers": list(one.peers),
                "adding": list(one.adding),
                "attempts": one.attempts,
                "fell_back": list(one.fell_back),
                "catching_up_ns": one.stage_ns.get("CATCHING_UP"),
                "caught_up_ns": one.stage_ns.get("CAUGHT_UP"),
                "joint_ns": one.stage_ns.get("JOINT"),
                "stable_ns": one.stage_ns.get("STABLE"),
                "start_ns": start_ns,
                "end_ns": one.ended_ns,
                "duration_ns": (one.ended_ns or 0) - (start_ns or 0) if is_whole else None,
                "ended_by": one.ended_by or None,
                "start_ms": unix.ms(start_ns),
                "end_ms": unix.ms(one.ended_ns),
            }
        )
    return rows


def event_rows(events: Iterable[RecordedEvent], unix: UnixTime) -> list[Row]:
    """Lists the events as they were recorded; `data` is JSON."""
    return [
        {
            "kind": event.kind,
            "at_ns": event.time,
            "at_ms": unix.ms(event.time),
            "source": event.source or None,
            "clock": event.clock or None,
            "zone": event.zone,
            "partition": event.partition,
            "node": event.node,
            "data": msgspec.json.encode(event.data).decode(),
        }
        for event in events
    ]


def probe_rows(availability: Availability, unix: UnixTime) -> list[Row]:
    """Lists the vantages by partition and class: what each sent, and how often it was silent."""
    silent_ns: dict[tuple[str, int, str, str], list[int]] = defaultdict(list)
    for one in availability.silences:
        begin_ns, end_ns = one.possible
        series = (one.zone, one.partition, one.function, one.vantage)
        silent_ns[series].append(end_ns - begin_ns)
    rows: list[Row] = []
    for vantage in availability.vantages:
        series = (vantage.zone, vantage.partition, vantage.function, vantage.vantage)
        rows.append(
            {
                "zone": vantage.zone,
                "partition": vantage.partition,
                "function": vantage.function,
                "vantage": vantage.vantage,
                "probes": vantage.probes,
                "failed": vantage.failed,
                "interval_ns": vantage.interval_ns,
                "first_ns": vantage.first_ns,
                "last_ns": vantage.last_ns,
                "first_ms": unix.ms(vantage.first_ns),
                "last_ms": unix.ms(vantage.last_ns),
                "silences": len(silent_ns[series]),
                "longest_silence_ns": max(silent_ns[series], default=0),
            }
        )
    return sorted(rows, key=lambda row: [str(row[name]) for name in ("zone", "function")])


def _within(number: int | None, most: int) -> int | None:
    """None in place of a number that the column can't hold."""
    return number if number is not None and abs(number) <= most else None
