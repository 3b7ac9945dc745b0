"""The replay of the claimed order over arrays: finds what `claimed_order.replay` finds in SQL."""

from __future__ import annotations

import numpy as np

from zonequake_analysis.checks import claimed_order
from zonequake_analysis.checks.found_rows import FoundRows
from zonequake_analysis.checks.screens.claimed import Unanswered, replay
from zonequake_analysis.checks.screens.columns import NULL, Bools, Columns

_KINDS = ("list", "value", "precondition")


def replayed(c: Columns, judged: Bools, writes: Bools, unanswered: Unanswered) -> FoundRows:
    """Returns operations whose value is not what the claimed order leaves there."""
    found = replay(c, judged, writes, unanswered)
    bad = np.flatnonzero(found.wrong)
    rows = found.rows[bad]
    kind = np.where(found.lists[bad], 0, np.where(found.values[bad], 1, 2))
    return FoundRows(
        check=claimed_order.CHECK,
        kinds=_KINDS,
        kind=kind,
        key=c.key[rows],
        value=found.state[bad],
        at_ns=c.inv[rows],
        position=np.where(c.position[rows] < 0, NULL, c.position[rows]),
        magnitude_ns=np.full(len(bad), NULL),
    )
