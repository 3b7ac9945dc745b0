"""One run, judged by each way there is: the verdict must be the same, and here is what each costs.

    python -m benchmarks.analysis.bench_ways                        # as root, for the machines
    python -m benchmarks.analysis.bench_ways --pods                 # and an embedded cluster's pods
    python -m benchmarks.analysis.bench_ways --way connect          # one of them

The run has each anomaly, so that each exact check has something to find. Every way is a process of
its own with all that it needs: a master and workers, a store, machines in network namespaces, a
cluster. The time is that of the analysis alone, from the start of its process to its end. CPU and
peak memory are those of all processes, with the start of what a way needs; those of pods are not
below this process, and are left out. Prints a Markdown table; ends with 1 if a way failed, or if
two verdicts differ in more than where they were reached.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.analysis.engines import Cost, cost_of
from tests.cluster.analysis_pods.release import SECRET, analysis_beside_a_store, install
from tests.foreign.s3_server import serving
from tests.foreign.spoilt_runs import uploaded, without_place, write_spoilt
from tests.spark.clusters.elsewhere import ANALYZE, LIMIT_S, cluster_elsewhere, with_two_workers
from tests.spark.clusters.standalone import connect_server, standalone
from zonequake_cluster.embedded import EmbeddedCluster

MODULE = "benchmarks.analysis.bench_ways"
ARCHIVE = "from zonequake_analysis.executors.command import app; app()"
NAME = "ways"
COLUMNS = (
    "way", "master", "application", "executors that worked", "verdict", "findings", "digest",
    "wall s", "CPU s", "peak GiB",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An analysis that ended; `place`: the folder with its verdict and its tables."""

    exit_code: int
    seconds: float
    place: str


def of_a_folder(run: Path, folder: Path) -> Judged:
    """The command as most people use it."""
    place = copied(run, folder)
    return analyzed(str(place), "--master", "local[2]", place=place)


def of_a_store(run: Path, folder: Path) -> Judged:
    """The same where the run lies in S3."""
    with serving(folder / "s3") as server:
        uri = uploaded(run, server, NAME)
        place = server.bucket / NAME / run.name
        return analyzed(uri, "--master", "local[2]", place=place, environment=server.environment())


def on_workers(run: Path, folder: Path) -> Judged:
    """A master and two workers on this machine, which share its folders."""
    place = copied(run, folder)
    with standalone(folder / "spark", workers=2) as master:
        return analyzed(str(place), "--master", master, "--driver-host", "127.0.0.1", place=place)


def through_connect(run: Path, folder: Path) -> Judged:
    """A server that has the credentials of the store."""
    with serving(folder / "s3") as server:
        uri = uploaded(run, server, NAME)
        place = server.bucket / NAME / run.name
        own = {k: v for k, v in server.environment().items() if k != "AWS_ENDPOINT_URL"}
        begun = {**os.environ, "PYSPARK_PYTHON": sys.executable, **own}
        with connect_server(folder / "connect", begun) as remote:
            return analyzed(uri, "--remote", remote, place=place, environment=server.environment())


def on_machines(run: Path, folder: Path) -> Judged:
    """Workers that share nothing with the driver but the store, and have no Python."""
    archive = folder / "environment.tar.gz"
    command = [sys.executable, "-c", ARCHIVE, str(archive)]
    subprocess.run(command, check=True, stdout=sys.stderr)
    with cluster_elsewhere(folder) as cluster:
        with_two_workers(cluster)
        uri = uploaded(run, cluster.server, NAME)
        began_s = time.monotonic()
        driver = cluster.driver(uri, "--archives", archive)
        said, _ = driver.communicate(timeout=LIMIT_S)
        took_s = time.monotonic() - began_s
        print(said, file=sys.stderr)
        place = cluster.server.bucket / NAME / run.name
        return Judged(exit_code=driver.returncode, seconds=took_s, place=str(place))


def by_pods(run: Path, folder: Path) -> Judged:
    """Driver and executors as pods of an embedded cluster of its own."""
    cluster = EmbeddedCluster(f"ways-{os.getpid()}")
    try:
        cluster.up()
        place = install(cluster)
        with analysis_beside_a_store(cluster, place, folder / "s3", run) as analysis:
            uri = uploaded(run, analysis.server, NAME)
            began_s = time.monotonic()
            ended = analysis.analyze(uri, "--store-secret", SECRET)
            took_s = time.monotonic() - began_s
            print(ended.stdout, ended.stderr, file=sys.stderr)
            where = analysis.server.bucket / NAME / run.name
            return Judged(exit_code=ended.returncode, seconds=took_s, place=str(where))
    finally:
        cluster.down()


PODS = "pods"
WAYS: dict[str, Callable[[Path, Path], Judged]] = {
    "local": of_a_folder,
    "s3": of_a_store,
    "standalone": on_workers,
    "connect": through_connect,
    "machines": on_machines,
    PODS: by_pods,
}


