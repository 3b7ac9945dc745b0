"""Probes that were never sent: of a partition, before a vantage's first, or after its last.

No data is not success: an outage that no vantage looked at is no window. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from zonequake_analysis.measures.availability.probes import SILENT_INTERVALS, Island, Vantage

ProbedPlace = tuple[str, int]
"""Zone and partition."""


def began_late(vantages: Iterable[Vantage], begin_ns: int | None) -> Iterator[Island]:
    """Yields a silence for each vantage that had not begun by `begin_ns`, if that is known."""
    for one in vantages:
        if begin_ns is not None:
            yield from _silence(one, begin_ns, one.first_ns)


def stopped_early(vantages: Iterable[Vantage], until_ns: int | None) -> Iterator[Island]:
    """Yields a silence for each vantage that stopped before `until_ns`, or, if that isn't known,
    before another one of its partition and class.
    """
    last: dict[tuple[str, int, str], int] = defaultdict(int)
    known = list(vantages)
    for one in known:
        place = one.zone, one.partition, one.function
        last[place] = max(last[place], one.last_ns)
    for one in known:
        end_ns = until_ns
        if end_ns is None:
            end_ns = last[one.zone, one.partition, one.function]
        yield from _silence(one, one.last_ns, end_ns)


def _silence(one: Vantage, begin_ns: int, end_ns: int) -> Iterator[Island]:
    """Yields the silence of a vantage between these times, if it is longer than a late probe."""
    if end_ns - begin_ns > SILENT_INTERVALS * one.interval_ns:
        yield Island(
            zone=one.zone,
            partition=one.partition,
            function=one.function,
            vantage=one.vantage,
            silent=True,
            failed=0,
            possible=(begin_ns, end_ns),
            certain=(begin_ns, begin_ns),
        )


def never_probed(
    vantages: Collection[Vantage], partitions: Iterable[ProbedPlace]
) -> list[ProbedPlace]:
    """Returns the partitions that lack a vantage of a class that others have, in their order."""
    functions = {one.function for one in vantages}
    seen = {(one.zone, one.partition, one.function) for one in vantages}
    return sorted(
        place for place in set(partitions) if any((*place, f) not in seen for f in functions)
    )
