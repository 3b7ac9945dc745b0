"""A witness has what its finding names, however many operations the key has and wherever it stands;
in bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row
from pyspark.sql.pandas.types import to_arrow_schema

from tests.unit.analysis.tasks_without_spark import without_spark
from zonequake_analysis.inputs.shapes import INDEX_BITS, NEVER_NS, OPS, Function
from zonequake_analysis.post_mortem.candidates import Candidates, Sought, candidates
from zonequake_analysis.post_mortem.witnessed_findings import WitnessedFinding, witnesses
from zonequake_analysis.storage.location import Location

CANDIDATES = "zonequake_analysis.post_mortem.candidates"
MS = 1_000_000
BUSY, OTHER = 1, 2
ALL = 20_000
LATE = ALL * MS
"""When the busy key's last operations begin."""


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{CANDIDATES}.in_tasks", without_spark)


def position(index: int) -> int:
    return (1 << INDEX_BITS) + index


def op(f: Function, at: int, value: object = None, *, key: int = BUSY, **more: Any) -> Any:
    """An answered operation that takes half a millisecond."""
    listed = isinstance(value, list)
    index = more.pop("index", None)
    return {
        "partition_id": 7,
        "key_id": key,
        "zone": "z1",
        "partition": 3,
        "key": f"k{key}",
        "process": 1,
        "op": f"{key}-{at}",
        "role": 0,
        "f": f.value,
        "outcome": 0,
        "inv": at,
        "fin": at + MS // 2,
        "value": None if listed else value,
        "list": value if listed else None,
        "position": None if index is None else position(index),
        "term": None if index is None else 1,
        "index": index,
        "bounded": False,
        "copy": False,
    } | more


def busy(until: int = ALL) -> list[Any]:
    """Writes and reads of one register, one after another."""
    return [
        op(Function.WRITE if n % 2 == 0 else Function.READ, n * MS, n // 2, index=n // 2 + 1)
        for n in range(until)
    ]


def files_of(folder: Path, *parts: Iterable[Any]) -> list[Location]:
    for number, rows in enumerate(parts):
        table = pa.Table.from_pylist(list(rows), to_arrow_schema(OPS))
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=3000)
    return Location.of(folder).all_below(".parquet")


def found(check: str, kind: str, at_ns: int, *, key: int = BUSY, **more: object) -> Row:
    plain = {"value": None, "position": None, "magnitude_ns": None}
    known = {"check": check, "kind": kind, "partition_id": 7, "key_id": key, "at_ns": at_ns}
    return Row(**(known | plain | more))


def shown(files: list[Location], *rows: Row) -> list[WitnessedFinding]:
    return witnesses(None, files, rows, of_two_places=("duplicates", "applied-twice"))  # type: ignore[arg-type]


def ops(one: WitnessedFinding) -> list[str]:
    return [o.op for o in one.witness.operations]


def test_a_stale_read_at_the_end_of_a_busy_key_is_shown_with_its_writes(tmp_path: Path) -> None:
    """The write of what it shows lies 20 s before, and no search by nearness finds it."""
    stale = op(Function.READ, LATE, 1, index=2)
    files = files_of(tmp_path, [*busy(), stale])
    newest = ALL // 2
    row = found("loss", "stale", LATE, value=1, position=position(newest))
    (one,) = shown(files, row)
    assert one.finding.op == stale["op"]
    assert (one.finding.zone, one.finding.partition, one.finding.key) == ("z1", 3, "k1")
    assert ops(one) == [f"1-{2 * MS}", f"1-{(ALL - 2) * MS}", stale["op"]]
    assert one.witness.proven


