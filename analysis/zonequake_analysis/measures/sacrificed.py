"""The writes that resets took, and those that an unwind brought back: exact, from acknowledged
places. Pure.

    sacrificed   an acknowledged write that is no part of the last lineage. Legal if it began before
                 the reset that cut it off: its place is after the survivor's last one
    restored     an acknowledged write that a lineage in between lacked, and the last one has
    beside       an answer of an older lineage that began after a newer one led: forbidden, two
                 lineages answered side by side

A write that is part of the last lineage but missing is lost, not sacrificed: the other checks find
it in the last lineage's view.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from zonequake_analysis.inputs.lineages import Bools, Ints, Lineages, in_words
from zonequake_analysis.inputs.shapes import INDEX_BITS, TERM_BITS, Function, OutcomeCode
from zonequake_analysis.inputs.views import lineages_of
from zonequake_analysis.measures.majorities import first_examples

MOST_EXAMPLES = 3


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """The fate of one partition's acknowledged writes in its resets.

    `sacrificed`: by the lineage that cut them off. `unrecorded`: lineages that answered and whose
    reset no data node recorded. `first_write_ns`: when each lineage first acknowledged a write.
    `example_places`: key id and start of each example, in their order.
    """

    zone: str
    partition: int
    lineages: list[int]
    sacrificed: dict[int, int]
    restored: int
    beside: int
    unrecorded: list[int]
    first_write_ns: dict[int, int]
    examples: list[str]
    example_places: list[tuple[int, int]] = []


def cuts(ops: pa.Table, lineages: Mapping[int, Lineages], *, one_clock: bool = True) -> list[Cut]:
    """Returns a `Cut` for each partition of `ops` (as laid out, not `views`) with several lineages.

    Without `one_clock` it is unknown what came after a reset, and nothing is `beside`.
    """
    partition = ops.column("partition_id").to_numpy()
    place = ops.column("position").fill_null(-1).to_numpy()
    ok = (ops.column("outcome").to_numpy() == OutcomeCode.OK.value) & (place >= 0)
    lineage = np.where(ok, place >> (TERM_BITS + INDEX_BITS), -1)
    found = []
    for number in np.unique(partition).tolist():
        several = lineages_of(number, partition, lineage, lineages)
        if len(several) > 1:
            rows = np.flatnonzero((partition == number) & ok)
            name = int(np.flatnonzero(partition == number)[0])
            known = lineages.get(number) or Lineages(
                zone=ops.column("zone")[name].as_py() or "",
                partition=ops.column("partition")[name].as_py(),
                begun={},
            )
            found.append(_cut(ops.take(pa.array(rows)), place[rows], several, known, one_clock))
    return found


def _cut(ops: pa.Table, place: Ints, several: list[int], known: Lineages, one_clock: bool) -> Cut:
    own = place >> (TERM_BITS + INDEX_BITS)
    f = ops.column("f").to_numpy()
    applied = ops.column("applied").to_numpy(zero_copy_only=False)
    writes = np.isin(f, (Function.WRITE.value, Function.APPEND.value)) | (
        (f == Function.CAS.value) & applied
    )
    inv, fin = ops.column("inv").to_numpy(), ops.column("fin").to_numpy()
    bounded = ops.column("bounded").to_numpy(zero_copy_only=False)
    cut_by = _cut_by(place, several, known)
    lasting = cut_by == 0
    lacked = np.zeros(len(place), bool)
    beside = np.zeros(len(place), bool)
    for lineage in several[1:]:
        lacked |= (own < lineage) & ~known.has(lineage, place)
        begun = known.begun.get(lineage)
        if begun is not None and one_clock:
            beside |= (own < lineage) & (inv >= begun.at_ns) & ~bounded
    taken, counts = np.unique(cut_by[writes & ~lasting], return_counts=True)
    return Cut(
        zone=known.zone,
        partition=known.partition,
        lineages=several,
        sacrificed=dict(zip(taken.tolist(), counts.tolist(), strict=True)),
        restored=int((writes & lasting & lacked).sum()),
        beside=int(beside.sum()),
        unrecorded=[lineage for lineage in several[1:] if lineage not in known.begun],
        first_write_ns={
            lineage: int(fin[writes & (own == lineage)].min())
            for lineage in several
            if (writes & (own == lineage)).any()
        },
        examples=_examples(ops, place, beside),
        example_places=_example_places(ops, beside),
    )


def whole_cuts(parts: Iterable[Cut]) -> list[Cut]:
    """Returns one `Cut` of each partition, by zone and number, from those of some of its keys."""
    of_partition: dict[tuple[str, int], list[Cut]] = defaultdict(list)
    for part in parts:
        of_partition[part.zone, part.partition].append(part)
    return [_whole(some) for _, some in sorted(of_partition.items())]


def _whole(parts: Sequence[Cut]) -> Cut:
    sacrificed: Counter[int] = Counter()
    first_write_ns: dict[int, int] = {}
    for part in parts:
        sacrificed.update(part.sacrificed)
        for lineage, at in part.first_write_ns.items():
            first_write_ns[lineage] = min(at, first_write_ns.get(lineage, at))
    places, examples = first_examples(
        [(part.example_places, part.examples) for part in parts], MOST_EXAMPLES
    )
    return msgspec.structs.replace(
        parts[0],
        sacrificed=dict(sorted(sacrificed.items())),
        restored=sum(part.restored for part in parts),
        beside=sum(part.beside for part in parts),
        first_write_ns=dict(sorted(first_write_ns.items())),
        examples=examples,
        example_places=places,
    )


def _cut_by(place: Ints, several: list[int], known: Lineages) -> Ints:
    """Returns the lineage that cut each place off the last one, 0 for places that are part of it.

    It is the first one after the place's own from which on no lineage has the place.
    """
    result = np.zeros(len(place), np.int64)
    own = place >> (TERM_BITS + INDEX_BITS)
    for lineage in several[1:]:
        lacks = (own < lineage) & ~known.has(lineage, place)
        result = np.where(lacks, np.where(result == 0, lineage, result), 0)
    return result


def _example_places(ops: pa.Table, beside: Bools) -> list[tuple[int, int]]:
    shown = ops.select(["key_id", "inv"]).take(pa.array(np.flatnonzero(beside)[:MOST_EXAMPLES]))
    return list(zip(*(column.to_pylist() for column in shown.columns), strict=True))


def _examples(ops: pa.Table, place: Ints, beside: Bools) -> list[str]:
    shown = np.flatnonzero(beside)[:MOST_EXAMPLES]
    names = ops.select(["f", "key", "node"]).take(pa.array(shown)).to_pylist()
    return [
        f"{Function(row['f']).name.lower()} of {row['key']} at {in_words(int(place[number]))}"
        f" by {row['node'] or 'an unknown node'}"
        for number, row in zip(shown.tolist(), names, strict=True)
    ]
