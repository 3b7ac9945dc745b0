"""What the report knows of findings over time agrees with the tables of the run."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.histories.synthesize import START_NS
from tests.histories.tabled_run import LOST_S, MS, S
from tests.spark.tables.conftest import Analysed
from zonequake_analysis.post_mortem.examples import examples_of_operations
from zonequake_analysis.post_mortem.finding_cells import FindingCell, cells_of_operations
from zonequake_analysis.report import write_report
from zonequake_analysis.tables.schemas import FINDINGS, columns_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


def counts(cells: list[FindingCell]) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for cell in cells:
        found[cell.series] += cell.count
    return found


def table_counts(findings: DataFrame) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for row in findings.where("at_ns IS NOT NULL").collect():
        series = (row["check"], row["kind"], row["found_by"], row["zone"] or "", row["partition"])
        found[series] += row["count"]
    return found


def test_every_finding_with_a_time_is_counted_in_a_cell(analysed: Analysed) -> None:
    cells = list(analysed.judgement.over_time.cells)
    assert counts(cells) == table_counts(analysed.tables["findings"])
    assert len(counts(cells)) > 5
    assert any(cell.found_by == "judgement" for cell in cells)


def test_wide_bins_count_the_same_in_fewer_cells(analysed: Analysed) -> None:
    findings = analysed.tables["findings"]
    drawn = analysed.judgement.timeline
    made = [
        cells_of_operations(
            findings, start_ns=drawn.start_ns, end_ns=drawn.end_ns, kinds=kinds, partitions=1
        )
        for kinds in (1, 1_000_000)
    ]
    over_operations = table_counts(findings.where("found_by != 'judgement'"))
    assert counts(made[0]) == counts(made[1]) == over_operations
    rows = {(row["check"], row["at_ns"]) for row in findings.collect()}
    assert all((cell.check, cell.first_ns) in rows for cell in made[0] + made[1])


def test_an_example_has_the_operations_of_its_key_around_it(analysed: Analysed) -> None:
    examples = analysed.judgement.over_time.examples
    by_key = {one.key: one for one in examples if one.cell.check == "lost-writes"}
    lost = by_key["planted-lost"]
    assert lost.cell.first_ns == START_NS + LOST_S * S + 4 * MS
    shown = {o.op: o for o in lost.around}
    assert set(lost.named) <= set(shown), "the read and the write that it misses"
    assert len(lost.named) == 2
    assert {o.key for o in lost.around} == {"planted-lost"}
    in_table = analysed.tables["ops"].where("key = 'planted-lost' AND NOT copy").collect()
    assert set(shown) == {row["op"] for row in in_table}
    starts = [o.step.inv_ns for o in lost.around]
    assert starts == sorted(starts)


def test_a_read_that_misses_many_appends_leaves_other_findings_their_examples(
    spark: SparkSession,
) -> None:
    plain: dict[str, object] = {
        "check": "stale-reads",
        "kind": "stale",
        "found_by": "loss",
        "zone": "z1",
        "ops": ["r"],
    }
    many: list[dict[str, object]] = [
        {"partition": 0, "value": n, "write_op": f"w-{n}"} for n in range(5000, 0, -1)
    ]
    rows = [
        plain | {"key": "k", "at_ns": 7, "count": 1, "text": "t"} | row
        for row in [*many, dict[str, object](partition=1)]
    ]
    names = list(columns_of(FINDINGS))
    findings = spark.createDataFrame([[row.get(name) for name in names] for row in rows], FINDINGS)
    cells = cells_of_operations(findings, start_ns=0, end_ns=100, kinds=1, partitions=2)
    examples = examples_of_operations(findings.repartition(3), cells)
    found = {one.cell.partition: (one.value, one.named) for one in examples}
    assert found == {0: (1, ("r", "w-1")), 1: (None, ("r",))}


def test_a_finding_without_a_key_has_operations_of_its_partition(analysed: Analysed) -> None:
    (window, *_) = [
        one for one in analysed.judgement.over_time.examples if one.cell.check == "availability"
    ]
    assert window.key is None
    assert window.cell.partition == 0
    assert 5 < len(window.around) <= 12
    keys = {o.key for o in window.around}
    assert all(key.startswith(("r0", "p0-", "planted")) for key in keys), keys
    assert all(abs(o.step.inv_ns - window.cell.first_ns) <= S for o in window.around)


def test_the_page_of_the_run_has_them_all(analysed: Analysed) -> None:
    write_report(analysed.run, analysed.judgement)
    page = (analysed.run / "report.html").read_text()
    data = json.loads(page.partition('id="run-data">')[2].partition("</script>")[0])
    told = sum(cell[4] for cell in data["cells"])
    assert told == sum(table_counts(analysed.tables["findings"]).values())
    checks = [check.name for check in analysed.judgement.checks]
    places = [checks.index(kind["check"]) for kind in data["kinds"]]
    assert places == sorted(places)
    for phase in ("before", "faults"):
        assert f">{phase}</span>" in page
    assert len(page.encode()) < 3_000_000
