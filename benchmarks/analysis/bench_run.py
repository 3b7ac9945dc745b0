"""Analysis of a run that was recorded before, from the start of Python to the report.

    zonequake demo
    python -m benchmarks.analysis.bench_run FOLDER --times 5

`FOLDER` is the run's, which is copied first, so that the run keeps its own verdict. Each time is a
process of its own, as `zonequake analyze` starts it; `report_s` is when the report was there,
`seconds` when the process had ended. One JSON line each, and a last one with the smallest time to
the report, on which other work weighs least, and its limit for a demo's run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.analysis.engines import cost_of, zonequake

LIMIT_S = 5
"""For a demo's run with its metrics (docs/performance.md)."""


def main() -> None:
    """Prints what each analysis of the run costs, and the least of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    seconds = []
    with tempfile.TemporaryDirectory(prefix="bench-run-") as folder:
        run = Path(folder) / "run"
        shutil.copytree(arguments.run, run)
        for _ in range(arguments.times):
            began_s = time.time()
            cost = cost_of(zonequake("analyze", run))
            seconds.append((run / "report.html").stat().st_mtime - began_s)
            print(
                json.dumps(
                    {
                        "exit_code": cost.exit_code,
                        "report_s": round(seconds[-1], 1),
                        "seconds": round(cost.seconds, 1),
                        "cpu_seconds": round(cost.cpu_seconds, 1),
                        "peak_gib": round(cost.peak_gib, 2),
                        "load_average": round(os.getloadavg()[0], 1),
                    }
                ),
                flush=True,
            )
    print(json.dumps({"least_s": round(min(seconds), 1), "limit_s": LIMIT_S}))


if __name__ == "__main__":
    main()
