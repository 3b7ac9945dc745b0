"""Lost writes on many keys: all are counted, and hidden only if a dump shows what they wrote."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.histories import anomalies
from tests.histories.synthesize import START_NS, SyntheticOperation, write_operations
from zonequake_analysis.inputs.shapes import Function
from zonequake_analysis.judgement.judge import judge_run
from zonequake_analysis.tables import open_tables
from zonequake_analysis.verdict import Check, Verdict

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

LISTS, HELD = 6, 5
"""Lists that lost an append, and those of them whose append a replica still holds."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that lost an append of each list, and a register's newest value."""
    folder: Path = tmp_path_factory.mktemp("lost")
    lost = anomalies.plant("lost", START_NS).operations
    appends = [o for number in range(LISTS) for o in a_lost_append(number)]
    write_operations(folder / "history" / "load-0.jsonl", [*lost, *appends])
    # The register holds what was read in the write's place.
    write_dump(
        folder,
        {"planted-lost": lost[0].value, **{f"list-{n}": [1 + n] for n in range(HELD)}},
    )
    return folder


@pytest.fixture(scope="module")
def checks(spark: SparkSession, run: Path) -> dict[str, Check]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("zonequake_analysis.checks.counted_findings.MOST_KEYS", 3)
        return {check.name: check for check in judge_run(spark, run).checks}


def a_lost_append(number: int) -> list[SyntheticOperation]:
    """On the number-th key, whose operations all follow those of the keys before."""
    index = 1 + number * 1000
    append = SyntheticOperation(
        f=Function.APPEND,
        key=f"list-{number}",
        partition=0,
        process=number,
        inv_ns=START_NS + number * 10**9,
        fin_ns=START_NS + number * 10**9 + 1,
        value=1 + number,
        index=index,
    )
    return [append] + [
        replace(
            append,
            f=Function.READ,
            sequence=nth,
            inv_ns=append.inv_ns + 2 * nth,
            fin_ns=append.fin_ns + 2 * nth,
            value=[],
            index=index + nth,
        )
        for nth in range(1, 6)
    ]


def write_dump(run: Path, entries: dict[str, object]) -> None:
    header = {
        "group": "z1.default.0",
        "node": "zq-default-0",
        "applied": 9,
        "digest": "d",
        "keys": len(entries),
    }
    lines = [header, *({"key": key, "value": value} for key, value in entries.items())]
    (run / "dumps").mkdir()
    (run / "dumps" / "0-zq-default-0.jsonl").write_text("\n".join(map(json.dumps, lines)))


def test_the_count_of_keys_without_an_order_is_exact_though_few_keys_of_each_kind_are_kept(
    checks: dict[str, Check],
) -> None:
    assert checks["linearizability"].verdict is Verdict.VIOLATED
    assert checks["linearizability"].violations == LISTS + 1


def test_every_lost_write_that_a_replica_still_holds_is_hidden_and_not_lost(
    checks: dict[str, Check],
) -> None:
    assert checks["hidden-writes"].violations == HELD
    assert checks["lost-writes"].violations == LISTS + 1 - HELD


def test_registers_and_lists_are_told_apart_by_what_the_dump_shows(
    spark: SparkSession, run: Path, checks: dict[str, Check]
) -> None:
    rows = open_tables(spark, run)["findings"].where("kind = 'lost'").collect()
    names = [*(f"list-{number}" for number in range(LISTS)), "planted-lost"]
    assert Counter((row["key"], row["check"]) for row in rows) == {
        (name, "hidden-writes" if number < HELD else "lost-writes"): 1
        for number, name in enumerate(names)
    }
