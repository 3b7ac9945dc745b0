"""The checkers in Spark against exhaustive search, over random small histories."""

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.histories.small_histories import histories, steps
from tests.histories.synthesize import write_operations
from zonequake_analysis.checks import claimed_order, list_prefixes, loss, register_zones, sets
from zonequake_analysis.checks.exact_checks import findings_of
from zonequake_analysis.checks.search.reference import is_linearizable
from zonequake_analysis.spark_pass.ingest import ingest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

CASES = 1000

Judged = tuple[dict[str, set[str]], dict[str, bool]]


@pytest.fixture(scope="module", params=["registers", "lists"])
def judged(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Judged:
    """(keys flagged by check, which cases are linearizable)."""
    run: Path = tmp_path_factory.mktemp(request.param)
    is_lists = request.param == "lists"
    cases = list(histories(Random(11), CASES, lists=is_lists, spoil=0.6))
    write_operations(run / "history" / "load-0.jsonl", [o for case in cases for o in case])
    ingested = ingest(spark, run)
    names = {
        row["key_id"]: row["key"]
        for row in ingested.ops.select("key_id", "key").distinct().collect()
    }
    frames = {
        "claimed": claimed_order.claimed_order(ingested.ops, unplaced=ingested.quality.unplaced),
        "outside": (list_prefixes.prefixes if is_lists else register_zones.zones)(ingested.ops),
        "loss": loss.loss(ingested.ops),
        "sets": sets.sets(ingested.ops),
    }
    flagged = {
        name: {names[row["key_id"]] for row in frame.select("key_id").distinct().collect()}
        for name, frame in frames.items()
    }
    legal = {case[0].key: is_linearizable(steps(case)) for case in cases}
    return flagged, legal


def test_the_black_box_flags_a_key_exactly_if_no_order_exists(judged: Judged) -> None:
    flagged, legal = judged
    wrong = {key for key, fine in legal.items() if fine == (key in flagged["outside"])}
    assert wrong == set()
    assert sum(not fine for fine in legal.values()) > CASES / 10, "too few spoilt histories"


def test_a_claimed_order_that_holds_proves_that_the_key_is_linearizable(judged: Judged) -> None:
    flagged, legal = judged
    assert {key for key in legal if not legal[key]} <= flagged["claimed"]


def test_a_lost_or_stale_value_is_never_found_where_both_other_checks_are_content(
    judged: Judged,
) -> None:
    flagged, _ = judged
    assert flagged["loss"] - flagged["outside"] - flagged["claimed"] == set()
    assert flagged["loss"], "no history lost anything"


@pytest.mark.parametrize("lists", [False, True], ids=["registers", "lists"])
def test_valid_histories_have_no_findings(spark: SparkSession, tmp_path: Path, lists: bool) -> None:
    cases = histories(Random(5), 400, lists=lists, spoil=0.0)
    write_operations(tmp_path / "history" / "load-0.jsonl", [o for case in cases for o in case])
    assert findings_of(ingest(spark, tmp_path).ops, unplaced=0).collect() == []
