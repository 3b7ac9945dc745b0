"""The errors of what people write for a zone: statements and what-if files.

UsageError
├── WhatIfError     a what-if file that can't be read
└── SqlError        a statement that can't be understood or carried out, with its place
"""

from __future__ import annotations

from zonequake_kube.errors import UsageError

_SHOWN_BEFORE, _SHOWN_AFTER = 40, 30
"""Characters of a statement that are shown around the place that an error is about."""


class WhatIfError(UsageError):
    """A what-if file can't be read: the text names place, what was found and what is expected."""


class SqlError(UsageError):
    """A statement can't be understood or carried out. `line` and `column` count from 1."""

    def __init__(self, text: str, offset: int, problem: str) -> None:
        begin = text.rfind("\n", 0, offset) + 1
        end = text.find("\n", offset)
        self.line = text.count("\n", 0, offset) + 1
        self.column = offset - begin + 1
        self.problem = problem
        begin = max(begin, offset - _SHOWN_BEFORE)
        shown = text[begin : min(end if end >= 0 else len(text), offset + _SHOWN_AFTER)].rstrip(
            "\r"
        )
        # A tab is as wide as the terminal likes: one below each of those before the place.
        below = "".join("\t" if char == "\t" else " " for char in text[begin:offset])
        super().__init__(
            f"line {self.line}, column {self.column}: {problem}\n    {shown}\n    {below}^"
        )
