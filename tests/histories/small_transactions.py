"""Small random transactions over lists, valid and spoilt, and judges of them by search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, permutations
from random import Random

from zonequake_analysis.checks.transactions.recorded import Element, ListTransaction
from zonequake_analysis.inputs.shapes import NEVER_NS, OutcomeCode

KEYS = ("a", "b", "c")


def small(rng: Random) -> list[ListTransaction]:
    """Returns up to five transactions, one after another in the order of the list, some without an
    answer; half of the time with a read changed, or one transaction seen half.
    """
    lists: dict[str, list[int]] = {key: [] for key in KEYS}
    made = []
    half = rng.randrange(5) if rng.random() < 0.25 else None
    for number in range(rng.randint(2, 5)):
        steps = rng.sample(KEYS, rng.randint(1, 3))
        outcome = rng.choice([OutcomeCode.OK] * 4 + [OutcomeCode.INFO])
        appends = {
            key: 10 * number + place for place, key in enumerate(steps) if rng.random() < 0.5
        }
        reads = {key: tuple(lists[key]) for key in steps if key not in appends}
        done = outcome is OutcomeCode.OK or rng.random() < 0.5
        for place, (key, value) in enumerate(appends.items()):
            if done and not (number == half and place):
                lists[key].append(value)
        made.append(
            ListTransaction(
                op=str(number),
                inv_ns=10 * number,
                fin_ns=10 * number + 5 if outcome is OutcomeCode.OK else NEVER_NS,
                outcome=outcome,
                position=number if outcome is OutcomeCode.OK else None,
                appends=appends,
                reads=reads if outcome is OutcomeCode.OK else {},
            )
        )
    for _ in range(rng.choice([0, 1, 2])):
        _spoil(rng, made, lists)
    return made


def _spoil(rng: Random, made: list[ListTransaction], lists: dict[str, list[int]]) -> None:
    """Changes one read into another beginning of its list, or exchanges two elements in all."""
    reading = [number for number, one in enumerate(made) if one.reads]
    if not reading:
        return
    number = rng.choice(reading)
    if rng.random() < 0.5:
        key = rng.choice(KEYS)
        if len(lists[key]) < 2:
            return
        first, second = rng.sample(lists[key], 2)
        other = {first: second, second: first}
        lists[key][:] = [other.get(value, value) for value in lists[key]]
        for number in reading:
            reads = dict(made[number].reads)
            if key in reads:
                reads[key] = tuple(other.get(value, value) for value in reads[key])
                made[number] = replace(made[number], reads=reads)
        return
    key = rng.choice(list(made[number].reads))
    shown = lists[key][: rng.randint(0, len(lists[key]))]
    made[number] = replace(made[number], reads={**made[number].reads, key: tuple(shown)})


def has_order(transactions: Sequence[ListTransaction]) -> bool:
    """Returns whether some order of the answered ones, with any of the open ones, explains every
    read. Tries all.
    """
    answered = [one for one in transactions if one.outcome is OutcomeCode.OK]
    unanswered = [one for one in transactions if one.outcome is OutcomeCode.INFO]
    return any(
        _explains(order)
        for count in range(len(unanswered) + 1)
        for some in combinations(unanswered, count)
        for order in permutations([*answered, *some])
    )


def _explains(order: Sequence[ListTransaction]) -> bool:
    lists: dict[str, tuple[int, ...]] = {}
    for one in order:
        if any(lists.get(key, ()) != tuple(values) for key, values in one.reads.items()):
            return False
        for key, value in one.appends.items():
            lists[key] = (*lists.get(key, ()), value)
    return True


def has_order_in_time(transactions: Sequence[ListTransaction]) -> bool:
    """As `has_order`, of the orders that respect real time."""
    answered = [one for one in transactions if one.outcome is OutcomeCode.OK]
    unanswered = [one for one in transactions if one.outcome is OutcomeCode.INFO]
    return any(
        _explains(order)
        for count in range(len(unanswered) + 1)
        for some in combinations(unanswered, count)
        for order in permutations([*answered, *some])
        if all(
            after.fin_ns >= before.inv_ns
            for place, before in enumerate(order)
            for after in order[place + 1 :]
        )
    )


def worst_kind(transactions: Sequence[ListTransaction]) -> str | None:
    """Returns the most severe kind of a cycle, by all pairs of dependencies; None without one."""
    shown: dict[str, tuple[int, ...]] = {}
    for one in transactions:
        for key, values in one.reads.items():
            shown[key] = max(shown.get(key, ()), tuple(values), key=len)
    elements: dict[Element, int] = {}
    for number, one in enumerate(transactions):
        seen = any(value in shown.get(key, ()) for key, value in one.appends.items())
        if one.outcome is OutcomeCode.OK or (one.outcome is OutcomeCode.INFO and seen):
            elements |= dict.fromkeys(one.appends.items(), number)
    ww, wr, rw = set[tuple[int, int]](), set[tuple[int, int]](), set[tuple[int, int]]()
    for (key, value), writer in elements.items():
        order = shown.get(key)
        if order is None:
            continue
        for (other, later), after in elements.items():
            if other != key or value not in order:
                continue
            if later not in order or order.index(later) > order.index(value):
                ww.add((writer, after))
        for number, one in enumerate(transactions):
            if key in one.reads and number != writer:
                if value in one.reads[key]:
                    wr.add((writer, number))
                else:
                    rw.add((number, writer))
    if _loops(closed(ww)):
        return "G0"
    ordered = closed(ww | wr)
    if _loops(ordered):
        return "G1c"
    if any((end, begin) in ordered for begin, end in rw):
        return "G-single"
    return "G2" if _loops(closed(ww | wr | rw)) else None


def closed(edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Returns all pairs that a path of these edges joins."""
    found = set(edges)
    while True:
        more = {(a, d) for a, b in found for c, d in edges if b == c} - found
        if not more:
            return found
        found |= more


def _loops(pairs: set[tuple[int, int]]) -> bool:
    return any(begin == end for begin, end in pairs)
