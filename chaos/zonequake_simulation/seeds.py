"""Runs many seeds of one scenario in several processes, and sums up their results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from functools import partial

from zonequake_kube.errors import HarnessError, UsageError
from zonequake_simulation.children import children, in_order
from zonequake_simulation.report import SeedReport, simulate
from zonequake_simulation.scenario import Scenario
from zonequake_simulation.scenarios import SCENARIOS

TOLD = ("commits", "elections", "reconfigurations", "crashes")
"""The counts in the line about a seed, after the names in its tally."""
TOLD_IF_ANY = ("resets", "snapshots installed", "transactions ok")
"""Further counts in the summary, where the scenario has them."""

_RANGE = re.compile(r"(\d+)(?:\.\.(\d+))?")


def parse_seeds(text: str) -> range:
    """Parses `A..B`, both included, or one number. Raises UsageError."""
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"--seeds {text!r} is no range: two numbers from 0 on with two dots, as 0..999"
        )
    first = int(found[1])
    last = first if found[2] is None else int(found[2])
    if last < first:
        raise UsageError(
            f"--seeds {text} is empty: its end lies before its beginning, expected as in 0..999"
        )
    return range(first, last + 1)


def find_scenario(name: str) -> Scenario:
    """Returns the scenario of this name. Raises UsageError that lists all."""
    found = SCENARIOS.get(name)
    if found is None:
        known = ", ".join(SCENARIOS)
        raise UsageError(f"--scenario {name!r} is not known; there are: {known}")
    return found


def simulate_many(
    seeds: Iterable[int], scenario: Scenario, *, steps: int, jobs: int
) -> Iterator[SeedReport]:
    """Yields the reports in the order of the seeds, as they become ready.

    Raises HarnessError if the simulation itself fails, with the seed that shows it.
    """
    one = partial(_one, scenario=scenario.name, steps=steps)
    if jobs == 1:
        yield from map(one, seeds)
        return
    try:
        with children(jobs) as pool:
            yield from in_order(pool, one, seeds, count=jobs)
    except BrokenProcessPool as error:
        raise HarnessError(
            f"a process of the simulation ended ({error}): try fewer --jobs, memory may be short"
        ) from error


def _one(seed: int, *, scenario: str, steps: int) -> SeedReport:
    try:
        return simulate(seed, SCENARIOS[scenario], steps=steps)
    except Exception as error:
        raise HarnessError(
            f"the simulation itself failed in seed {seed} of {scenario}: "
            f"{type(error).__name__}: {error}"
        ) from error


def summed(reports: Iterable[SeedReport]) -> Counter[str]:
    """Returns the sum of the tallies of all reports."""
    total: Counter[str] = Counter()
    for report in reports:
        total.update(report.tally)
    return total
