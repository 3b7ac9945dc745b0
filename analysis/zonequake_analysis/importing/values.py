"""Values of another tool's history as integers, and back."""

from __future__ import annotations

from pathlib import Path

import msgspec

from zonequake_analysis.errors import RunFolderError
from zonequake_analysis.importing.edn import text_of
from zonequake_analysis.storage.place import Place

VALUES_FILE = "values.json"
FIRST_NUMBER = 2**53
"""Integers below it, positive or negative, stand for themselves; all else gets one from here on."""


class Values:
    """Gives each value an integer, the same one for the same value."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number_of(self, value: object) -> int:
        """The integer that stands for a scalar."""
        if type(value) is int and -FIRST_NUMBER < value < FIRST_NUMBER:
            return value
        return self._numbers.setdefault(text_of(value), FIRST_NUMBER + len(self._numbers))

    def by_number(self) -> dict[str, str]:
        """Returns what `values.json` holds: numbers that we gave, with what they stand for."""
        return {str(number): text for text, number in self._numbers.items()}


def original_values(run: Path | Place) -> dict[int, str]:
    """Returns what the integers of an imported run stand for; empty for any other run.

    Raises RunFolderError for a file that can't be read.
    """
    file = run / VALUES_FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[int, str])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise RunFolderError(f"{file}: {error}; expected what `zonequake import` writes") from error
