"""The lines of a node's log around a moment, from the `logs/` of a run folder.

Each line begins with its time in UTC, as Kubernetes writes it:

    2026-01-31T12:00:00.123456789Z INFO leader of z1/0 in term 4

A node has NODE.log, and NODE.before.log of the container before its last restart. Files are read
once, in blocks, and only blocks whose time is asked for are looked at line by line.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from zonequake_analysis.errors import LocationError
from zonequake_analysis.storage.location import Location

NEAR_MS = 2_000
"""Lines so far before and after a moment belong to it."""

MOST_LINES = 24
"""Most lines of an excerpt: those nearest to the moment."""

MOST_CHARACTERS = 240
"""Longer lines are cut."""

MOST_BYTES = 256 * 1024 * 1024
"""So much of each file is read."""

_BLOCK_BYTES = 4 * 1024 * 1024
_TIMED = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z) ?")
_PREVIOUS = ".before"

NodeMoment = tuple[str, int]
"""A node, and unix ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line as it is in its file, without its time: unix ms. `text` is untrusted."""

    at_ms: int
    text: str
    file: str


def excerpts(
    run: Path | Location, moments: Iterable[NodeMoment]
) -> dict[NodeMoment, list[LogLine]]:
    """Returns the lines around each moment, by time; a moment without lines is left out.

    A log that can't be read has no lines: logs explain a run, they don't judge it.
    """
    by_node: dict[str, set[int]] = defaultdict(set)
    for node, at_ms in moments:
        by_node[node].add(at_ms)
    try:
        files = {file.name: file for file in Location.of(run / "logs").listed(".log")}
    except (OSError, LocationError):
        return {}
    found: dict[NodeMoment, list[LogLine]] = defaultdict(list)
    for node, wanted in by_node.items():
        for name in (f"{node}{_PREVIOUS}.log", f"{node}.log"):
            if name in files:
                for at_ms, lines in _near(files[name], sorted(wanted)).items():
                    found[node, at_ms] += lines
    return {moment: _nearest(lines, moment[1]) for moment, lines in found.items()}


def _nearest(lines: list[LogLine], at_ms: int) -> list[LogLine]:
    nearest = sorted(lines, key=lambda line: abs(line.at_ms - at_ms))[:MOST_LINES]
    return sorted(nearest, key=lambda line: line.at_ms)


def _near(file: Location, wanted: list[int]) -> Mapping[int, list[LogLine]]:
    """Returns the lines of one file around each of the moments `wanted`, which are sorted."""
    found: dict[int, list[LogLine]] = defaultdict(list)
    try:
        for block in _blocks(file):
            for line in _timed_lines(block, wanted):
                at_ms = _unix_ms(line)
                if at_ms is None:
                    continue
                first = bisect_left(wanted, at_ms - NEAR_MS)
                for moment in wanted[first : bisect_left(wanted, at_ms + NEAR_MS + 1)]:
                    found[moment].append(
                        LogLine(at_ms=at_ms, text=_without_time(line), file=file.name)
                    )
    except (OSError, LocationError):
        return {}
    return {moment: _nearest(lines, moment) for moment, lines in found.items()}


def _blocks(file: Location) -> Iterator[bytes]:
    """Yields blocks of whole lines."""
    rest, read = b"", 0
    with file.open() as stream:
        while read < MOST_BYTES and (block := stream.read(_BLOCK_BYTES)):
            read += len(block)
            whole, end, rest = (rest + block).rpartition(b"\n")
            if end:
                yield whole
            elif len(rest) > _BLOCK_BYTES:
                rest = rest[:_BLOCK_BYTES]
    if rest:
        yield rest


def _timed_lines(block: bytes, wanted: list[int]) -> Iterator[bytes]:
    """Yields the lines of a block, or none if its time is not asked for."""
    first = _unix_ms(block)
    last = _unix_ms(block[block.rfind(b"\n") + 1 :])
    if first is not None and last is not None and first <= last:
        place = bisect_left(wanted, first - NEAR_MS)
        if place == len(wanted) or wanted[place] > last + NEAR_MS:
            return
    yield from block.split(b"\n")


def _unix_ms(line: bytes) -> int | None:
    timed = _TIMED.match(line)
    if timed is None:
        return None
    try:
        return int(datetime.fromisoformat(timed[1].decode()).timestamp() * 1000)
    except ValueError:
        return None


def _without_time(line: bytes) -> str:
    timed = _TIMED.match(line)
    text = line[timed.end() if timed else 0 :].decode("utf-8", "replace").rstrip("\r")
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
