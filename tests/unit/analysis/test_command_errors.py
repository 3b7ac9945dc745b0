"""Errors that end a command: the sentence that its user reads, and the exit code."""

from __future__ import annotations

import pytest
import typer

from zonequake_analysis.command_errors import sentence_of, told_errors, told_of_python
from zonequake_analysis.errors import LocationError, RunFolderError

OF_A_TASK = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times
zonequake_analysis.errors.LocationError: s3://b/r: the store refuses these credentials (403)
\tat org.apache.spark.X.y(X.scala:3)"""


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (
            RunFolderError("run.yaml:3: found\nnothing\x1b[2J"),
            "run.yaml:3: found nothing⟨U+001B⟩[2J",
        ),
        (LocationError("s3://b: nothing answers", unreachable=True), "s3://b: nothing answers"),
        (FileNotFoundError(2, "found no such file", "x"), "[Errno 2] found no such file: 'x'"),
        (RuntimeError(OF_A_TASK), "s3://b/r: the store refuses these credentials (403)"),
    ],
)
def test_an_error_that_is_known_is_one_sentence(
    raised: Exception, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, told_errors("trend"):
        raise raised
    assert ended.value.exit_code == 255
    assert capsys.readouterr().err == f"trend: {told}\n"


def test_an_error_that_is_unknown_shows_its_trace_and_moves_no_cursor(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit) as ended, told_errors("sql-shell"):
        raise RuntimeError("e\x1b[2J")
    assert ended.value.exit_code == 255
    told = capsys.readouterr().err
    assert told.startswith("Traceback")
    assert told.endswith("RuntimeError: e⟨U+001B⟩[2J\n")


@pytest.mark.parametrize("raised", [typer.BadParameter("no"), typer.Exit(3)])
def test_wrong_usage_and_an_exit_code_are_passed_on(
    raised: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(type(raised)) as passed, told_errors("compare"):
        raise raised
    assert passed.value is raised
    assert capsys.readouterr().err == ""


def test_an_error_of_the_code_has_no_sentence() -> None:
    assert sentence_of(RuntimeError("x")) is None


def test_a_package_that_workers_lack_is_named() -> None:
    stack = """An exception was thrown from the Python worker: Traceback (most recent call last):
ModuleNotFoundError: No module named 'zonequake_analysis'
 SQLSTATE: 38000"""
    told = told_of_python(stack)
    assert told is not None
    assert "no module zonequake_analysis" in told


def test_a_python_that_executors_lack_is_named_with_the_way_out() -> None:
    stack = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times
java.io.IOException: Cannot run program "/opt/venv/bin/python": error=2, No such file or directory
\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)"""
    told = told_of_python(stack)
    assert told is not None
    assert "no Python /opt/venv/bin/python there (error=2, No such file or directory)" in told
    assert "--archives FILE" in told
    assert told_of_python("java.io.IOException: Cannot run") is None
