"""The tables of docs/model.md."""

from __future__ import annotations

from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs" / "model.md"


def row(name: str) -> str:
    """The line on bounds or on a rule. Raises ValueError unless there is one."""
    (found,) = (line for line in _PAGE.read_text().splitlines() if line.startswith(f"| {name} "))
    return found
