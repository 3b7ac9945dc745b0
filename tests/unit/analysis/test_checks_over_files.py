"""A task finds in a bucket's file what the checks over arrays find among all operations."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.histories.small_histories import histories
from tests.histories.synthesize import SyntheticOperation
from tests.unit.analysis.test_screens_against_search import events
from zonequake_analysis.checks import over_files
from zonequake_analysis.checks.arrays.over_columns import (
    found_among,
    found_in_order,
    found_in_sets,
    sessions_among,
)
from zonequake_analysis.inputs.integer_columns import Facts
from zonequake_analysis.inputs.layout import laid_out, split
from zonequake_analysis.inputs.shapes import OutcomeCode
from zonequake_analysis.spark_pass.bucket import Suspects, file_of, judged_bucket
from zonequake_analysis.storage.location import Location


def written(folder: Path, cases: list[list[SyntheticOperation]]) -> tuple[Location, Suspects]:
    """The file of the only bucket, and its suspects."""
    table = pa.concat_tables(events(folder, [o for case in cases for o in case]))
    (blob,) = split(table, 1)
    facts = [Facts(lines=table.num_rows, start=0, end=100)]
    target = folder / "ops"
    target.mkdir()
    found = judged_bucket(0, [blob], facts, folder=Location.of(target), dumps=False)
    return file_of(Location.of(target), 0), found.suspects


def rows(batches: list[pa.RecordBatch]) -> Counter[tuple[object, ...]]:
    return Counter(
        (row["check"], row["kind"], row["key_id"], row["value"], row["at_ns"], row["position"])
        for batch in batches
        for row in batch.to_pylist()
    )


@pytest.mark.parametrize("most", [0, 10**6], ids=["all operations", "those of suspects"])
def test_a_bucket_s_file_has_what_is_found_among_its_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(over_files, "MOST_NAMED", most)
    rng = Random(7)
    cases = [
        case for lists in (False, True) for case in histories(rng, 150, lists=lists, spoil=0.5)
    ]
    # Of each case the operations are by the same processes, so that sessions go on, and go back
    # where the places of lists begin anew.
    moved = [
        [
            replace(
                o,
                key=f"{number}-{o.key}",
                process=at,
                sequence=number,
                inv_ns=o.inv_ns + 1000 * number,
                fin_ns=o.fin_ns + 1000 * number,
            )
            for at, o in enumerate(case)
        ]
        for number, case in enumerate(cases)
    ]
    file, suspects = written(tmp_path, moved)
    sought = over_files._sought(file, suspects)
    assert sought is not None
    found = list(over_files._found(sought))
    with file.open() as stream:
        ops = pq.read_table(stream, partitioning=None)
    of_keys = [*found_among(ops), *found_in_order(ops), *found_in_sets(ops)]
    assert rows(found) == rows([*of_keys, *sessions_among(ops)])
    kinds = {(check, kind) for check, kind, *_ in rows(found)}
    assert {
        ("loss", "session"),
        ("black-box", "element-twice"),
        ("claimed-order", "order"),
        ("claimed-order", "value"),
        ("claimed-order", "list"),
        ("sets", "aborted"),
    } <= kinds
    assert all(row["ops"] for batch in found for row in batch.to_pylist())
    keys_alone = over_files._sought(file, msgspec.structs.replace(suspects, sessions=[]))
    assert keys_alone is not None
    assert rows(list(over_files._found(keys_alone))) == rows(of_keys)


def test_sessions_are_judged_by_answers_with_a_place_alone() -> None:
    shape: dict[str, object] = {
        "partition_id": 1,
        "key_id": 2,
        "process": 3,
        "value": None,
        "bounded": False,
    }
    ok, info = OutcomeCode.OK.value, OutcomeCode.INFO.value
    given: list[dict[str, object]] = [
        {"inv": 1, "position": 9, "outcome": ok, "bounded": True},
        {"inv": 2, "position": 8, "outcome": info},
        {"inv": 3, "position": None, "outcome": ok},
        {"inv": 4, "position": 5, "outcome": ok},
        {"inv": 5, "position": 4, "outcome": ok, "value": -7},
        {"inv": 6, "position": 3, "outcome": ok, "process": 4},
        {"inv": 6, "position": 3, "outcome": ok, "partition_id": 0},
    ]
    ops = pa.Table.from_pylist([shape | row for row in given])
    (found,) = sessions_among(ops)
    (row,) = found.to_pylist()
    assert (row["key_id"], row["value"], row["at_ns"], row["position"]) == (2, -7, 5, 5)
    assert row["magnitude_ns"] is None
    assert list(sessions_among(ops.slice(0, 4))) == []


def test_what_is_found_at_a_key_of_which_arrays_cannot_tell_is_left_to_sql(tmp_path: Path) -> None:
    cases = list(histories(Random(3), 60, lists=True, spoil=1.0))
    ops = laid_out(pa.concat_tables(events(tmp_path, [o for case in cases for o in case]))).ops
    found = rows([*found_among(ops)])
    odd = list(dict.fromkeys(key for _, _, key, *_ in found))[::2]
    ids = ops.column("key_id").to_numpy()
    # No line that says so comes so far: an operation that ends before it begins.
    first = [int(np.flatnonzero(ids == key)[0]) for key in odd]
    fin = ops.column("fin").to_numpy().copy()
    fin[first] = ops.column("inv").to_numpy()[first] - 1
    spoilt = ops.set_column(ops.column_names.index("fin"), "fin", pa.array(fin))
    left = {row: count for row, count in found.items() if row[2] not in odd}
    assert rows([*found_among(spoilt)]) == left
    assert len(left) > 5
    assert len(found) - len(left) > 5


def test_a_bucket_without_suspects_of_these_checks_is_not_read(tmp_path: Path) -> None:
    file = Location.of(tmp_path / "none")
    assert over_files._sought(file, Suspects(entries=[3])) is None, "left to SQL"
    for field in ("sets", "loss", "replayed", "late", "registers", "lists", "sessions"):
        assert over_files._sought(file, Suspects(**{field: [1]})) is not None, field
    assert over_files._sought(file, Suspects(split_sessions=[1])) is None, "left to SQL"
