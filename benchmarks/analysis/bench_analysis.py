"""Analysis of a generated history from JSON lines to verdict, beside the same checks by DuckDB.

    python -m benchmarks.analysis.bench_analysis --operations 10000000 --folder /tmp/bench
    … --partitions 1 --alone        one partition, without DuckDB
    … --columns                     and once more from column files, after writing them

Both judge the same files in the same run, one after the other, each in a process of its own (the
analysis as `zonequake analyze` starts it), from the cold start to the answer; peak memory is that
of the process and its children together, sampled from /proc. The last line has the ratio of both
and the limit of docs/performance.md.

With `--columns` the analysis judges the lines and then the column files that are made of them, and
a line says what both cost, what the conversion did, and whether all checks are equal.

DuckDB answers in SQL, over JSON lines read with an explicit schema, what SQL can say: sets, the
claimed order (real time, one entry, preconditions and replay of registers and lists), zones, lists
by prefixes, lost and stale values and elements, sessions, coverage, numbers over time. Left out
there: zones of keys with a cas (chains need a program; most keys of this history have one), the
replay of lists with an unanswered append (only their own order places it), windows from probes
(this history has none), findings by row with witnesses, the table of operations on disk, the
report.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path

import duckdb

from benchmarks.analysis.engines import cost_of, zonequake
from tests.histories.synthesize import Shape, synthesize
from zonequake_analysis.inputs.column_files.command import write_column_files
from zonequake_analysis.inputs.column_files.one_range import FOLDER
from zonequake_analysis.storage.location import Location

LIMIT_S = 50
"""For 10 million operations (docs/performance.md)."""

_MODULE = "benchmarks.analysis.bench_analysis"

_READ = """
CREATE TABLE line AS SELECT type, f, process, op, role, partition, key, value, expected, found,
       applied, sched, inv, time AS fin, lineage, term, index
FROM read_json(?, format='newline_delimited', columns={
  type:'VARCHAR', f:'VARCHAR', process:'BIGINT', op:'VARCHAR', role:'VARCHAR', partition:'INTEGER',
  key:'VARCHAR', value:'JSON', expected:'BIGINT', found:'BIGINT', applied:'BOOLEAN', sched:'BIGINT',
  inv:'BIGINT', time:'BIGINT', lineage:'BIGINT', term:'BIGINT', index:'BIGINT'})
"""
_LAYOUT = """
CREATE TABLE ops AS
SELECT * EXCLUDE (value), TRY_CAST(value AS BIGINT) AS value,
       CASE WHEN json_type(value) = 'ARRAY' THEN CAST(value AS BIGINT[]) END AS list,
       f IN ('write', 'append') OR (f = 'cas' AND (applied OR type <> 'ok')) AS w,
       json_type(value) = 'ARRAY' AS is_list,
       (index * 2 + CASE WHEN f = 'read' OR (f = 'cas' AND NOT applied) THEN 1 ELSE 0 END) AS rank,
       CASE WHEN f = 'cas' AND type = 'ok' AND NOT applied THEN coalesce(found, 0)
            ELSE coalesce(TRY_CAST(value AS BIGINT), 0) END AS element
FROM line WHERE type <> 'invoke'
UNION ALL
SELECT * EXCLUDE (value) REPLACE ('info' AS type, 9223372036854775807 AS fin),
       TRY_CAST(value AS BIGINT), NULL, true, false, NULL, TRY_CAST(value AS BIGINT)
FROM line i WHERE type = 'invoke' AND f <> 'read'
  AND NOT EXISTS (SELECT 1 FROM line c WHERE c.op = i.op AND c.type <> 'invoke')
"""
_PLACED = """
CREATE TABLE placed AS
WITH unanswered AS (SELECT key, value FROM ops WHERE type = 'info' AND w),
observed AS (SELECT key, CASE WHEN w THEN index * 2 - 1 ELSE index * 2 END AS place,
                    CASE WHEN f = 'read' THEN value WHEN w THEN expected ELSE found END AS e
             FROM ops WHERE type = 'ok' AND NOT is_list AND index IS NOT NULL
             UNION ALL SELECT key, index * 2, unnest(list) FROM ops
             WHERE is_list AND key IN (SELECT key FROM unanswered)),
seen AS (SELECT key, e, min(place) AS rank FROM observed
         SEMI JOIN unanswered u ON u.key = observed.key AND u.value = observed.e GROUP BY key, e)
