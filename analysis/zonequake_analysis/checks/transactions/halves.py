"""Transactions that were seen half: one append was read, and a later read missed another. Pure.

A transaction over the keys a and b is at one instant. A read of a that shows its append comes after
that instant; a read of b without its append comes before. So this is impossible, in either order of
the keys:

    read a: [x]   answered, or at place 7
    read b: []    begun after that answer, or at place 7 or later

One transaction that reads both is at one place. Whether each key by itself is in order is judged by
the checks of single keys: this one compares keys, and needs no order of appends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zonequake_analysis.checks.transactions.recorded import ListTransaction
from zonequake_analysis.inputs.shapes import OutcomeCode


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfSeen:
    """`shows` read one append of `transaction`, at `shown`; `misses` came later and read `missed`
    without the other.

    `by_times`: only the times of both say that it came later, and no place does.
    """

    transaction: ListTransaction
    shows: ListTransaction
    misses: ListTransaction
    shown: str
    missed: str
    by_times: bool = False


@dataclass(frozen=True, slots=True)
class _Read:
    by: ListTransaction
    values: frozenset[int]


def half_seen(transactions: Sequence[ListTransaction]) -> Iterator[HalfSeen]:
    """Yields one finding of each transaction of which reads show a half.

    Of all reads that show an append, the one that ended first and the one at the first place are
    compared with each read of another key. A half that needs no times is preferred.
    """
    reads = defaultdict[str, list[_Read]](list)
    for one in transactions:
        if one.outcome is OutcomeCode.OK:
            for key, values in one.reads.items():
                reads[key].append(_Read(one, frozenset(values)))
    for one in transactions:
        if one.outcome is not OutcomeCode.FAIL and len(one.appends) > 1:
            found = _half(one, reads)
            if found is not None:
                yield found


def _half(one: ListTransaction, reads: dict[str, list[_Read]]) -> HalfSeen | None:
    """Returns the half of a transaction that reads show; None if they show none."""
    first: dict[str, list[ListTransaction]] = {}
    for key, value in one.appends.items():
        shows = [read.by for read in reads.get(key, ()) if value in read.values]
        if not shows:
            continue
        placed = [by for by in shows if by.position is not None]
        first[key] = [min(shows, key=lambda by: by.fin_ns)]
        first[key] += sorted(placed, key=lambda by: by.position or 0)[:1]
    by_times = None
    for missed, value in one.appends.items():
        for read in reads.get(missed, ()):
            if value in read.values:
                continue
            for shown, early in first.items():
                if shown == missed:
                    continue
                for by in early:
                    certain = _not_after(by, read.by)
                    if not certain and (by_times or by.fin_ns >= read.by.inv_ns):
                        continue
                    half = HalfSeen(
                        transaction=one, shows=by, misses=read.by, shown=shown, missed=missed,
                        by_times=not certain,
                    )  # fmt: skip
                    if certain:
                        return half
                    by_times = half
    # A transaction that reads both keys may be neither the first to end nor at the first place.
    return _torn(one, reads) or by_times


def _torn(one: ListTransaction, reads: dict[str, list[_Read]]) -> HalfSeen | None:
    """Returns the first transaction that read one key with the append and another without."""
    shows: dict[int, tuple[ListTransaction, str]] = {}
    misses: dict[int, str] = {}
    for key, value in one.appends.items():
        for read in reads.get(key, ()):
            if value in read.values:
                shows.setdefault(id(read.by), (read.by, key))
            else:
                misses.setdefault(id(read.by), key)
    for number, (by, shown) in shows.items():
        if number in misses:
            return HalfSeen(
                transaction=one, shows=by, misses=by, shown=shown, missed=misses[number]
            )
    return None


def _not_after(shows: ListTransaction, misses: ListTransaction) -> bool:
    """Returns whether the read that shows can't be after the one that misses, without times."""
    if shows is misses:
        return True
    if shows.position is None or misses.position is None:
        return False
    return shows.position <= misses.position
