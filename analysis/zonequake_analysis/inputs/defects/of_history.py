"""Defects of a history: lines by which no store can be judged, and what is left out for them.

A line that says something impossible (it ended before it began), or lacks a field that every line
has, is a defect of the program that wrote it. Its key is *refused*: none of its operations is
judged, so that the defect never looks like one of the store, and the run is unknown.

    {"type":"ok","op":"3-1","key":"k1","inv":9,"time":5,…}   k1 is refused; k2 is judged as usual

"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from zonequake_analysis.storage.location import Location
from zonequake_analysis.text.first_few import first_few

Ints = NDArray[np.int64]

MOST_EXAMPLES = 3
"""Most examples of each kind; all defects are counted."""

MOST_REFUSED = 10_000
"""Most keys that are refused one by one; with more, nothing of the history is judged."""

_OFFSET_BITS = 44
"""Bits of a line's origin below the number of its file: up to 16 TB in one file."""

_BLOCK_BYTES = 1024 * 1024
_MOST_CHARACTERS = 200
"""Most characters that are repeated from a line."""


class HistoryDefectKind(StrEnum):
    """The kinds of defects; the value begins a sentence about them."""

    UNREADABLE = "lines can't be read"
    FIELD = "lines lack a field, or hold in it what can't be"
    WIDE = "positions are incomplete or too wide"
    SCHEMA = "lines are of another schema version"
    UNDUE = "lines don't say when their operation was due"
    REPEATED = "lines carry an op that names another operation as well"
    MOVED = "lines put a key into one partition that others put into another"
    TWO_USES = "keys are used both as a register and as a list"
    APPENDED_AGAIN = "keys are lists to which a value was appended by two operations"
    OVERLAP = "operations begin before the one before them, of the same process, has ended"
    ORPHAN = "completions have no invoke"


class HistoryDefect(msgspec.Struct, frozen=True, kw_only=True):
    """One defect. `origins`: its lines; `words` say what was found with `{}` for each of them."""

    kind: HistoryDefectKind
    words: str
    origins: list[int]
    field: str = ""


class Defects(msgspec.Struct, frozen=True, kw_only=True):
    """The defects of some lines: how many of each kind, with a few examples, and what they refuse.

    `refused`: (partition id, key id) of keys; `everything`: there are too many of them to name.
    `keyless`: lines that don't say which key they are about, so that any key may lack an operation.
    """

    counts: dict[str, int] = {}
    examples: list[HistoryDefect] = []
    refused: list[tuple[int, int]] = []
    everything: bool = False
    keyless: int = 0

    def of(self, kind: HistoryDefectKind) -> int:
        """Returns the number of defects of a kind."""
        return self.counts.get(kind.value, 0)


def defects_together(parts: Sequence[Defects]) -> Defects:
    """Merges the defects of several parts of the lines."""
    counts: Counter[str] = Counter()
    refused: set[tuple[int, int]] = set()
    for part in parts:
        counts.update(part.counts)
        refused.update(part.refused)
    everything = any(part.everything for part in parts) or len(refused) > MOST_REFUSED
    return Defects(
        counts=dict(counts),
        examples=_first_of_each_kind(defect for part in parts for defect in part.examples),
        refused=[] if everything else sorted(refused),
        everything=everything,
        keyless=sum(part.keyless for part in parts),
    )


def _first_of_each_kind(found: Iterable[HistoryDefect]) -> list[HistoryDefect]:
    kept: list[HistoryDefect] = []
    taken: Counter[HistoryDefectKind] = Counter()
    for defect in sorted(found, key=lambda defect: defect.origins):
        if taken[defect.kind] < MOST_EXAMPLES:
            taken[defect.kind] += 1
            kept.append(defect)
    return kept


def origin_of(file: Ints, at: Ints) -> Ints:
    """Returns each line's origin: its file's number and its first byte there, as one integer."""
    return file << _OFFSET_BITS | at


def in_words(defects: Defects, files: Sequence[Path | Location]) -> list[str]:
    """Returns a sentence for each kind of defect, with file, line and field of the first ones."""
    origins = {origin for defect in defects.examples for origin in defect.origins}
    places = _places(origins, files)
    sentences = []
    for kind in HistoryDefectKind:
        if not defects.of(kind):
            continue
        shown = [
            defect.words.format(*(places[origin] for origin in defect.origins))
            for defect in defects.examples
            if defect.kind is kind
        ]
        told = f": {first_few(shown, MOST_EXAMPLES, count=defects.of(kind))}" if shown else ""
        sentences.append(f"{defects.of(kind):,} {kind.value}{told}")
    if defects.everything:
        sentences.append("nothing of the history was judged: too many of its keys have faults")
    return sentences


def _places(origins: Iterable[int], files: Sequence[Path | Location]) -> Mapping[int, str]:
    """Returns the place of each origin in words, such as `history/load-0.jsonl:12`."""
    places: dict[int, str] = {}
    by_file: dict[int, list[int]] = {}
    for origin in sorted(origins):
        by_file.setdefault(origin >> _OFFSET_BITS, []).append(origin)
    for number, own in by_file.items():
        file = Location.of(files[number])
        with file.open() as stream:
            line, at = 1, 0
            for origin in own:
                target = origin & ((1 << _OFFSET_BITS) - 1)
                while at < target:
                    block = stream.read(min(_BLOCK_BYTES, target - at))
                    if not block:
                        break
                    line += block.count(b"\n")
                    at += len(block)
                places[origin] = f"history/{file.name}:{line}"
    return places


def plain(text: str) -> str:
    """Returns text from a history for use in `HistoryDefect.words`, where braces mark places."""
    short = text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"
    return short.replace("{", "{{").replace("}", "}}")
