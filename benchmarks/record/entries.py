"""The list of published faults, and what runs against them gave. Pure, but for reading files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from benchmarks.record.runs import check_names, read_lines

VIOLATED = "violated"


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One published fault: where it is, what mends it, and what must find it.

    `control`: a release, or the same one with the patch of the entry's name, as `0.3.17+patch`.
    `volumes`: the number of volumes that must be file systems of their own.
    """

    name: Annotated[str, Meta(pattern=r"^[a-z0-9-]+$")]
    system: Literal["etcd", "pysyncobj"]
    published: str
    fault: str
    release: str
    control: str
    scenario: str
    checks: Annotated[list[str], Meta(min_length=1)]
    limit: Annotated[int, Meta(ge=1)]
    overrides: list[str] = []
    beside: Literal["defragment"] | None = None
    volumes: Annotated[int, Meta(ge=0)] = 0


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """One run that was judged. `violated`: its violated checks; `witness`: of the first of them
    that the entry expects.
    """

    name: str
    release: str
    seed: int
    verdict: str
    headline: str
    violated: list[str] = []
    witness: str = ""
    took_s: float = 0.0


class Next(msgspec.Struct, frozen=True, kw_only=True):
    """The run to make next."""

    release: str
    seed: int


def read_entries(text: str) -> list[Entry]:
    """Reads the list. Raises ValueError, which names what is wrong."""
    entries = msgspec.yaml.decode(text, type=list[Entry])
    check_names([entry.name for entry in entries])
    return entries


def read_done(file: Path) -> list[Done]:
    """Reads the runs so far."""
    return read_lines(file, Done)


def of(entry: Entry, done: Iterable[Done], release: str) -> list[Done]:
    """Returns the runs of an entry against one release, by seed."""
    own = {one.seed: one for one in done if (one.name, one.release) == (entry.name, release)}
    return [own[seed] for seed in sorted(own)]


def finds(entry: Entry, one: Done) -> bool:
    """Returns whether a run found the fault by a check that the entry expects."""
    return one.verdict == VIOLATED and not set(entry.checks).isdisjoint(one.violated)


def next_run(entry: Entry, done: Sequence[Done]) -> Next | None:
    """Returns what is left of an entry: runs until the fault is found, then as many of the control
    with the same seeds; or runs to the limit in vain, and none of the control.
    """
    faulty = of(entry, done, entry.release)
    if not any(finds(entry, one) for one in faulty):
        is_over = len(faulty) >= entry.limit
        return None if is_over else Next(release=entry.release, seed=_first_free(faulty))
    controls = {one.seed for one in of(entry, done, entry.control)}
    for one in faulty:
        if one.seed not in controls:
            return Next(release=entry.control, seed=one.seed)
    return None


def first_of(entries: Sequence[Entry], done: Sequence[Done]) -> tuple[Entry, Next] | None:
    """Returns the run to make first: all of an entry, before any of the next one."""
    runs = ((entry, run) for entry in entries if (run := next_run(entry, done)) is not None)
    return next(runs, None)


def _first_free(done: Sequence[Done]) -> int:
    return max((one.seed for one in done), default=0) + 1
