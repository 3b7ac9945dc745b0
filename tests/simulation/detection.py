"""Plants each fault, looks for it, and writes down what found it: docs/detection.md.

    python tests/simulation/detection.py [--only NAME ...] [--limit SEEDS] [--jobs N]

Each fault is looked for in RUNS runs over disjoint ranges of seeds, each until the first seed that
breaks a rule, and by every directed script. Everything but the time it takes is the same each time.
With --only nothing is written.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from planted.registry import Planted, all_planted
from scripts.every import SCRIPTS
from scripts.stage import Unplayable

from zonequake_chaos.simulation import SCENARIOS, Violation, simulate

PAGE = Path(__file__).resolve().parents[2] / "docs" / "detection.md"
RUNS = 5
LIMIT = 1_000
APART = 100_000
"""Run n begins with seed n * APART."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One run: how many seeds it took (None: not found in `limit`) and the rule that broke."""

    fault: str
    seeds: int | None
    rule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """All that is known of one fault. `scripts`: names of those that break a rule under it."""

    fault: Planted
    scripts: tuple[str, ...]
    searches: tuple[Search, ...]

    @property
    def counts(self) -> list[int]:
        """Seeds of the runs that found it, ascending."""
        return sorted(each.seeds for each in self.searches if each.seeds is not None)

    @property
    def median(self) -> int | None:
        """Over all runs, of which those without success took longest; None if most had none."""
        found = self.counts
        middle = (len(self.searches) - 1) // 2
        return found[middle] if middle < len(found) else None

    @property
    def rule(self) -> str:
        """What broke most often, first by name if several did."""
        broken = Counter(each.rule for each in self.searches if each.seeds is not None)
        return min(broken, key=lambda rule: (-broken[rule], rule), default="")

    @property
    def is_found(self) -> bool:
        return bool(self.scripts) or self.median is not None


def search(name: str, first: int, limit: int) -> Search:
    """Look for a planted fault in seeds from `first` on."""
    fault = by_name()[name]
    with pytest.MonkeyPatch.context() as patch:
        fault.apply(patch)
        for count in range(limit):
            report = simulate(first + count, SCENARIOS[fault.scenario])
            if report.rule is not None:
                return Search(fault=name, seeds=count + 1, rule=report.rule)
    return Search(fault=name, seeds=None)


def scripts_that_find(name: str) -> tuple[str, ...]:
    """Which directed scripts break a rule under a planted fault."""
    found = []
    for script_name, script in SCRIPTS.items():
        with pytest.MonkeyPatch.context() as patch:
            by_name()[name].apply(patch)
            try:
                script()
            except Violation:
                found.append(script_name)
            except Unplayable:
                pass  # the fault kept the script from its point, and broke no rule
    return tuple(found)


def by_name() -> dict[str, Planted]:
    return {fault.name: fault for fault in all_planted()}


def detect(faults: Sequence[Planted], *, limit: int, jobs: int) -> list[Row]:
    """Look for each of them; tells how far it is on the error stream."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        scripts = {fault.name: pool.submit(scripts_that_find, fault.name) for fault in faults}
        searches = {
            fault.name: [pool.submit(search, fault.name, run * APART, limit) for run in range(RUNS)]
            for fault in faults
        }
        rows = []
        for fault in faults:
            row = Row(
                fault=fault,
                scripts=scripts[fault.name].result(),
                searches=tuple(each.result() for each in searches[fault.name]),
            )
            rows.append(row)
            told = [each.seeds for each in row.searches]
            print(
                f"{fault.name}: seeds {told}, {row.rule!r}, scripts {row.scripts}",
                file=sys.stderr,
                flush=True,
            )
    return rows


def page(rows: Sequence[Row], *, limit: int, jobs: int, took_s: float) -> str:
    """docs/detection.md."""
    missed = [row for row in rows if not row.is_found]
    slow = [row for row in rows if row.median is None and row.is_found]
    medians = [row.median for row in rows if row.median is not None]
    areas = Counter(row.fault.area for row in rows)
    parts = [
        "# Planted faults and what finds them",
        "",
        "`make detection` writes this page. Each fault below is planted into the shipped code by a "
        "test's patch (`tests/simulation/planted/`), and is then looked for in two ways: by every "
        "directed script (`tests/simulation/scripts/`), and by random schedules of the scenario "
        f"named (`zonequake simulate`), {RUNS} runs over disjoint ranges of at most {limit:,} "
        "seeds, each until the first seed that breaks a rule. *Median* and *range* count seeds up "
        "to and including that one; a run without success counts as longer than all others. The "
        "rule is the one that broke in most runs.",
        "",
        f"{len(rows)} faults ("
        + ", ".join(f"{count} in {area.replace('_', '-')}" for area, count in areas.items())
        + f"): {len(rows) - len(missed)} found, {len(missed)} not found. "
        f"{len(medians)} are found by random schedules with a median of at most {limit:,} seeds "
        f"(the largest median is {max(medians, default=0):,}), {len(slow)} by scripts alone.",
        "",
        f"Taken with `python tests/simulation/detection.py --limit {limit} --jobs {jobs}` on "
        f"{os.cpu_count()} cores in {took_s / 60:.0f} min.",
        "",
        "| fault | scenario | what the faulty code does | rule that random schedules break "
        f"| median seeds | range | runs of {RUNS} | scripts |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *(_line(row, limit) for row in rows),
        "",
        "## Not found",
        "",
    ]
    if missed:
        parts += [f"- `{row.fault.name}`: {row.fault.what}" for row in missed]
    else:
        parts.append("None: every planted fault is found.")
    return "\n".join(parts) + "\n"


def _line(row: Row, limit: int) -> str:
    counts = row.counts
    scripts = ", ".join(row.scripts)
    cells = [
        f"`{row.fault.name}`",
        row.fault.scenario,
        row.fault.what,
        row.rule or "—",
        f"{row.median:,}" if row.median is not None else f"> {limit:,}",
        f"{counts[0]:,} to {counts[-1]:,}" if counts else "—",
        str(len(counts)),
        scripts or "—",
    ]
    return "| " + " | ".join(cells) + " |"


def slowest(text: str, count: int) -> list[str]:
    """The names of the faults with the largest medians on the page, of those that have one."""
    rows = re.findall(r"^\| `([^`]+)` \|(?:[^|]*\|){3} ([\d,]+) \|", text, flags=re.MULTILINE)
    by_median = sorted(rows, key=lambda row: (-int(row[1].replace(",", "")), row[0]))
    return [name for name, _ in by_median[:count]]


def chosen(only: Iterable[str]) -> list[Planted]:
    """The faults of these names; all if there are none."""
    known = by_name()
    names = list(only)
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"no such fault: {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names] or list(known.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="these faults alone")
    parser.add_argument("--limit", type=int, default=LIMIT, help="seeds per run, at most")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    asked = parser.parse_args()
    start_s = time.monotonic()
    rows = detect(chosen(asked.only), limit=asked.limit, jobs=asked.jobs)
    took_s = time.monotonic() - start_s
    text = page(rows, limit=asked.limit, jobs=asked.jobs, took_s=took_s)
    if asked.only:
        print(text)
    else:
        PAGE.write_text(text)
    return 0 if all(row.is_found for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
