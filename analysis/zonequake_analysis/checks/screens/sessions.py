"""Exact check of sessions over arrays: what `loss.sessions` finds in SQL, and its screen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zonequake_analysis.checks.screens.columns import Bools, Columns, Ints
from zonequake_analysis.checks.screens.segments import NOTHING, heads, marked, running
from zonequake_analysis.inputs.shapes import OutcomeCode


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneBack:
    """Rows whose place is before one that their process had reached, and those places."""

    rows: Ints
    reached: Ints


def gone_back(*, partition: Ints, process: Ints, inv: Ints, position: Ints) -> GoneBack:
    """Returns the operations whose place is before one that their own process had reached.

    The arrays have one element to an operation that was answered with a place, in any order; all
    operations of a partition are among them. `inv` in ns. Two operations of a process that begin at
    one moment don't contradict each other.
    """
    order = np.lexsort((position, inv, process, partition))
    at = position[order]
    reached = running(at, heads(partition[order], process[order]), np.maximum, NOTHING)
    back = at < reached
    return GoneBack(rows=order[back], reached=reached[back])


def suspects(c: Columns) -> Bools:
    """Returns, by partition, whether a process was answered from an earlier place."""
    rows = np.flatnonzero((c.outcome == OutcomeCode.OK.value) & ~c.bounded & (c.position >= 0))
    found = gone_back(
        partition=c.partition[rows],
        process=c.process[rows],
        inv=c.inv[rows],
        position=c.position[rows],
    )
    flagged = marked(c.partition[rows[found.rows]], len(c.partition_ids))
    flagged[c.partition_of[c.odd]] = True
    return flagged
