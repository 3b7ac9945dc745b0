"""The check `diverged` over arrays: finds what it finds in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from zonequake_analysis.checks import diverged
from zonequake_analysis.checks.found_rows import FoundRows
from zonequake_analysis.checks.screens.columns import NULL, Bools, Columns, Ints
from zonequake_analysis.checks.screens.segments import (
    NOTHING,
    first_of,
    heads,
    last_before,
    lookup,
    ordered,
    spread,
)
from zonequake_analysis.inputs.shapes import Function, OutcomeCode

_MOST_PAIRS = 4_000_000
"""Of answers with elements that they could lack, looked at together: about 500 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Latest:
    """The highest value of each element, its member, and the highest of another member; NOTHING
    and -1 where there is none."""

    highest: Ints
    member: Ints
    of_others: Ints

    def of_another(self, element: Ints, member: Ints) -> Ints:
        """Returns the highest value that another member than this one has of the element."""
        own = self.member[element] == member
        return np.where(own, self.of_others[element], self.highest[element])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """Acknowledged values, by key and value: where and when the last write of each was
    acknowledged and by which member, and where and when members showed it.

    `key`, `value`, `written`, `known_at`, `writer`: an element to each value; `appended`: whether
    an append wrote it.
    """

    key: Ints
    value: Ints
    written: Ints
    known_at: Ints
    writer: Ints
    appended: Bools
    places: _Latest
    reads: _Latest

    def shown_at(self, element: Ints, member: Ints, position: Ints) -> Bools:
        """Returns whether another member shows the element at this place or later."""
        acknowledged = (self.writer[element] != member) & (self.written[element] == position)
        found: Bools = acknowledged | (self.places.of_another(element, member) >= position)
        return found


def found_diverged(c: Columns, member: Ints, judged: Bools, writes: Bools) -> FoundRows:
    """Returns answers that lack what another member holds.

    `member`: the node of each row as a number, -1 where there is none.
    """
    answers = judged & (c.outcome == OutcomeCode.OK.value) & (member >= 0) & (c.position >= 0)
    held = _held(c, member, np.flatnonzero(answers & writes), np.flatnonzero(answers & ~writes))
    of_lists = [*_lists(c, member, answers & ~writes, held)]
    registers = _registers(c, member, answers, writes, held)
    rows, element = (np.concatenate(pair) for pair in zip(*of_lists, registers, strict=True))
    known_at, at_ns = held.known_at[element], c.inv[rows]
    return FoundRows(
        check=diverged.CHECK,
        kinds=(diverged.KIND,),
        kind=np.zeros(len(rows), np.int64),
        key=c.key[rows],
        value=held.value[element],
        at_ns=at_ns,
        position=held.written[element],
        magnitude_ns=at_ns - known_at,
    )


def _held(c: Columns, member: Ints, writes: Ints, reads: Ints) -> _Held:
    writes = writes[c.value[writes] != NULL]
    order = writes[np.lexsort((c.position[writes], c.value[writes], c.key[writes]))]
    head = heads(c.key[order], c.value[order])
    first = np.flatnonzero(head)
    last = np.append(first[1:], len(order))[: len(first)] - 1
    key, value = c.key[order[first]], c.value[order[first]]
    append = c.f[order] == Function.APPEND.value
    by, shown = _shown(c, reads)
    element = lookup(key, value, c.key[by], shown)
    by, element = by[element >= 0], element[element >= 0]
    return _Held(
        key=key,
        value=value,
        written=c.position[order[last]],
        known_at=np.minimum.reduceat(c.fin[order], first) if len(first) else first,
        writer=member[order[last]],
        appended=np.logical_or.reduceat(append, first) if len(first) else first.astype(bool),
        places=_latest(element, member[by], c.position[by], len(first)),
        reads=_latest(element, member[by], c.inv[by], len(first)),
    )


def _shown(c: Columns, reads: Ints) -> tuple[Ints, Ints]:
    """Returns (answer, value) of each value that an answer shows."""
    lists = reads[c.has_list[reads]]
    single = reads[~c.has_list[reads]]
    owner, at = spread(c.list_start[lists], c.list_size[lists])
    shown = _single(c)[single]
    rows = np.concatenate([lists[owner], single[shown != NULL]])
    return rows, np.concatenate([c.elements[at], shown[shown != NULL]])


def _single(c: Columns) -> Ints:
    """Returns what an answer shows that is no list and writes nothing."""
    return np.where(c.f == Function.CAS.value, c.found, c.value)


