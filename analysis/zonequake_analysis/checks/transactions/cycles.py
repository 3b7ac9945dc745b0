"""Cycles of dependencies among transactions over lists, as Elle's list-append. Pure.

Every element is appended once, so the longest list that was read of a key gives the order of its
appends; what no read shows came after it. Of each key follow the edges

    ww   an append comes before the next one
    wr   a read shows an append as its last element
    rw   a read does not show the next append yet

in (Adya 1999; Kingsbury and Alvaro 2020). A cycle is named by what it needs:

    G0        only ww
    G1c       ww and wr
    G-single  one rw
    G2        more than one rw

No edge uses a time or a claimed place. Snapshot isolation allows G2, and serializability no cycle.
Of a key whose reads are no beginnings of one list, or show an element twice, the order is unknown:
it gives no edges, and the checks of lists have a finding.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from graphlib import TopologicalSorter
from itertools import islice

from zonequake_analysis.checks.transactions.recorded import Element, ListTransaction, happened
from zonequake_analysis.inputs.shapes import OutcomeCode


class Dependency(StrEnum):
    """The kinds of edges."""

    WW = "ww"
    WR = "wr"
    RW = "rw"


class CycleKind(StrEnum):
    """The kinds of cycles, the most severe first."""

    G0 = "G0"
    G1C = "G1c"
    G_SINGLE = "G-single"
    G2 = "G2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """Transactions each of which comes before the next, and the last one before the first.

    `edges`: the kind and the key of what leads from each to the next.
    """

    kind: CycleKind
    transactions: tuple[ListTransaction, ...]
    edges: tuple[tuple[Dependency, str], ...]

    @property
    def claims_an_order(self) -> bool:
        """Whether all answered ones claim a place, and so an order, which a cycle contradicts."""
        answered = [one for one in self.transactions if one.outcome is OutcomeCode.OK]
        return all(one.position is not None for one in answered)


_Edge = tuple[Dependency, str]
_Edges = dict[int, dict[int, _Edge]]
"""By the number of a transaction: those that come after it, and the first reason."""


def cycles(transactions: Sequence[ListTransaction]) -> Iterator[Cycle]:
    """Yields a shortest cycle of each group of transactions that have no order.

    Of each kind, the most severe first; a group that has one of a kind is not searched for the
    kinds after it.
    """
    graph = _Graph(transactions)
    spoilt: set[int] = set()
    for kind, kinds in (
        (CycleKind.G0, {Dependency.WW}),
        (CycleKind.G1C, {Dependency.WW, Dependency.WR}),
    ):
        edges = graph.of(kinds)
        for group in _components(edges, graph.size):
            if spoilt.isdisjoint(group):
                yield _shortest(graph, edges, group, kind)
                spoilt.update(group)
    whole, ordered = graph.of(set(Dependency)), graph.of({Dependency.WW, Dependency.WR})
    for group in _components(whole, graph.size):
        if not spoilt.isdisjoint(group):
            continue
        single = _single(graph, ordered, group)
        yield single if single is not None else _shortest(graph, whole, group, CycleKind.G2)


class _Graph:
    """Edges by kind. Numbers from `count` on are no transactions but the ends of lists: all appends
    that no read shows come after it.
    """

    def __init__(self, transactions: Sequence[ListTransaction]) -> None:
        self.transactions = happened(transactions)
        self.count = self.size = len(self.transactions)
        self._edges: dict[Dependency, _Edges] = {kind: {} for kind in Dependency}
        self._writer: dict[Element, int] = {
            (key, value): number
            for number, one in enumerate(self.transactions)
            for key, value in one.appends.items()
        }
        readers = defaultdict[str, list[int]](list)
        appended = defaultdict[str, list[Element]](list)
        for number, one in enumerate(self.transactions):
            for key in one.reads:
                readers[key].append(number)
            for key, value in one.appends.items():
                appended[key].append((key, value))
        for key, own in readers.items():
            self._add_key(key, own, appended[key])

    def of(self, kinds: set[Dependency]) -> _Edges:
        """Returns the edges of these kinds, the first kind where several lead to the same."""
        edges: _Edges = {}
        for kind in Dependency:
            if kind in kinds:
                for begin, ends in self._edges[kind].items():
                    mine = edges.setdefault(begin, {})
                    for end, why in ends.items():
                        mine.setdefault(end, why)
        return edges

    def rw(self, begin: int) -> dict[int, _Edge]:
        """Returns what a transaction's reads don't show yet."""
        return self._edges[Dependency.RW].get(begin, {})

    def _add_key(self, key: str, readers: list[int], appended: list[Element]) -> None:
        lists = [self.transactions[number].reads[key] for number in readers]
        longest = max(lists, key=len)
        known = len(set(longest)) == len(longest)
        if not known or any(list(longest[: len(each)]) != list(each) for each in lists):
            return
        # Of each place in the list: the writer there and before it, if it is known, and the next.
        writers = [self._writer.get((key, value)) for value in longest]
        end = self.size
        self.size += 1
        before = [-1]
        for writer in writers:
            before.append(before[-1] if writer is None else writer)
        after = [end]
        for writer in reversed(writers):
            after.append(after[-1] if writer is None else writer)
        after.reverse()
        for place, writer in enumerate(writers):
            if writer is not None:
                self._add(Dependency.WW, writer, after[place + 1], key)
        shown = set(longest)
        for _, value in appended:
            if value not in shown:
                self._add(Dependency.WW, end, self._writer[key, value], key)
        for number in readers:
            length = len(self.transactions[number].reads[key])
            if before[length] >= 0:
                self._add(Dependency.WR, before[length], number, key)
            self._add(Dependency.RW, number, after[length], key)

    def _add(self, kind: Dependency, begin: int, end: int, key: str) -> None:
        if begin != end:
            self._edges[kind].setdefault(begin, {}).setdefault(end, (kind, key))


def _components(edges: _Edges, size: int) -> list[list[int]]:
    """Returns the strongly connected groups of more than one (Tarjan 1972, without recursion)."""
    index, low = [-1] * size, [0] * size
    on_stack = [False] * size
    stack: list[int] = []
    groups: list[list[int]] = []
    next_index = 0
    for root in range(size):
        if index[root] >= 0:
            continue
        work: list[tuple[int, Iterator[int]]] = [(root, iter(edges.get(root, ())))]
        index[root] = low[root] = next_index
        next_index += 1
        stack.append(root)
        on_stack[root] = True
        while work:
            number, ahead = work[-1]
            for end in ahead:
                if index[end] < 0:
                    index[end] = low[end] = next_index
                    next_index += 1
                    stack.append(end)
                    on_stack[end] = True
                    work.append((end, iter(edges.get(end, ()))))
                    break
                if on_stack[end]:
                    low[number] = min(low[number], index[end])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[number])
                if low[number] == index[number]:
                    group = []
                    while True:
                        group.append(stack.pop())
                        on_stack[group[-1]] = False
                        if group[-1] == number:
                            break
                    if len(group) > 1:
                        groups.append(group)
    return groups


MOST_BEGINNINGS = 200
"""Most transactions of a group from which a shortest cycle is sought: the first of all is enough
for a witness, and a store without any order has groups of thousands.
"""

_TOGETHER = 4096
"""Most ends of rw that are followed at once, each as a bit of an integer."""


def _shortest(graph: _Graph, edges: _Edges, group: list[int], kind: CycleKind) -> Cycle:
    """Returns a shortest cycle of those that go through one of the first of the group."""
    within = set(group).__contains__
    paths = [
        path
        for number in sorted(group)[:MOST_BEGINNINGS]
        if (path := _path(edges, number, number, within)) is not None
    ]
    return _cycle(graph, edges, min(paths, key=len), kind)


def _single(graph: _Graph, ordered: _Edges, group: list[int]) -> Cycle | None:
    """Returns a cycle with one rw of a group whose ww and wr alone have an order, a shortest of
    those that are closed by one of the first such rw; None if there is none.
    """
    within = set(group).__contains__
    paths = [
        path
        for begin, end in islice(_closing(graph, ordered, group), MOST_BEGINNINGS)
        if (path := _path(ordered, end, begin, within)) is not None
    ]
    if not paths:
        return None
    path = min(paths, key=len)
    edges = {number: dict(ordered.get(number, {})) for number in path}
    edges[path[-1]][path[0]] = graph.rw(path[-1])[path[0]]
    return _cycle(graph, edges, path, CycleKind.G_SINGLE)


def _closing(graph: _Graph, ordered: _Edges, group: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yields begin and end of each rw whose end comes before its begin by ww and wr.

    Of many ends at once it is found what they come before, so that a group of thousands without
    such an rw takes no path for each.
    """
    numbers, within = sorted(group), frozenset(group)
    after = {
        number: [end for end in ordered.get(number, ()) if end in within] for number in numbers
    }
    begins = defaultdict[int, list[int]](list)
    for number in numbers:
        for end in graph.rw(number):
            if end in within:
                begins[end].append(number)
    sorter = TopologicalSorter[int](dict.fromkeys(numbers, ()))
    for number, ends in after.items():
        for end in ends:
            sorter.add(end, number)
    in_order = list(sorter.static_order())
    every = sorted(begins)
    for at in range(0, len(every), _TOGETHER):
        some = every[at : at + _TOGETHER]
        bits = {end: 1 << place for place, end in enumerate(some)}
        before = dict.fromkeys(numbers, 0)
        for number in in_order:
            reached = before[number] | bits.get(number, 0)
            if reached:
                for end in after[number]:
                    before[end] |= reached
        for end in some:
            for begin in begins[end]:
                if before[begin] & bits[end]:
                    yield begin, end


def _path(edges: _Edges, begin: int, end: int, within: Callable[[int], bool]) -> list[int] | None:
    """Returns a shortest path; one from a transaction to itself leaves out its end."""
    came: dict[int, int] = {}
    ahead = deque([begin])
    while ahead:
        number = ahead.popleft()
        for after in edges.get(number, ()):
            if after == end:
                path = [] if begin == end else [end]
                while True:
                    path.append(number)
                    if number == begin:
                        return path[::-1]
                    number = came[number]
            if after not in came and after != begin and within(after):
                came[after] = number
                ahead.append(after)
    return None


def _cycle(graph: _Graph, edges: _Edges, path: list[int], kind: CycleKind) -> Cycle:
    """Returns a path that closes, without the ends of lists on it."""
    steps = [
        (number, edges[number][path[(place + 1) % len(path)]]) for place, number in enumerate(path)
    ]
    shown = [(number, why) for number, why in steps if number < graph.count]
    return Cycle(
        kind=kind,
        transactions=tuple(graph.transactions[number] for number, _ in shown),
        edges=tuple(why for _, why in shown),
    )
