"""Columns of names get the ids that each name has by itself, however they come in."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from zonequake_analysis.inputs import ids
from zonequake_analysis.inputs.ids import by_bucket, name_id, name_ids

ZONES = ["", "z", "chaos"]


@pytest.mark.parametrize("most_known", [3, 1 << 18])
@pytest.mark.parametrize("zones", [1, 3])
def test_each_row_has_the_id_of_its_name(
    monkeypatch: pytest.MonkeyPatch, zones: int, most_known: int
) -> None:
    monkeypatch.setattr(ids, "_known", {})
    monkeypatch.setattr(ids, "_MOST_KNOWN", most_known)
    chosen = random.Random(7)
    for _ in range(5):
        rows = [
            (
                chosen.choice([*ZONES, None][-zones:]),
                chosen.choice([None, "", "k1", "k2", "é", "9"]),
            )
            for _ in range(40)
        ]
        zone, name = (pa.array(column, pa.string()) for column in zip(*rows, strict=True))
        assert name_ids(zone, name).tolist() == [name_id(z or "", n or "") for z, n in rows]
    assert max((len(known.names) for known in ids._known.values()), default=0) <= most_known
    assert name_ids(pa.array([], pa.string()), pa.array([], pa.string())).tolist() == []


@pytest.mark.parametrize("buckets", [1, 4, 70_000])
def test_rows_of_a_bucket_stand_together_in_their_own_order(buckets: int) -> None:
    chosen = np.random.default_rng(buckets).integers(0, buckets, 500)
    order, ends = by_bucket(chosen, buckets)
    assert (int(ends[0]), int(ends[-1])) == (0, 500)
    for number in {0, buckets - 1, *chosen[:20].tolist()}:
        rows = order[ends[number] : ends[number + 1]]
        assert rows.tolist() == np.flatnonzero(chosen == number).tolist()
