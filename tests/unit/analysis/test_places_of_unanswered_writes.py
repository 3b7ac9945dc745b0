"""Writes that only a cas without an answer observed, where arrays can't tell: placed as arrays do.

The SQL form of the claimed order judges keys with two writes of one value. A search decides only
those whose value an answer shows, or a cas that was asked for twice wrote: all others are SQL's.
"""

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from tests.histories.small_histories import histories, with_few_answers
from tests.unit.analysis.test_screens_against_search import in_columns
from zonequake_analysis.checks.claimed_order import _PLACES, _follow, expected_places
from zonequake_analysis.checks.screens import claimed
from zonequake_analysis.checks.screens.columns import NULL, Columns
from zonequake_analysis.inputs.shapes import Function

Write = dict[str, int | None]


def write(
    value: int, expected: int | None = None, *, rank: int | None = None, place: int | None = None
) -> Write:
    return {"value": value, "expected": expected, "seen_rank": rank, "place_in_list": place}


def test_each_write_of_a_chain_comes_right_before_what_expected_it() -> None:
    chain = [write(5), write(6, 5), write(7, 6, rank=17)]
    assert expected_places(chain) == {7: (17, 0), 6: (17, -1), 5: (17, -2)}
    assert expected_places(chain[::-1]) == expected_places(chain)


def test_of_several_cas_the_nearest_to_an_answer_counts_and_then_the_earliest() -> None:
    both = [write(5), write(6, 5, rank=17), write(7, 5, rank=13)]
    assert expected_places(both)[5] == (13, -1)
    farther = [write(5), write(6, 5, rank=17), write(7, 5), write(8, 7, rank=13)]
    assert expected_places(farther) == {6: (17, 0), 8: (13, 0), 5: (17, -1), 7: (13, -1)}


def test_what_an_answer_shows_keeps_its_place_and_what_nothing_observed_has_none() -> None:
    seen = [write(5, rank=9), write(6, 5, rank=17), write(8), write(9, 8), write(1, 40, rank=3)]
    assert expected_places(seen) == {5: (9, 0), 6: (17, 0), 1: (3, 0)}
    assert expected_places([write(5, 6, rank=7), write(6, 5)]) == {5: (7, 0), 6: (7, -1)}
    assert expected_places([]) == {}


def _places(c: Columns) -> dict[tuple[int, int], tuple[int, int]]:
    found = claimed.unanswered_writes(c, *claimed.judged_rows(c))
    rows = zip(found.rows, found.rank, found.place, strict=True)
    return {
        (int(c.key[row]), int(c.value[row])): (int(rank), int(place))
        for row, rank, place in rows
        if rank != claimed.NO_RANK
    }


def test_the_places_are_those_of_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(5)
    cases = [with_few_answers(rng, case) for case in histories(rng, 800, lists=False, spoil=0.1)]
    c = in_columns(tmp_path, [o for case in cases for o in case])
    by_arrays = _places(c)
    monkeypatch.setattr(claimed, "_before_cas", lambda _c, _rows, rank, place: (rank, place))
    seen = _places(c)
    judged, _ = claimed.judged_rows(c)
    keys: dict[int, list[Write]] = {}
    for row in np.flatnonzero(judged & (c.outcome != 0)).tolist():
        key, value = int(c.key[row]), int(c.value[row])
        rank, place = seen.get((key, value), (None, None))
        cas = c.f[row] == Function.CAS.value and c.expected[row] != NULL
        expected = int(c.expected[row]) if cas else None
        keys.setdefault(key, []).append(write(value, expected, rank=rank, place=place))
    batch = pa.RecordBatch.from_pydict(
        {
            "partition_id": pa.array([0] * len(keys), pa.int64()),
            "key_id": pa.array(list(keys), pa.int64()),
            "writes": pa.array(list(keys.values())),
        }
    )
    (found,) = _follow(iter([batch]))
    names = [column.split(" ")[0] for column in _PLACES.split(", ")]
    assert found.schema.names == names
    rows = (tuple(row[name] for name in names[1:]) for row in found.to_pylist())
    by_sql = {(key, value): (rank, place) for key, value, rank, place in rows}
    assert by_sql == by_arrays
    assert len(by_arrays) > len(seen) + 50, "few are placed by a cas alone"
