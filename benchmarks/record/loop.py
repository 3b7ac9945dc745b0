"""Makes the runs of a list one after another, and keeps each as a line when it was judged.

rows ─► obstacle: left out
  └──► first: which run next ─► run_one ─► keep ─► write: the page
          ▲                                          │
          └──────────── until none, or time is over ─┘
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from benchmarks.record.runs import keep
from zonequake_kube.errors import ChaosError


class Named(Protocol):
    """A row of a list."""

    @property
    def name(self) -> str: ...


class Judged(Protocol):
    """A run that was judged; it is kept as JSON."""

    @property
    def verdict(self) -> str: ...
    @property
    def headline(self) -> str: ...


_Row = TypeVar("_Row", bound=Named)
_Next = TypeVar("_Next")


@dataclass(frozen=True, kw_only=True)
class Work(Generic[_Row, _Next]):
    """Describes what a list does with its rows.

    `obstacle` says why a row can't be run, or None. `first` returns the run to make next, or None
    if nothing is left; it reads what was kept. `begin` prepares the cluster, once, before the first
    run. `run_one` makes a run, and raises ChaosError if it could not be judged: such a row is left,
    if `goes_on`, or else the error ends the loop. `write` writes the page after a run of a row.
    `label` names a run beside its row.
    """

    results: Path
    obstacle: Callable[[_Row], str | None]
    first: Callable[[Sequence[_Row]], tuple[_Row, _Next] | None]
    begin: Callable[[], None]
    run_one: Callable[[_Row, _Next], Judged]
    write: Callable[[_Row], None]
    label: Callable[[_Next], str]
    goes_on: bool


@dataclass(frozen=True, kw_only=True)
class Given:
    """The words of the command: names of rows (none: all), seconds, and whether only to write."""

    names: Sequence[str]
    seconds: float
    page: bool


def asked(words: Sequence[str] | None, about: str, rows: Iterable[Named], file: Path) -> Given:
    """Reads the words of the command; ends it if a name is in no row of `file`."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args(words)
    unknown = sorted(set(given.names) - {row.name for row in rows})
    if unknown:
        parser.error(f"found {unknown}, expected names of {file}")
    return Given(names=given.names, seconds=given.seconds, page=given.page)


def run_all(
    work: Work[_Row, _Next],
    rows: Sequence[_Row],
    given: Given,
    clock_s: Callable[[], float] = time.monotonic,
) -> bool:
    """Makes the runs that are asked for; returns whether something is left to do."""
    end_s, left, begun = clock_s() + given.seconds, False, False
    to_run: list[_Row] = []
    for row in rows:
        if given.names and row.name not in given.names:
            continue
        if (why := work.obstacle(row)) is None:
            to_run.append(row)
        else:
            left = True
            print(f"{row.name} can't be run: {why}")
    while (next_one := work.first(to_run)) is not None:
        row, run = next_one
        if given.page or clock_s() >= end_s:
            return True
        if not begun:
            work.begin()
            begun = True
        try:
            done = work.run_one(row, run)
        except ChaosError as error:
            if not work.goes_on:
                raise
            left = True
            to_run.remove(row)
            print(f"{row.name} is left: {error}")
            continue
        keep(done, work.results)
        work.write(row)
        print(f"{row.name}, {work.label(run)}: {done.verdict}: {done.headline}")
    return left
