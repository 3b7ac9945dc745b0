"""Screens of `zones` and `prefixes`: they use what clients saw, not the order that the store
claims.

They share no logic with the screen of the claimed order, nor the sorting and folding that it uses.
Both are exact: that of registers builds the clusters that `zones` gets from SQL, and sweeps them
with the same function; that of lists flags the keys of what `without_prefix` finds.
"""

from __future__ import annotations

import numpy as np

from zonequake_analysis.checks.register_zones import Clusters, violations
from zonequake_analysis.checks.screens.columns import NULL, Bools, Columns, Ints
from zonequake_analysis.checks.screens.prefixes import without_prefix
from zonequake_analysis.inputs.shapes import ABSENT, NEVER_NS, Function, OutcomeCode


def registers(c: Columns) -> Bools:
    """Returns, by key, whether zones find no order for its reads, writes and cas."""
    flagged = c.odd.copy()
    clusters = register_clusters(c)
    flagged[clusters.key[violations(clusters) > 0]] = True
    return flagged


def register_clusters(c: Columns) -> Clusters:
    """Returns the reads, writes and cas of registers by key and value, sorted so."""
    ok = c.outcome == OutcomeCode.OK.value
    cas = c.f == Function.CAS.value
    refused = cas & ok & ~c.applied
    writes = (c.f == Function.WRITE.value) | (cas & ~refused)
    rows = np.flatnonzero(
        (c.outcome != OutcomeCode.FAIL.value)
        & (ok | writes)
        & ~c.bounded
        & ~c.has_list
        & (c.f != Function.APPEND.value)
    )
    value = np.where(refused, c.found, c.value)[rows]
    value = np.where(value == NULL, ABSENT, value)
    order = _by_key(c.key[rows], value)
    rows, value = rows[order], value[order]
    key, wrote, inv, fin = c.key[rows], writes[rows], c.inv[rows], c.fin[rows]
    fresh = np.ones(len(rows), bool)
    fresh[1:] = (key[1:] != key[:-1]) | (value[1:] != value[:-1])
    first = np.flatnonzero(fresh)
    expected = np.where(c.expected[rows] == NULL, ABSENT, c.expected[rows])
    return Clusters(
        key=key[first],
        value=value[first],
        first_finish=np.minimum.reduceat(fin, first),
        last_start=np.maximum.reduceat(inv, first),
        write_start=_or_never(np.maximum.reduceat(np.where(wrote, inv, NULL), first)),
        first_read_end=np.minimum.reduceat(np.where(wrote, NEVER_NS, fin), first),
        writes=np.add.reduceat(wrote.astype(np.int64), first),
        answered=np.add.reduceat((wrote & ok[rows]).astype(np.int64), first),
        by_cas=np.logical_or.reduceat(wrote & cas[rows], first),
        expected=np.maximum.reduceat(np.where(wrote & cas[rows], expected, ABSENT), first),
    )


def lists(c: Columns) -> Bools:
    """Returns, by key, whether prefixes find no order for its appends and reads."""
    found = without_prefix(c)
    flagged = c.odd.copy()
    flagged[c.key[found.torn]] = True
    flagged[c.key[found.late]] = True
    flagged[found.invented] = True
    return flagged


def _by_key(key: Ints, value: Ints) -> Ints:
    """Returns the stable order by key and then value; rows of a key already lie together."""
    by_value = np.argsort(value, kind="stable")
    return by_value[np.argsort(key[by_value], kind="stable")]


def _or_never(times: Ints) -> Ints:
    return np.where(times == NULL, NEVER_NS, times)
