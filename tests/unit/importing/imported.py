"""What the tests of the importer share: a text imported, and its lines back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zonequake_analysis.importing.command import Source, import_history
from zonequake_analysis.importing.operations import Choices, Notes

Line = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Imported:
    run: Path
    lines: list[Line]
    notes: Notes

    @property
    def ends(self) -> list[Line]:
        return [line for line in self.lines if line["type"] != "invoke"]

    @property
    def values(self) -> dict[str, str]:
        file = self.run / "values.json"
        return json.loads(file.read_text()) if file.exists() else {}


def imported(folder: Path, source: str, text: str, **choices: Any) -> Imported:
    """Imports `text` as a file of `source`, and reads what came of it."""
    file = folder / "given.txt"
    file.write_text(text)
    run = folder / f"run-{len(list(folder.glob('run-*')))}"
    _, notes = import_history(Source(source), [file], run, Choices(**choices))
    history = (run / "history" / "imported.jsonl").read_text()
    return Imported(run=run, lines=[json.loads(line) for line in history.splitlines()], notes=notes)
