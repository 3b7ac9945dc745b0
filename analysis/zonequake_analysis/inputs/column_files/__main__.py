"""Writes the column files of history files as they are named, one to a line of standard input.

    python -m zonequake_analysis.inputs.column_files RUN < names

Other work goes first. It ends with its input, also when the program that names the files is killed.
"""

from __future__ import annotations

import os
import sys

from zonequake_analysis.errors import AnalysisError
from zonequake_analysis.inputs.column_files.conversion import convert
from zonequake_analysis.inputs.column_files.one_range import FOLDER
from zonequake_analysis.storage.location import Location

_LOWEST = 19


def main(run: Location) -> int:
    """Converts each file that is named, below `history/` of the run, and tells of what it can't;
    returns the exit code, 1 if there was any."""
    os.nice(_LOWEST)
    code = 0
    for line in sys.stdin:
        name = line.rstrip("\n")
        try:
            convert(run / "history" / name, run / FOLDER)
        except Exception as error:  # noqa: BLE001 - the other files are converted all the same
            known = isinstance(error, AnalysisError | OSError)
            why = str(error) if known else f"{type(error).__name__}: {error}"
            print(f"{name}: {why}", file=sys.stderr)  # noqa: T201
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(Location.of(sys.argv[1])))
