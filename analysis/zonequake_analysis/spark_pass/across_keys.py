"""Checks across the keys of a partition, where each bucket has only some of its keys.

A large partition is split by key (`partition_share`). Sessions, places of the log and series of
probes belong to no key: what they need of an operation travels a second time, to a bucket that the
session, the place or the series chooses. The bucket's task judges them beside its own keys:

    events ──▶ by key: everything, for all checks of keys
           ├─▶ by (partition, process): answers, 40 bytes of each
           ├─▶ by (partition, place): entries, 16 bytes of each write
           └─▶ by (partition, class, vantage): probes

It finds what `sessions.suspects`, `claimed.shared_entries` and `watched` find in a whole partition.
Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zonequake_analysis.checks.screens.columns import Bools, Ints
from zonequake_analysis.checks.screens.segments import heads
from zonequake_analysis.checks.screens.sessions import gone_back
from zonequake_analysis.inputs.defects.names import hashed
from zonequake_analysis.inputs.defects.of_history import Defects
from zonequake_analysis.inputs.defects.of_keys import overlaps, without_refused
from zonequake_analysis.inputs.ids import spread_bucket
from zonequake_analysis.inputs.integer_columns import EVENTS
from zonequake_analysis.inputs.layout import blobs, joined, laid_out
from zonequake_analysis.inputs.shapes import Function, OutcomeCode, RoleCode
from zonequake_analysis.measures.availability.probes import Island, Vantage, watched


def _some(*names: str) -> pa.Schema:
    return pa.schema([EVENTS.field(name) for name in names])


_ANSWERS = _some("partition_id", "key_id", "process", "inv", "position")
_ENTRIES = _some("partition_id", "position")
_BEGUN = _some(
    *("partition_id", "key_id", "process", "op", "inv", "fin", "origin", "step"),
    *("invoke", "paired"),
)
"""The columns that tell when each operation of a process began and ended."""

_PROBES = _some(*_BEGUN.names, "zone", "partition", "role", "f", "outcome", "sched", "vantage")


NOTHING_ACROSS = (b"", b"", b"")
"""The rows `shipped` to a bucket that gets none."""


class Across(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of one bucket on what spans keys: ids of partitions, and probes."""

    sessions: list[int]
    entries: list[int]
    vantages: list[Vantage]
    islands: list[Island]


def shipped(events: pa.Table, buckets: int) -> list[tuple[bytes, bytes, bytes]]:
    """Returns for each bucket, from 0 on, its answers, entries and probes among these events."""
    partition, position, process, f = (
        events.column(name).fill_null(0).to_numpy()
        for name in ("partition_id", "position", "process", "f")
    )
    answered = (
        (events.column("outcome").to_numpy() == OutcomeCode.OK.value)
        & ~events.column("bounded").to_numpy()
        & events.column("position").is_valid().to_numpy()
    )
    writes = (f == Function.WRITE.value) | (f == Function.APPEND.value)
    writes |= (f == Function.CAS.value) & events.column("applied").to_numpy()
    writes &= events.column("step").fill_null(0).to_numpy() == 0
    probes = events.column("role").to_numpy() == RoleCode.PROBE.value

    def rows(shape: pa.Schema, wanted: Bools, *by: Ints) -> Iterator[bytes]:
        some = events.select(shape.names).filter(pa.array(wanted))
        return blobs(some, spread_bucket(buckets, *(column[wanted] for column in by)), buckets)

    reads = (f == Function.READ.value).astype(np.int64)
    vantage = hashed(events.column("vantage"))
    return list(
        zip(
            rows(_ANSWERS, answered, partition, process),
            rows(_ENTRIES, answered & writes, partition, position),
            rows(_PROBES, probes, partition, reads, vantage),
            strict=True,
        )
    )


def judged_across(parts: Iterable[tuple[bytes, bytes, bytes]], refused: Defects) -> Across:
    """Returns what one bucket's `shipped` rows show, without operations of refused keys."""
    answers, entries, probes = zip(NOTHING_ACROSS, *parts, strict=True)
    placed = joined(entries, _ENTRIES)
    vantages, islands = watched(without_refused(laid_out(joined(probes, _PROBES)).ops, refused))
    return Across(
        sessions=_went_back(without_refused(joined(answers, _ANSWERS), refused)),
        entries=_shared(*(placed.column(name).to_numpy() for name in _ENTRIES.names)),
        vantages=vantages,
        islands=islands,
    )


def _went_back(answers: pa.Table) -> list[int]:
    """Returns partitions where a process was answered from an earlier place."""
    partition, process, inv, position = (
        answers.column(name).to_numpy() for name in ("partition_id", "process", "inv", "position")
    )
    back = gone_back(partition=partition, process=process, inv=inv, position=position)
    found: list[int] = np.unique(partition[back.rows]).tolist()
    return found


def _shared(partition: Ints, position: Ints) -> list[int]:
    """Returns partitions where two writes could have one place."""
    order = np.lexsort((position, partition))
    partition = partition[order]
    found: list[int] = np.unique(partition[~heads(partition, position[order])]).tolist()
    return found


def of_processes(events: pa.Table, partitions: Collection[int], buckets: int) -> Iterator[bytes]:
    """Yields for each bucket, from 0 on, the begins and ends of its processes' operations.

    `partitions`: the ids of those that are looked at.
    """
    wanted = pc.is_in(events.column("partition_id"), pa.array(sorted(partitions), pa.int64()))
    some = events.select(_BEGUN.names).filter(wanted)
    by = (some.column(name).to_numpy() for name in ("partition_id", "process"))
    return blobs(some, spread_bucket(buckets, *by), buckets)


def overlapping(
    parts: Iterable[bytes], refused: Defects, partitions: Collection[int], *, clock_offset_ns: int
) -> Defects:
    """Returns the operations of one bucket's processes that ran at the same time (`overlaps`)."""
    ops = without_refused(laid_out(joined(parts, _BEGUN)).ops, refused)
    return overlaps(ops, partitions, clock_offset_ns=clock_offset_ns)
