"""Whether all that a run left is there."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.analysis.made_up_evidence import evidence, found
from zonequake_analysis.checks import loss, sets
from zonequake_analysis.errors import RunFolderError
from zonequake_analysis.inputs.completeness import RecordedRun, histories, incomplete_files
from zonequake_analysis.inputs.run_folder import read_description, read_dumps
from zonequake_analysis.judgement.evidence import WithoutOrder
from zonequake_analysis.judgement.judge import judge
from zonequake_analysis.measures.majorities import Unfounded
from zonequake_analysis.verdict import Check, Verdict

BY_TIMES = {(loss.CHECK, kind): 1 for kind in ("lost", "stale", "flicker")} | {
    (sets.CHECK, "applied-twice"): 1
}
BY_BOTH = {"by_both": 1, "by_claim_only": 0, "by_black_box_only": 0}


def test_files_that_are_missing_or_shorter_are_named_and_longer_ones_are_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "run.yaml").write_text(
        "files: {events.jsonl: 4, history/load-0.jsonl: 4, history/load-1.jsonl: 0, run: 4}"
    )
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "load-0.jsonl").write_text("{}\n")
    (tmp_path / "events.jsonl").write_text("{}\n{}\n")
    files = read_description(tmp_path).files
    assert incomplete_files(tmp_path, files) == [
        "history/load-0.jsonl",
        "history/load-1.jsonl",
        "run",
    ]


def test_a_folder_of_histories_alone_misses_nothing(tmp_path: Path) -> None:
    assert incomplete_files(tmp_path, read_description(tmp_path).files) == []


def test_a_piece_of_a_history_that_a_later_one_follows_is_missed(tmp_path: Path) -> None:
    """Also without a list, as of a harness that was killed."""
    stem = "zq-load-z-0-17"
    there = [f"{stem}-load.jsonl", f"{stem}-load.0002.jsonl", f"{stem}-probe.0001.jsonl"]
    (tmp_path / "history").mkdir()
    for name in (*there, "mine.0003.jsonl"):
        (tmp_path / "history" / name).write_text("{}\n")
    assert RecordedRun.of(tmp_path).incomplete == [
        f"history/{stem}-load.0001.jsonl",
        f"history/{stem}-probe.jsonl",
    ]


def test_a_list_of_files_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("files: [events.jsonl]")
    with pytest.raises(RunFolderError, match=r"run\.yaml"):
        read_description(tmp_path)


def test_files_that_no_history_is_read_from_are_named_and_drafts_are_not(tmp_path: Path) -> None:
    history = tmp_path / "history"
    (history / "sub").mkdir(parents=True)
    (history / "empty").mkdir()
    read = ("a.jsonl", "a.0001.jsonl")
    drafts = (".b.jsonl.5f1c", "a.jsonl.0123456789abcdef", "sub/.c.jsonl.5f1c", "._a.jsonl")
    unread = ("b.json", "d.jsonl.gz", "e.JSONL", "f.jsonl~", "sub/c.jsonl")
    for name in (*read, *drafts, *unread):
        (history / name).write_text("{}\n")
    (history / "_SUCCESS").touch()
    (history / ".d.jsonl").mkdir()
    found = histories(tmp_path)
    assert found.unread == tuple(f"history/{name}" for name in unread)
    assert sorted(file.name for file in found.files) == sorted(read)
    assert found.size_bytes == 3 * len(read)


def test_a_history_with_files_that_are_not_read_is_unknown() -> None:
    files = tuple(f"history/{name}.json" for name in "abcde")
    checks = checks_of(unread=files)
    assert checks["history"].verdict is Verdict.UNKNOWN
    assert checks["history"].summary == (
        "5 files in `history` are not read: history/a.json, history/b.json, history/c.json, and 2 "
        "more; expected nothing but files `*.jsonl`, directly in it"
    )
    assert checks["phantoms"].verdict is Verdict.UNKNOWN
    assert "5 files in `history` are of other names" in checks["phantoms"].summary


def test_a_history_of_several_clocks_names_two_of_them() -> None:
    e = evidence()
    e = replace(e, quality=replace(e.quality, clocks=("6f1c", "a0b2")))
    (history,) = [check for check in judge(e) if check.name == "history"]
    assert history.verdict is Verdict.UNKNOWN
    assert "several clocks, such as `6f1c` and `a0b2` in the field `clock`" in history.summary
    e = replace(e, quality=replace(e.quality, clocks=("", "6f1c")))
    (history,) = [check for check in judge(e) if check.name == "history"]
    assert "several clocks, such as none and `6f1c` in the field `clock`" in history.summary


@pytest.mark.parametrize("bound_ns", [0, 5_000_000])
def test_times_of_several_clocks_show_no_violation_unless_a_bound_is_known(bound_ns: int) -> None:
    e = evidence(found=replace(found(BY_TIMES), without_order=WithoutOrder(**BY_BOTH)))
    e = replace(
        e,
        quality=replace(e.quality, clocks=("6f1c", "a0b2")),
        description=replace(e.description, clock_offset_ns=bound_ns),
    )
    checks = {check.name: check for check in judge(e)}
    for name in ("lost-writes", "stale-reads", "flicker", "duplicates", "linearizability"):
        assert checks[name].verdict is (Verdict.VIOLATED if bound_ns else Verdict.UNKNOWN), name
        assert ("times of several clocks" in checks[name].summary) == (not bound_ns)


def test_answers_are_not_held_against_events_of_another_clock() -> None:
    alone = Unfounded(zone="z1", partition=0, count=1, examples=["read of k by n"])
    for one_clock, verdict in ((True, Verdict.VIOLATED), (False, Verdict.PASSED)):
        checks = judge(evidence(unfounded=[alone], one_clock=one_clock))
        (check,) = [check for check in checks if check.name == "forbidden-availability"]
        assert (check.verdict, check.judged) == (verdict, one_clock)


def test_what_no_time_shows_is_a_violation_whatever_the_clocks() -> None:
    counts = {(sets.CHECK, kind): 1 for kind in ("phantom", "aborted", "duplicate")}
    e = evidence(found=found(counts | {(loss.CHECK, "session"): 1}))
    e = replace(e, quality=replace(e.quality, clocks=("6f1c", "a0b2")))
    checks = {check.name: check for check in judge(e)}
    for name in ("phantoms", "aborted-reads", "duplicates", "sessions"):
        assert checks[name].verdict is Verdict.VIOLATED, name


def checks_of(incomplete: tuple[str, ...] = (), unread: tuple[str, ...] = ()) -> dict[str, Check]:
    """Of a run in which two values were read that no line writes."""
    e = evidence(incomplete=incomplete, unread_histories=unread)
    e = replace(e, found=replace(e.found, counts=Counter({(sets.CHECK, "phantom"): 2})))
    return {check.name: check for check in judge(e)}


def test_a_value_that_a_missing_file_of_the_history_may_write_is_no_violation() -> None:
    checks = checks_of(("history/load-0.0001.jsonl",))
    for name in ("phantoms", "linearizability"):
        assert checks[name].verdict is Verdict.UNKNOWN
        assert "1 files of the history are missing or cut" in checks[name].summary
    assert checks["history"].verdict is Verdict.UNKNOWN


def test_a_value_that_no_line_writes_is_a_violation_whatever_else_is_missing() -> None:
    for incomplete in ((), ("dumps/zq-default-0.jsonl", "events.jsonl")):
        assert checks_of(incomplete)["phantoms"].verdict is Verdict.VIOLATED


def test_dumps_that_are_no_folder_are_refused_and_not_taken_for_none(tmp_path: Path) -> None:
    assert read_dumps(tmp_path) == []
    (tmp_path / "dumps").write_bytes(b"rubbish")
    with pytest.raises(RunFolderError, match="dumps: Not a directory; expected a folder"):
        read_dumps(tmp_path)


def test_metrics_that_are_cut_are_unknown_and_no_fault_of_the_history() -> None:
    checks = checks_of(("metrics/prometheus.parquet",))
    assert checks["history"].verdict is Verdict.PASSED
    assert checks["metrics"].verdict is Verdict.UNKNOWN
    assert checks["metrics"].summary == (
        "1 files are missing, or shorter than when the run ended, such as "
        "metrics/prometheus.parquet: copy the run again"
    )
    both = checks_of(("dumps/zq-default-0.jsonl", "metrics/prometheus.parquet"))
    assert both["history"].verdict is Verdict.UNKNOWN
    assert both["history"].summary.startswith("1 files are missing")
