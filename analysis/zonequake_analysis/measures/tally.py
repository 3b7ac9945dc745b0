"""The counts of one bucket for the report: over time, by place, and by outcome. Pure, exact."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zonequake_analysis.inputs.shapes import PROBE_DEADLINE_NS, Function, OutcomeCode, RoleCode

SLICES = 600
"""Slices of the whole run: about one for each pixel of the report's drawings."""

MIN_SLICE_NS = 100_000_000
BINS_PER_OCTAVE = 16
BINS = 40 * BINS_PER_OCTAVE
"""Bins of latency, up to 2^40 ns, 18 minutes."""

TRANSACTION = "transaction"
FUNCTIONS = (*(f.name.lower() for f in Function), TRANSACTION)
"""What is counted: a transaction as one, whatever its steps are."""

_F, _ROLES, _OUTCOMES = len(FUNCTIONS), len(RoleCode), len(OutcomeCode)
Ints = NDArray[np.int64]


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """The drawn time: `slices` of `slice_ns` from `start_ns` on."""

    start_ns: int
    slice_ns: int
    slices: int


def extent(start_ns: int, end_ns: int) -> Extent:
    """Returns the slices of a run, from its first scheduled start to its last line."""
    slice_ns = max(MIN_SLICE_NS, (end_ns - start_ns) // SLICES + 1)
    return Extent(
        start_ns=start_ns, slice_ns=slice_ns, slices=int((end_ns - start_ns) // slice_ns) + 1
    )


class PartitionAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """Answers of one partition: rows good, bad (probes), good, bad (others), by slice."""

    partition_id: int
    zone: str
    partition: int
    answers: bytes  # int32, 4 × slices


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one bucket, as bytes of little-endian integers.

    Latencies of answered load are a sparse array function × slice × bin.
    """

    outcomes: bytes  # int64, role × function × outcome
    steps: bytes  # int64, as many, of the steps of transactions by their own functions
    cells: bytes  # int32, places in the array of latencies
    counts: bytes  # int32, as many
    max_ns: bytes  # int64, function × slice
    bad: bytes  # int32, function × slice
    places: list[PartitionAnswers]
    last_write_ns: int | None = None  # the end of the last answered single write, append or cas


def tally(ops: pa.Table, over: Extent) -> Tally:
    """Counts the operations of a bucket; an open loop's latency is from the scheduled start.

    A transaction counts where its first step is.
    """
    step = ops.column("step").fill_null(-1).to_numpy()
    role, f, outcome = (ops.column(n).to_numpy().astype(np.int64) for n in ("role", "f", "outcome"))
    steps = _outcomes(role[step >= 0], f[step >= 0], outcome[step >= 0])
    if (step > 0).any():
        first = step <= 0
        ops, step = ops.filter(pa.array(first)), step[first]
        role, f, outcome = role[first], f[first], outcome[first]
    f[step == 0] = FUNCTIONS.index(TRANSACTION)
    sched, fin = ops.column("sched").to_numpy(), ops.column("fin").to_numpy()
    at = np.clip((sched - over.start_ns) // over.slice_ns, 0, over.slices - 1)
    ok = outcome == OutcomeCode.OK.value
    latency = np.where(ok, np.maximum(fin - np.where(ok, sched, 0), 1), 1)
    load = role == RoleCode.LOAD.value
    shown = np.flatnonzero(load & ok)
    bins = np.floor(np.log2(latency[shown].astype(np.float64)) * BINS_PER_OCTAVE).astype(np.int64)
    row = f[shown] * over.slices + at[shown]
    cells, counts = np.unique(row * BINS + np.minimum(bins, BINS - 1), return_counts=True)
    max_ns = np.zeros(_F * over.slices, np.int64)
    np.maximum.at(max_ns, row, latency[shown])
    failed = np.flatnonzero(load & ~ok)
    bad = np.bincount(f[failed] * over.slices + at[failed], minlength=_F * over.slices)
    writes = fin[ok & (f != Function.READ.value) & (step < 0)]
    return Tally(
        outcomes=_outcomes(role, f, outcome),
        steps=steps,
        cells=cells.astype(np.int32).tobytes(),
        counts=counts.astype(np.int32).tobytes(),
        max_ns=max_ns.tobytes(),
        bad=bad.astype(np.int32).tobytes(),
        places=_places(
            ops, at, ok & ((role != RoleCode.PROBE.value) | (latency <= PROBE_DEADLINE_NS))
        ),
        last_write_ns=int(writes.max()) if len(writes) else None,
    )


def _outcomes(role: Ints, f: Ints, outcome: Ints) -> bytes:
    """Returns how many operations have each role, function and outcome."""
    counts = np.bincount((role * _F + f) * _OUTCOMES + outcome, minlength=_ROLES * _F * _OUTCOMES)
    return counts.astype(np.int64).tobytes()


def _places(ops: pa.Table, at: Ints, good: NDArray[np.bool_]) -> list[PartitionAnswers]:
    """Returns the answers by partition; the rows of a partition are contiguous."""
    ids = ops.column("partition_id").to_numpy()
    probe = ops.column("role").to_numpy() == RoleCode.PROBE.value
    new = np.ones(len(ids), bool)
    new[1:] = ids[1:] != ids[:-1]
    edges = np.flatnonzero(new).tolist()
    kind = np.where(probe, 0, 2) + np.where(good, 0, 1)
    slices = int(at.max(initial=0)) + 1
    result = []
    for first, last in pairwise([*edges, len(ids)]):
        found = np.bincount(kind[first:last] * slices + at[first:last], minlength=4 * slices)
        result.append(
            PartitionAnswers(
                partition_id=int(ids[first]),
                zone=ops.column("zone")[first].as_py() or "",
                partition=ops.column("partition")[first].as_py(),
                answers=found.reshape(4, slices).astype(np.int32).tobytes(),
            )
        )
    return result
