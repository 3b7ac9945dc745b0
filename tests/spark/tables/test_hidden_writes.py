"""A lost write is hidden only if a dump shows what it wrote, not what was read in its place."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.histories import anomalies
from tests.histories.synthesize import START_NS, write_operations
from zonequake_analysis.inputs.shapes import Function
from zonequake_analysis.judgement.judge import judge_run
from zonequake_analysis.tables import open_tables

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


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


def test_registers_and_lists_are_told_apart_by_what_the_dump_shows(
    spark: SparkSession, tmp_path: Path
) -> None:
    planted = {name: anomalies.plant(name, START_NS) for name in ("lost", "lost-element")}
    operations = [o for one in planted.values() for o in one.operations]
    write_operations(tmp_path / "history" / "load-0.jsonl", operations)
    wrote = {
        name: [o.value for o in one.operations if o.f is not Function.READ]
        for name, one in planted.items()
    }
    # The register holds what was read in the write's place; the list has the lost element still.
    write_dump(
        tmp_path,
        {"planted-lost": wrote["lost"][0], "planted-lost-element": wrote["lost-element"]},
    )
    judgement = judge_run(spark, tmp_path)
    violations = {check.name: check.violations for check in judgement.checks}
    assert (violations["lost-writes"], violations["hidden-writes"]) == (1, 1)
    rows = open_tables(spark, tmp_path)["findings"].where("kind = 'lost'").collect()
    assert Counter((row["key"], row["check"]) for row in rows) == {
        ("planted-lost", "lost-writes"): 1,
        ("planted-lost-element", "hidden-writes"): 1,
    }
