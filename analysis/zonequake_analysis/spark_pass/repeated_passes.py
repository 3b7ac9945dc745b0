"""Repeats the pass until every bucket knows what it needs of the others. Pure.

A pass assumes that no bucket knows anything that another one needs, and that is so for nearly
every history: one pass is enough. What it finds tells whether it was so:

    names that two operations carry     their lines have a fault: the next pass refuses their keys
    a key of two uses                   its operations are no part of a session, in any bucket
    a lineage that others haven't seen  a partition's views are those of all its lineages
    operations of a process overlap     a session would be a violation: their keys are refused

The last three matter only where a partition's keys are in several buckets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from zonequake_analysis.inputs.defects.names import Twice
from zonequake_analysis.inputs.defects.of_history import Defects, defects_together
from zonequake_analysis.inputs.lineages import Lineages
from zonequake_analysis.spark_pass.bucket import NOTHING_ELSEWHERE, Elsewhere, JudgedBucket


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The knowledge that a pass has from earlier ones.

    `twice`: names that several operations or partitions carry.
    """

    twice: Twice | None = None
    elsewhere: Elsewhere = NOTHING_ELSEWHERE


NOTHING_ASKED = Asked()
"""The knowledge of the first pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """The result of the last pass; `overlapping`: the faults of sessions that it was told of."""

    found: Sequence[JudgedBucket]
    overlapping: Defects


Pass = Callable[[Asked], tuple[Sequence[JudgedBucket], Twice]]
Overlaps = Callable[[Asked, Defects, Collection[int]], Defects]
"""Takes what the last pass was told, all refused keys, and the ids of suspect partitions."""


def agreed(
    one_pass: Pass, overlaps: Overlaps, recorded: Mapping[int, Lineages], *, by_key: bool
) -> Agreed:
    """Returns the result of the pass after which nothing more has to be told.

    `recorded`: the lineages of partitions, by their ids; `by_key`: a bucket has only some keys of a
    partition.
    """
    asked = NOTHING_ASKED
    found, twice = one_pass(asked)
    if len(twice.ops) or len(twice.keys):
        asked = Asked(twice=twice)
        found, _ = one_pass(asked)
    if not by_key:
        return Agreed(found=found, overlapping=Defects())
    asked, found = _until_told(one_pass, asked, found, recorded)
    partitions = {number for one in found for number in one.suspects.split_sessions}
    if not partitions:
        return Agreed(found=found, overlapping=Defects())
    refused = defects_together([found[0].facts.faults, asked.elsewhere.refused])
    overlapping = overlaps(asked, refused, partitions)
    if overlapping.refused or overlapping.everything:
        more = _refused([asked.elsewhere.refused, overlapping])
        asked = replace(asked, elsewhere=Elsewhere(refused=more, lineages=asked.elsewhere.lineages))
        found, _ = one_pass(asked)
        _, found = _until_told(one_pass, asked, found, recorded)
    return Agreed(found=found, overlapping=overlapping)


def _until_told(
    one_pass: Pass, asked: Asked, found: Sequence[JudgedBucket], recorded: Mapping[int, Lineages]
) -> tuple[Asked, Sequence[JudgedBucket]]:
    while True:
        before = asked.elsewhere
        told = Elsewhere(
            refused=_refused([before.refused, *(one.faults for one in found)]),
            lineages=_lineages(found, recorded, before.lineages),
        )
        if told == before:
            return asked, found
        asked = replace(asked, elsewhere=told)
        found, _ = one_pass(asked)


def _refused(parts: Sequence[Defects]) -> Defects:
    """Returns the keys that these faults refuse, without the faults."""
    whole = defects_together(parts)
    return Defects(refused=whole.refused, everything=whole.everything)


def _lineages(
    found: Sequence[JudgedBucket],
    recorded: Mapping[int, Lineages],
    told: Mapping[int, Sequence[int]],
) -> dict[int, list[int]]:
    """Returns the lineages to tell: those of partitions of which a bucket didn't know them all."""
    seen: dict[int, set[int]] = defaultdict(set)
    for bucket in found:
        for number, own in bucket.lineages.items():
            seen[number].update(own)
    result = {}
    for number, whole in seen.items():
        known = recorded.get(number) or Lineages(zone="", partition=0, begun={})
        all_of_them = known.with_seen(whole)
        complete = all(
            known.with_seen({*bucket.lineages[number], *told.get(number, ())}) == all_of_them
            for bucket in found
            if number in bucket.lineages
        )
        if number in told or not (complete or len(all_of_them) == 1):
            result[number] = sorted(whole)
    return result
