"""A value of the file together with its place in it, so that every refusal can name both."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator
from datetime import date
from typing import NoReturn

from zonequake_kube.errors import WhatIfError

MAX_SHOWN_CHARS = 80
MAX_WHOLE = 2**63 - 1
"""The largest whole number that the resources hold."""


class TextPlace:
    """One value of the file, and how to read it strictly.

    Each reader returns the value as the type that it names, or raises WhatIfError with the place,
    what was found and what was expected.
    """

    __slots__ = ("path", "value")

    def __init__(self, value: object, path: str = "") -> None:
        self.value = value
        self.path = path

    def refuse(self, expected: str) -> NoReturn:
        """Raise WhatIfError: this isn't `expected`."""
        where = self.path or "the file"
        raise WhatIfError(f"{where}: found {shown(self.value)}, expected {expected}")

    def fields(self, allowed: Collection[str]) -> dict[str, TextPlace]:
        """A mapping with only these keys, by key."""
        if not isinstance(self.value, dict):
            self.refuse(f"a mapping with {_listed(allowed)}")
        for key in self.value:
            if key not in allowed:
                near = difflib.get_close_matches(str(key), allowed, n=1)
                hint = f" (did you mean {near[0]}?)" if near else ""
                where = self.path or "the file"
                raise WhatIfError(
                    f"{where}: found the unknown key {shown(key)}{hint}, expected only "
                    f"{_listed(allowed)}"
                )
        return {key: TextPlace(inner, self._below(key)) for key, inner in self.value.items()}

    def entries(self, expected: str) -> Iterator[tuple[object, TextPlace]]:
        """A mapping's keys as written, with their values."""
        if not isinstance(self.value, dict):
            self.refuse(expected)
        for key, inner in self.value.items():
            yield key, TextPlace(inner, self._below(key))

    def items(self, expected: str) -> list[TextPlace]:
        """A list's items."""
        if not isinstance(self.value, list):
            self.refuse(expected)
        return [TextPlace(item, f"{self.path}[{i}]") for i, item in enumerate(self.value)]

    def text(self, expected: str) -> str:
        """A text that isn't empty."""
        if not isinstance(self.value, str) or not self.value:
            self.refuse(f"{expected}{_quoting_hint(self.value)}")
        return self.value

    def whole(self, expected: str, least: int = 0, most: int = MAX_WHOLE) -> int:
        """A whole number between `least` and `most`."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.refuse(expected)
        return value

    def seconds_ms(self) -> int:
        """Seconds, perhaps with a fraction, as milliseconds."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
            self.refuse("seconds (0 or more)")
        return round(value * 1000)

    def flag(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            self.refuse("true or false")
        return self.value

    def names(self) -> tuple[str, ...]:
        """A list of node names without repetition, sorted."""
        found: set[str] = set()
        for item in self.items("a list of node names"):
            name = item.text("a node's name")
            if name in found:
                item.refuse("each node once")
            found.add(name)
        return tuple(sorted(found))

    def _below(self, key: object) -> str:
        return f"{self.path}.{key}" if self.path else str(key)


def shown(value: object) -> str:
    """A value as an error shows it: as JSON, cut if it is long."""
    text = ""
    for piece in json.JSONEncoder(default=str, ensure_ascii=False).iterencode(value):
        text += piece
        if len(text) > MAX_SHOWN_CHARS:
            return f"{text[:MAX_SHOWN_CHARS]}…"
    return text


def _quoting_hint(value: object) -> str:
    if isinstance(value, bool | int | float | date):
        return "; YAML reads this as something else than a text, put it in quotes"
    return ""


def _listed(names: Collection[str]) -> str:
    return ", ".join(names)
