"""The operations around an example of a finding, chosen by tasks from files of `tables/ops`."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from tests.unit.analysis.tasks_without_spark import without_spark
from zonequake_analysis.inputs.ids import name_id
from zonequake_analysis.inputs.shapes import OPS
from zonequake_analysis.post_mortem.examples import Example
from zonequake_analysis.post_mortem.finding_cells import FindingCell
from zonequake_analysis.post_mortem.operations_around import MOST_OPERATIONS, around
from zonequake_analysis.storage.location import Location

AT_NS = 10**12
MS = 1_000_000


def row(number: int, *, partition: int, key: str, inv: int) -> dict[str, object]:
    return {
        "partition_id": name_id("z1", str(partition)),
        "zone": "z1",
        "partition": partition,
        "key": key,
        "key_id": name_id("z1", key),
        "process": 1,
        "op": f"op-{number:03d}",
        "role": 0,
        "f": 0,
        "outcome": 0,
        "inv": inv,
        "fin": inv + MS,
        "bounded": False,
        "copy": number % 10 == 9,
    }


def example(partition: int, key: str | None, named: tuple[str, ...] = ()) -> Example:
    cell = FindingCell(
        check="c",
        kind="k",
        found_by="f",
        zone="z1",
        partition=partition,
        first_ns=AT_NS,
        last_ns=AT_NS,
        count=1,
    )
    return Example(cell=cell, text="", key=key, named=named)


def test_the_nearest_of_all_files_are_shown_and_at_a_key_those_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(3)
    rows = [
        row(
            number,
            partition=number % 2,
            key=f"k{number % 4}",
            # Few distances, so that several are as far.
            inv=AT_NS + draw.randrange(-12, 13) * 100 * MS,
        )
        for number in range(400)
    ]
    schema = to_arrow_schema(OPS)
    for part in range(2):
        pq.write_table(
            pa.Table.from_pylist(rows[part::3] + rows[2::6][part::2], schema),
            tmp_path / f"{part}.parquet",
        )
    held = [one for n, one in enumerate(rows) if n % 3 < 2] + rows[2::6]
    monkeypatch.setattr("zonequake_analysis.post_mortem.candidates.in_tasks", without_spark)
    far = max(held, key=lambda one: abs(int(str(one["inv"])) - AT_NS) * (one["key"] == "k1"))
    examples = [example(1, "k1", (str(far["op"]),)), example(0, None), example(5, None)]
    files = Location.of(tmp_path).all_below(".parquet")
    found = around(None, files, examples)  # type: ignore[arg-type]

    for number, one in enumerate(examples):
        candidates = [
            other
            for other in held
            if not other["copy"]
            and other["partition"] == one.cell.partition
            and (
                other["key"] == one.key
                if one.key
                else abs(int(str(other["inv"])) - AT_NS) <= 1000 * MS
            )
        ]
        candidates.sort(
            key=lambda other, one=one: (  # type: ignore[misc]
                other["op"] not in one.named,
                abs(int(str(other["inv"])) - AT_NS),
                str(other["op"]),
            )
        )
        expected = {other["op"] for other in candidates[:MOST_OPERATIONS]}
        shown = found.get(number, [])
        assert {other.op for other in shown} == expected
        assert [o.step.inv_ns for o in shown] == sorted(o.step.inv_ns for o in shown)
    assert len(found[0]) == len(found[1]) == MOST_OPERATIONS
    assert far["op"] in {other.op for other in found[0]}
    assert 2 not in found
