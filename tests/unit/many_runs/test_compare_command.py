"""The command on folders: what it reads, its exit codes, the files that it writes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer.main

from tests.histories.judged_runs import JudgedRun, write_run
from zonequake_analysis.errors import RunFolderError
from zonequake_analysis.many_runs.compare_command import app as compare_app
from zonequake_analysis.many_runs.compare_command import each_named
from zonequake_analysis.many_runs.folders import read_phases, read_run, run_folders
from zonequake_analysis.many_runs.trend_command import app as trend_app
from zonequake_analysis.storage.location import Location
from zonequake_analysis.storage.upload_mark import UploadMark, write_mark
from zonequake_analysis.text.strange_bytes import MARK


def compared(*arguments: str | Path) -> int:
    code = typer.main.get_command(compare_app).main(
        args=[str(argument) for argument in arguments], standalone_mode=False
    )
    assert isinstance(code, int)
    return code


def made(folder: Path, name: str, **fields: object) -> Path:
    return write_run(folder, JudgedRun(name=name, **fields))  # type: ignore[arg-type]


def test_a_sound_pair_of_folders_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, candidate = made(tmp_path, "a", seed=1), made(tmp_path, "b", seed=2)
    assert compared(base, candidate) == 0
    told = capsys.readouterr().out
    assert told.startswith("✓ No regression in ")
    assert "p99 of reads before the faults" in told


def test_a_planted_regression_ends_with_3_and_is_in_every_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, candidate = made(tmp_path, "a", seed=1), made(tmp_path, "b", seed=2, slower=2.0)
    markdown, written = tmp_path / "out" / "c.md", tmp_path / "out" / "c.json"
    assert compared(base, candidate, "--markdown", markdown, "--json", written) == 3
    rows = json.loads(written.read_text())["rows"]
    regressions = [row["name"] for row in rows if row["outcome"] == "regression"]
    assert regressions == [
        f"faults.{kind}.{quantile}"
        for kind in ("all", "read", "write")
        for quantile in ("p50", "p99")
    ]
    change = next(row["change"] for row in rows if row["name"] == "faults.all.p99")
    assert 1.7 < change["value"] < 2.3
    assert "✗ | p99 of writes during the faults" in markdown.read_text()
    assert capsys.readouterr().out.startswith("✗ Regression: ")


def planted(run: Path, *checks: str) -> Path:
    """The same run with one violation of each of these checks in its verdict."""
    file = run / "verdict.json"
    document = json.loads(file.read_text())
    told = {"verdict": "violated", "summary": "", "violations": 1, "checked": 9}
    kept = [check for check in document["checks"] if check["name"] not in checks]
    checked = [*kept, *({"name": name} | told for name in checks)]
    file.write_text(json.dumps(document | {"verdict": "violated", "checks": checked}))
    return run


def test_a_newly_lost_write_is_a_regression_though_both_runs_are_violated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = planted(made(tmp_path, "a", seed=1), "diverged")
    candidate = planted(made(tmp_path, "b", seed=2), "diverged", "lost-writes")
    markdown = tmp_path / "c.md"
    assert compared(base, candidate, "--markdown", markdown) == 3
    told = capsys.readouterr().out
    assert told.startswith("✗ Regression: lost-writes is violated in 1 of 1 candidate runs")
    row = "| ✗ | acknowledged writes lost | 0 | 1 | +1 | +0 |"
    assert row in markdown.read_text().splitlines()
    capsys.readouterr()
    same = planted(made(tmp_path, "c", seed=3), "diverged")
    assert compared(base, same) == 0
    nameless = planted(made(tmp_path, "d", seed=4), "diverged")
    file = nameless / "verdict.json"
    file.write_text(file.read_text().replace('"leader-kill"', '""'))
    assert compared(same, nameless) == 0
    assert "without a scenario in the candidate" in capsys.readouterr().out


def test_sets_are_given_as_a_folder_of_runs_or_one_by_one(tmp_path: Path) -> None:
    for seed in range(4):
        made(tmp_path / "old", f"a{seed}", seed=seed)
        made(tmp_path / "new", f"b{seed}", seed=seed + 10, window_ms=1000.0 + seed)
    assert compared("--base", tmp_path / "old", "--candidate", tmp_path / "new") == 3
    old = sorted((tmp_path / "old").iterdir())
    new = sorted((tmp_path / "new").iterdir())
    assert compared("--base", *old[:2], "--candidate", *old[2:]) == 0
    assert compared("--base", old[0], "--base", old[1], "--candidate", *old[2:]) == 0
    assert compared("--candidate", *new, "--bound", "window=5000", "--base", *old) == 0


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("a b --bound p99=2", "a b --bound p99=2"),
        ("--base a b --candidate c", "--base a --base b --candidate c"),
        ("--base a --bound p99=2 b --candidate c d", None),
        ("--base=a --candidate c d", "--base=a --candidate c --candidate d"),
        ("--base --candidate c", "--base --candidate c"),
    ],
)
def test_the_option_of_a_side_holds_for_each_folder_up_to_the_next_option(
    given: str, read: str | None
) -> None:
    expected = read or "--base a --bound p99=2 b --candidate c --candidate d"
    assert each_named(given.split()) == expected.split()


def test_a_copy_a_probe_and_an_unanswered_write_are_no_latency(tmp_path: Path) -> None:
    run = made(tmp_path, "a")
    found = read_run(run)
    assert found.estimates["faults.all.p99"].high < 1000
    assert found.estimates["before.rate"].value == pytest.approx(100.0, rel=0.01)
    assert found.estimates["faults.rate"].value == pytest.approx(100.0, rel=0.01)


def test_without_tables_p99_of_the_verdict_is_told_and_a_doubled_one_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = made(tmp_path, "a", tables=False)
    candidate = made(tmp_path, "b", tables=False, slower=2.0)
    assert compared(base, candidate) == 2
    told = capsys.readouterr().out
    assert "1 are beyond their bound and within what chance can do" in told
    assert "without tables/ops in the base" in told


def test_tables_of_one_side_alone_are_unknown(tmp_path: Path) -> None:
    base, candidate = made(tmp_path, "a"), made(tmp_path, "b", tables=False)
    assert compared(base, candidate) == 2


def test_a_phase_that_cannot_be_read_is_no_phase(tmp_path: Path) -> None:
    run = made(tmp_path, "a")
    good = read_phases(Location.of(run))
    events = (run / "events.jsonl").read_bytes()
    for bad in (b'{"kind":"run.phase","data":{"phase":"\xff"}}\n', b'{"run.phase' + b"[" * 10**5):
        (run / "events.jsonl").write_bytes(MARK + events + bad)
        assert read_phases(Location.of(run)) == good


def test_without_events_the_whole_run_is_one_span(tmp_path: Path) -> None:
    found = read_run(made(tmp_path, "a", events=False))
    spans = {name.partition(".")[0] for name in found.estimates if name.endswith("rate")}
    assert spans == {"whole"}


def test_phases_of_another_clock_than_the_history_cut_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, candidate = made(tmp_path, "a"), made(tmp_path, "b", several_clocks=True)
    spans = {name.partition(".")[0] for name in read_run(candidate).estimates if "rate" in name}
    assert spans == {"whole"}
    assert compared(base, candidate) == 2
    told = capsys.readouterr().out
    assert "measured as a whole in the candidate" in told
    assert "events of another clock than the history" in told
    assert compared(candidate, made(tmp_path, "c", several_clocks=True, seed=2)) == 0
    capsys.readouterr()
    assert compared(base, made(tmp_path, "d", seed=3)) == 0
    assert "as a whole" not in capsys.readouterr().out


def test_a_run_that_showed_too_little_is_unknown(tmp_path: Path) -> None:
    assert compared(made(tmp_path, "a"), made(tmp_path, "b", unknown=True)) == 2


def test_a_folder_without_a_verdict_is_no_verdict_and_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "raw").mkdir()
    assert compared(made(tmp_path, "a"), tmp_path / "raw") == 255
    assert f"run `zonequake analyze {tmp_path / 'raw'}` first" in capsys.readouterr().err


def test_a_run_of_a_set_that_was_never_judged_is_not_left_out_silently(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b", "c"):
        made(tmp_path / "old", name)
    (tmp_path / "old" / "b" / "verdict.json").unlink()
    assert compared("--base", tmp_path / "old", "--candidate", made(tmp_path, "d")) == 255
    assert f"run `zonequake analyze {tmp_path / 'old' / 'b'}` first" in capsys.readouterr().err


def test_a_run_that_is_not_whole_says_how_it_becomes_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = UploadMark(run="r7", host="h", folder="/spool/r7", command="zonequake upload /spool/r7")
    (tmp_path / "set" / "r7").mkdir(parents=True)
    write_mark(Location.of(tmp_path / "set" / "r7"), mark)
    assert compared("--base", tmp_path / "set", "--candidate", made(tmp_path, "a")) == 255
    assert "`zonequake upload /spool/r7` on h brings it" in capsys.readouterr().err


@pytest.mark.parametrize("began", [True, False])
@pytest.mark.parametrize("sides", [("a", "copy", "b"), ("a", "b", "copy")])
def test_a_copy_of_a_run_is_refused_with_both_folders(
    tmp_path: Path, sides: tuple[str, str, str], *, began: bool
) -> None:
    made(tmp_path, "a", seed=1)
    made(tmp_path, "b", seed=2)
    if not began:
        for name in ("a", "b"):
            file = tmp_path / name / "verdict.json"
            document = json.loads(file.read_text())
            del document["run"]["started_wall_ns"]
            file.write_text(json.dumps(document))
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    first, second, third = (tmp_path / name for name in sides)
    assert compared("--base", tmp_path / "a", "--candidate", tmp_path / "b") == 0
    both = f"found the run a twice, in {tmp_path / 'a'} and in {tmp_path / 'copy'}, expected"
    with pytest.raises(typer.BadParameter, match=re.escape(both)):
        compared("--base", first, second, "--candidate", third)


def test_a_folder_on_both_sides_is_refused(tmp_path: Path) -> None:
    run = made(tmp_path / "set", "a", tables=False)
    with pytest.raises(typer.BadParameter, match="a 2 times, expected each run once"):
        compared("--base", tmp_path / "set", "--candidate", run)


@pytest.mark.parametrize("broken", ["verdict.json", "tables/ops/part-00000.parquet"])
@pytest.mark.parametrize("content", [b"{torn", b'{"schema":"\xff"}', b"[" * 10**5, b"\x00"])
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], broken: str, content: bytes
) -> None:
    base, candidate = made(tmp_path, "a"), made(tmp_path, "b")
    (candidate / broken).write_bytes(content)
    assert compared(base, candidate) == 255
    assert str((candidate / broken).parent if "ops" in broken else candidate / broken) in (
        capsys.readouterr().err
    )


EVIL = "e\x1b[2Jv\u202el"


@pytest.mark.parametrize("command", [compare_app, trend_app])
@pytest.mark.parametrize("raised", [RunFolderError(EVIL), RuntimeError(EVIL)])
def test_no_error_moves_the_cursor_of_a_terminal(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: typer.Typer,
    raised: Exception,
) -> None:
    def fails(folder: Location) -> list[Location]:
        raise raised

    monkeypatch.setattr("zonequake_analysis.many_runs.folders.run_folders", fails)
    sides = 2 if command is compare_app else 1
    folders = [str(made(tmp_path, name)) for name in "ab"[:sides]]
    assert typer.main.get_command(command).main(args=folders, standalone_mode=False) == 255
    assert "e⟨U+001B⟩[2Jv⟨U+202E⟩l" in capsys.readouterr().err


def test_a_verdict_of_another_schema_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, candidate = made(tmp_path, "a"), made(tmp_path, "b")
    file = candidate / "verdict.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema": 7, "checks": None}))
    assert compared(base, candidate) == 255
    told = capsys.readouterr().err
    assert f"{file}: found schema 7, expected 1" in told
    assert "run `zonequake analyze` over the run again" in told


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("", "found the folder .*, expected a file to write"),
        ("a/run.yaml/c.json", "c.json can't be written: File exists"),
    ],
)
@pytest.mark.parametrize("option", ["--json", "--markdown"])
def test_a_file_that_cannot_be_written_is_wrong_usage(
    tmp_path: Path, option: str, file: str, expected: str
) -> None:
    base, candidate = made(tmp_path, "a"), made(tmp_path, "b")
    with pytest.raises(typer.BadParameter, match=expected):
        compared(base, candidate, option, tmp_path / file)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["a"],
        ["a", "b", "--base", "a"],
        ["--base", "a"],
        ["--base", "a", "--base", "a", "--candidate", "b"],
        ["a", "b", "--bound", "p98=1"],
        ["a", "b", "--above-ms", "-1"],
        ["a", "other"],
        ["a", "absent"],
    ],
)
def test_wrong_usage_is_told(tmp_path: Path, arguments: list[str]) -> None:
    made(tmp_path, "a")
    made(tmp_path, "b")
    made(tmp_path, "other", scenario="other")
    words = [str(tmp_path / w) if w in ("a", "b", "other", "absent") else w for w in arguments]
    with pytest.raises(typer.exceptions.TyperException):
        compared(*words)


def test_metrics_are_read_where_the_analysis_wrote_them(tmp_path: Path) -> None:
    run = made(tmp_path, "a")
    assert read_run(run).metrics == ()
    folder = run / "tables" / "metric_changes"
    folder.mkdir()
    known = {"metric": "cpu_total", "measure": "rate", "unit": "/s", "before": 1.0}
    rows = [
        known | {"span_kind": "fault", "during": 2.0, "score": 4.0},
        known | {"span_kind": "fault", "during": 5.0, "score": 9.0},
        known | {"span_kind": "window", "during": 7.0, "score": 99.0},
        known | {"span_kind": "fault", "during": None, "score": None},
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "part-0.parquet")
    (found,) = read_run(run).metrics
    assert (found.name, found.during, found.score) == ("cpu_total", 5.0, 9.0)
    pq.write_table(pa.table({"other": [1]}), folder / "part-0.parquet")
    assert read_run(run).metrics == ()


def test_runs_are_found_below_a_folder_and_not_within_a_run(tmp_path: Path) -> None:
    outer = made(tmp_path / "chaos", "seed-1")
    made(outer / "history", "inner")
    deep = made(tmp_path / "a" / "b", "c")
    made(tmp_path / "a" / "b" / "c2" / "d", "too-deep")
    assert run_folders(tmp_path) == [Location.of(deep), Location.of(outer)]
    assert run_folders(outer) == [Location.of(outer)]
    assert pq.read_table(outer / "tables" / "ops").num_rows == 4003
