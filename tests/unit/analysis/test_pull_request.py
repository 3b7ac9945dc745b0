"""`summary.md`: the verdict first, all that a reader needs, and never longer than GitHub takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from tests.unit.analysis.told_runs import WITNESS, check, every_kind, told
from zonequake_analysis.judgement.pull_request import (
    COMMENT_CHARACTERS,
    STEP_SUMMARY_BYTES,
    append_summary,
    render_summary,
)
from zonequake_analysis.judgement.verdict_json import FaultEntry
from zonequake_analysis.verdict import Verdict


def test_the_verdict_comes_first_then_what_is_wrong_then_the_rest_folded() -> None:
    text = render_summary([every_kind()])
    lines = text.splitlines()
    assert lines[0] == "# ✗ leader-kill: violated"
    assert lines[2] == "the run is violated"
    assert "Exit code 1, seed 7." in text
    wrong, folded = text.split("<details><summary>1 checks passed, 1 had nothing to judge")
    assert "| ✗ | lost-writes | violated |" in wrong
    assert "stale-reads" not in wrong
    assert "| ✓ | stale-reads | passed |" in folded
    assert "| – | joint-after-caught-up | not judged |" in folded
    assert WITNESS in wrong


def test_a_run_against_a_foreign_target_says_so_at_once() -> None:
    ours = told(check("stale-reads"))
    assert ours.document.run is not None
    facts = msgspec.structs.replace(ours.document.run, target="etcd 3.6.4")
    theirs = replace(ours, document=msgspec.structs.replace(ours.document, run=facts))
    assert render_summary([theirs]).startswith("# ✓ leader-kill against etcd 3.6.4: passed\n")


def test_it_says_how_to_replay_and_where_the_report_is() -> None:
    text = render_summary([every_kind()])
    assert "\n    zonequake run leader-kill --seed 7\n" in text
    assert "Report: `report.html` in out/seed-7" in text


def test_the_longest_window_of_each_partition_stands_there_with_its_cause() -> None:
    text = render_summary([told(check("availability"), windows=12)])
    assert "| chaos/0 (write) | 1,000 ms | 1,200 ms | kill (pod_kill on zq-default-1) |" in text
    assert "2 more partitions had shorter ones." in text


def test_several_runs_have_one_table_and_only_those_that_failed_are_told_in_full() -> None:
    text = render_summary([told(check("stale-reads"), seed=1), every_kind(2)])
    assert text.startswith("# ✗ leader-kill: violated in 2 runs\n\n1 violated, 1 passed.\n")
    assert "| ✓ | 1 | 1 | passed | the run is passed | 300 ms | 1,234 | out/seed-1 |" in text
    assert text.count("\n## ") == 1
    assert "## ✗ leader-kill: violated" in text


def test_a_series_that_passed_says_of_what_and_where_the_reports_are() -> None:
    text = render_summary([told(check("stale-reads"), seed=seed) for seed in (1, 2)])
    assert text.endswith(
        "The report of a run is `report.html` in its folder.\n\n"
        "<sub>target zonequake, kubernetes v1.34.4, zonequake 0.1.0</sub>\n"
    )
    assert "| out/seed-2 |" in text


def test_a_series_that_ended_early_says_how_many_runs_were_asked_for() -> None:
    text = render_summary([told(check("stale-reads"), seed=1), every_kind(2)], asked=5)
    assert text.startswith("# ✗ leader-kill: violated in 2 of 5 runs\n\n1 violated, 1 passed. 3 of")
    alone = render_summary([every_kind()], asked=3)
    assert alone.startswith("# ✗ leader-kill: violated in 1 of 3 runs\n")
    assert "2 of 3 were not made: the series ended early." in alone
    assert "not made" not in render_summary([every_kind(1), every_kind(2)], asked=2)


def test_a_fault_that_no_stage_was_asked_of_took_effect_or_did_not() -> None:
    run = told(check("faults"))
    faults = [
        FaultEntry(name="staged", asked="JOINT", landed="JOINT", effective=True, progress=0.5),
        FaultEntry(name="plain", effective=True),
        FaultEntry(name="late", asked="JOINT", missed="the stage had passed", effective=True),
        FaultEntry(name="none"),
    ]
    changed = replace(run, document=msgspec.structs.replace(run.document, faults=faults))
    text = render_summary([changed])
    assert "| staged | JOINT | JOINT | 50% |" in text
    assert "| plain | – | took effect | – |" in text
    assert "| late | JOINT | missed: the stage had passed | – |" in text
    assert "| none | – | no proven effect | – |" in text


def test_a_cell_neither_ends_early_nor_opens_a_tag() -> None:
    text = render_summary(
        [told(check("replicas", Verdict.VIOLATED, summary="a | b\n<script>alert(1)</script>"))]
    )
    assert "a &#124; b &#60;script&#62;alert(1)&#60;/script&#62;" in text


def test_whole_blocks_are_left_out_where_a_comment_has_no_room_and_it_says_so() -> None:
    long = "x" * 20_000
    runs = [
        told(check("lost-writes", Verdict.VIOLATED, violations=1, witnesses=[long]), seed=seed)
        for seed in range(10)
    ]
    text = render_summary(runs)
    assert len(text) <= COMMENT_CHARACTERS
    assert "more blocks are left out" in text
    assert text.count("<details>") == text.count("</details>") == 3
    assert "| ✗ | 10 | 9 | violated |" in text


def test_a_thousand_runs_fit_too() -> None:
    text = render_summary([told(check("stale-reads"), seed=seed) for seed in range(1000)])
    assert len(text) <= COMMENT_CHARACTERS
    assert text.startswith("# ✓ leader-kill: passed in 1000 runs")
    assert "900 more runs passed." in text


def test_of_many_runs_those_that_failed_stand_in_the_table_before_the_others() -> None:
    failed = told(check("lost-writes", Verdict.VIOLATED), seed=500)
    text = render_summary([*(told(check("a"), seed=seed) for seed in range(500)), failed])
    assert "| ✗ | 501 | 500 | violated |" in text


def test_it_is_added_to_what_a_step_wrote_before_and_never_beyond_githubs_limit(
    tmp_path: Path,
) -> None:
    file = tmp_path / "step.md"
    file.write_text("before\n")
    assert append_summary(file, "after\n")
    assert file.read_text() == "before\nafter\n"
    file.write_text("x" * (STEP_SUMMARY_BYTES - 100))
    assert not append_summary(file, "y" * 101)
    assert file.stat().st_size <= STEP_SUMMARY_BYTES
    assert "no room for a summary" in file.read_text()
