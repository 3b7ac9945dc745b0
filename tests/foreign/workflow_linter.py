"""Actionlint, which judges workflows of GitHub Actions."""

from __future__ import annotations

from pathlib import Path

from tests.foreign.built_once import go_program

_SOURCES = Path(__file__).parent / "actionlint"
_PROGRAM = "github.com/rhysd/actionlint/cmd/actionlint"


def program() -> Path:
    """The compiled program."""
    return go_program(_SOURCES, _PROGRAM)
