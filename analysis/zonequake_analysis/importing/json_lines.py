"""JSON objects by their fields, with errors that name file, line and field.

Names are looked up as Go's decoder does, in any case: programs write `ClientId` and `clientId`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

import msgspec

from zonequake_analysis.errors import NO_JSON, ImportRefused
from zonequake_analysis.importing.edn import text_of, text_of_key
from zonequake_analysis.text.strange_bytes import strange_bytes, without_mark


class JsonObject:
    """A JSON object, and the path to it from its line."""

    __slots__ = ("_fields", "_line", "_path")

    def __init__(self, line: JsonLine, path: str, fields: dict[str, object]) -> None:
        self._line, self._path = line, path
        self._fields = {name.lower(): value for name, value in fields.items()}

    def refuse(self, name: str, what: str) -> NoReturn:
        """Raises ImportRefused for a field; for the object itself if `name` is empty."""
        self._line.refuse(".".join(part for part in (self._path, name) if part), what)

    def path(self, name: str) -> str:
        """Returns the path of a field from its line."""
        return f"{self._path}.{name}" if self._path else name

    def has(self, name: str) -> bool:
        """Returns whether the field is there, null or not."""
        return name.lower() in self._fields

    def get(self, name: str) -> object:
        """Returns the field's value, None if it is null or absent."""
        return self._fields.get(name.lower())

    def integer(self, name: str) -> int:
        """Returns the field as an integer of 63 bits."""
        value = self.get(name)
        if type(value) is not int or not -(2**62) < value < 2**63 - 1:
            self.refuse(name, f"found {text_of(value)[:60]}, expected an integer")
        return value

    def text(self, name: str) -> str:
        """Returns the field as text, empty if it is absent."""
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            self.refuse(name, f"found {text_of(value)[:60]}, expected a string")
        return value or ""

    def key(self, name: str) -> str:
        """Returns the field as the name of a key."""
        value = self.get(name)
        if value is None or isinstance(value, list | dict):
            self.refuse(name, f"found {text_of(value)[:60]}, expected the key")
        return text_of_key(value)

    def scalar(self, *names: str) -> object:
        """Returns the first of these fields that is there, which must be a scalar or null."""
        name = next((name for name in names if self.has(name)), None)
        if name is None:
            self.refuse(names[0], f"is not there, nor is {' or '.join(names[1:])}")
        value = self.get(name)
        if isinstance(value, list | dict):
            self.refuse(name, f"found {text_of(value)[:60]}, expected a scalar")
        return value

    def written(self, *names: str) -> object:
        """Returns the same as `scalar`, but refuses null, which looks like a key that was never
        written.
        """
        value = self.scalar(*names)
        if value is None:
            self.refuse(names[0], "found null as what is written; write another value for it")
        return value

    def boolean(self, *names: str) -> bool:
        """Returns the first of these fields that is there, as a truth value."""
        value = self.scalar(*names)
        if not isinstance(value, bool):
            self.refuse(names[0], f"found {text_of(value)}, expected true or false")
        return value

    def object(self, name: str) -> JsonObject:
        """Returns the field as an object."""
        value = self.get(name)
        if not isinstance(value, dict):
            self.refuse(name, f"found {text_of(value)[:60]}, expected an object")
        return JsonObject(self._line, self.path(name), value)

    def objects(self, name: str) -> list[JsonObject]:
        """Returns the field as a list of objects; empty if it is null or absent."""
        value = self.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            self.refuse(name, f"found {text_of(value)[:60]}, expected a list of objects")
        return [
            JsonObject(self._line, f"{self.path(name)}[{number}]", each)
            for number, each in enumerate(value)
        ]


class JsonLine:
    """One line: its file, its number, and the object on it."""

    __slots__ = ("file", "line", "top")

    def __init__(self, file: str, line: int, fields: dict[str, object]) -> None:
        self.file, self.line = file, line
        self.top = JsonObject(self, "", fields)

    def refuse(self, field: str, what: str) -> NoReturn:
        """Raises ImportRefused for a field of the line."""
        raise ImportRefused(self.file, self.line, field, what)


def json_lines(files: Iterable[Path]) -> Iterator[JsonLine]:
    """Yields the objects of all files, one a line, without blank lines. Raises ImportRefused."""
    decode = msgspec.json.Decoder(dict[str, object]).decode
    for file in files:
        with file.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if not line.strip():
                    continue
                try:
                    fields = decode(without_mark(line) if number == 1 else line)
                except NO_JSON as error:
                    strange = strange_bytes(line)
                    what = f"{error}; expected one JSON object a line"
                    raise ImportRefused(
                        str(file), number, "", what if strange is None else strange[1]
                    ) from error
                yield JsonLine(str(file), number, fields)
