"""Sentences for the errors that end a command, and its exit code.

Python's own exit code of an error is 1: of a command here that would mean a violation.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from typer.exceptions import TyperException

from zonequake_analysis.errors import AnalysisError
from zonequake_analysis.storage.causes import told_by_worker
from zonequake_analysis.text.untrusted_text import one_line, visible
from zonequake_analysis.verdict import EXIT_CODES, Verdict


@contextmanager
def told_errors(command: str) -> Iterator[None]:
    """Ends the command as a failed harness at an error inside: with a sentence, or with the trace
    of an error that has none. Passes on usage errors and exit codes.
    """
    try:
        yield
    except (TyperException, typer.Exit):
        raise
    except Exception as error:
        told = str(error) if isinstance(error, OSError) else sentence_of(error)
        if told is None:
            text = visible(traceback.format_exc())
        else:
            text = f"{one_line(f'{command}: {told}')}\n"
        print(text, end="", file=sys.stderr)  # noqa: T201
        raise typer.Exit(EXIT_CODES[Verdict.HARNESS_FAILED]) from error


def sentence_of(error: Exception) -> str | None:
    """Returns what an error says to its reader, also one of a Spark task; None of another one."""
    if isinstance(error, AnalysisError):
        return str(error)
    return told_by_worker(str(error)) or told_of_python(str(error))


def told_of_python(text: str) -> str | None:
    """Returns why a task's Python could not do its work, from the stack that Spark brings."""
    missing = re.search(r"^ModuleNotFoundError: No module named '([\w.]+)'$", text, re.MULTILINE)
    if missing is not None and "Python worker" in text:
        return (
            f"the Python of Spark's workers has no module {missing[1]}: install there what this "
            "process runs, `pip install 'zonequake[analysis]'` of the same version"
        )
    found = re.search(r"Cannot run program \"([^\"]+)\".*?: (.+)$", text, re.MULTILINE)
    if found is None:
        return None
    return (
        f"executors found no Python {found[1]} there ({found[2]}): give them theirs by --archives "
        "FILE, which `zonequake executor-archive FILE` writes"
    )
