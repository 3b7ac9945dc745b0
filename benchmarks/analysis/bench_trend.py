"""Trend of many runs, from folders to page: a thousand made-up ones, with changes planted in them.

    python -m benchmarks.analysis.bench_trend --runs 1000 --folder /tmp/zonequake-trend

The folders are what `zonequake analyze` leaves: verdict, plan, events, and operations as Parquet.
They are made once and kept. The command runs in a process of its own, from the cold start of Python
to the page; peak memory is that of the process and its children together. The last lines say which
of the planted changes were found.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.analysis.engines import cost_of
from tests.histories.judged_runs import JudgedRun, write_run
from zonequake_analysis.many_runs.change_points import change_points

LIMIT_S = 120
"""For 1,000 runs on two cores (docs/performance.md)."""

SCENARIOS = ("leader-kill", "rolling-restart")
PLANTED = {"leader-kill": {"faults.all.p99": 0.8}, "rolling-restart": {"window.longest": 0.4}}
"""Where in a scenario's runs an objective gets worse, as a share of them."""

_COMMAND = "from zonequake_analysis.many_runs.trend_command import app; app()"


def made_runs(count: int, operations: int) -> Iterator[JudgedRun]:
    """The runs: three a day, both scenarios in turns, a version for each twentieth of the time."""
    for number in range(count):
        scenario, share = SCENARIOS[number % 2], number / count
        is_slow = share >= PLANTED["leader-kill"]["faults.all.p99"]
        is_long = share >= PLANTED["rolling-restart"]["window.longest"]
        yield JudgedRun(
            name=f"{scenario}-{number:05}",
            scenario=scenario,
            version=f"0.{1 + int(share * 20)}.0",
            day=number / 3,
            seed=number,
            operations=operations,
            median_ms=18 + number % 7,
            slower=1.5 if scenario == "leader-kill" and is_slow else 1.0,
            window_ms=(900 if scenario == "rolling-restart" and is_long else 400)
            + 40 * (number % 5)
            + (4700 if number % 97 == 0 else 0),
            unknown=number % 61 == 5,
            lost=int(number % 331 == 200),
        )


def _generate(folder: Path, count: int, operations: int) -> float:
    began = time.monotonic()
    if not folder.exists():
        draft = folder.with_name(f"{folder.name}.draft")
        with ProcessPoolExecutor(max_workers=2) as pool:
            for _ in pool.map(partial(write_run, draft), made_runs(count, operations), chunksize=8):
                pass
        draft.rename(folder)
    return time.monotonic() - began


def _found(table: Path) -> Iterator[str]:
    rows = pq.read_table(table, columns=["scenario", "objective", "run", "value"]).to_pylist()
    for scenario, objectives in PLANTED.items():
        for objective, share in objectives.items():
            values = [
                row["value"]
                for row in rows
                if (row["scenario"], row["objective"]) == (scenario, objective)
            ]
            places = [point.index for point in change_points(values)]
            yield f"{scenario} {objective}: planted at {share * len(values):.0f}, found at {places}"


def main() -> None:
    """Generates the folders if they aren't there, and prints one JSON line with the cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--operations", type=int, default=20_000, help="Of the load in each run.")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/zonequake-trend"))
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    generated_s = _generate(folder, arguments.runs, arguments.operations)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(json.dumps({"runs": arguments.runs, "bytes": size, "generated_s": round(generated_s, 1)}))
    page = folder.with_name(f"{folder.name}.html")
    cost = cost_of([sys.executable, "-c", _COMMAND, str(folder), "--out", str(page)])
    print(cost.output.decode().strip())
    print(
        json.dumps(
            {
                "exit_code": cost.exit_code,
                "seconds": round(cost.seconds, 1),
                "cpu_seconds": round(cost.cpu_seconds, 1),
                "peak_gib": round(cost.peak_gib, 2),
                "page_bytes": page.stat().st_size,
                "limit_s_of_1000_runs": LIMIT_S,
                "load_average": os.getloadavg(),
                "cores": multiprocessing.cpu_count(),
            }
        )
    )
    print("\n".join(_found(page.with_name("trend.parquet"))))


if __name__ == "__main__":
    main()
