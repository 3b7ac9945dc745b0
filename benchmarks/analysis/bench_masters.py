"""Analysis of one history on one core, on two, and on a standalone cluster of two workers.

    python -m benchmarks.analysis.bench_masters --operations 4000000 --folder /tmp/bench-masters
    … --operations 40000000 --workers-alone     the two workers alone, for how it grows

All are on this machine, so that the workers' two cores are the same two: local[1] over local[2] is
the speed-up, standalone over local[2] the cost of distribution (processes, files in blocks over
loopback). Each is a process of its own from the cold start to the report. CPU and peak memory are
those of all processes, on the cluster with its master's and workers' start; the time isn't. One
JSON line each, and a last one with both ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.analysis.engines import cost_of
from tests.histories.synthesize import Shape, synthesize
from tests.spark.clusters.standalone import standalone
from zonequake_analysis.cli import analyze

STANDALONE = "standalone, 2 workers of 1 core"
MASTERS = ("local[1]", "local[2]", STANDALONE)


def judge(run: Path, place: str) -> int:
    """Judges `run` at one of MASTERS, and prints how many seconds that took; its exit code."""
    if place != STANDALONE:
        return timed(run, place, None)
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (
        tempfile.TemporaryDirectory(prefix="bench-masters-") as folder,
        standalone(Path(folder), workers=2) as master,
    ):
        return timed(run, master, "127.0.0.1")


def timed(run: Path, master: str, driver_host: str | None) -> int:
    """Judges `run` on this master, and prints the seconds."""
    began_s = time.monotonic()
    code = analyze(run, master, driver_host=driver_host)
    print(json.dumps({"seconds": round(time.monotonic() - began_s, 1)}))
    session = SparkSession.getActiveSession()
    if session is not None:  # before its master ends
        session.stop()
    return code


def measured(run: Path, place: str) -> dict[str, float | int | str]:
    """What the analysis of `run` costs at one of MASTERS."""
    module = "benchmarks.analysis.bench_masters"
    cost = cost_of([sys.executable, "-m", module, "--only", place, "--folder", str(run)])
    verdict = json.loads((run / "verdict.json").read_text())
    executors = verdict["analyzed"]["executors"]
    return {
        "place": place,
        "exit_code": cost.exit_code,
        "seconds": json.loads(cost.output.splitlines()[-1])["seconds"],
        "cpu_seconds": round(cost.cpu_seconds, 1),
        "peak_gib": round(cost.peak_gib, 2),
        "executors_that_worked": len(executors),
        "load_average": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Generates the history if it isn't there, and prints what each master costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=128)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/zonequake-bench-masters"))
    parser.add_argument("--only", choices=MASTERS, help="judge this folder there")
    parser.add_argument(
        "--workers-alone", action="store_true", help=f"measure nothing but: {STANDALONE}"
    )
    arguments = parser.parse_args()
    run: Path = arguments.folder
    if arguments.only:
        sys.exit(judge(run, arguments.only))
    count: int = arguments.operations
    if not (run / "history").exists():
        synthesize(
            run,
            Shape(
                operations=count,
                partitions=arguments.partitions,
                keys=max(64, count // 100),
                rate=20_000,
                processes=256,
            ),
        )
    seconds: dict[str, float] = {}
    for place in [STANDALONE] if arguments.workers_alone else MASTERS:
        found = measured(run, place)
        print(json.dumps(found), flush=True)
        seconds[place] = float(found["seconds"])
    if arguments.workers_alone:
        return
    print(
        json.dumps(
            {
                "operations": count,
                "speed_up_of_two_cores": round(seconds["local[1]"] / seconds["local[2]"], 2),
                "standalone_over_local": round(seconds[STANDALONE] / seconds["local[2]"], 2),
            }
        )
    )


if __name__ == "__main__":
    main()
