"""Analysis of a generated history from JSON lines to verdict, beside the same checks by DuckDB.

    python benchmarks/analysis/bench_analysis.py --operations 10000000 --folder /tmp/bench

Both judge the same files in the same run, one after the other, each in a process of its own, from
the cold start to the answer; peak memory is that of the process and its children together, sampled
from /proc. DuckDB runs the same four questions (sets, claimed order, zones, lost and stale) in SQL
over JSON lines read with an explicit schema; cas chains, which need a program, are left out there.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb

from zonequake_analysis.cli import analyze
from zonequake_analysis.synthesize import Shape, synthesize

_READ = """
CREATE TABLE line AS SELECT type, f, process, op, role, partition, key, value, expected, found,
       applied, inv, time AS fin, lineage, term, index
FROM read_json(?, format='newline_delimited', columns={
  type:'VARCHAR', f:'VARCHAR', process:'BIGINT', op:'VARCHAR', role:'VARCHAR', partition:'INTEGER',
  key:'VARCHAR', value:'JSON', expected:'BIGINT', found:'BIGINT', applied:'BOOLEAN', inv:'BIGINT',
  time:'BIGINT', lineage:'BIGINT', term:'BIGINT', index:'BIGINT'})
"""
_LAYOUT = """
CREATE TABLE ops AS
SELECT * EXCLUDE (value), TRY_CAST(value AS BIGINT) AS value,
       f IN ('write', 'append') OR (f = 'cas' AND (applied OR type <> 'ok')) AS w,
       json_type(value) = 'ARRAY' AS is_list,
       (index * 2 + CASE WHEN f = 'read' OR (f = 'cas' AND NOT applied) THEN 1 ELSE 0 END) AS rank,
       CASE WHEN f = 'cas' AND type = 'ok' AND NOT applied THEN coalesce(found, 0)
            ELSE coalesce(TRY_CAST(value AS BIGINT), 0) END AS element
FROM line WHERE type <> 'invoke'
UNION ALL
SELECT * EXCLUDE (value) REPLACE ('info' AS type, 9223372036854775807 AS fin),
       TRY_CAST(value AS BIGINT), true, false, NULL, TRY_CAST(value AS BIGINT)
FROM line i WHERE type = 'invoke' AND f <> 'read'
  AND NOT EXISTS (SELECT 1 FROM line c WHERE c.op = i.op AND c.type <> 'invoke')
