"""Plants each fault, looks for it, and writes down what found it: docs/detection.md.

    python -m tests.simulation.detection [--only NAME ...] [--keep] [--limit SEEDS] [--jobs N]

Each fault is looked for in RUNS runs over disjoint ranges of seeds, each until the first seed that
breaks a rule and breaks none without the fault, and by every directed script. All but the time it
takes is the same each time. What is found is kept in .zonequake/detection.jsonl at once: a search
that was broken off goes on there, unless code has changed since. With --only nothing is written,
but with --keep as well: then the page keeps its rows of all other faults.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import pytest

from tests.simulation.planted.registry import AREAS, Planted, all_planted
from tests.simulation.scripts.every import OPERATED, SCRIPTS
from tests.simulation.scripts.stage import Unplayable
from zonequake_simulation import SCENARIOS, Violation, simulate
from zonequake_simulation.children import children, in_order

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "detection.md"
KEPT = ROOT / ".zonequake" / "detection.jsonl"
JUDGED = (
    "chaos/zonequake_simulation",
    "operator",
    "workloads",
    "analysis",
    "tests/simulation",
)
"""Folders whose code decides what is found."""
RUNS = 5
LIMIT = 500
LIMIT_SCRIPTED = 50
"""Of seeds per run where a script finds the fault already."""
APART = 100_000
"""Run n begins with seed n * APART."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One run: how many seeds it took (None: not found in the limit) and the rule that broke."""

    run: int
    seeds: int | None
    rule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """All that is known of one fault. `scripts`: names of those that break a rule under it;
    `limit`: so many seeds a run had at most."""

    fault: str
    scripts: tuple[str, ...]
    searches: tuple[Search, ...]
    limit: int
    took_s: float = 0.0

    @property
    def counts(self) -> list[int]:
        """Seeds of the runs that found it, ascending."""
        return sorted(each.seeds for each in self.searches if each.seeds is not None)

    @property
    def median(self) -> int | None:
        """Over RUNS runs, of which those without success took longest; None if most had none."""
        found = self.counts
        middle = (RUNS - 1) // 2
        return found[middle] if middle < len(found) else None

    @property
    def rule(self) -> str:
        """What broke most often, first by name if several did."""
        broken = Counter(each.rule for each in self.searches if each.seeds is not None)
        return min(broken, key=lambda rule: (-broken[rule], rule), default="")

    @property
    def is_found(self) -> bool:
        return bool(self.scripts) or self.median is not None


def rule_broken(fault: Planted, seed: int) -> str | None:
    """The rule that this seed breaks under a fault, and doesn't break without it."""
    scenario = SCENARIOS[fault.scenario]
    with pytest.MonkeyPatch.context() as patch:
        fault.apply(patch)
        rule = simulate(seed, scenario).rule
    return None if rule is None or simulate(seed, scenario).rule is not None else rule


def search(name: str, run: int, limit: int) -> Search:
    """Look for a planted fault in a run's seeds."""
    fault = by_name()[name]
    for count in range(limit):
        rule = rule_broken(fault, run * APART + count)
        if rule is not None:
            return Search(run=run, seeds=count + 1, rule=rule)
    return Search(run=run, seeds=None)


def script_finds(name: str, script: str) -> bool:
    """Whether a directed script breaks a rule under a planted fault."""
    with pytest.MonkeyPatch.context() as patch:
        by_name()[name].apply(patch)
        try:
            SCRIPTS[script]()
        except Violation:
            return True
        except Unplayable:
            pass  # the fault kept the script from its point, and broke no rule
    return False


def scripts_that_find(name: str) -> tuple[str, ...]:
    """Which directed scripts break a rule under a planted fault.

    Only a cluster has an operator; and for faults in the rest, cores alone are enough.
    """
    with_operator = by_name()[name].area == "operator"
    fit = [script for script in SCRIPTS if (script in OPERATED) is with_operator]
    return tuple(script for script in fit if script_finds(name, script))


def look_for(name: str, *, limit: int) -> Row:
    """All of one fault. Runs end when most found nothing: the median is known then."""
    start_s = time.monotonic()
    scripts = scripts_that_find(name)
    limit = min(limit, LIMIT_SCRIPTED) if scripts else limit
    searches: list[Search] = []
    for run in range(RUNS):
        searches.append(search(name, run, limit))
        if sum(each.seeds is None for each in searches) > RUNS // 2:
            break
    took_s = time.monotonic() - start_s
    return Row(fault=name, scripts=scripts, searches=tuple(searches), limit=limit, took_s=took_s)


def by_name() -> dict[str, Planted]:
    return {fault.name: fault for fault in all_planted()}


def fingerprint(limit: int) -> str:
    """Of all that decides what is found."""
    digest = hashlib.sha256(str(limit).encode())
    for folder in JUDGED:
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def kept(path: Path, mark: str) -> dict[str, Row]:
    """What a search with the same mark found before it was broken off; else begins a new file."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    if lines[:1] == [mark.encode()]:
        rows = [msgspec.json.decode(line, type=Row) for line in lines[1:]]
        return {row.fault: row for row in rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(mark + "\n")
    return {}


def detect(
    faults: Sequence[Planted], *, limit: int, jobs: int, known: dict[str, Row]
) -> Iterator[Row]:
    """Look for each of them that isn't known yet."""
    missing = [fault.name for fault in faults if fault.name not in known]
    with children(jobs) as pool:
        new = in_order(pool, partial(look_for, limit=limit), missing, count=jobs)
        for fault in faults:
            yield known[fault.name] if fault.name in known else next(new)