def _latest(element: Ints, member: Ints, number: Ints, count: int) -> _Latest:
    order = np.lexsort((number, element))[::-1]
    element, member, number = element[order], member[order], number[order]
    head = heads(element)
    result = _Latest(
        highest=np.full(count, NOTHING),
        member=np.full(count, -1),
        of_others=np.full(count, NOTHING),
    )
    if not len(element):
        return result
    result.highest[element[head]] = number[head]
    result.member[element[head]] = member[head]
    other = np.flatnonzero(member != member[first_of(head)])
    next_one = other[heads(element[other])]
    result.of_others[element[next_one]] = number[next_one]
    return result


def _lists(c: Columns, member: Ints, reads: Bools, held: _Held) -> Iterator[tuple[Ints, Ints]]:
    """Yields (answer, element) of lists that lack an acknowledged element: of several, the one
    written first."""
    rows = np.flatnonzero(reads & (c.has_list | (_single(c) == NULL)))
    appended = np.flatnonzero(held.appended)
    appended = appended[np.lexsort((held.value[appended], held.written[appended]))]
    appended = appended[np.argsort(held.key[appended], kind="stable")]
    # Of a key, those that were written at the answer's place or before are the first ones.
    start = np.searchsorted(held.key[appended], c.key[rows])
    there = _how_many(held.key[appended], held.written[appended], c.key[rows], c.position[rows])
    lacks = there > _known_in_list(c, rows, held)
    rows, start, there = rows[lacks], start[lacks], there[lacks]
    before, begin = np.cumsum(there), 0
    while begin < len(rows):
        reached = before[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(before, reached + _MOST_PAIRS, side="right")))
        some = rows[begin:end]
        owner, at = spread(start[begin:end], there[begin:end])
        row, element = some[owner], appended[at]
        _, shown_by = spread(c.list_start[some], c.list_size[some])
        of_list = np.repeat(np.arange(len(some)), c.list_size[some])
        missing = lookup(of_list, c.elements[shown_by], owner, held.value[element]) < 0
        row, element = row[missing], element[missing]
        elsewhere = held.shown_at(element, member[row], c.position[row]) | (
            held.reads.of_another(element, member[row]) > c.fin[row]
        )
        row, element = row[elsewhere], element[elsewhere]
        order = np.lexsort((held.written[element], c.process[row], c.inv[row], c.key[row]))
        row, element = row[order], element[order]
        first = heads(c.key[row], c.inv[row], c.process[row])
        yield row[first], element[first]
        begin = end


def _how_many(key: Ints, place: Ints, of_key: Ints, at_most: Ints) -> Ints:
    """Returns for each asked key how many of its places are at most this one; `key` and `place`
    are sorted."""
    asked = np.arange(len(key) + len(of_key)) >= len(key)
    order = np.lexsort((asked, np.concatenate([place, at_most]), np.concatenate([key, of_key])))
    seen = np.cumsum(~asked[order])
    result = np.empty(len(of_key), np.int64)
    asking = asked[order]
    result[order[asking] - len(key)] = seen[asking]
    return result - np.searchsorted(key, of_key)


def _known_in_list(c: Columns, rows: Ints, held: _Held) -> Ints:
    """Returns how many appended elements, of its place or before, each answer shows."""
    owner, at = spread(c.list_start[rows], c.list_size[rows])
    element = lookup(held.key, held.value, c.key[rows[owner]], c.elements[at])
    known = element >= 0
    owner, element = owner[known], element[known]
    counts = held.appended[element] & (held.written[element] <= c.position[rows[owner]])
    owner, element = owner[counts], element[counts]
    order = ordered(owner, element)
    once = heads(owner[order], element[order])
    return np.bincount(owner[order][once], minlength=len(rows)).astype(np.int64)


def _registers(
    c: Columns, member: Ints, answers: Bools, writes: Bools, held: _Held
) -> tuple[Ints, Ints]:
    """Returns (answer, element) of registers that show another value than the last one that was
    acknowledged at their place or before."""
    append = c.f == Function.APPEND.value
    rows = np.flatnonzero(answers)
    order = (c.process[rows], c.inv[rows], ~writes[rows], c.position[rows], c.key[rows])
    rows = rows[np.lexsort(order)]
    wrote = writes[rows] & ~append[rows] & (c.value[rows] != NULL)
    newest = last_before(wrote, heads(c.key[rows]))
    asking = np.flatnonzero(~writes[rows] & ~c.has_list[rows] & (newest >= 0))
    state, answer = c.value[rows[newest[asking]]], rows[asking]
    element = lookup(held.key, held.value, c.key[answer], state)
    lacks = (
        (held.written[element] <= c.position[answer])
        & (_single(c)[answer] != state)
        & held.shown_at(element, member[answer], c.position[answer])
    )
    return answer[lacks], element[lacks]