def test_a_busy_key_takes_no_operations_from_another_one(tmp_path: Path) -> None:
    other = [
        op(Function.WRITE, LATE + MS, 1, key=OTHER, index=1),
        op(Function.WRITE, LATE + 2 * MS, 2, key=OTHER, index=2),
        op(Function.READ, LATE + 3 * MS, 1, key=OTHER, index=3),
    ]
    stale = op(Function.READ, LATE, 1, index=2)
    files = files_of(tmp_path, [*busy(), stale, *other])
    first, second = shown(
        files,
        found("loss", "stale", LATE, value=1, position=position(ALL // 2)),
        found("loss", "stale", LATE + 3 * MS, key=OTHER, value=1, position=position(2)),
    )
    assert first.finding.key == "k1"
    assert (second.finding.zone, second.finding.key) == ("z1", "k2")
    assert ops(second) == [one["op"] for one in other]


def test_the_append_of_an_element_that_stands_twice_is_there_though_no_finding_names_it(
    tmp_path: Path,
) -> None:
    appends = [op(Function.APPEND, n * MS, n) for n in range(ALL)]
    twice = op(Function.READ, LATE, [3, 5, 3])
    (one,) = shown(files_of(tmp_path, [*appends, twice]), found("sets", "duplicate", LATE))
    assert ops(one) == [f"1-{3 * MS}", twice["op"]]
    assert one.witness.proven


def test_a_read_whose_write_was_left_out_makes_no_fault_of_its_own(tmp_path: Path) -> None:
    """Delta debugging over the nearest operations takes values whose write is there."""
    slow = [op(Function.READ, (n + 10) * MS, 0, process=2) for n in range(ALL - 10, ALL - 10 + 5)]
    first = [op(Function.WRITE, 0, 0, index=1)]
    rest = [
        op(Function.READ if n % 2 else Function.WRITE, n * MS, n // 2) for n in range(2, ALL - 10)
    ]
    wrong = [
        op(Function.WRITE, LATE - 4 * MS, -5),
        op(Function.WRITE, LATE - 3 * MS, -6),
        op(Function.READ, LATE - 2 * MS, -5),
    ]
    files = files_of(tmp_path, [*first, *rest, *wrong, *slow])
    (one,) = shown(files, found("claimed-order", "order", LATE - 2 * MS))
    assert one.witness.proven
    assert set(ops(one)) == {row["op"] for row in wrong}


def test_of_a_key_whose_values_repeat_those_open_at_the_fault_are_shown_unproven(
    tmp_path: Path,
) -> None:
    rows = [op(Function.READ if n % 2 else Function.WRITE, n * MS, n // 2 % 3) for n in range(ALL)]
    wrong = op(Function.READ, LATE, 7)
    beside = op(Function.WRITE, LATE - MS // 4, 1, process=3)
    files = files_of(tmp_path, [*rows, beside, wrong])
    (one,) = shown(files, found("search", "no-order", LATE))
    assert ops(one) == [beside["op"], wrong["op"]]
    assert not one.witness.proven


def near(files: list[Location], **wanted: Any) -> Candidates:
    sought = Sought(partition_id=7, **({"key_id": BUSY} | wanted))
    (one,) = candidates(None, files, [sought])  # type: ignore[arg-type]
    return one


def test_the_nearest_of_all_files_are_taken_and_no_more(tmp_path: Path) -> None:
    rows = busy(400)
    long = op(Function.WRITE, 5 * MS, -1, fin=300 * MS, op="long")
    unanswered = op(Function.WRITE, 6 * MS, -2, fin=NEVER_NS, outcome=2, op="unanswered")
    rows += [long, unanswered]
    files = files_of(tmp_path, rows[::2], rows[1::2])
    one = near(files, at_ns=200 * MS, most=20)
    assert not one.whole
    assert len(one.rows()) == 20
    assert [row["inv"] for row in one.rows()] == sorted(row["inv"] for row in one.rows())
    names = {row["op"] for row in one.rows()}
    assert "long" in names, "it overlaps"
    assert "unanswered" not in names, "it would overlap everything that follows"
    assert {f"1-{n * MS}" for n in range(192, 209)} <= names
    files[1].delete()
    assert near(files_of(tmp_path, busy(20)), at_ns=0).whole


def test_elements_of_lists_are_bounded_and_the_findings_own_list_stays(tmp_path: Path) -> None:
    lists = [op(Function.READ, n * MS, list(range(300))) for n in range(10)]
    own = op(Function.READ, 10 * MS, list(range(5000)))
    append = op(Function.APPEND, 11 * MS, 7)
    files = files_of(tmp_path, [*lists, own, append])
    one = near(files, at_ns=10 * MS, most_elements=1000)
    assert [row["op"] for row in one.rows()] == [
        *(f"1-{n * MS}" for n in (7, 8, 9)),
        own["op"],
        append["op"],
    ]
    assert not one.whole


def test_answers_at_a_place_are_of_any_key_bounded_and_no_copies(tmp_path: Path) -> None:
    at_place = [op(Function.READ, n * MS, 1, key=n % 5, index=9) for n in range(100)]
    writes = [op(Function.WRITE, 90 * MS + n, n, key=n, index=9) for n in (1, 2)]
    copied = op(Function.WRITE, 3 * MS, 3, key=8, index=9, copy=True)
    files = files_of(tmp_path, at_place[:50], [*at_place[50:], *writes, copied])
    one = near(files, key_id=None, at_ns=5 * MS, position=position(9), copies=False, most=10)
    names = {row["op"] for row in one.rows()}
    assert len(one.rows()) == 10
    assert {row["op"] for row in writes} <= names
    assert copied["op"] not in names


def test_a_task_holds_a_few_rows_of_a_busy_key_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{CANDIDATES}._BATCH_ROWS", 200)
    elements = list(range(150))
    files = files_of(tmp_path, [op(Function.READ, n * MS, elements) for n in range(ALL)])
    whole_bytes = ALL * len(elements) * 8
    before = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(before)
    pa.set_memory_pool(counted)
    try:
        one = near(files, at_ns=LATE // 2, most=20)
    finally:
        pa.set_memory_pool(before)
    assert len(one.rows()) == 20
    assert counted.max_memory() < whole_bytes // 2
