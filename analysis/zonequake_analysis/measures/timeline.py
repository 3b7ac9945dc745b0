"""Numbers over time: latency, throughput and availability, for the report and for the SLOs.

Latencies go into logarithmic bins, 16 to an octave (4.4 % wide), counted per slice of time, so that
any percentile of any stretch of time comes from one small table. Maxima are exact. An open loop's
latency counts from the scheduled time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from zonequake_analysis.inputs.shapes import OutcomeCode, RoleCode
from zonequake_analysis.measures.tally import (
    BINS,
    BINS_PER_OCTAVE,
    FUNCTIONS,
    PartitionAnswers,
    Tally,
    extent,
)

OperationCounts = Mapping[tuple[str, str, str], int]
"""How many operations have each role, function and outcome, by their names."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Counts by slice and bin of one class of operations; `max_ns` per slice."""

    counts: Ints  # slices × bins
    max_ns: Ints
    ok: Ints
    bad: Ints

    def percentile_ns(self, fraction: float, first: int = 0, last: int | None = None) -> float:
        """Returns the percentile over slices [first, last), nan if there were no operations."""
        return _percentile(self.counts[first:last].sum(axis=0), fraction)

    def percentiles_ns(self, fraction: float) -> Floats:
        """Returns the percentile of each slice, nan if it has no operations."""
        return np.array([_percentile(row, fraction) for row in self.counts])


def _percentile(counts: Ints, fraction: float) -> float:
    total = counts.sum()
    if total == 0:
        return float("nan")
    place = int(np.searchsorted(np.cumsum(counts), fraction * total, side="left"))
    return float(2 ** ((place + 1) / BINS_PER_OCTAVE))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One partition over time: what was answered in time and what wasn't, by probes if any."""

    zone: str
    partition: int
    good: Ints
    bad: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Everything by slices of `slice_ns` from `start_ns` on."""

    start_ns: int
    slice_ns: int
    slices: int
    latencies: dict[str, Latencies]  # by function, of role load
    partitions: tuple[PartitionRow, ...]
    counts: OperationCounts
    steps: OperationCounts = field(default_factory=dict)  # of transactions, by their own functions
    last_write_ns: int | None = None  # the end of the last answered single write, append or cas

    @property
    def end_ns(self) -> int:
        """End of the last slice."""
        return self.start_ns + self.slices * self.slice_ns

    def slice_of(self, at_ns: int) -> int:
        """Returns the slice of a moment, within 0..slices."""
        return int(min(self.slices, max(0, (at_ns - self.start_ns) // self.slice_ns)))

    def total(self, *, role: str | None = None, outcome: str | None = None) -> int:
        """Returns the number of operations of a role and outcome."""
        return sum(
            number
            for (its_role, _, its_outcome), number in self.counts.items()
            if role in (None, its_role) and outcome in (None, its_outcome)
        )


def timeline(tallies: Iterable[Tally], *, start_ns: int, end_ns: int) -> Timeline:
    """Merges the buckets' counts between the first start and the last line."""
    over = extent(start_ns, end_ns)
    functions, slices = FUNCTIONS, over.slices
    counts = np.zeros(len(functions) * slices * BINS, np.int64)
    longest, bad = np.zeros((2, len(functions) * slices), np.int64)
    outcomes, steps = np.zeros((2, len(RoleCode) * len(functions) * len(OutcomeCode)), np.int64)
    places: dict[int, tuple[PartitionAnswers, Ints]] = {}
    last_writes = []
    for one in tallies:
        counts[np.frombuffer(one.cells, np.int32)] += np.frombuffer(one.counts, np.int32)
        np.maximum(longest, np.frombuffer(one.max_ns, np.int64), out=longest)
        bad += np.frombuffer(one.bad, np.int32)
        outcomes += np.frombuffer(one.outcomes, np.int64)
        steps += np.frombuffer(one.steps, np.int64)
        last_writes += [] if one.last_write_ns is None else [one.last_write_ns]
        for place in one.places:
            _, answers = places.setdefault(
                place.partition_id, (place, np.zeros((4, slices), np.int64))
            )
            given = np.frombuffer(place.answers, np.int32).reshape(4, -1)
            answers[:, : given.shape[1]] += given
    by_outcome = _named(outcomes)
    probed = any(role == "probe" for role, _, _ in by_outcome)
    first = 0 if probed else 2
    shape = (len(functions), slices)
    by_function = zip(
        functions,
        counts.reshape(*shape, BINS),
        longest.reshape(shape),
        bad.reshape(shape),
        strict=True,
    )
    latencies = {
        f: Latencies(counts=cells, max_ns=most, ok=cells.sum(axis=1), bad=failed)
        for f, cells, most, failed in by_function
    }
    rows = [
        PartitionRow(
            zone=place.zone,
            partition=place.partition,
            good=answers[first],
            bad=answers[first + 1],
        )
        for place, answers in places.values()
    ]
    return Timeline(
        start_ns=start_ns,
        slice_ns=over.slice_ns,
        slices=slices,
        latencies={f: one for f, one in latencies.items() if one.ok.any() or one.bad.any()},
        partitions=tuple(sorted(rows, key=lambda row: (row.zone, row.partition))),
        counts=by_outcome,
        steps=_named(steps),
        last_write_ns=max(last_writes, default=None),
    )


def _named(outcomes: Ints) -> OperationCounts:
    return {
        (role.name.lower(), f, outcome.name.lower()): int(number)
        for (role, f, outcome), number in zip(
            product(RoleCode, FUNCTIONS, OutcomeCode), outcomes, strict=True
        )
        if number
    }


def all_of(classes: Iterable[Latencies]) -> Latencies:
    """Returns several classes as one."""
    given = list(classes)
    return Latencies(
        counts=np.sum([c.counts for c in given], axis=0),
        max_ns=np.max([c.max_ns for c in given], axis=0),
        ok=np.sum([c.ok for c in given], axis=0),
        bad=np.sum([c.bad for c in given], axis=0),
    )
