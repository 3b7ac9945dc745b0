"""A report stays small whatever the run holds, and says how much it leaves out."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.histories.synthesize import START_NS
from tests.spark.report import made_up_pages
from tests.spark.report.made_up_pages import S
from tests.unit.analysis.made_up_evidence import finding
from zonequake_analysis.checks.search.reference import ReferenceStep
from zonequake_analysis.checks.search.witness import Witness, WitnessOperation
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.inputs.shapes import Function
from zonequake_analysis.measures.rebalances import Rebalance, fault_landings
from zonequake_analysis.measures.resets import Reset
from zonequake_analysis.post_mortem.finding_cells import FindingCell
from zonequake_analysis.post_mortem.over_time import FindingsOverTime
from zonequake_analysis.post_mortem.witnessed_findings import WitnessedFinding
from zonequake_analysis.report import svg
from zonequake_analysis.report.aliases import aliases
from zonequake_analysis.report.page import render_page
from zonequake_analysis.report.page_data import MOST_PARTITIONS
from zonequake_analysis.report.shortened import ends_of
from zonequake_analysis.report.time_rows import MOST_LEADER_LINES, Axis, leader_row
from zonequake_analysis.report.witness_text import witness_text

MOST_BYTES = 3_000_000
LONG = tuple(range(60_000))


def read(number: int, value: tuple[int, ...] = LONG) -> WitnessOperation:
    return WitnessOperation(
        op=f"1-{number}",
        process=1,
        node="n",
        role="load",
        outcome="ok",
        step=ReferenceStep(
            f=Function.READ, inv_ns=START_NS + number, fin_ns=START_NS + number + 1, value=value
        ),
        term=1,
        index=number,
    )


def shown(operations: Sequence[WitnessOperation], key: str = "k") -> WitnessedFinding:
    named = finding("not-prefix", key=key, value=40_000, at_ns=START_NS)
    return WitnessedFinding(
        finding=named, witness=Witness(operations=tuple(operations), proven=False)
    )


def changes(count: int) -> list[RecordedEvent]:
    return [
        RecordedEvent(
            kind="leader.change",
            time=START_NS + number * 100 * S // count,
            partition=number % 7,
            data={"leader": "zq-0", "term": number},
        )
        for number in range(count)
    ]


def test_a_page_of_a_run_with_far_too_much_is_small_and_counts_what_it_leaves_out(
    tmp_path: Path,
) -> None:
    judged = made_up_pages.made_up_judgement(partitions=3)
    targets = [f"zq-default-{number}" for number in range(1000)]
    faults = fault_landings(
        [
            RecordedEvent(
                kind="fault.start",
                time=START_NS + number,
                data={"fault": f"kill-{number}", "type": "pod_kill", "targets": targets},
            )
            for number in range(3000)
        ]
    )
    moved = [
        Rebalance(zone="z1", partition=n, token=n, stage_ns={"JOINT": START_NS + n})
        for n in range(3000)
    ]
    resets = [
        Reset(zone="z1", partition=n, lineage=1, survivor="n", at_ns=START_NS) for n in range(3000)
    ]
    evidence = replace(judged.evidence, faults=faults, rebalances=moved, resets=resets)
    judged = replace(
        judged,
        evidence=evidence,
        events=[*judged.events, *changes(50_000)],
        shown=[shown([read(n) for n in range(6)]), shown([read(n, (n,)) for n in range(9000)])],
    )
    page = render_page(tmp_path, judged, told=lambda _: None)
    assert len(page.encode()) < MOST_BYTES
    for words in (
        "8,976 more operations are not listed",
        "2,800 more faults are neither listed nor drawn",
        "2,700 more resets are not listed",
        "2,700 more rebalances are not listed",
        "2,940 more are not drawn",
        "and 992 more",
        "of 60,000 elements",
    ):
        assert words in page, words


def test_of_5000_partitions_the_worst_are_drawn_and_the_others_counted(tmp_path: Path) -> None:
    judged = made_up_pages.made_up_judgement(partitions=5000)
    cells = [
        FindingCell(
            check=check,
            kind=kind,
            found_by=found_by,
            zone="z1",
            partition=partition,
            first_ns=START_NS + partition * 10**6,
            last_ns=START_NS + partition * 10**6,
            count=2,
        )
        for partition in range(1000, 5000)
        for check, kind in (made_up_pages.LOST, made_up_pages.STALE)
        if kind == "stale" or partition >= 4990
        for found_by in ("a", "b", "c", "d", "e", "f")
    ]
    judged = replace(judged, over_time=FindingsOverTime(cells=cells))
    page = render_page(tmp_path, judged, told=lambda _: None)
    assert len(page.encode()) < MOST_BYTES
    rows = re.findall(r'class="row partition[^>]*><button[^>]*><span class="name">([^<]*)<', page)
    assert len(rows) == MOST_PARTITIONS == 500
    assert set(rows[:10]) == {f"z1/{n}" for n in range(4990, 5000)}
    assert "4,500 more partitions are not drawn: 3,500 of them with findings, " in page
    (data,) = re.findall(r'id="run-data">(.*?)</script>', page, re.DOTALL)
    drawn = json.loads(data)
    assert len(drawn["partitions"]) == 500
    assert sum(one[4] for one in drawn["cells"]) == sum(cell.count for cell in cells)


def test_each_change_of_a_leader_has_a_line_or_is_counted_at_the_one_before_it() -> None:
    axis = Axis(start_ns=START_NS, end_ns=START_NS + 100 * S)
    few = leader_row(axis, changes(MOST_LEADER_LINES))
    assert few.count("<path") == MOST_LEADER_LINES
    assert "more changes" not in few
    many = leader_row(axis, changes(50_000))
    lines = many.count("<path")
    assert lines <= MOST_LEADER_LINES + 1
    counted = sum(int(found) for found in re.findall(r"; (\d+) more changes until", many))
    assert lines + counted == 50_000


def test_a_long_list_shows_its_ends_its_size_and_what_the_finding_is_about() -> None:
    assert svg.label(read(1, (1, 2, 3)), {2: "b"}) == "read → [1 b 3]"
    assert svg.label(read(1), {0: "a"}) == (
        "read → [a 1 2 3 … 59996 59997 59998 59999] of 60,000 elements"
    )
    assert svg.label(read(1), {}, 40_000) == (
        "read → [0 1 2 3 … 39999 40000 40001 … 59996 59997 59998 59999] of 60,000 elements"
    )
    assert len(aliases([read(n) for n in range(6)], 40_000)) == 11
    assert svg.label(read(1, (5,)), {5: "x" * 10_000}).endswith("x…]")


@pytest.mark.parametrize("size", [0, 1, 11, 12, 13, 14, 30])
@pytest.mark.parametrize("about", [None, 0, 4, 5, 12, 29, 99])
def test_elements_are_left_out_only_where_a_mark_says_so(size: int, about: int | None) -> None:
    elements = tuple(range(size))
    kept = ends_of(elements, about)
    assert [one for one in kept if one is not None] == sorted(
        {one for one in kept if one is not None}
    )
    assert (None in kept) == (size > 12 and len([o for o in kept if o is not None]) < size)
    assert about not in elements or about in kept
    assert all(b == a + 1 for a, b in pairwise(kept) if a is not None and b is not None)


def test_the_text_of_a_witness_is_short_and_counts_what_it_leaves_out() -> None:
    one = shown([read(n) for n in range(100)])
    text = witness_text(one.finding, one.witness, start_ns=START_NS, originals={0: "v" * 10**6})
    assert len(text) < 10_000
    assert "and 76 more operations" in text
