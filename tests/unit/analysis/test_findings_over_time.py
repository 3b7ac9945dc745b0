"""Findings over time stay few enough to draw, and none is left out."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark.report import made_up_pages
from zonequake_analysis.measures.timeline import PartitionRow, Timeline
from zonequake_analysis.post_mortem.examples import (
    MOST_EXAMPLES,
    chosen,
    examples_of_checks,
    one_of_each,
)
from zonequake_analysis.post_mortem.finding_cells import (
    FindingCell,
    cells_of_checks,
    coarse,
    without_time,
)
from zonequake_analysis.report.page_data import (
    as_json,
    kinds_by_severity,
    page_data,
    partitions_by_severity,
)
from zonequake_analysis.report.time_rows import Axis, strip
from zonequake_analysis.tables.check_findings import CheckFinding
from zonequake_analysis.tables.schemas import FINDINGS, arrow_schema
from zonequake_analysis.verdict import Check, Verdict

SEVERITY = {"lost-writes": 0, "stale-reads": 1, "linearizability": 2}


def cell(
    check: str = "stale-reads", partition: int | None = 0, at_ns: int = 0, count: int = 1
) -> FindingCell:
    return FindingCell(
        check=check,
        kind=check[:4],
        found_by="loss",
        zone="z1",
        partition=partition,
        first_ns=at_ns,
        last_ns=at_ns,
        count=count,
    )


CELLS = st.lists(
    st.builds(
        cell,
        check=st.sampled_from(sorted(SEVERITY)),
        partition=st.integers(0, 3),
        at_ns=st.integers(-(10**6), 10**12),
        count=st.integers(1, 99),
    ),
    max_size=60,
)


@given(CELLS, st.integers(1, 30))
def test_no_finding_is_left_out_where_cells_become_one(cells: list[FindingCell], most: int) -> None:
    kept = coarse(cells, most=most)

    def counts(some: list[FindingCell]) -> Counter[object]:
        found: Counter[object] = Counter()
        for one in some:
            found[one.series] += one.count
        return found

    assert counts(kept) == counts(cells)
    assert len(kept) <= max(most, len(counts(cells)))
    for series in counts(cells):
        of_all, of_kept = ([one for one in some if one.series == series] for some in (cells, kept))
        assert min(c.first_ns for c in of_kept) == min(c.first_ns for c in of_all)
        assert max(c.last_ns for c in of_kept) == max(c.last_ns for c in of_all)


def test_examples_begin_with_each_kind_then_each_partition_the_most_severe_first() -> None:
    cells = [cell("linearizability", 0, 1)]
    cells += [cell("stale-reads", partition, 10 - partition) for partition in range(4)]
    cells += [cell("stale-reads", 2, 100 + number) for number in range(50)]
    cells += [cell("lost-writes", 3, 500), cell("lost-writes", 1, 700)]
    order = [(one.check, one.partition, one.first_ns) for one in chosen(cells, SEVERITY)]
    assert order[:3] == [
        ("lost-writes", 3, 500),
        ("stale-reads", 3, 7),
        ("linearizability", 0, 1),
    ]
    assert order[3:7] == [
        ("lost-writes", 1, 700),
        ("stale-reads", 2, 8),
        ("stale-reads", 1, 9),
        ("stale-reads", 0, 10),
    ]
    assert len(order) == len(cells)


def test_examples_are_few_and_stand_over_the_whole_time() -> None:
    cells = [cell(at_ns=number) for number in range(10_000)]
    picked = chosen(cells, SEVERITY)
    assert len(picked) == len(set(picked)) == MOST_EXAMPLES
    assert picked[0].first_ns == 0
    assert max(one.first_ns for one in picked) > 9_900


def test_findings_of_checks_stand_at_their_time_or_in_the_list_without_one() -> None:
    found = [
        CheckFinding(
            check="availability", kind="too-long", text="x", at_ns=5, partition=2, zone="z"
        ),
        CheckFinding(check="replicas", kind="apart", text="y"),
        CheckFinding(check="coverage", kind="summary", text="told in its row already"),
    ]
    (timed,) = cells_of_checks(found)
    assert (timed.first_ns, timed.partition, timed.count) == (5, 2, 1)
    assert [one.check for one in without_time(found)] == ["replicas"]
    (example,) = examples_of_checks(found, [timed])
    assert (example.text, example.cell) == ("x", timed)


def timeline(partitions: int, slices: int = 40) -> Timeline:
    rows = []
    for partition in range(partitions):
        bad = np.zeros(slices, np.int64)
        bad[7] = partition % 2
        rows.append(
            PartitionRow(zone="z1", partition=partition, good=np.ones(slices, np.int64), bad=bad)
        )
    return Timeline(
        start_ns=0,
        slice_ns=10**9,
        slices=slices,
        latencies={},
        partitions=tuple(rows),
        counts={},
    )


def test_partitions_stand_by_their_worst_kind_then_by_failures() -> None:
    checks = [Check(name=name, verdict=Verdict.VIOLATED, summary="") for name in SEVERITY]
    cells = [cell("stale-reads", 4), cell("lost-writes", 2), cell("stale-reads", None)]
    kinds = kinds_by_severity(cells, checks)
    assert kinds == [("lost-writes", "lost"), ("stale-reads", "stal")]
    order = partitions_by_severity(timeline(6), cells, kinds)
    assert [partition for _, partition in order] == [2, 4, 1, 3, 5, 0]


def test_a_slice_in_which_all_failed_is_seen_however_many_become_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = timeline(2)
    drawn = replace(
        drawn, partitions=tuple(replace(p, good=p.good * (p.bad == 0)) for p in drawn.partitions)
    )
    axis = Axis(start_ns=0, end_ns=drawn.end_ns)
    assert 'class="bad most" d="M7 0H8V6H7z"' in strip(axis, drawn, drawn.partitions[1], rows=2)
    monkeypatch.setattr("zonequake_analysis.report.time_rows.MOST_STRIP_CELLS", 20)
    assert 'class="bad most" d="M4 0H8V6H4z"' in strip(axis, drawn, drawn.partitions[1], rows=2)
    assert "bad" not in strip(axis, drawn, drawn.partitions[0], rows=2)


def test_details_have_a_bounded_size_and_the_first_examples_keep_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zonequake_analysis.report.page_data.MOST_DETAIL_BYTES", 40_000)
    made_up_pages.write_page(tmp_path)
    judged = made_up_pages.made_up_judgement(partitions=3)
    examples = json.loads(as_json(page_data(tmp_path, judged, {})))["examples"]
    assert len(as_json(examples)) < 60_000
    assert examples[0]["ops"]
    assert examples[0]["log"]
    assert not examples[-1]["ops"]
    assert examples[-1]["text"]


def test_nothing_in_the_data_ends_its_element(tmp_path: Path) -> None:
    made_up_pages.write_page(tmp_path, hostile=made_up_pages.HOSTILE + "\u202e\ud800")
    page = (tmp_path / "report.html").read_text()
    assert "<img" not in page
    assert page.count("</script>") == page.count("<script") == 6
    assert "\u202e" not in page
    data = page.partition('id="run-data">')[2].partition("</script>")[0]
    assert made_up_pages.HOSTILE in json.loads(data)["examples"][0]["key"]


def rows_of_findings(*rows: dict[str, object]) -> pa.RecordBatch:
    plain = {"check": "stale-reads", "kind": "stal", "found_by": "loss", "zone": "z1", "ops": ["r"]}
    known = [{"partition": 0, "at_ns": 0} | plain | row for row in rows]
    return pa.RecordBatch.from_pylist(known, schema=arrow_schema(FINDINGS))


def test_a_read_that_misses_many_appends_leaves_other_findings_their_examples() -> None:
    many = [{"key": "k", "value": n, "write_op": f"w-{n}"} for n in range(8000, 0, -1)]
    last = {"key": "k", "partition": 1, "at_ns": 5}
    elsewhere = {"key": "a", "partition": 2}
    batches = [
        rows_of_findings(*many[:5000]),
        rows_of_findings(*many[5000:], last, elsewhere, {"partition": 1, "zone": None}),
    ]
    places = {(*one.series, one.first_ns) for one in (cell(), cell(partition=1, at_ns=5))}
    (kept,) = one_of_each(places, iter(batches))
    assert kept.schema == batches[0].schema
    found = [(row["partition"], row["at_ns"], row["value"]) for row in kept.to_pylist()]
    assert found == [(0, 0, 1), (1, 5, None)]
    (again,) = one_of_each(places, iter(reversed(batches)))
    assert sorted(map(str, again.to_pylist())) == sorted(map(str, kept.to_pylist()))
    assert list(one_of_each(places, iter([]))) == []