def copied(run: Path, folder: Path) -> Path:
    """The same run below this folder, under its own name: the verdict tells it."""
    return Path(shutil.copytree(run, folder / run.name))


def analyzed(
    run: str, *options: str, place: Path, environment: Mapping[str, str] | None = None
) -> Judged:
    """Judges a run by the command, on this machine or from it."""
    own = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    began_s = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", ANALYZE, run, *options],
        env={**os.environ, **own, **(environment or {})},
        stdout=sys.stderr,
        check=False,
    )
    return Judged(exit_code=ended.returncode, seconds=time.monotonic() - began_s, place=str(place))


def row_of(way: str, judged: Judged, cost: Cost) -> dict[str, str]:
    """What the table shows of a way. Raises OSError if it left no verdict or no findings."""
    place = Path(judged.place)
    document = (place / "verdict.json").read_bytes()
    told: dict[str, Any] = json.loads(document)
    if told["exit_code"] != judged.exit_code:
        raise OSError(f"the command ended with {judged.exit_code}, not as its verdict says")
    analyzed_at = told["analyzed"]
    worked = [f"{each['name']} at {each['address']}" for each in analyzed_at["executors"]]
    same = json.dumps(without_place(document), sort_keys=True).encode()
    beyond = way == PODS  # its processes are the cluster's
    values = (
        way,
        analyzed_at["master"],
        analyzed_at["application"],
        ", ".join(worked) or "none told",
        told["verdict"],
        str(pq.read_table(place / "tables" / "findings").num_rows),
        hashlib.sha256(same).hexdigest()[:16],
        f"{judged.seconds:.1f}",
        "" if beyond else f"{cost.cpu_seconds:.1f}",
        "" if beyond else f"{cost.peak_gib:.2f}",
    )
    return dict(zip(COLUMNS, values, strict=True))


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """The table."""
    lines = [COLUMNS, ["---"] * len(COLUMNS), *([row[name] for name in COLUMNS] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def problems_of(rows: Sequence[Mapping[str, str]], failed: Mapping[str, str]) -> list[str]:
    """What keeps the ways from being one: those that failed, and verdicts that differ."""
    found = [f"{way}: {why}" for way, why in failed.items()]
    by_digest: dict[str, list[str]] = {}
    for row in rows:
        by_digest.setdefault(row["digest"], []).append(row["way"])
    if len(by_digest) > 1:
        apart = "; ".join(f"{digest}: {', '.join(ways)}" for digest, ways in by_digest.items())
        found.append(f"found {len(by_digest)} verdicts, expected one: {apart}")
    return found


def measure(run: Path, folder: Path, ways: Sequence[str]) -> int:
    """Judges the run by these ways one after the other, and prints the table; the exit code."""
    rows, failed = [], {}
    load_before = os.getloadavg()[0]
    for number, way in enumerate(ways):
        own = folder / f"way-{number}"
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir()
        print(f"{way} …", file=sys.stderr, flush=True)
        words = ["--only", way, "--run", str(run), "--folder", str(own)]
        cost = cost_of([sys.executable, "-m", MODULE, *words])
        if cost.exit_code:
            failed[way] = f"ended with {cost.exit_code}, as told above; what it left is in {own}"
            continue
        try:
            judged = Judged(**json.loads(cost.output.splitlines()[-1]))
            rows.append(row_of(way, judged, cost))
        except (OSError, ValueError, LookupError, TypeError) as error:
            failed[way] = f"left no verdict to compare: {error!r}; what it left is in {own}"
    print(f"Load average {load_before:.1f} before, {os.getloadavg()[0]:.1f} after.\n")
    print(markdown(rows))
    problems = problems_of(rows, failed)
    print("\n" + "\n".join(problems or [f"All {len(rows)} verdicts are equal."]))
    return 1 if problems else 0


def main() -> None:
    """Makes the run, and judges it by each way; or does one of them, as its own child."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--operations", type=int, default=50_000, help="of the run")
    parser.add_argument("--pods", action="store_true", help="pods, too; needs buildah")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="this one only")
    parser.add_argument("--folder", type=Path, help="work here, and keep what is left")
    parser.add_argument("--only", choices=list(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(asdict(WAYS[arguments.only](arguments.run, arguments.folder))))
        return
    ways = arguments.way or [way for way in WAYS if way != PODS or arguments.pods]
    folder: Path = (arguments.folder or Path(tempfile.mkdtemp(prefix="bench-ways-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    run = write_spoilt(folder / "run" / "spoilt", arguments.operations)
    code = measure(run, folder, ways)
    if code == 0 and not arguments.folder:
        shutil.rmtree(folder)
    sys.exit(code)


if __name__ == "__main__":
    main()
