"""Screen of `claimed_order`: the same rules, over columns sorted by claimed rank.

It shares no logic with the screens of the black box, as the two checks share none. Ranks are those
of `claimed_order`: twice the place, plus one for an operation that only reads; a write without an
answer gets the rank that the first operation that observed it allows. One that only a cas without
an answer observed comes right before that cas, if it has a rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zonequake_analysis.checks.screens.columns import NULL, Bools, Columns, Ints
from zonequake_analysis.checks.screens.segments import (
    NEVER,
    first_of,
    heads,
    last_before,
    lookup,
    marked,
    ordered,
    running,
    spread,
)
from zonequake_analysis.inputs.shapes import Function, OutcomeCode

NO_RANK = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """Writes without an answer: rank (-1: nothing observed it) and place in the longest list.

    The place of a write that only cas without an answer observed is below 0: it says how many of
    them are between it and an answer. `doubtful`: keys whose values don't tell which write was
    observed.
    """

    rows: Ints
    rank: Ints
    place: Ints
    doubtful: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspected:
    """The keys at which the claimed order could fail, as an array by key.

    `replayed`: a value is not what the order leaves there; `late`: an operation starts after one of
    higher rank has finished; `unclear`: both, since arrays don't tell. A stale read that names the
    place it shows is late alone.
    """

    replayed: Bools
    late: Bools
    unclear: Bools

    @property
    def either(self) -> Bools:
        """The keys at which anything could fail."""
        return self.replayed | self.late


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """Operations in the claimed order, one element of each array to an operation.

    `rows`: their rows; `state`: the value that earlier writes left; `lists`, `values` and
    `preconditions`: whether the operation shows another list or value, or expected another value.
    """

    rows: Ints
    state: Ints
    lists: Bools
    values: Bools
    preconditions: Bools

    @property
    def wrong(self) -> Bools:
        """Whether the operation contradicts those before it."""
        return self.lists | self.values | self.preconditions


def suspects(c: Columns) -> Suspected:
    """Returns the keys at which the claimed order could fail."""
    judged, writes = judged_rows(c)
    unanswered = unanswered_writes(c, judged, writes)
    replayed = replay(c, judged, writes, unanswered)
    unclear = unanswered.doubtful | c.odd
    answered = c.outcome == OutcomeCode.OK.value
    return Suspected(
        replayed=marked(c.key[replayed.rows[replayed.wrong]], c.keys) | unclear,
        late=_out_of_time(c, replayed.rows, answered) | unclear,
        unclear=unclear,
    )


def shared_entries(c: Columns) -> Bools:
    """Returns, by partition, whether two writes could have one place."""
    judged, writes = judged_rows(c)
    rows = np.flatnonzero(
        judged & writes & (c.outcome == OutcomeCode.OK.value) & ~c.copy & ~c.later_step
    )
    order = ordered(c.partition[rows], c.position[rows])
    partition = c.partition[rows][order]
    twice = ~heads(partition, c.position[rows][order])
    found = marked(partition[twice], len(c.partition_ids))
    found[c.partition_of[c.odd]] = True
    return found


def judged_rows(c: Columns) -> tuple[Bools, Bools]:
    """Returns which rows are judged, and which of them write.

    Rows of keys that have an answer without a place are not judged.
    """
    ok = c.outcome == OutcomeCode.OK.value
    read = c.f == Function.READ.value
    judged = (c.outcome != OutcomeCode.FAIL.value) & ~c.bounded & ~(read & ~ok)
    holes = marked(c.key[judged & ok & (c.position < 0)], c.keys)
    writes = ~read & ((c.f != Function.CAS.value) | c.applied | ~ok)
    return judged & ~holes[c.key], writes


def unanswered_writes(c: Columns, judged: Bools, writes: Bools) -> Unanswered:
    """Returns the judged writes without an answer, with the ranks that their observers allow."""
    ok = c.outcome == OutcomeCode.OK.value
    rows = np.flatnonzero(judged & ~ok)
    count = len(rows)
    doubtful = np.zeros(c.keys, bool)
    if not count:
        return Unanswered(rows=rows, rank=rows, place=rows, doubtful=doubtful)
    near = judged & marked(c.key[rows], c.keys)[c.key]
    asked = np.flatnonzero(near & (c.f != Function.READ.value) & (c.value != NULL))
    by_value = asked[ordered(c.key[asked], c.value[asked])]
    again = ~heads(c.key[by_value], c.value[by_value])
    doubtful[c.key[by_value[again]]] = True

    observers = np.flatnonzero(near & ok)
    single = observers[~c.has_list[observers]]
    shown = np.where(writes, c.expected, np.where(c.f == Function.READ.value, c.value, c.found))
    lists = observers[c.has_list[observers]]
    owner, at = spread(c.list_start[lists], c.list_size[lists])
    by = np.concatenate([single, lists[owner]])
    element = np.concatenate([shown[single], c.elements[at]])
    by, element = by[element != NULL], element[element != NULL]
    write = lookup(c.key[rows], c.value[rows], c.key[by], element)
    seen = np.full(count, NEVER)
    met = write >= 0
    np.minimum.at(seen, write[met], (2 * c.position[by] - writes[by])[met])
    rank = np.where(seen == NEVER, NO_RANK, seen)

    place, followed = _followers(c, rows, lists, near & ok)
    rank = np.where((rank != NO_RANK) & (followed != NEVER), np.minimum(rank, followed), rank)
    rank, place = _before_cas(c, rows, rank, place)
    return Unanswered(rows=rows, rank=rank, place=place, doubtful=doubtful)


def _before_cas(c: Columns, rows: Ints, rank: Ints, place: Ints) -> tuple[Ints, Ints]:
    """Returns ranks and places also of writes that only a cas without an answer observed.

        write 5, cas 5 to 6, cas 6 to 7 (no answers), read 7 at 9: all three come before 9

    A cas that an answer shows was applied, so what it expected was written. Nothing comes between
    the two: each round gives ranks to what the cas of the round before expected.
    """
    is_cas = (c.f[rows] == Function.CAS.value) & (c.expected[rows] != NULL)
    fresh = np.flatnonzero(is_cas & (rank != NO_RANK))
    while len(fresh):
        write = lookup(c.key[rows], c.value[rows], c.key[rows[fresh]], c.expected[rows[fresh]])
        hidden = (write >= 0) & (np.where(write >= 0, rank[write], 0) == NO_RANK)
        write, fresh = write[hidden], fresh[hidden]
        # Of several cas the one of the lowest rank comes last here, and so counts.
        order = np.argsort(-rank[fresh], kind="stable")
        write, fresh = write[order], fresh[order]
        rank, place = rank.copy(), place.copy()
        rank[write], place[write] = rank[fresh], place[fresh] - 1
        fresh = np.unique(write[is_cas[write]])
    return rank, place


def _followers(c: Columns, rows: Ints, lists: Ints, answered: Bools) -> tuple[Ints, Ints]:
    """Returns, for unanswered appends, the place in the longest list and the rank before the next
    answered one.
    """
    place, followed = np.zeros(len(rows), np.int64), np.full(len(rows), NEVER)
    longest = np.full(c.keys, -1)
    by_size = lists[np.argsort(c.list_size[lists], kind="stable")]
    longest[c.key[by_size]] = by_size
    ends = longest[longest >= 0]
    if not len(ends):
        return place, followed
    owner, at = spread(c.list_start[ends], c.list_size[ends])
    key, element = c.key[ends[owner]], c.elements[at]
    appends = np.flatnonzero(answered & (c.f == Function.APPEND.value))
    known = lookup(c.key[appends], c.value[appends], key, element)
    position = (
        np.where(known >= 0, c.position[appends[known]], NEVER)
        if len(appends)
        else (np.full(len(key), NEVER))
    )
    backwards = position[::-1]
    head = heads(owner[::-1])
    behind = np.minimum(running(backwards, head, np.minimum, NEVER), backwards)[::-1]
    before = np.where(behind == NEVER, NEVER, 2 * np.where(behind == NEVER, 0, behind) - 1)
    where = lookup(key, element, c.key[rows], c.value[rows])
    append = (where >= 0) & (c.f[rows] == Function.APPEND.value)
    at_list = at - c.list_start[ends[owner]]
    place[append], followed[append] = at_list[where[append]], before[where[append]]
    return place, followed


def replay(c: Columns, judged: Bools, writes: Bools, unanswered: Unanswered) -> Replayed:
    """Compares each operation of the claimed order with what the writes before it left."""
    placed = unanswered.rank != NO_RANK
    early = np.flatnonzero(placed)[np.argsort(unanswered.place[placed], kind="stable")]
    certain = np.flatnonzero(judged & (c.outcome == OutcomeCode.OK.value))
    # At equal ranks unanswered writes come first; the others stay in the order of their starts.
    rows = np.concatenate([unanswered.rows[early], certain])
    rank = np.concatenate([unanswered.rank[early], 2 * c.position[certain] + ~writes[certain]])
    rows = rows[ordered(c.key[rows], rank)]
    nothing = np.zeros(len(rows), bool)
    if not len(rows):
        return Replayed(rows=rows, state=rows, lists=nothing, values=nothing, preconditions=nothing)
    key, f, value = c.key[rows], c.f[rows], c.value[rows]
    wrote, has_list = writes[rows], c.has_list[rows]
    first = first_of(heads(key))
    newest = last_before(wrote & (value != NULL), heads(key))
    state = np.where(newest >= 0, value[newest], NULL)
    append = f == Function.APPEND.value
    of_list = (newest >= 0) & append[newest]
    earlier = np.cumsum(append) - append
    length = earlier - earlier[first]
    cas = f == Function.CAS.value
    wrong_list = has_list & (c.list_size[rows] != length)
    lists = np.flatnonzero(has_list & ~wrong_list)
    start = c.list_start[rows[lists]]
    owner, at = spread(start, length[lists])
    expected = value[append][earlier[first][lists][owner] + at - start[owner]]
    wrong_list[lists[owner[c.elements[at] != expected]]] = True
    return Replayed(
        rows=rows,
        state=state,
        lists=wrong_list,
        # A list is no number, though the number may be its last element.
        values=(
            (f == Function.READ.value)
            & ~has_list
            & ((value != state) | (of_list & (value != NULL)))
        )
        | (cas & ~wrote & (c.found[rows] != state)),
        preconditions=cas & wrote & (c.expected[rows] != state),
    )


def _out_of_time(c: Columns, rows: Ints, answered: Bools) -> Bools:
    """Returns, by key, whether an operation starts after one of higher rank has finished."""
    finish = np.where(answered[rows], c.fin[rows], NEVER)[::-1]
    key = c.key[rows][::-1]
    earliest = running(finish, heads(key), np.minimum, NEVER)
    return marked(key[earliest < c.inv[rows][::-1]], c.keys)
