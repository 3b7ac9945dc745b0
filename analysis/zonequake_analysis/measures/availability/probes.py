"""The results of each vantage's probes of a bucket's partitions: runs of failures and of silence.

The probes are whole arrays, sorted by series and scheduled start. A series is what one vantage
sends to one partition in one class. The definitions are those of `windows`. Pure.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zonequake_analysis.inputs.shapes import PROBE_DEADLINE_NS, Function, OutcomeCode, RoleCode

SILENT_INTERVALS = 3
"""A vantage that misses this many intervals has not been probing."""


class Vantage(msgspec.Struct, frozen=True, kw_only=True):
    """The probes of one vantage, of one partition and class."""

    zone: str
    partition: int
    function: str  # read or write
    vantage: str
    probes: int
    failed: int
    interval_ns: int  # median
    first_ns: int
    last_ns: int


class Island(msgspec.Struct, frozen=True, kw_only=True):
    """A run of failures, or of silence, of one vantage."""

    zone: str
    partition: int
    function: str
    vantage: str
    silent: bool
    failed: int
    possible: tuple[int, int]
    certain: tuple[int, int]


def watched(ops: pa.Table) -> tuple[list[Vantage], list[Island]]:
    """Returns the vantages of a bucket's probes, and their runs of failures and silence."""
    probes = ops.filter(pc.equal(ops.column("role"), pa.scalar(RoleCode.PROBE.value, pa.int8())))
    if not probes.num_rows:
        return [], []
    partition_id = probes.column("partition_id").to_numpy()
    reads = probes.column("f").to_numpy() == Function.READ.value
    names = pc.fill_null(probes.column("vantage"), "").combine_chunks().dictionary_encode()
    vantage = names.indices.to_numpy()
    order = np.lexsort((probes.column("sched").to_numpy(), vantage, reads, partition_id))
    probes = probes.take(pa.array(order))
    partition_id, reads, vantage = partition_id[order], reads[order], vantage[order]
    new = np.ones(len(order), bool)
    new[1:] = (
        (partition_id[1:] != partition_id[:-1])
        | (reads[1:] != reads[:-1])
        | (vantage[1:] != vantage[:-1])
    )
    starts = np.flatnonzero(new)
    sched, fin = probes.column("sched").to_numpy(), probes.column("fin").to_numpy()
    ok = probes.column("outcome").to_numpy() == OutcomeCode.OK.value
    answered = ok & (np.where(ok, fin, 0) - sched <= PROBE_DEADLINE_NS)
    vantages: list[Vantage] = []
    islands: list[Island] = []
    for first, last in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
        place = {
            "zone": probes.column("zone")[first].as_py() or "",
            "partition": probes.column("partition")[first].as_py(),
            "function": "read" if reads[first] else "write",
            "vantage": names.dictionary[int(vantage[first])].as_py(),
        }
        _series(place, sched[first:last], fin[first:last], answered[first:last], vantages, islands)
    return vantages, islands


def _series(
    place: dict[str, str | int],
    sched: np.ndarray,
    fin: np.ndarray,
    answered: np.ndarray,
    vantages: list[Vantage],
    islands: list[Island],
) -> None:
    gaps = np.diff(sched)
    usual = int(np.sort(gaps)[(len(gaps) - 1) // 2]) if len(gaps) else 0
    vantages.append(
        msgspec.convert(
            {
                **place,
                "probes": len(sched),
                "failed": int((~answered).sum()),
                "interval_ns": usual,
                "first_ns": int(sched[0]),
                "last_ns": int(sched[-1]),
            },
            Vantage,
        )
    )
    earlier = np.maximum.accumulate(np.where(answered, fin, 0))
    later = np.minimum.accumulate(np.where(answered, fin, 2**63 - 1)[::-1])[::-1]
    failed = np.flatnonzero(~answered)
    for run in np.split(failed, np.flatnonzero(np.diff(failed) > 1) + 1):
        if not len(run):
            continue
        begin, end = int(run[0]), int(run[-1])
        first, last = int(sched[begin]), int(sched[end])
        known_from = (int(earlier[begin - 1]) if begin else 0) or first
        known_to = (int(later[end + 1]) if end + 1 < len(sched) else 0) or last
        islands.append(
            _island(
                place, False, len(run), (min(known_from, first), max(known_to, last)), (first, last)
            )
        )
    for row in np.flatnonzero(gaps > SILENT_INTERVALS * usual).tolist():
        at, until = int(sched[row]), int(sched[row + 1])
        islands.append(_island(place, True, int(not answered[row]), (at, until), (at, at)))


def _island(
    place: dict[str, str | int],
    silent: bool,
    failed: int,
    possible: tuple[int, int],
    certain: tuple[int, int],
) -> Island:
    return msgspec.convert(
        {**place, "silent": silent, "failed": failed, "possible": possible, "certain": certain},
        Island,
    )