def page(rows: Sequence[Row]) -> str:
    """docs/detection.md."""
    missed = [row for row in rows if not row.is_found]
    medians = sorted(row.median for row in rows if row.median is not None)
    middle = medians[len(medians) // 2] if medians else 0
    faults = by_name()
    parts = [
        "# Planted faults and what finds them",
        "",
        "`make detection` writes this page. Each fault below is planted into the shipped code by a "
        "test's patch (`tests/simulation/planted/`), and is then looked for in two ways: by every "
        "directed script (`tests/simulation/scripts/`; those over a whole cluster for faults in "
        "the operator's rules, those over Raft cores for all others), and by random schedules of "
        "the scenario "
        f"named (`zonequake simulate`), in {RUNS} runs over disjoint ranges of seeds, each until "
        "the first seed that breaks a rule, and breaks none without the fault. *Seeds* counts up "
        "to and including that one; – is a run that was given up at the number of seeds that the "
        "median names, and counts there as longer than all others. When most runs had none, the "
        "rest isn't tried. *Rule* is the one that broke in most runs.",
        "",
        f"{len(rows)} faults: **{len(rows) - len(missed)} found, {len(missed)} not found**. "
        f"Random schedules find {len(medians)} in most runs: half of these with a median of at "
        f"most {middle:,} seeds, all with one of at most {max(medians, default=0):,}. "
        f"{sum(bool(row.scripts) for row in rows)} are found by scripts, "
        f"{sum(row.is_found and row.median is None for row in rows)} by them alone.",
    ]
    for area in AREAS:
        of_area = [row for row in rows if faults[row.fault].area == area]
        if of_area:
            parts += ["", f"## {area.replace('_', '-').capitalize()}: {len(of_area)} faults", ""]
            parts += [
                f"| fault | scenario | what the faulty code does | rule | seeds in {RUNS} runs "
                "| median | scripts |",
                "| --- | --- | --- | --- | --- | ---: | --- |",
                *(_line(row, faults[row.fault]) for row in of_area),
            ]
    parts += ["", "## Not found", ""]
    if missed:
        parts += [f"- `{row.fault}`: {faults[row.fault].what}" for row in missed]
    else:
        parts.append("None: every planted fault that was looked for is found.")
    unsought = [name for name in faults if name not in {row.fault for row in rows}]
    if unsought:
        parts += ["", "## Not looked for yet", ""]
        parts += [f"- `{name}` ({faults[name].scenario}): {faults[name].what}" for name in unsought]
    return "\n".join(parts) + "\n"


def _line(row: Row, fault: Planted) -> str:
    cells = [
        f"`{fault.name}`",
        fault.scenario,
        fault.what,
        row.rule or "–",
        ", ".join("–" if each.seeds is None else f"{each.seeds:,}" for each in row.searches),
        f"{row.median:,}" if row.median is not None else f"> {row.limit:,}",
        ", ".join(row.scripts) or "–",
    ]
    return "| " + " | ".join(cells) + " |"


def rows_on(text: str) -> dict[str, Row]:
    """The rows of a page, by fault."""
    found = {}
    for line in re.findall(r"^\| `[^`]+` \|.*\|$", text, flags=re.MULTILINE):
        name, _, _, rule, cells, median, scripts = (
            cell.strip() for cell in line.strip("|").split(" | ")
        )
        counts = [None if cell == "–" else _number(cell) for cell in cells.split(", ")]
        found[name.strip("`")] = Row(
            fault=name.strip("`"),
            scripts=() if scripts == "–" else tuple(scripts.split(", ")),
            searches=tuple(
                Search(run=run, seeds=seeds, rule="" if rule == "–" else rule)
                for run, seeds in enumerate(counts)
            ),
            limit=_number(median.removeprefix("> ")),
        )
    return found


def slowest(text: str, count: int) -> dict[str, list[int]]:
    """The faults with the largest medians on the page, and the seeds that found them."""
    lines = re.findall(
        r"^\| `([^`]+)` \|(?:[^|]*\|){3} ([^|]*) \| ([\d,]+) \|", text, flags=re.MULTILINE
    )
    lines.sort(key=lambda line: (-_number(line[2]), line[0]))
    return {
        name: [
            run * APART + _number(cell) - 1
            for run, cell in enumerate(cells.split(", "))
            if cell != "–"
        ]
        for name, cells, _ in lines[:count]
    }


def _number(cell: str) -> int:
    return int(cell.replace(",", ""))


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
    parser.add_argument("--keep", action="store_true", help="with --only: write the page, too")
    parser.add_argument("--limit", type=int, default=LIMIT, help="seeds per run, at most")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    asked = parser.parse_args()
    known = {} if asked.only else kept(KEPT, fingerprint(asked.limit))
    rows: list[Row] = []
    for row in detect(chosen(asked.only), limit=asked.limit, jobs=asked.jobs, known=known):
        rows.append(row)
        told = [each.seeds for each in row.searches]
        where = ", ".join(row.scripts) or "no script"
        print(f"{row.fault}: seeds {told}, {row.rule!r}; {where}; {row.took_s:.0f} s", flush=True)
        if not asked.only and row.fault not in known:
            with KEPT.open("ab") as file:
                file.write(msgspec.json.encode(row) + b"\n")
    if asked.keep:
        before = rows_on(PAGE.read_text()) | {row.fault: row for row in rows}
        rows = [before[fault.name] for fault in all_planted() if fault.name in before]
    if asked.keep or not asked.only:
        PAGE.write_text(page(rows))
    return 0 if all(row.is_found for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
