"""Probes that were never sent: of partitions of which there are none, and before a vantage's first.

No data is not success: an outage that no vantage looked at is no window. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from zonequake_analysis.measures.availability.probes import SILENT_INTERVALS, Island, Vantage

ProbedPlace = tuple[str, int]
"""Zone and partition."""


def began_late(vantages: Iterable[Vantage], begin_ns: int | None) -> Iterator[Island]:
    """Yields a silence for each vantage that had not begun by `begin_ns`, if that is known."""
    for one in vantages:
        if begin_ns is not None and one.first_ns - begin_ns > SILENT_INTERVALS * one.interval_ns:
            yield Island(
                zone=one.zone,
                partition=one.partition,
                function=one.function,
                vantage=one.vantage,
                silent=True,
                failed=0,
                possible=(begin_ns, one.first_ns),
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
