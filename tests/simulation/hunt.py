"""Hunts with seeds that were never run before, over all scenarios of `zonequake simulate`.

    python -m tests.simulation.hunt [--seeds N] [--base SEED] [--only SCENARIO ...] [--jobs N]

The first seed comes from the clock, in ms, and is printed; every scenario runs the same ones from
it on. A seed that breaks a rule is told at once, with the command that replays it, and the hunt
goes on. Ends with 1 if any did, or if a scenario committed nothing: then nothing was shown.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence

from zonequake_simulation import SCENARIOS
from zonequake_simulation.scenario import Scenario
from zonequake_simulation.seeds import find_scenario, simulate_many

SEEDS = 1_500
"""Of each scenario: more than 20,000 of all of them."""


def hunt(scenarios: Iterable[Scenario], seeds: Sequence[int], *, jobs: int) -> list[str]:
    """Runs these seeds of each scenario; the commands that replay what broke a rule."""
    broken: list[str] = []
    for scenario in scenarios:
        start_s = time.monotonic()
        before, commits = len(broken), 0
        for report in simulate_many(seeds, scenario, steps=scenario.steps, jobs=jobs):
            commits += report.tally.get("commits", 0)
            if report.rule is not None:
                broken.append(f"zonequake simulate --scenario {scenario.name} --seed {report.seed}")
                print(f"{report.violation}\n    {broken[-1]} --trace", flush=True)
        took_s = time.monotonic() - start_s
        found = len(broken) - before
        print(
            f"{scenario.name:<20} {len(seeds):>6,} seeds  {found:>4,} broken  "
            f"{commits:>9,} commits  {took_s:>7.1f} s",
            flush=True,
        )
        if not commits:
            broken.append(f"{scenario.name} committed nothing: nothing is shown")
    return broken


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many of each scenario")
    parser.add_argument("--base", type=int, help="the first of them; default: the clock's")
    parser.add_argument("--only", nargs="*", default=[], metavar="SCENARIO", help="these alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    asked = parser.parse_args(arguments)
    base = time.time_ns() // 1_000_000 if asked.base is None else asked.base
    scenarios = [find_scenario(name) for name in asked.only] or list(SCENARIOS.values())
    print(f"seeds {base}..{base + asked.seeds - 1} of {len(scenarios)} scenarios", flush=True)
    broken = hunt(scenarios, range(base, base + asked.seeds), jobs=asked.jobs)
    ran = asked.seeds * len(scenarios)
    print(f"{ran:,} seeds, {len(broken)} broken", *broken, sep="\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
