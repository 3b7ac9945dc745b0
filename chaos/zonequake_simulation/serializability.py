"""Decides whether one order of all operations explains the clients' answers, over several keys.

The checkers of histories judge each key separately. Two keys that a transaction writes together can
each be correct and still contradict each other:

    T1 appends to a and b;  a reader finds T1 in a, and then, later, does not find it in b

Lists show the order of their elements, so every answer shows what it comes after and before:

    element before element    its appender before the next one's
    read of n elements        after the appender of the n-th, before that of the next
    answered before begun     the one before the other (real time)

If these relations have no cycle, an order exists that agrees with all answers and real time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from zonequake_simulation.violation import Violation, require


@dataclass(slots=True, kw_only=True)
class ObservedOperation:
    """An operation on one or several keys that may have happened, and its client's answer.

    `appends`: element by list. `reads`: the content of each list before. `fin_us` is None if its
    outcome is unknown.
    """

    name: str
    inv_us: int
    fin_us: int | None
    appends: dict[str, int] = field(default_factory=dict)
    reads: dict[str, tuple[int, ...]] = field(default_factory=dict)


def judge(operations: Iterable[ObservedOperation], lists: dict[str, tuple[int, ...]]) -> None:
    """Raises Violation if no order explains the answers; `lists`: their contents at the end."""
    told = list(operations)
    appender = {(key, value): each for each in told for key, value in each.appends.items()}
    order: dict[str, set[str]] = {each.name: set() for each in told}
    for each in told:
        found = {key: value in lists.get(key, ()) for key, value in each.appends.items()}
        happened = each.fin_us is not None
        require(
            len(set(found.values())) <= 1 and (not happened or all(found.values())),
            "all of a transaction is there, or nothing",
            operation=each.name,
            answered=happened,
            found=found,
        )
    for key, values in lists.items():
        for one, next_ in itertools.pairwise(values):
            order[appender[key, next_].name].add(appender[key, one].name)
    for each in told:
        for key, shown in each.reads.items():
            final = lists.get(key, ())
            require(
                final[: len(shown)] == shown,
                "a list that was read is a prefix of the list",
                operation=each.name,
                key=key,
                shown=shown,
                final=final,
            )
            if shown:
                order[each.name].add(appender[key, shown[-1]].name)
            if len(final) > len(shown):
                order[appender[key, final[len(shown)]].name].add(each.name)
        order[each.name].discard(each.name)
    _add_real_time(told, order)
    try:
        TopologicalSorter(order).prepare()
    except CycleError as error:
        raise Violation(
            "one order explains all answers and real time", circle=error.args[1]
        ) from error


def _add_real_time(told: list[ObservedOperation], order: dict[str, set[str]]) -> None:
    """Chains the end times: an operation that begins later comes after the chain."""
    ended = sorted((each.fin_us, each.name) for each in told if each.fin_us is not None)
    moments: list[int] = []
    for place, (fin_us, name) in enumerate(ended):
        order[f"end {place}"] = {name} | ({f"end {place - 1}"} if place else set())
        moments.append(fin_us)
    for each in told:
        before = sum(moment < each.inv_us for moment in moments)
        if before:
            order[each.name].add(f"end {before - 1}")
