"""Keys of which arrays can't tell: SQL finds there what arrays find at keys of the same history."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.histories.small_histories import histories, with_few_answers
from tests.histories.synthesize import ZONE, SyntheticOperation, write_operations
from zonequake_analysis.checks import claimed_order, register_zones
from zonequake_analysis.checks.over_files import found_in_files
from zonequake_analysis.inputs.ids import name_id
from zonequake_analysis.inputs.shapes import Function
from zonequake_analysis.spark_pass.ingest import Ingested, ingest
from zonequake_analysis.storage.location import Location

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

CASES = 300
UNCLEAR = "unclear-"
NEVER = 10**6

Found = dict[str, set[tuple[object, ...]]]


def operation(number: int, f: Function, value: int, inv: int, **more: object) -> SyntheticOperation:
    """One without an answer, if it isn't given a place."""
    answered = more.get("index") is not None
    plain = SyntheticOperation(
        f=f, key="", partition=0, process=number, inv_ns=inv, fin_ns=NEVER, value=value
    )
    if not answered:
        plain = replace(plain, type="info")
    return replace(plain, **more)  # type: ignore[arg-type]


def write(number: int, value: int, inv: int = 1, **more: object) -> SyntheticOperation:
    return operation(number, Function.WRITE, value, inv, **more)


def cas(number: int, value: int, expected: int) -> SyntheticOperation:
    return operation(number, Function.CAS, value, 1, expected=expected)


def read(number: int, value: int, inv: int, fin: int, index: int) -> SyntheticOperation:
    return operation(number, Function.READ, value, inv, fin_ns=fin, index=index)


BY_HAND = {
    "legal": [write(1, 5), cas(2, 6, 5), cas(3, 7, 6), read(4, 7, 10, 12, 7)],
    "begun after its cas was seen": [write(1, 5, 20), cas(2, 6, 5), read(3, 6, 10, 12, 9)],
    "seen by two cas": [
        *(write(1, 5), cas(2, 6, 5), cas(3, 7, 5)),
        *(read(4, 6, 10, 12, 7), read(5, 7, 13, 14, 9)),
    ],
    "claimed before its write": [
        *(write(1, 4, fin_ns=30, index=9), cas(2, 5, 4), cas(3, 6, 5)),
        read(4, 6, 2, 29, 7),
    ],
}
"""Only a cas observed the write of 5, in each."""


def unclear(case: list[SyntheticOperation], process: int) -> list[SyntheticOperation]:
    """The same history at another key, with two writes of one value that nothing observed."""
    twice = [write(process + 50 + number, 10**9, number, fin_ns=99) for number in range(2)]
    own = [replace(o, process=process + o.process % 50) for o in case]
    twice = [replace(o, partition=case[0].partition) for o in twice]
    return [replace(o, key=f"{UNCLEAR}{case[0].key}") for o in [*own, *twice]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def cases() -> list[list[SyntheticOperation]]:
    """Random histories with few answers, and those by hand."""
    rng = Random(17)
    made = [with_few_answers(rng, case) for case in histories(rng, CASES, lists=False, spoil=0.1)]
    return [*made, *([replace(o, key=name) for o in case] for name, case in BY_HAND.items())]


@pytest.fixture(scope="module")
def judged(spark: SparkSession, run: Path, cases: list[list[SyntheticOperation]]) -> Ingested:
    """Each history at two keys: one that arrays judge, and one that is unclear to them."""
    made = []
    for number, case in enumerate(cases):
        own = [replace(o, process=1000 * number + o.process % 50) for o in case]
        made += [*own, *unclear(case, 1000 * number + 500)]
    write_operations(run / "history" / "load-0.jsonl", made)
    return ingest(spark, run)


def by_key(found: DataFrame, cases: list[list[SyntheticOperation]]) -> Found:
    """Findings by the name of the key."""
    names = {name_id(ZONE, name): name for c in cases for name in (c[0].key, UNCLEAR + c[0].key)}
    rows = Found()
    for row in found.select("key_id", "kind", "value", "at_ns", "position").collect():
        rows.setdefault(names[row["key_id"]], set()).add(tuple(row)[1:])
    return rows


@pytest.fixture(scope="module")
def by_sql(judged: Ingested, cases: list[list[SyntheticOperation]]) -> Found:
    ops, unplaced = judged.ops, judged.quality.unplaced
    of_values = claimed_order.replay(ops, unplaced=unplaced)
    return by_key(of_values.unionByName(claimed_order.real_time(ops, unplaced=unplaced)), cases)


def test_no_search_decides_what_is_unclear_here(
    judged: Ingested, cases: list[list[SyntheticOperation]]
) -> None:
    assert not judged.quality.faults
    flagged = {key for bucket in judged.buckets for key in bucket.suspects.unclear}
    assert {name_id(ZONE, UNCLEAR + case[0].key) for case in cases} <= flagged
    zones = register_zones.zones(judged.ops)
    assert zones.where("kind = 'value-twice'").count() == 0


def test_sql_places_what_only_a_cas_without_an_answer_observed(by_sql: Found) -> None:
    """Else the claim of the last one, which no client can see to be wrong, would pass, and the
    others, which zones find, would be `harness-failed`."""
    kinds = {name: {kind for kind, *_ in by_sql.get(UNCLEAR + name, set())} for name in BY_HAND}
    assert kinds == {
        "legal": set(),
        "begun after its cas was seen": {"order"},
        "seen by two cas": {"precondition"},
        "claimed before its write": {"precondition"},
    }


def test_sql_finds_at_unclear_keys_what_arrays_find_at_others(
    spark: SparkSession,
    run: Path,
    judged: Ingested,
    by_sql: Found,
    cases: list[list[SyntheticOperation]],
) -> None:
    suspects = [bucket.suspects for bucket in judged.buckets]
    in_arrays = found_in_files(spark, Location.of(run / "tables" / "ops"), suspects)
    assert in_arrays is not None
    by_arrays = by_key(in_arrays.where(f"check = '{claimed_order.CHECK}'"), cases)
    clear = {key: rows for key, rows in by_sql.items() if not key.startswith(UNCLEAR)}
    assert by_arrays == clear
    assert {UNCLEAR + key: rows for key, rows in clear.items()} == {
        key: rows for key, rows in by_sql.items() if key.startswith(UNCLEAR)
    }
    assert len(by_arrays) > 20
