"""`run.yaml` as a mapping whose fields have the kinds that the analysis reads.

Errors say in a sentence which file and field can't be read and, if YAML itself is broken, on which
line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec
import yaml
from yaml.reader import ReaderError

from zonequake_analysis.errors import RunFolderError
from zonequake_analysis.storage.location import Location
from zonequake_analysis.text.strange_bytes import strange_bytes, without_mark

_T = TypeVar("_T")
_MARK_WITHIN = re.compile("^\ufeff", re.MULTILINE)
_MOST_NODES = 100_000
"""Most parts of a file; parts that an alias repeats count again, and may grow without end."""


class RunYaml:
    """The mapping of a file, or of a part of it; `where` is the path of its fields."""

    def __init__(self, file: Path | Location, fields: Mapping[str, Any], where: str = "") -> None:
        self._file = file
        self._fields = fields
        self._where = where

    def __contains__(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def refuse(self, name: str, found: object, expected: str) -> NoReturn:
        """Raises RunFolderError for a field."""
        refuse(self._file, f"{self._where}{name}", found, expected)

    def part(self, name: str) -> RunYaml | None:
        """Returns a mapping within this one, None if there is none."""
        value = self._fields.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.refuse(name, value, "a mapping")
        return RunYaml(self._file, value, f"{self._where}{name}.")

    def parts(self, name: str) -> list[RunYaml]:
        """Returns a list of mappings within this one."""
        value = self._fields.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.refuse(name, value, "a list")
        for number, one in enumerate(value):
            if not isinstance(one, dict):
                self.refuse(f"{name}[{number}]", one, "a mapping")
        return [
            RunYaml(self._file, one, f"{self._where}{name}[{number}].")
            for number, one in enumerate(value)
        ]

    def text(self, name: str) -> str:
        """Returns a field as text, empty if it is absent."""
        value = self._fields.get(name)
        if isinstance(value, dict | list | set | tuple):
            self.refuse(name, value, "text or a number")
        return "" if value is None else str(value)

    def whole(self, name: str, *, least: int = 0, most: int = 2**63 - 1, absent: int = 0) -> int:
        """Returns a field as an integer, `absent` if there is none."""
        value = self._fields.get(name)
        if value is None:
            return absent
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self.refuse(name, value, f"a whole number from {least} to {most}")
        return value

    def number(self, name: str) -> float:
        """Returns a field's number, which must be finite and not negative."""
        value = self._fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(name, value, "a number")
        if not (math.isfinite(value) and value >= 0):
            self.refuse(name, value, "a number of 0 or more")
        return float(value)

    def texts(self, name: str) -> dict[str, str]:
        """Returns a mapping of texts, empty if it is absent."""
        part = self.part(name)
        return {} if part is None else {str(key): part.text(key) for key in part._fields}

    def wholes(self, name: str) -> dict[str, int]:
        """Returns a mapping of integers, empty if it is absent."""
        part = self.part(name)
        return {} if part is None else {str(key): part.whole(key) for key in part._fields}

    def typed(self, wanted: type[_T], *, names: Mapping[str, str] | None = None) -> _T:
        """Returns this mapping as a struct; `names`: the struct's field for a name of the file."""
        known = {(names or {}).get(str(key), str(key)): v for key, v in self._fields.items()}
        try:
            return msgspec.convert(known, wanted)
        except (msgspec.ValidationError, RecursionError) as error:
            words, _, path = str(error).partition(" - at `$.")
            field = f"{self._where}{path.rstrip('`')}".rstrip(".")
            raise RunFolderError(
                f"{self._file}: field `{field}`: {words}; docs/analysis.md has the fields"
            ) from error


def read_run_yaml(run: Path | Location) -> RunYaml | None:
    """Returns a folder's `run.yaml`, None if there is none. Raises RunFolderError."""
    loaded = load_run_yaml(run)
    return None if loaded is None else loaded[0]


def load_run_yaml(run: Path | Location) -> tuple[RunYaml, str] | None:
    """Returns the same with the file's text."""
    file = run / "run.yaml"
    try:
        content = without_mark(file.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunFolderError(f"{file}: {error.strerror}; expected a file of YAML") from error
    text = _text(file, content)
    try:
        document = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f":{mark.line + 1}" if mark is not None else ""
        raise RunFolderError(f"{file}{at}: {error.problem or error}; expected YAML") from error
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise RunFolderError(
            f"{file}:{line}: found the character U+{ord(text[error.position]):04X}, which YAML "
            'doesn\'t allow, expected text: delete it, or write it as "\\x07" between quotes'
        ) from error
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, AttributeError) as error:
        words = " ".join(str(error).split())
        raise RunFolderError(f"{file}: {words}; expected YAML") from error
    except RecursionError as error:
        raise RunFolderError(f"{file}: nests too deep; expected YAML of a few levels") from error
    document = {} if document is None else document
    if not isinstance(document, dict):
        raise RunFolderError(
            f"{file}: found {_kind(document)}, expected a mapping with plan, seed and "
            "expectations (docs/analysis.md)"
        )
    if _grows(document):
        raise RunFolderError(
            f"{file}: its aliases (`*name`) repeat each other or themselves; expected less than "
            f"{_MOST_NODES:,} parts"
        )
    return RunYaml(file, document), text


def _text(file: Path | Location, content: bytes) -> str:
    if (strange := strange_bytes(content)) is not None:
        line, words = strange
        raise RunFolderError(f"{file}:{line}: {words}")
    text = content.decode()
    if (mark := _MARK_WITHIN.search(text)) is not None:
        line = text.count("\n", 0, mark.start()) + 1
        raise RunFolderError(
            f"{file}:{line}: found a byte order mark (U+FEFF) before the line, which would be a "
            "part of the field's name, expected it before the first line alone: delete it"
        )
    return text


def refuse(file: Path | Location, field: str, found: object, expected: str) -> NoReturn:
    """Raises RunFolderError for a field of a file."""
    raise RunFolderError(
        f"{file}: field `{field}`: found {_kind(found)}, expected {expected} (docs/analysis.md)"
    )


def _kind(found: object) -> str:
    if isinstance(found, dict | list | set | tuple):
        return {dict: "a mapping", list: "a list"}.get(type(found), "a set")
    try:
        text = str(found)
    except ValueError:  # Python refuses to print so many digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:59]}…"


def _grows(document: object) -> bool:
    """Returns whether a document has more parts than a real one, as with aliases of aliases."""
    left, waiting = _MOST_NODES, [document]
    while waiting:
        left -= 1
        if left < 0:
            return True
        one = waiting.pop()
        if isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list | tuple | set):
            waiting.extend(one)
    return False
