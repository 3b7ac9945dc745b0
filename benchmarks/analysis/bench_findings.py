"""What findings cost: the analysis of a history with stale reads beside that of a clean one.

    python -m benchmarks.analysis.bench_findings --operations 1000000 --folder /tmp/bench-findings

Both histories have the same shape, but that in the second one a tenth of the reads miss the newest
write. Each is judged in a process of its own, from the cold start to the report, one after the
other, `--times` times; the smallest CPU time of each counts, which other work on the machine
disturbs least. One JSON line per run, and a last one with the ratio and its limit.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.dataset as ds

from benchmarks.analysis.engines import cost_of
from tests.histories.synthesize import Shape, synthesize
from zonequake_analysis.cli import analyze

LIMIT = 2.0
"""Most that the spoilt history may cost, in runs of the clean one (docs/performance.md)."""

STALE = 0.1


def measured(run: Path) -> dict[str, float | int | str]:
    """What the analysis of `run` costs, and how many findings it keeps."""
    module = "benchmarks.analysis.bench_findings"
    cost = cost_of([sys.executable, "-m", module, "--only", "--folder", str(run)])
    found = ds.dataset(run / "tables" / "findings", format="parquet").count_rows()
    return {
        "history": run.name,
        "exit_code": cost.exit_code,
        "seconds": round(cost.seconds, 1),
        "cpu_seconds": round(cost.cpu_seconds, 1),
        "peak_gib": round(cost.peak_gib, 2),
        "findings": found,
        "report_bytes": (run / "report.html").stat().st_size,
    }


def main() -> None:
    """Generates both histories where they aren't there, and prints what each costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/zonequake-bench-findings"))
    parser.add_argument("--only", action="store_true", help="judge this folder")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    if arguments.only:
        sys.exit(analyze(folder))
    count: int = arguments.operations
    keys = max(64, count // 100)
    clean = Shape(operations=count, partitions=128, keys=keys, rate=20_000, processes=256)
    shapes = {"clean": clean, "stale": replace(clean, stale=STALE)}
    least: dict[str, float] = {}
    for _ in range(arguments.times):
        for name, shape in shapes.items():
            run = folder / name
            if not (run / "history").exists():
                synthesize(run, shape)
            found = measured(run)
            print(json.dumps(found | {"load_average": os.getloadavg()}), flush=True)
            spent = float(found["cpu_seconds"])
            least[name] = min(spent, least.get(name, spent))
    ratio = round(least["stale"] / least["clean"], 2)
    print(json.dumps({"operations": count, "cpu_stale_over_clean": ratio, "limit": LIMIT}))


if __name__ == "__main__":
    main()
