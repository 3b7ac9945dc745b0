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
from zonequake_analysis.storage.place import Place

_LOWEST = 19


def main(run: Place) -> None:
    """Converts each file that is named, below `history/` of the run, and tells of what it can't."""
    os.nice(_LOWEST)
    for line in sys.stdin:
        name = line.rstrip("\n")
        try:
            convert(run / "history" / name, run / FOLDER)
        except (AnalysisError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main(Place.of(sys.argv[1]))
