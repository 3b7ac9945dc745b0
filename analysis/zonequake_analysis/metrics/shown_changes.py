"""The rows of `metric_changes` that the report shows: the strongest, and the nodes' own load. Pure.

Each task chooses from its own rows, and the driver from what they chose: no row that is not among
the strongest of its task is among the strongest of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from zonequake_analysis.metrics.tasks.compared import Change
from zonequake_analysis.metrics.tasks.curve import Curve

MIN_SCORE = 3.0
"""A series is shown if it moved by at least so many scales: less may be noise."""

MOST_SHOWN = 10
MOST_OF_A_FAMILY = 2
_MOST_SATURATED = 7000

SATURATION = {
    ("zonequake_store_request_seconds", "p50"): "p50 of requests in the node",
    ("zonequake_store_request_seconds", "p99"): "p99 of requests in the node",
    ("zonequake_store_requests_waiting", "level"): "requests waiting",
    ("zonequake_store_commit_seconds", "p99"): "p99 of commits (fsync)",
    ("zonequake_store_commit_under_way_seconds", "level"): "longest commit under way",
    ("zonequake_store_loop_lag_seconds", "level"): "lag of the loop",
    ("zonequake_store_cpu_seconds_total", "rate"): "CPU",
    ("zonequake_store_appends_dropped_total", "rate"): "messages dropped for want of a connection",
    ("zonequake_store_client_requests_total", "rate"): "requests",
}
"""Metrics of a data node's own load, in the order in which they are shown."""


class ShownChanges(msgspec.Struct, frozen=True, kw_only=True):
    """`strongest`: by span, the strongest first; `saturated`: by span, metric and target."""

    strongest: list[Change] = []
    saturated: list[Change] = []


def shown_of(rows: Sequence[Change], curve_of: Callable[[Change], Curve]) -> ShownChanges:
    """Returns the rows to show of these, the strongest with their curves."""
    drawn = [msgspec.structs.replace(row, curve=curve_of(row)) for row in strongest(rows)]
    return ShownChanges(strongest=drawn, saturated=saturated(rows))


def merged(parts: Sequence[ShownChanges]) -> ShownChanges:
    """Returns the rows to show of what tasks chose."""
    return ShownChanges(
        strongest=strongest([row for part in parts for row in part.strongest]),
        saturated=saturated([row for part in parts for row in part.saturated]),
    )


def strongest(rows: Iterable[Change]) -> list[Change]:
    """Returns the rows that moved most in each span; few of a family, so that one cause doesn't
    fill the list.
    """
    moved = [row for row in rows if row.during is not None and not (row.score or 0) < MIN_SCORE]
    moved.sort(key=_by_score)
    of_family: Counter[tuple[int, str]] = Counter()
    of_span: Counter[int] = Counter()
    found = []
    for row in moved:
        of_family[row.span, row.family] += 1
        if of_family[row.span, row.family] <= MOST_OF_A_FAMILY:
            of_span[row.span] += 1
            if of_span[row.span] <= MOST_SHOWN:
                found.append(row)
    return found


def saturated(rows: Iterable[Change]) -> list[Change]:
    """Returns the data nodes' metrics of their own load, in every span."""
    found = [row for row in rows if (row.metric, row.measure) in SATURATION]
    found = [row for row in found if row.during is not None]
    found.sort(key=lambda row: (row.span, row.metric, row.target, msgspec.json.encode(row.labels)))
    return found[:_MOST_SATURATED]


def _by_score(row: Change) -> tuple[int, bool, float, str, str, str, bytes]:
    score = row.score or 0.0
    labels = msgspec.json.encode(row.labels)
    return (row.span, score == score, -score, row.metric, row.measure, row.target, labels)
