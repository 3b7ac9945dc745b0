"""Sorts, looks up and folds within groups, over whole arrays.

The screens of the black box use none of this: a fault here must not blind both checkers.
"""

from __future__ import annotations

import numpy as np

from zonequake_analysis.checks.screens.columns import Bools, Ints

NOTHING = -(2**63)
NEVER = 2**63 - 1

_BITS = 62


def ordered(group: Ints, value: Ints) -> Ints:
    """Returns the stable order by (group, value). Groups are small integers from 0 up."""
    if not len(group):
        return np.zeros(0, np.int64)
    low, high = int(value.min()), int(value.max())
    width = high - low + 1
    if width * (int(group.max()) + 1) < 1 << _BITS:
        return np.argsort(group * width + (value - low), kind="stable")
    return np.lexsort((value, group))


def heads(*columns: Ints) -> Bools:
    """Returns whether each row of sorted columns is the first of its group."""
    result = np.ones(len(columns[0]), bool)
    if len(result):
        result[1:] = False
        for column in columns:
            result[1:] |= column[1:] != column[:-1]
    return result


def first_of(head: Bools) -> Ints:
    """Returns for each row the place of the first row of its group."""
    return np.maximum.accumulate(np.where(head, np.arange(len(head)), 0))


def running(values: Ints, head: Bools, fold: np.ufunc, neutral: int) -> Ints:
    """Returns for each row the fold over the rows before it in its group.

    Looks back twice as far each time: O(n log of the longest group), with no loop over groups.
    """
    result = np.empty(len(values), np.int64)
    if not len(values):
        return result
    result[1:] = values[:-1]
    result[head] = neutral
    place = np.arange(len(values)) - first_of(head)
    distance, longest = 1, int(place.max())
    while distance <= longest:
        back = np.where(place[distance:] >= distance, result[:-distance], neutral)
        fold(result[distance:], back, out=result[distance:])
        distance *= 2
    return result


def last_before(wanted: Bools, head: Bools) -> Ints:
    """Returns for each row the last wanted row before it in its group, -1 if there is none."""
    last = np.maximum.accumulate(np.where(wanted, np.arange(len(wanted)), -1))
    before = np.concatenate([[-1], last])[: len(wanted)]
    return np.where(before >= first_of(head), before, -1)


def lookup(group: Ints, value: Ints, sought_group: Ints, sought_value: Ints) -> Ints:
    """Returns for each sought (group, value) the first row that has it, -1 if none has."""
    size = len(group)
    groups = np.concatenate([group, sought_group])
    values = np.concatenate([value, sought_value])
    order = ordered(groups, values)
    head = order[first_of(heads(groups[order], values[order]))]
    asking = order >= size
    result = np.full(len(sought_group), -1, np.int64)
    result[order[asking] - size] = np.where(head[asking] < size, head[asking], -1)
    return result


def spread(start: Ints, size: Ints) -> tuple[Ints, Ints]:
    """Returns for each element of some lists the number of its list, and its place among all
    elements.

    `start` and `size` say where each list is among the elements of all.
    """
    owner = np.repeat(np.arange(len(size)), size)
    before = np.concatenate([[0], np.cumsum(size)[:-1]]) if len(size) else np.zeros(0, np.int64)
    return owner, np.arange(len(owner)) - before[owner] + start[owner]


def marked(rows: Ints, count: int) -> Bools:
    """Returns an array of `count` with True at `rows`."""
    result = np.zeros(count, bool)
    result[rows] = True
    return result
