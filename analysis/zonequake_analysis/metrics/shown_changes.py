"""The rows of `metric_changes` that the report shows: the strongest, and the nodes' own load. Pure.

Each task chooses from its own rows, and the driver from what they chose: no row that is not among
the strongest of its task is among the strongest of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from zonequake_analysis.inputs.prometheus.server_metrics import OF_STORE, ServerMetric, of_system
from zonequake_analysis.metrics.tasks.compared import Change
from zonequake_analysis.metrics.tasks.curve import Curve

MIN_SCORE = 3.0
"""A series is shown if it moved by at least so many scales: less may be noise."""

MOST_SHOWN = 10
MOST_OF_A_FAMILY = 2
_MOST_SATURATED = 7000


class ShownChanges(msgspec.Struct, frozen=True, kw_only=True):
    """`strongest`: by span, the strongest first; `saturated`: by span, metric and target."""

    strongest: list[Change] = []
    saturated: list[Change] = []


def shown_of(
    rows: Sequence[Change],
    curve_of: Callable[[Change], Curve],
    declared: Sequence[ServerMetric] = OF_STORE,
) -> ShownChanges:
    """Returns the rows to show of these, the strongest with their curves."""
    drawn = [msgspec.structs.replace(row, curve=curve_of(row)) for row in strongest(rows)]
    return ShownChanges(strongest=drawn, saturated=saturated(rows, declared))


def merged(parts: Sequence[ShownChanges]) -> ShownChanges:
    """Returns the rows to show of what tasks chose."""
    return ShownChanges(
        strongest=strongest([row for part in parts for row in part.strongest]),
        saturated=_in_order([row for part in parts for row in part.saturated]),
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


def saturated(rows: Iterable[Change], declared: Sequence[ServerMetric]) -> list[Change]:
    """Returns the members' metrics of their own load, in every span."""
    wanted = {(one.metric, one.measure) for one in declared}
    found = [row for row in rows if (row.metric, row.measure) in wanted and of_system(row.labels)]
    return _in_order([row for row in found if row.during is not None])


def _in_order(found: list[Change]) -> list[Change]:
    found.sort(key=lambda row: (row.span, row.metric, row.target, msgspec.json.encode(row.labels)))
    return found[:_MOST_SATURATED]


def _by_score(row: Change) -> tuple[int, bool, float, str, str, str, bytes]:
    score = row.score or 0.0
    labels = msgspec.json.encode(row.labels)
    return (row.span, score == score, -score, row.metric, row.measure, row.target, labels)