SELECT key, f, w, value, list, expected, found, inv, fin, rank, 1 AS answered FROM ops
WHERE type = 'ok' AND index IS NOT NULL
UNION ALL
SELECT o.key, o.f, o.w, o.value, NULL, o.expected, o.found, o.inv, NULL, s.rank, 0
FROM ops o JOIN seen s ON s.key = o.key AND s.e = o.value WHERE o.type = 'info' AND o.w
"""
_BEFORE = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
_QUESTIONS = {
    "sets": """
        WITH mention AS (
        SELECT key, value AS e, 1 AS attempt, type <> 'fail' AND w AS possible,
               CASE WHEN type = 'ok' AND w THEN index END AS written, NULL AS place
        FROM ops WHERE f <> 'read' AND value IS NOT NULL
        UNION ALL SELECT key, CASE WHEN f = 'read' THEN value WHEN w THEN expected ELSE found END,
               0, false, NULL, index FROM ops WHERE type = 'ok' AND f IN ('read', 'cas')
               AND NOT is_list
        UNION ALL SELECT key, unnest(list), 0, false, NULL, index FROM ops WHERE is_list)
        SELECT count(*) FROM (SELECT key, e FROM mention WHERE e IS NOT NULL GROUP BY key, e
        HAVING min(attempt) = 0 AND (NOT bool_or(possible) OR min(place) < max(written)))""",
    "duplicates": """
        SELECT count(*) FROM ops WHERE is_list AND len(list) <> len(list_distinct(list))""",
    "wrong refusals": """
        SELECT count(*) FROM ops WHERE f = 'cas' AND type = 'ok' AND NOT applied
        AND found IS NOT DISTINCT FROM expected""",
    "claimed order, real time": f"""
        WITH swept AS (SELECT inv, min(fin) OVER (PARTITION BY key ORDER BY rank DESC, inv DESC
                       {_BEFORE}) AS earliest FROM placed)
        SELECT count(*) FROM swept WHERE earliest < inv""",
    "claimed order, one entry": """
        SELECT count(*) FROM (SELECT partition, index FROM ops
        WHERE type = 'ok' AND w AND index IS NOT NULL GROUP BY partition, index
        HAVING count(*) > 1)""",
    "claimed order, replay and preconditions": f"""
        WITH replayed AS (SELECT *, last_value(CASE WHEN w THEN value END IGNORE NULLS) OVER
                          (PARTITION BY key ORDER BY rank, answered {_BEFORE}) AS state FROM placed)
        SELECT count(*) FROM replayed WHERE list IS NULL AND
        ((f = 'read' AND value IS DISTINCT FROM state)
         OR (f = 'cas' AND NOT w AND found IS DISTINCT FROM state)
         OR (f = 'cas' AND w AND answered = 1 AND expected IS DISTINCT FROM state))""",
    "claimed order, replay of lists": f"""
        WITH mine AS (SELECT * FROM placed WHERE (f = 'append' OR list IS NOT NULL)
                 AND key NOT IN (SELECT key FROM ops WHERE f = 'append' AND type = 'info')),
        sequence AS (SELECT key, list(value ORDER BY rank, answered) AS all_of FROM mine
                     WHERE f = 'append' GROUP BY key),
        counted AS (SELECT key, list, count(*) FILTER (f = 'append') OVER
                    (PARTITION BY key ORDER BY rank, answered {_BEFORE}) AS n FROM mine)
        SELECT count(*) FROM counted LEFT JOIN sequence USING (key)
        WHERE list IS NOT NULL AND list IS DISTINCT FROM all_of[1:n]""",
    "zones": f"""
        WITH cluster AS (SELECT key, element, min(CASE WHEN type = 'ok' THEN fin END) AS f,
                 max(inv) AS s, count(*) FILTER (f = 'cas' AND w) AS cas FROM ops
                 WHERE type <> 'fail' AND (w OR type = 'ok') AND NOT is_list AND f <> 'append'
                 GROUP BY key, element),
        plain AS (SELECT * FROM cluster WHERE f IS NOT NULL AND element <> 0
                  AND key NOT IN (SELECT key FROM cluster WHERE cas > 0)),
        swept AS (SELECT *, max(CASE WHEN f < s THEN s END) OVER (PARTITION BY key
                  ORDER BY least(f, s), f < s {_BEFORE}) AS held FROM plain)
        SELECT count(*) FROM swept WHERE f < held""",
    "prefixes": f"""
        WITH mine AS (SELECT * FROM ops WHERE (f = 'append' AND type <> 'fail') OR is_list),
        longest AS (SELECT key, coalesce(arg_max(list, len(list)), []) AS longest FROM mine
                    GROUP BY key),
        ranked AS (SELECT mine.*, longest, CASE WHEN is_list THEN 2 * len(list) + 1
                   WHEN list_position(longest, value) > 0 THEN 2 * list_position(longest, value)
                   WHEN type = 'ok' THEN 9223372036854775807 END AS r
                   FROM mine JOIN longest USING (key)),
        event AS (SELECT key, inv AS t, 0 AS done, r FROM ranked
                  WHERE r < 9223372036854775807
                  UNION ALL SELECT key, fin, 1, r FROM ranked WHERE type = 'ok'),
        swept AS (SELECT *, max(CASE WHEN done = 1 THEN r END) OVER (PARTITION BY key
                  ORDER BY t, done {_BEFORE}) AS seen FROM event),
        appended AS (SELECT key, count(*) FILTER (list_position(longest, value) > 0) AS n,
                     max(len(longest)) AS shown FROM ranked GROUP BY key)
        SELECT (SELECT count(*) FROM swept WHERE done = 0 AND r < seen)
             + (SELECT count(*) FROM ranked WHERE is_list AND list <> longest[1:len(list)])
             + (SELECT count(*) FROM appended WHERE n < shown)""",
    "lost and stale": f"""
        WITH version AS (SELECT *, max(CASE WHEN w AND type = 'ok' THEN rank END)
                   OVER (PARTITION BY key, element) AS v FROM ops
                   WHERE type = 'ok' AND NOT is_list AND f <> 'append'),
        event AS (SELECT key, fin AS t, 1 AS done, v FROM version
                  UNION ALL SELECT key, inv, 0, v FROM version WHERE NOT w),
        swept AS (SELECT *, max(CASE WHEN done = 1 THEN v END) OVER (PARTITION BY key
                  ORDER BY t, done {_BEFORE}) AS seen FROM event)
        SELECT count(*) FROM swept WHERE done = 0 AND v < seen""",
    "lost and stale elements": f"""
        WITH mine AS (SELECT * FROM ops WHERE type = 'ok' AND (f = 'append' OR is_list)),
        newest AS (SELECT key, arg_max(list, inv) AS last, max(inv) AS place FROM mine
                   WHERE is_list GROUP BY key),
        known AS (SELECT mine.*, last, place, CASE WHEN is_list THEN len(list)
                  ELSE list_position(last, value) END AS v FROM mine JOIN newest USING (key)),
        event AS (SELECT key, fin AS t, 1 AS done, v FROM known
                  UNION ALL SELECT key, inv, 0, v FROM known WHERE is_list),
        swept AS (SELECT *, max(CASE WHEN done = 1 THEN v END) OVER (PARTITION BY key
                  ORDER BY t, done {_BEFORE}) AS seen FROM event)
        SELECT (SELECT count(*) FROM swept WHERE done = 0 AND v < seen)
             + (SELECT count(*) FROM known WHERE f = 'append' AND fin < place
                AND NOT list_contains(last, value))""",
    "sessions": f"""
        WITH swept AS (SELECT index, max(index) OVER (PARTITION BY partition, process ORDER BY inv
                       {_BEFORE}) AS reached FROM ops WHERE type = 'ok')
        SELECT count(*) FROM swept WHERE index < reached""",
    "coverage": """
        WITH known AS (SELECT w, fin, max(CASE WHEN NOT w THEN inv END) OVER (PARTITION BY key)
                       AS last_read FROM ops WHERE type = 'ok')
        SELECT count(*) FROM known WHERE w AND (last_read IS NULL OR last_read <= fin)""",
    "numbers over time": """
        WITH base AS (SELECT (sched - (SELECT min(sched) FROM ops)) //
               ((SELECT max(inv) - min(sched) FROM ops) // 600 + 1) AS slice, partition, role, f,
               type, CASE WHEN type = 'ok' THEN floor(log2(greatest(fin - sched, 1)) * 16) END
               AS bin, CASE WHEN type = 'ok' THEN fin - sched END AS latency FROM ops),
        by_time AS (SELECT slice, role, f, type, bin, count(*) AS n, max(latency) AS longest
                    FROM base GROUP BY ALL),
        by_place AS (SELECT partition, slice, count(*) FILTER (type = 'ok') AS good, count(*) AS n
                     FROM base GROUP BY ALL)
        SELECT (SELECT sum(n) FROM by_time) - (SELECT sum(n) FROM by_place)""",
}


def by_duckdb(run: Path) -> int:
    """The questions by DuckDB; 0 if none finds anything."""
    database = duckdb.connect()
    database.execute("SET memory_limit='4GB'")
    database.execute("SET threads=2")
    began = time.monotonic()
    database.execute(_READ, [str(run / "history" / "*.jsonl")])
    database.execute(_LAYOUT)
    database.execute("DROP TABLE line")
    database.execute(_PLACED)
    print(f"  duckdb ingest: {time.monotonic() - began:.1f} s", file=sys.stderr)
    bad = 0
    for name, question in _QUESTIONS.items():
        began = time.monotonic()
        row = database.execute(question).fetchone()
        assert row is not None
        bad += row[0]
        print(f"  duckdb {name}: {row[0]}, {time.monotonic() - began:.1f} s", file=sys.stderr)
    return int(bad > 0)


def measured(name: str, run: Path) -> dict[str, float | int | str]:
    """What one engine costs, in a process of its own."""
    command = [sys.executable, "-m", _MODULE, "--only", name, "--folder", str(run)]
    if name == "spark":
        command = zonequake("analyze", run)
    cost = cost_of(command)
    return {
        "engine": name,
        "exit_code": cost.exit_code,
        "seconds": round(cost.seconds, 1),
        "cpu_seconds": round(cost.cpu_seconds, 1),
        "peak_gib": round(cost.peak_gib, 2),
    }


def checks_of(run: Path) -> object:
    """What the verdict of the last analysis says."""
    return json.loads((run / "verdict.json").read_bytes())["checks"]


def both_ways(run: Path, by_lines: dict[str, float | int | str]) -> None:
    """Measures the conversion, and the analysis of column files beside that of the lines."""
    checks = checks_of(run)
    conversion, by_columns = measured("columns", run), measured("spark", run)
    print(json.dumps(conversion), flush=True)
    print(json.dumps(by_columns | {"engine": "spark, column files"}), flush=True)
    column_bytes = sum(file.stat().st_size for file in (run / FOLDER).iterdir())
    print(
        json.dumps(
            {
                "wall_columns_over_lines": round(
                    float(by_columns["seconds"]) / float(by_lines["seconds"]), 2
                ),
                "cpu_columns_over_lines": round(
                    float(by_columns["cpu_seconds"]) / float(by_lines["cpu_seconds"]), 2
                ),
                "column_bytes": column_bytes,
                "checks_equal": checks_of(run) == checks,
            }
        ),
        flush=True,
    )


def main() -> None:
    """Generates the history if it isn't there, and prints one JSON line per engine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=128)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/zonequake-bench"))
    parser.add_argument("--only", choices=["duckdb", "columns"])
    parser.add_argument("--alone", action="store_true", help="measure the analysis alone")
    parser.add_argument("--columns", action="store_true", help="also from column files")
    arguments = parser.parse_args()
    run: Path = arguments.folder
    if arguments.only == "duckdb":
        sys.exit(by_duckdb(run))
    if arguments.only == "columns":
        write_column_files(Location.of(run))
        return
    count = arguments.operations
    keys = max(64, count // 100)
    began = time.monotonic()
    shape = Shape(
        operations=count,
        partitions=arguments.partitions,
        keys=keys,
        rate=20_000,
        processes=256,
        files=min(2, arguments.partitions),
    )
    if not (run / "history").exists():
        synthesize(run, shape)
    size = sum(file.stat().st_size for file in (run / "history").iterdir())
    print(json.dumps({"operations": count, "bytes": size, "generated_s": time.monotonic() - began}))
    print(json.dumps({"load_average": os.getloadavg(), "cores": multiprocessing.cpu_count()}))
    (Location.of(run) / FOLDER).delete_folder()
    ours = measured("spark", run)
    print(json.dumps(ours), flush=True)
    if arguments.columns:
        both_ways(run, ours)
    if arguments.alone:
        return
    theirs = measured("duckdb", run)
    print(json.dumps(theirs), flush=True)
    print(
        json.dumps(
            {
                "wall_ours_over_duckdb": round(
                    float(ours["seconds"]) / float(theirs["seconds"]), 2
                ),
                "cpu_ours_over_duckdb": round(
                    float(ours["cpu_seconds"]) / float(theirs["cpu_seconds"]), 2
                ),
                "limit_s_of_10_million": LIMIT_S,
                "load_average": os.getloadavg(),
            }
        )
    )


if __name__ == "__main__":
    main()
