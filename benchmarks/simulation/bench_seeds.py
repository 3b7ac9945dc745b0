"""Seeds per second of the simulation, with all rules and judged, in one process on one core.

    python -m benchmarks.simulation.bench_seeds [--seeds N] [--json FILE]

Prints Markdown for docs/performance.md. Seconds are CPU seconds of this process, so that other work
on the machine matters less. Target: 6 seeds/s for one group of three nodes over 1,500 steps
(`raft`). A seed is a run, its quiet time, in which everything must come to rest, and the judgement
of its history by the real checkers.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from zonequake_simulation import SCENARIOS, STEPS, Simulation

TARGET = ("raft", 6.0)
WARM_UP = 3
"""Seeds before the first figure: imports, decoders and Arrow's first table."""


def measured(name: str, seeds: int) -> dict[str, float | str]:
    """One scenario's figures. Raises Violation if a seed breaks a rule."""
    scenario = SCENARIOS[name]
    spent_s = {"run": 0.0, "quiet time": 0.0, "judgement": 0.0}
    steps = 0
    for seed in range(seeds):
        began_s = time.process_time()
        with Simulation(seed, scenario) as simulation:
            simulation.run(STEPS)
            ran_s = time.process_time()
            simulation.settle()
            settled_s = time.process_time()
            simulation.judge()
            steps += simulation.steps
        spent_s["run"] += ran_s - began_s
        spent_s["quiet time"] += settled_s - ran_s
        spent_s["judgement"] += time.process_time() - settled_s
    total_s = sum(spent_s.values())
    return {
        "scenario": name,
        "nodes": scenario.nodes,
        "groups": scenario.groups,
        "seeds/s": round(seeds / total_s, 1),
        "steps/s": int(round(steps / total_s, -2)),
        **{f"{part} %": round(100 * each_s / total_s) for part, each_s in spent_s.items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=60, help="of each scenario")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    measured(TARGET[0], WARM_UP)
    rows = [measured(name, asked.seeds) for name in SCENARIOS]
    columns = list(rows[0])
    print("| " + " | ".join(columns) + " |")
    print("|" + " --- |" * len(columns))
    for row in rows:
        print("| " + " | ".join(str(row[column]) for column in columns) + " |")
    name, least = TARGET
    found = next(float(row["seeds/s"]) for row in rows if row["scenario"] == name)
    verdict = "met" if found >= least else "missed"
    print(
        f"\nTarget: {least:g} seeds/s of `{name}` on one core: {found:g}, {verdict}. "
        f"Load average {load:.1f} before, {os.getloadavg()[0]:.1f} after."
    )
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if found >= least else 1


if __name__ == "__main__":
    sys.exit(main())
