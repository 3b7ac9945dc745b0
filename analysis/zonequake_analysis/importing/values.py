"""Values of another tool's history as integers, and back."""

from __future__ import annotations

from pathlib import Path

import msgspec

from zonequake_analysis.errors import NO_JSON, RunFolderError
from zonequake_analysis.importing.edn import text_of
from zonequake_analysis.storage.location import Location

VALUES_FILE = "values.json"
FIRST_NUMBER = 2**53
"""Integers below it, positive or negative, are kept; every other value gets one from here on."""


class Values:
    """Gives each value an integer, the same one for the same value."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number_of(self, value: object) -> int:
        """Returns the integer for a scalar."""
        if type(value) is int and -FIRST_NUMBER < value < FIRST_NUMBER:
            return value
        return self._numbers.setdefault(text_of(value), FIRST_NUMBER + len(self._numbers))

    def by_number(self) -> dict[str, str]:
        """Returns the content of `values.json`: the numbers that we assigned, with the original
        values.
        """
        return {str(number): text for text, number in self._numbers.items()}


def original_values(run: Path | Location) -> dict[int, str]:
    """Returns the original values of an imported run by their integers; empty for any other run.

    Raises RunFolderError for a file that can't be read.
    """
    file = run / VALUES_FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[int, str])
    except FileNotFoundError:
        return {}
    except (OSError, *NO_JSON) as error:
        raise RunFolderError(f"{file}: {error}; expected what `zonequake import` writes") from error
