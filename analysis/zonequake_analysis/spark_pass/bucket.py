"""The whole work on one bucket of operations, in one pass: writes, screens and counts it.

It runs in a Spark task, which may be repeated: everything comes back as a value, and the one file
that it writes appears whole under its name or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zonequake_analysis.checks.screens import black_box, claimed, loss, sessions, sets
from zonequake_analysis.checks.screens.columns import Bools, Columns, columns
from zonequake_analysis.inputs.defects.of_history import Defects, defects_together
from zonequake_analysis.inputs.defects.of_keys import (
    appended_again,
    orphans,
    overlaps,
    two_uses,
    without_refused,
)
from zonequake_analysis.inputs.integer_columns import Facts, together
from zonequake_analysis.inputs.layout import joined, laid_out
from zonequake_analysis.inputs.lineages import Lineages
from zonequake_analysis.inputs.shapes import OutcomeCode
from zonequake_analysis.inputs.views import last_view, seen_lineages, viewed, with_seen
from zonequake_analysis.measures.acknowledged import Acknowledged, acknowledged_of
from zonequake_analysis.measures.availability.probes import Island, Vantage, watched
from zonequake_analysis.measures.lost_groups import AcknowledgedWrites, acknowledged_writes
from zonequake_analysis.measures.majorities import TimeRange, Unfounded, unfounded
from zonequake_analysis.measures.sacrificed import Cut, cuts
from zonequake_analysis.measures.tally import Tally, extent, tally
from zonequake_analysis.spark_pass.across_keys import Across, judged_across
from zonequake_analysis.storage.location import Location

_ROWS_TO_A_GROUP = 64 * 1024
"""Parquet rows that a search for the operations of a few keys skips together."""

_ENUMERATED = ["zone", "node", "vantage", "partition_id", "key_id", "key", "partition", "role", "f"]


class Suspects(msgspec.Struct, frozen=True, kw_only=True):
    """Ids that the exact checks must read: keys per check, or partitions if the field says so."""

    sets: list[int] = []
    loss: list[int] = []
    replayed: list[int] = []
    late: list[int] = []
    unclear: list[int] = []
    registers: list[int] = []
    lists: list[int] = []
    sessions: list[int] = []  # partitions
    entries: list[int] = []  # partitions
    split_sessions: list[int] = []  # partitions, in place of `sessions` where they are split
    partitions: list[int] = []  # those of all keys above

    @property
    def keys(self) -> set[int]:
        """The keys of all checks."""
        of_each = (self.sets, self.loss, self.replayed, self.late, self.registers, self.lists)
        return {key for keys in of_each for key in keys}


NO_SUSPECTS = Suspects()


class JudgedBucket(msgspec.Struct, frozen=True, kw_only=True):
    """The findings and facts of one bucket. `facts` are those of the whole history; `faults` those
    that the bucket's operations show together; `refused`: operations that are not judged;
    `lineages`: those that the bucket's answers show, by partition id; `transactions`: whether it
    has a step of one.
    """

    facts: Facts
    faults: Defects
    operations: int
    refused: int
    orphans: int
    cut_off: int
    unplaced: int
    placed: int
    acknowledged: int
    uncovered: int
    compared_writes: int
    compared_reads: int
    suspects: Suspects
    tally: Tally
    vantages: list[Vantage]
    islands: list[Island]
    held: list[Acknowledged]
    cuts: list[Cut]
    unfounded: list[Unfounded]
    of_lost_groups: list[AcknowledgedWrites]
    lineages: dict[int, list[int]]
    transactions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The knowledge about partitions from the run's events, by their ids.

    `one_clock`: the events have the history's clock, so it is known which answers came after them.
    """

    lineages: Mapping[int, Lineages]
    without_majority: Mapping[int, Sequence[TimeRange]]
    one_clock: bool
    lost_groups: frozenset[int] = frozenset()


