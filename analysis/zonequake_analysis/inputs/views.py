"""A partition's history, lineage by lineage: the operations that each lineage must explain.

A reset takes back what its survivor did not have, so no single order explains the answers of both
lineages. For a lineage an answer counts if the state it saw is part of this lineage. A write that
is not part of it may still have happened: the survivor may have had an earlier attempt of it. So it
counts as a write without an answer. A read that saw another state is left out.

The keys of each view have ids of their own, so that every check judges each view by itself and no
check has to know of lineages. Pure, over whole columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from zonequake_analysis.inputs.ids import siblings
from zonequake_analysis.inputs.lineages import Bools, Ints, Lineages
from zonequake_analysis.inputs.shapes import (
    INDEX_BITS,
    LINEAGE_BITS,
    NEVER_NS,
    TERM_BITS,
    Function,
    OutcomeCode,
)


def viewed(ops: pa.Table, lineages: Mapping[int, Lineages]) -> pa.Table:
    """Returns `ops` with each partition that was reset once per lineage, and `copy` set.

    `lineages`: the recorded ones, by partition id. Rows stay in the order of the layout. `copy`:
    the row is an operation that another row shows in its own lineage. Without any reset, the rows
    are unchanged.
    """
    partition = ops.column("partition_id").to_numpy()
    place = ops.column("position").fill_null(-1).to_numpy()
    answered = (ops.column("outcome").to_numpy() == OutcomeCode.OK.value) & (place >= 0)
    lineage = np.where(answered, place >> (TERM_BITS + INDEX_BITS), -1)
    several = {
        number: found
        for number in np.unique(partition).tolist()
        if len(found := lineages_of(number, partition, lineage, lineages)) > 1
    }
    plain = ops.append_column("copy", pa.array(np.zeros(len(ops), bool)))
    if not several:
        return plain
    parts = [plain.filter(pa.array(~np.isin(partition, list(several))))]
    for number, found in several.items():
        rows = np.flatnonzero(partition == number)
        own, at = plain.take(pa.array(rows)), place[rows]
        known = lineages.get(number) or Lineages(zone="", partition=0, begun={})
        parts += [_view(own, at, answered[rows], view, view == found[0], known) for view in found]
    whole = pa.concat_tables(parts)
    order = np.lexsort(
        [whole.column(name).to_numpy() for name in ("process", "inv", "key_id", "partition_id")]
    )
    return whole.take(pa.array(order)).combine_chunks()


def seen_lineages(ops: pa.Table) -> dict[int, list[int]]:
    """Returns the lineages that the answers of each partition show, by partition id.

    Rows of a partition lie together.
    """
    partition = ops.column("partition_id").to_numpy()
    new = np.ones(len(partition), bool)
    new[1:] = partition[1:] != partition[:-1]
    ids, at = partition[new], np.cumsum(new) - 1
    place = ops.column("position").fill_null(-1).to_numpy()
    answered = (ops.column("outcome").to_numpy() == OutcomeCode.OK.value) & (place >= 0)
    pairs = np.unique((at << LINEAGE_BITS | place >> (TERM_BITS + INDEX_BITS))[answered])
    found: dict[int, list[int]] = {number: [] for number in ids.tolist()}
    for pair in pairs.tolist():
        lineage = pair & ((1 << LINEAGE_BITS) - 1)
        found[int(ids[pair >> LINEAGE_BITS])].append(lineage)
    return found


def with_seen(
    ops: pa.Table, recorded: Mapping[int, Lineages], seen: Mapping[int, Sequence[int]]
) -> Mapping[int, Lineages]:
    """Returns what is recorded of lineages, and what answers have shown, also those elsewhere.

    `seen`: lineages by partition id; only partitions of `ops` matter.
    """
    if not seen:
        return recorded
    partition = ops.column("partition_id").to_numpy()
    found = dict(recorded)
    for number, lineages in seen.items():
        rows = np.flatnonzero(partition == number)
        if not len(rows):
            continue
        known = recorded.get(number) or Lineages(
            zone=ops.column("zone")[int(rows[0])].as_py() or "",
            partition=ops.column("partition")[int(rows[0])].as_py(),
            begun={},
        )
        found[number] = replace(known, seen=tuple(lineages))
    return found


def lineages_of(
    number: int, partition: Ints, lineage: Ints, recorded: Mapping[int, Lineages]
) -> list[int]:
    """Returns the lineages of one partition: those recorded, and those of its answers."""
    seen = np.unique(lineage[(partition == number) & (lineage >= 0)]).tolist()
    known = recorded.get(number)
    return known.with_seen(seen) if known is not None else seen


def last_view(ops: pa.Table, lineages: Mapping[int, Lineages]) -> Bools:
    """Returns which answers are part of their partition's last lineage; all if there is only
    one.
    """
    partition = ops.column("partition_id").to_numpy()
    place = ops.column("position").fill_null(-1).to_numpy()
    lineage = np.where(place >= 0, place >> (TERM_BITS + INDEX_BITS), -1)
    result = np.ones(len(ops), bool)
    for number in np.unique(partition).tolist():
        found = lineages_of(number, partition, lineage, lineages)
        if len(found) > 1:
            rows = (partition == number) & (place >= 0)
            known = lineages.get(number) or Lineages(zone="", partition=0, begun={})
            result[rows] = known.has(found[-1], place[rows])
    return result


def _view(
    own: pa.Table, place: Ints, answered: Bools, lineage: int, first: bool, known: Lineages
) -> pa.Table:
    """Returns one partition's rows as this lineage sees them."""
    foreign = answered & ~known.has(lineage, place)
    reads = own.column("f").to_numpy() == Function.READ.value
    copy = np.where(answered, place >> (TERM_BITS + INDEX_BITS) != lineage, not first)
    changed = {
        "key_id": _key_ids(own.column("key_id").to_numpy(), 0 if first else lineage),
        "outcome": np.where(
            foreign, np.int8(OutcomeCode.INFO.value), own.column("outcome").to_numpy()
        ),
        "fin": np.where(foreign, NEVER_NS, own.column("fin").to_numpy()),
        "applied": own.column("applied").to_numpy(zero_copy_only=False) & ~foreign,
        "copy": copy,
    }
    nothing = pa.array(foreign)
    columns = []
    for name in own.column_names:
        if name in changed:
            columns.append(pa.array(changed[name], own.schema.field(name).type))
        elif name in ("position", "found", "node", "term", "index"):
            column = own.column(name).combine_chunks()
            columns.append(pa.compute.if_else(nothing, pa.scalar(None, column.type), column))
        else:
            columns.append(own.column(name).combine_chunks())
    seen = pa.table(columns, schema=own.schema)
    return seen.filter(pa.array(~(foreign & reads)))


def _key_ids(ids: Ints, lineage: int) -> Ints:
    """Returns other ids, of the same bucket, for the keys of each lineage except the first."""
    return siblings(ids, lineage) if lineage else ids
