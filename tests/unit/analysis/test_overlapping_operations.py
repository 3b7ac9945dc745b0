"""Operations of one process that overlap are found at once as by going through them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from zonequake_analysis.inputs.defects.of_history import MOST_EXAMPLES, HistoryDefectKind
from zonequake_analysis.inputs.defects.of_keys import overlaps
from zonequake_analysis.inputs.shapes import NEVER_NS

LOWEST = int(np.iinfo(np.int64).min)

times = st.one_of(st.integers(0, 6), st.sampled_from([NEVER_NS, NEVER_NS - 1, LOWEST + 1]))
operations = st.lists(
    st.fixed_dictionaries(
        {
            "partition_id": st.integers(0, 1),
            "process": st.one_of(st.just(1), st.just(2**62)),
            "inv": times,
            "fin": times,
            "key_id": st.integers(0, 3),
            "origin": st.integers(0, 1),  # the same one, too: ties go by their rows
        }
    ),
    max_size=24,
)

SHAPE = pa.schema(
    [(name, pa.int64()) for name in ("partition_id", "process", "inv", "fin", "key_id", "origin")]
    + [("op", pa.string()), ("step", pa.int8())]
)
Row = dict[str, int]
Found = tuple[int, list[tuple[int, int, int, int]], set[tuple[int, int]]]


def one_by_one(ops: list[Row], partitions: set[int], clock_offset_ns: int) -> Found:
    """The number of overlaps, lines and rows of the first ones, and the keys of all."""
    sessions: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for row, op in enumerate(ops):
        if op["partition_id"] in partitions:
            fin = LOWEST if op["fin"] == NEVER_NS else op["fin"]
            session = (op["partition_id"], op["process"])
            sessions.setdefault(session, []).append((op["inv"], row, fin))
    found = []
    for of_one in sessions.values():
        by, until = -1, None
        for inv, row, fin in sorted(of_one):
            if until is not None and inv + 2 * clock_offset_ns < until:
                found.append((ops[by]["origin"], ops[row]["origin"], by, row))
            if until is None or fin > until:
                by, until = row, fin
    names = {
        (ops[row]["partition_id"], ops[row]["key_id"]) for *_, by, row in found for row in (by, row)
    }
    return len(found), sorted(found)[:MOST_EXAMPLES], names


@settings(max_examples=300)
@given(ops=operations, partitions=st.sets(st.integers(0, 1)), clock_offset_ns=st.integers(0, 2))
def test_the_same_overlaps_are_found_as_one_by_one(
    ops: list[Row], partitions: set[int], clock_offset_ns: int
) -> None:
    rows = [{**op, "op": str(row)} for row, op in enumerate(ops)]
    table = pa.Table.from_pylist(rows, schema=SHAPE)
    count, first, names = one_by_one(ops, partitions, clock_offset_ns)
    found = overlaps(table, partitions, clock_offset_ns=clock_offset_ns)
    assert found.of(HistoryDefectKind.OVERLAP) == count
    assert len(found.examples) == len(first)
    for fault, (*lines, by, row) in zip(found.examples, first, strict=True):
        assert fault.origins == lines
        assert f"ended op `{by}` here, and began op `{row}`" in fault.words
    assert found.refused == sorted(names)