"""
_QUESTIONS = {
    "phantoms": """
        SELECT count(*) FROM (SELECT key, element FROM ops WHERE NOT is_list AND element <> 0
        GROUP BY key, element HAVING count(*) FILTER (f = 'read' AND type = 'ok') > 0
        AND count(*) FILTER (w) = 0)""",
    "claimed order": """
        WITH placed AS (SELECT key, inv, fin, rank FROM ops WHERE type = 'ok' AND rank IS NOT NULL),
        event AS (SELECT key, inv AS t, 0 AS done, rank FROM placed
                  UNION ALL SELECT key, fin, 1, rank FROM placed),
        swept AS (SELECT *, max(CASE WHEN done = 1 THEN rank END) OVER (PARTITION BY key
                  ORDER BY t, done
                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS seen FROM event)
        SELECT count(*) FROM swept WHERE done = 0 AND rank < seen""",
    "zones": """
        WITH cluster AS (SELECT key, element, min(CASE WHEN type = 'ok' THEN fin END) AS f,
                 max(inv) AS s, count(*) FILTER (f = 'cas' AND w) AS cas FROM ops
                 WHERE type <> 'fail' AND (w OR type = 'ok') AND NOT is_list AND f <> 'append'
                 GROUP BY key, element),
        plain AS (SELECT * FROM cluster WHERE f IS NOT NULL AND element <> 0
                  AND key NOT IN (SELECT key FROM cluster WHERE cas > 0)),
        swept AS (SELECT *, max(CASE WHEN f < s THEN s END) OVER (PARTITION BY key
                  ORDER BY least(f, s), f < s
                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS held FROM plain)
        SELECT count(*) FROM swept WHERE f < held""",
    "lost and stale": """
        WITH version AS (SELECT *, max(CASE WHEN w AND type = 'ok' THEN rank END)
                   OVER (PARTITION BY key, element) AS v FROM ops
                   WHERE type = 'ok' AND NOT is_list AND f <> 'append'),
        event AS (SELECT key, fin AS t, 1 AS done, v FROM version WHERE w
                  UNION ALL SELECT key, inv, 0, v FROM version WHERE NOT w),
        swept AS (SELECT *, max(CASE WHEN done = 1 THEN v END) OVER (PARTITION BY key
                  ORDER BY t, done
                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS seen FROM event)
        SELECT count(*) FROM swept WHERE done = 0 AND v < seen""",
}


def by_duckdb(run: Path) -> int:
    """The questions by DuckDB; 0 if none finds anything."""
    database = duckdb.connect()
    database.execute("SET memory_limit='4GB'")
    database.execute("SET threads=2")
    began = time.monotonic()
    database.execute(_READ, [str(run / "history" / "*.jsonl")])
    database.execute(_LAYOUT)
    print(f"  duckdb ingest: {time.monotonic() - began:.1f} s", file=sys.stderr)
    bad = 0
    for name, question in _QUESTIONS.items():
        began = time.monotonic()
        row = database.execute(question).fetchone()
        assert row is not None
        bad += row[0]
        print(f"  duckdb {name}: {row[0]}, {time.monotonic() - began:.1f} s", file=sys.stderr)
    return int(bad > 0)


def _tree(root: int) -> dict[int, tuple[int, int]]:
    """Resident bytes and CPU ticks of a process and all its descendants, by process id."""
    stats: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stats[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
    members = {root}
    while more := {pid for pid, stat in stats.items() if int(stat[1]) in members} - members:
        members |= more
    page = os.sysconf("SC_PAGE_SIZE")
    return {
        pid: (int(stats[pid][21]) * page, int(stats[pid][11]) + int(stats[pid][12]))
        for pid in members & stats.keys()
    }


def measured(name: str, run: Path) -> dict[str, float | int | str]:
    """Seconds, peak memory and CPU seconds of one engine, in a process of its own."""
    began, peak, done = time.monotonic(), 0, threading.Event()
    ticks: dict[int, int] = {}
    process = subprocess.Popen([sys.executable, __file__, "--only", name, "--folder", str(run)])

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.2):
            now = _tree(process.pid)
            peak = max(peak, sum(resident for resident, _ in now.values()))
            ticks.update({pid: spent for pid, (_, spent) in now.items()})

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    done.set()
    watcher.join()
    return {
        "engine": name,
        "exit_code": code,
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(sum(ticks.values()) / os.sysconf("SC_CLK_TCK"), 1),
        "peak_gib": round(peak / 2**30, 2),
    }


def main() -> None:
    """Generates the history if it isn't there, and prints one JSON line per engine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/zonequake-bench"))
    parser.add_argument("--only", choices=["spark", "duckdb"])
    arguments = parser.parse_args()
    run: Path = arguments.folder
    if arguments.only == "duckdb":
        sys.exit(by_duckdb(run))
    if arguments.only == "spark":
        sys.exit(analyze(run))
    count = arguments.operations
    keys = max(64, count // 100)
    began = time.monotonic()
    shape = Shape(operations=count, partitions=128, keys=keys, rate=20_000, processes=256)
    if not (run / "history").exists():
        synthesize(run, shape)
    size = sum(file.stat().st_size for file in (run / "history").iterdir())
    print(json.dumps({"operations": count, "bytes": size, "generated_s": time.monotonic() - began}))
    print(json.dumps({"load_average": os.getloadavg(), "cores": multiprocessing.cpu_count()}))
    for engine in ("spark", "duckdb"):
        print(json.dumps(measured(engine, run)), flush=True)


if __name__ == "__main__":
    main()
