"""Columns of names get the ids that each name has by itself, however they come in."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from zonequake_analysis.inputs.ids import by_bucket, name_id, name_ids

ZONES = ["", "z", "chaos"]


@pytest.mark.parametrize("zones", [1, 3])
def test_each_row_has_the_id_of_its_name(zones: int) -> None:
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
    assert name_ids(pa.array([], pa.string()), pa.array([], pa.string())).tolist() == []


def test_names_of_all_zones_have_different_ids() -> None:
    """Names of one pattern differ in few bits, and one name may be in several zones."""
    names = [f"k{number}" for number in range(100_000)]
    found = {
        value
        for zone in ZONES
        for value in name_ids(pa.array([zone] * len(names)), pa.array(names)).tolist()
    }
    assert len(found) == len(ZONES) * len(names)
    assert min(found) < 0 < max(found)


@pytest.mark.parametrize("buckets", [1, 4, 70_000])
def test_rows_of_a_bucket_stand_together_in_their_own_order(buckets: int) -> None:
    chosen = np.random.default_rng(buckets).integers(0, buckets, 500)
    order, ends = by_bucket(chosen, buckets)
    assert (int(ends[0]), int(ends[-1])) == (0, 500)
    for number in {0, buckets - 1, *chosen[:20].tolist()}:
        rows = order[ends[number] : ends[number + 1]]
        assert rows.tolist() == np.flatnonzero(chosen == number).tolist()
