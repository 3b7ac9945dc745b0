"""Samples as text become a run's metrics: each with its labels, its time and its value."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import typer.main

from zonequake_analysis.importing.metrics_command import app
from zonequake_analysis.inputs.prometheus.openmetrics import groups
from zonequake_analysis.inputs.prometheus.remote_read import SCHEMA, series_id
from zonequake_analysis.storage.location import Location
from zonequake_analysis.storage.upload_mark import UploadMark, write_mark

TEXT = r"""# TYPE made counter
made_total{number="1",pod="zq-0"} 1 1700000000.000
made_total{number="1",pod="zq-0"} 2.5 1700000001.000
made_total{number="1",pod="zq-0"} NaN 1700000002.000
# TYPE odd gauge
odd{text="a \"quoted\" \\ back, and {braces} = #"} -1e-03 1700000000.125
odd +Inf 1700000000.125
# EOF
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run" / "history").mkdir(parents=True)
    (tmp_path / "dump.txt").write_text(TEXT)
    return tmp_path / "run"


def imported(*words: str | Path) -> object:
    return typer.main.get_command(app).main(
        args=[str(word) for word in words], standalone_mode=False
    )


def test_the_file_has_the_columns_of_one_that_was_pulled_and_a_nan_ends_its_series(
    run: Path, tmp_path: Path
) -> None:
    imported(tmp_path / "dump.txt", run)
    table = pq.read_table(run / "metrics" / "dump.parquet")
    assert table.schema.equals(SCHEMA)
    assert table.column("stale").to_pylist() == [False, False, True, False, False]
    labels = (("__name__", "made_total"), ("number", "1"), ("pod", "zq-0"))
    assert table.column("series_id")[0].as_py() == series_id(labels)


def test_a_group_holds_its_own_series_and_no_more_samples_than_asked() -> None:
    lines = [b'x{n="%d"} %d %d.5\n' % (n // 2, n, n) for n in range(10)]
    found = list(groups(lines, "x.txt", size=4))
    assert [(len(group.t_ms), len(group.series)) for group in found] == [(4, 2), (4, 2), (2, 1)]
    read = [
        (dict(group.series[row])["n"], value, at)
        for group in found
        for row, value, at in zip(group.rows, group.values, group.t_ms, strict=True)
    ]
    assert read == [(str(n // 2), float(n), n * 1000 + 500) for n in range(10)]


@pytest.mark.parametrize(
    "line",
    ['x{a="1"} 1', "x{a=1} 1 2", 'x{a="1"} 1 2 # {t="u"} 1 3', '{"my.x"} 1 2', '{a="1"} 1 2',
     'x{a="1",a="2"} 1 2', '{__name__="x", __name__="y"} 1 2',
     "x 1 1e300", "x one 2", 'x{__name__="y"} 1 2', 'x{a="1"b="2"} 1 2', "ä 1 2"],
)  # fmt: skip
def test_a_line_that_is_no_sample_is_named_and_nothing_is_written(
    run: Path, tmp_path: Path, line: str
) -> None:
    (tmp_path / "dump.txt").write_text(f"x 1 2\n{line}\n")
    with pytest.raises(typer.exceptions.TyperException, match=r"dump\.txt, line 2: found"):
        imported(tmp_path / "dump.txt", run)
    assert not list((run / "metrics").iterdir())


def test_a_label_that_stands_twice_is_told(run: Path, tmp_path: Path) -> None:
    (tmp_path / "dump.txt").write_text('x{a="1",b="2",a="1"} 1 2\n')
    with pytest.raises(typer.exceptions.TyperException, match=r"line 1: .*each label once"):
        imported(tmp_path / "dump.txt", run)


@pytest.mark.parametrize("text", ["", "# EOF\n", "\n# TYPE x gauge\n\n"])
def test_a_text_without_a_sample_is_refused_and_nothing_is_written(
    run: Path, tmp_path: Path, text: str
) -> None:
    (tmp_path / "dump.txt").write_text(text)
    with pytest.raises(typer.exceptions.TyperException, match="found no sample in the file"):
        imported(tmp_path / "dump.txt", run)
    assert not list((run / "metrics").iterdir())


def test_a_second_import_of_the_same_file_is_refused(run: Path, tmp_path: Path) -> None:
    imported(tmp_path / "dump.txt", run)
    with pytest.raises(typer.exceptions.TyperException, match="is there already"):
        imported(tmp_path / "dump.txt", run)


def test_a_line_is_shown_in_part_and_without_what_a_terminal_would_obey(
    run: Path, tmp_path: Path
) -> None:
    (tmp_path / "dump.txt").write_text("x\x1b[2J\x07\u202e one 2" + "y" * 5000)
    with pytest.raises(typer.exceptions.TyperException) as refused:
        imported(tmp_path / "dump.txt", run)
    told = refused.value.format_message()
    assert "found x⟨U+001B⟩[2J⟨U+0007⟩⟨U+202E⟩ one 2yyy" in told
    assert "y …, expected" in told
    assert len(told) < 600
    assert not set("\x1b\x07\u202e") & set(told)


@pytest.mark.parametrize("histories", [True, False])
def test_nothing_is_written_into_a_place_that_a_run_has_claimed(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], histories: bool
) -> None:
    mark = UploadMark(run="r7", host="h", folder="/spool/r7", command="zonequake upload /spool/r7")
    write_mark(Location.of(run), mark)
    if not histories:
        (run / "history").rmdir()
    assert imported(tmp_path / "dump.txt", run) == 255
    assert "`zonequake upload /spool/r7` on h brings it" in capsys.readouterr().err
    assert not (run / "metrics").exists()


def test_a_folder_that_is_no_run_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "dump.txt").write_text(TEXT)
    (tmp_path / "other").mkdir()
    with pytest.raises(typer.exceptions.TyperException, match="other is no run folder"):
        imported(tmp_path / "dump.txt", tmp_path / "other")
    assert not list((tmp_path / "other").iterdir())
