"""Prints what CHANGELOG.md says of a version, as the notes of its release.

    python scripts/release/notes.py 0.2.0 [FILE]

Ends with 1 if the file has no such version, or nothing below its heading.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

CHANGES = Path(__file__).resolve().parents[2] / "CHANGELOG.md"


def notes(text: str, version: str) -> str:
    """The section of `version` without its heading. Raises ValueError if it is absent or empty."""
    parts = re.split(r"^## +\[?([^\s\]]+)\]?.*$", text, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    found = sections.get(version, "").strip()
    if not found:
        raise ValueError(
            f"CHANGELOG.md says nothing of {version}: give it a section '## {version} - DATE'; "
            f"there are {', '.join(sections) or 'none'}"
        )
    return found


def main(words: list[str]) -> int:
    version, *rest = words
    try:
        print(notes((Path(rest[0]) if rest else CHANGES).read_text(), version))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
