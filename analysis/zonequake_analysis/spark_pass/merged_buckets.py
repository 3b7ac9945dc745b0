"""The findings of all buckets in one order, and each partition's parts put together. Pure.

A partition's keys may be in several buckets. The result is the same as if they were in one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from zonequake_analysis.measures.majorities import whole_unfounded
from zonequake_analysis.measures.sacrificed import whole_cuts
from zonequake_analysis.measures.tally import PartitionAnswers
from zonequake_analysis.spark_pass.bucket import JudgedBucket

replace = msgspec.structs.replace


@dataclass(slots=True)
class _Answers:
    """The answers of one partition so far, 4 × slices."""

    place: PartitionAnswers
    counts: NDArray[np.int32]


def gathered(buckets: Iterable[JudgedBucket], *, by_key: bool) -> list[JudgedBucket]:
    """Returns the buckets; the first has what is of whole partitions or of none.

    `by_key`: a bucket has only some keys of a partition; then suspect partitions are in all of
    them. Takes one bucket after the other, so that `buckets` may be read on the way.
    """
    found: list[JudgedBucket] = []
    answers: dict[int, _Answers] = {}
    for bucket in buckets:
        for place in bucket.tally.places:
            _add(answers, place)
        found.append(replace(bucket, tally=replace(bucket.tally, places=[])))
    if not found:
        return []
    places = [
        replace(one.place, answers=one.counts.tobytes()) for _, one in sorted(answers.items())
    ]
    vantages = [one for bucket in found for one in bucket.vantages]
    islands = [one for bucket in found for one in bucket.islands]
    held = [one for bucket in found for one in bucket.held]
    first, *others = [
        replace(bucket, vantages=[], islands=[], held=[], cuts=[], unfounded=[]) for bucket in found
    ]
    first = replace(
        first,
        tally=replace(first.tally, places=places),
        vantages=sorted(vantages, key=lambda v: (v.zone, v.partition, v.function, v.vantage)),
        islands=sorted(islands, key=msgspec.structs.astuple),
        held=sorted(held, key=lambda one: (one.zone, one.partition, one.key)),
        cuts=whole_cuts(one for bucket in found for one in bucket.cuts),
        unfounded=whole_unfounded(one for bucket in found for one in bucket.unfounded),
    )
    return _in_all([first, *others]) if by_key else [first, *others]


def _add(answers: dict[int, _Answers], place: PartitionAnswers) -> None:
    """Adds one bucket's answers of a partition; it may have seen fewer slices than another."""
    counts = np.frombuffer(place.answers, np.int32).reshape(4, -1)
    known = answers.get(place.partition_id)
    if known is None:
        answers[place.partition_id] = _Answers(place, counts)
        return
    slices = max(counts.shape[1], known.counts.shape[1])
    total = np.zeros((4, slices), np.int32)
    for some in (counts, known.counts):
        total[:, : some.shape[1]] += some
    known.counts = total


def _in_all(found: list[JudgedBucket]) -> list[JudgedBucket]:
    """Returns the buckets with the suspect partitions of all in each: its file has rows of them."""
    sessions = sorted({number for bucket in found for number in bucket.suspects.split_sessions})
    entries = sorted({number for bucket in found for number in bucket.suspects.entries})
    return [
        replace(bucket, suspects=replace(bucket.suspects, split_sessions=sessions, entries=entries))
        for bucket in found
    ]