class Elsewhere(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of earlier passes in other buckets, where each has only some of the keys.

    `refused`: keys with faults; `lineages`: those that answers show, by partition id.
    """

    refused: Defects = Defects()
    lineages: dict[int, list[int]] = {}


NOTHING_KNOWN = Known(lineages={}, without_majority={}, one_clock=True)
"""The knowledge for a history without events."""

NOTHING_ELSEWHERE = Elsewhere()
"""The knowledge of the first pass over a history."""


def judged_bucket(
    number: int,
    blobs: Iterable[bytes],
    facts: Sequence[Facts],
    *,
    folder: Location,
    dumps: bool,
    known: Known = NOTHING_KNOWN,
    clock_offset_ns: int = 0,
    across: Iterable[tuple[bytes, bytes, bytes]] | None = None,
    elsewhere: Elsewhere = NOTHING_ELSEWHERE,
) -> JudgedBucket:
    """Writes bucket `number` into `folder`, and screens and counts it.

    `blobs` are read once; `facts` are those of all ranges; `dumps`: whether to list acknowledged
    writes; `clock_offset_ns`: by how much intervals were widened. Operations of refused keys are
    counted, but neither written nor judged. `across`: what is `shipped` to this bucket, where it
    has only some keys of a partition, and None where it has whole partitions.
    """
    whole = together(facts)
    paired = laid_out(joined(blobs))
    used = defects_together([two_uses(paired.ops), appended_again(paired.ops)])
    refused = defects_together([whole.faults, elsewhere.refused])
    ops = without_refused(paired.ops, defects_together([refused, used]))
    lineages = with_seen(ops, known.lineages, elsewhere.lineages)
    seen = viewed(ops, lineages)
    spanning = None if across is None else judged_across(across, refused)
    suspects = screened(columns(seen), spanning)
    overlapping = Defects()
    if spanning is None:
        overlapping = overlaps(ops, suspects.sessions, clock_offset_ns=clock_offset_ns)
        if overlapping.refused:
            ops = without_refused(ops, overlapping)
            seen = viewed(ops, lineages)
            suspects = screened(columns(seen))
    if ops.num_rows:
        _write(seen, folder, number)
    c = columns(ops)
    covered = loss.coverage(c)
    vantages, islands = watched(ops) if spanning is None else (spanning.vantages, spanning.islands)
    answered = c.outcome == OutcomeCode.OK.value
    unplaced = answered & ops.column("position").is_null().to_numpy()
    return JudgedBucket(
        facts=whole,
        faults=defects_together(
            [used, overlapping, orphans(paired.orphans, paired.orphan_origins)]
        ),
        operations=paired.ops.num_rows,
        refused=paired.ops.num_rows - ops.num_rows,
        orphans=paired.orphans,
        cut_off=paired.cut_off,
        unplaced=int(unplaced.sum()),
        placed=int(answered.sum() - unplaced.sum()),
        acknowledged=covered.acknowledged,
        uncovered=covered.uncovered,
        compared_writes=covered.compared_writes,
        compared_reads=covered.compared_reads,
        suspects=suspects,
        tally=tally(paired.ops, extent(whole.start or 0, whole.end or 0)),
        vantages=vantages,
        islands=islands,
        held=acknowledged_of(ops.filter(pa.array(last_view(ops, lineages)))) if dumps else [],
        cuts=cuts(ops, lineages, one_clock=known.one_clock),
        unfounded=unfounded(ops, known.without_majority) if known.one_clock else [],
        of_lost_groups=acknowledged_writes(ops, known.lost_groups),
        lineages={} if spanning is None else seen_lineages(ops),
        transactions=ops.column("step").null_count < ops.num_rows,
    )


def screened(c: Columns, across: Across | None = None) -> Suspects:
    """Runs every screen over one bucket.

    `across`: what was found across keys, if the bucket has only some keys of a partition.
    """
    by_partition = _partitions(c, across)
    if not c.keys:
        return Suspects(**by_partition)
    by_rank = claimed.suspects(c)
    by_key = {
        "sets": sets.suspects(c),
        "loss": loss.suspects(c),
        "replayed": by_rank.replayed,
        "late": by_rank.late,
        "unclear": by_rank.unclear,
        "registers": black_box.registers(c),
        "lists": black_box.lists(c),
    }
    any_key: Bools = np.logical_or.reduce(list(by_key.values()))
    return Suspects(
        **{name: c.key_ids[flags].tolist() for name, flags in by_key.items()},
        **by_partition,
        partitions=np.unique(c.partition_ids[c.partition_of[any_key]]).tolist(),
    )


def _partitions(c: Columns, across: Across | None) -> dict[str, list[int]]:
    """Returns the suspects that are partitions, by the names of their fields."""
    if across is None:
        flagged = {"sessions": sessions.suspects(c), "entries": claimed.shared_entries(c)}
        return {name: c.partition_ids[flags].tolist() for name, flags in flagged.items()}
    odd = c.partition_ids[c.partition_of[c.odd]].tolist()
    return {"split_sessions": [*across.sessions, *odd], "entries": [*across.entries, *odd]}


def file_of(folder: Location, number: int) -> Location:
    """Returns the file of a bucket, named as Spark names it."""
    return folder / f"part-{number:05d}-ops_{number:05d}.c000.parquet"


def _write(ops: pa.Table, folder: Location, number: int) -> None:
    """Writes one Parquet file."""
    content = pa.BufferOutputStream()
    pq.write_table(
        ops.drop_columns(["origin"]),
        content,
        compression="snappy",  # as Spark's, for the reason that session.py gives
        use_dictionary=_ENUMERATED,
        write_statistics=["partition_id", "key_id", "role"],
        row_group_size=_ROWS_TO_A_GROUP,
        store_schema=False,
    )
    file_of(folder, number).write(memoryview(content.getvalue()))
