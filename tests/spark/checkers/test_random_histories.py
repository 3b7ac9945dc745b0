"""The checkers in Spark against exhaustive search, over random small histories in one run."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.histories.small_histories import histories, steps
from tests.histories.synthesize import SyntheticOperation, write_operations
from tests.spark.checkers.over_all_operations import findings_of
from zonequake_analysis.checks import claimed_order, list_prefixes, loss
from zonequake_analysis.checks.search.reference import is_linearizable
from zonequake_analysis.spark_pass.ingest import ingest

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]

CASES = 1000
VALID = 400
KINDS = ("registers", "lists")

Cases = list[list[SyntheticOperation]]


@pytest.fixture(scope="module")
def cases() -> dict[str, Cases]:
    """Cases of registers and of lists, spoilt and valid: each kind on keys and partitions, and by
    processes, of its own."""
    drawn: dict[str, Cases] = {}
    for kind in KINDS:
        lists = kind == "lists"
        drawn[kind] = list(histories(Random(11), CASES, lists=lists, spoil=0.6))
        drawn[f"valid {kind}"] = list(histories(Random(5), VALID, lists=lists, spoil=0.0))
    return {
        name: [[apart(o, name, number) for o in case] for case in some]
        for number, (name, some) in enumerate(drawn.items())
    }


def apart(o: SyntheticOperation, name: str, number: int) -> SyntheticOperation:
    """Returns the operation in the place of the number-th kind."""
    return replace(
        o,
        key=f"{name}: {o.key}",
        partition=o.partition + 4 * number,
        process=o.process + 1_000_000 * number,
    )


@pytest.fixture(scope="module")
def flagged(
    spark: SparkSession, cases: dict[str, Cases], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, set[str]]:
    """Keys with findings, by check."""
    run: Path = tmp_path_factory.mktemp("random")
    operations = [o for some in cases.values() for case in some for o in case]
    write_operations(run / "history" / "load-0.jsonl", operations)
    ingested = ingest(spark, run)
    assert ingested.quality.unplaced == 0
    names = {
        row["key_id"]: row["key"]
        for row in ingested.ops.select("key_id", "key").distinct().collect()
    }
    assert {o.key for o in operations if o.key.startswith("valid")} <= set(names.values())
    by_check: dict[str, set[str]] = defaultdict(set)
    for row in findings_of(ingested.ops, unplaced=0).select("check", "key_id").distinct().collect():
        by_check[row["check"]].add(names[row["key_id"]])
    return by_check


@pytest.fixture(scope="module", params=KINDS)
def legal(request: pytest.FixtureRequest, cases: dict[str, Cases]) -> dict[str, bool]:
    """Which cases of a kind are linearizable, by their keys."""
    return {case[0].key: is_linearizable(steps(case)) for case in cases[request.param]}


def test_the_black_box_flags_a_key_exactly_if_no_order_exists(
    flagged: Mapping[str, set[str]], legal: dict[str, bool]
) -> None:
    outside = flagged[list_prefixes.CHECK]
    wrong = {key for key, fine in legal.items() if fine == (key in outside)}
    assert wrong == set()
    assert sum(not fine for fine in legal.values()) > CASES / 10, "too few spoilt histories"


def test_a_claimed_order_that_holds_proves_that_the_key_is_linearizable(
    flagged: Mapping[str, set[str]], legal: dict[str, bool]
) -> None:
    assert {key for key in legal if not legal[key]} <= flagged[claimed_order.CHECK]


def test_a_lost_or_stale_value_is_never_found_where_both_other_checks_are_content(
    flagged: Mapping[str, set[str]], legal: dict[str, bool]
) -> None:
    lost = flagged[loss.CHECK] & legal.keys()
    assert lost - flagged[list_prefixes.CHECK] - flagged[claimed_order.CHECK] == set()
    assert lost, "no history lost anything"


@pytest.mark.parametrize("kind", KINDS)
def test_valid_histories_have_no_findings(
    flagged: Mapping[str, set[str]], cases: dict[str, Cases], kind: str
) -> None:
    valid = {case[0].key for case in cases[f"valid {kind}"]}
    assert len(valid) == VALID
    assert {check: keys & valid for check, keys in flagged.items() if keys & valid} == {}
