"""Writes run folders as `zonequake analyze` leaves them, with known numbers and without Spark.

Used by tests of what is told of many runs, and by their benchmark.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from zonequake_analysis.inputs.shapes import Function, OutcomeCode, RoleCode
from zonequake_analysis.judgement.verdict_json import (
    CheckEntry,
    VerdictDocument,
    WindowEntry,
    read_facts,
    write_document,
)
from zonequake_analysis.verdict import EXIT_CODES, Kind, Verdict, worst

START_NS = 1_000_000_000_000
WALL_NS = 1_795_000_000_000_000_000
DAY_NS = 86_400_000_000_000
PHASES_S = {"preload": 0, "before": 2, "faults": 12, "recovery": 36, "quiet": 42, "end": 45}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """What a made-up run shows. `slower` multiplies every latency during the faults.
    `several_clocks`: its events are of another clock than its history. `transactions`: every tenth
    operation is one, of three steps.
    """

    name: str = "leader-kill-1"
    scenario: str = "leader-kill"
    version: str = "0.1.0"
    target: str = ""
    day: float = 0.0
    seed: int = 1
    operations: int = 4000
    transactions: bool = False
    median_ms: float = 20.0
    slower: float = 1.0
    window_ms: float = 300.0
    probed: bool = True
    resets: int = 0
    sacrificed: int = 0
    max_window_ms: float | None = 5000.0
    lost: int = 0
    unknown: bool = False
    tables: bool = True
    events: bool = True
    several_clocks: bool = False


def write_run(parent: Path, made: JudgedRun) -> Path:
    """Writes the folder `parent`/<name>; returns it."""
    run = parent / made.name
    run.mkdir(parents=True)
    described = {
        "run": made.name,
        "scenario": made.scenario,
        "seed": made.seed,
        "started_wall_ns": WALL_NS + int(made.day * DAY_NS),
        "versions": {"zonequake": made.version, "python": "3.11.2"},
        "expectations": {"lost": 0, "max_window_ms": made.max_window_ms, "p99_ratio": 20},
    }
    if made.target:
        name, _, version = made.target.partition(" ")
        described["target"] = {"name": name, "version": version}
    (run / "run.yaml").write_text(yaml.safe_dump(described))
    due_ns, took_ns = _load(made)
    if made.events:
        lines = [
            msgspec.json.encode(
                {
                    "schema": 1,
                    "kind": "run.phase",
                    "time": START_NS + at_s * 1_000_000_000,
                    "data": {"phase": phase},
                }
            )
            for phase, at_s in PHASES_S.items()
        ]
        (run / "events.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    if made.tables:
        _write_ops(run, due_ns, took_ns, made)
    write_document(run, _document(run, made, due_ns, took_ns))
    return run


def _load(made: JudgedRun) -> tuple[np.ndarray, np.ndarray]:
    """Returns when each operation was due, and how long it took: lognormal, as latencies are."""
    rng = np.random.default_rng(made.seed)
    begin_ns, end_ns = (START_NS + PHASES_S[p] * 1_000_000_000 for p in ("before", "quiet"))
    due_ns = np.linspace(begin_ns, end_ns, made.operations, endpoint=False).astype(np.int64)
    took_ms = made.median_ms * rng.lognormal(0.0, 0.4, made.operations)
    took_ms[due_ns >= START_NS + PHASES_S["faults"] * 1_000_000_000] *= made.slower
    return due_ns, (took_ms * 1e6).astype(np.int64)


def _write_ops(run: Path, due_ns: np.ndarray, took_ns: np.ndarray, made: JudgedRun) -> None:
    """Writes two buckets, with a copy, a probe and an unanswered write that must not count."""
    count = len(due_ns)
    kinds = np.random.default_rng(made.seed + 1).integers(0, 2, count).astype(np.int8)
    table = pa.table(
        {
            "role": np.full(count, RoleCode.LOAD.value, np.int8),
            "f": kinds,
            "outcome": np.full(count, OutcomeCode.OK.value, np.int8),
            "sched": due_ns,
            "fin": due_ns + took_ns,
            "step": pa.nulls(count, pa.int8()),
            "copy": pa.nulls(count, pa.bool_()),
        }
    )
    if made.transactions:
        table = _with_steps(table)
    late_ns = START_NS + 20_000_000_000
    not_counted = pa.table(
        {
            "role": pa.array([RoleCode.LOAD, RoleCode.PROBE, RoleCode.LOAD], pa.int8()),
            "f": pa.array([Function.READ, Function.READ, Function.WRITE], pa.int8()),
            "outcome": pa.array([OutcomeCode.OK, OutcomeCode.OK, OutcomeCode.INFO], pa.int8()),
            "sched": pa.array([late_ns] * 3, pa.int64()),
            "fin": pa.array([late_ns + 10**12, late_ns + 10**12, 2**63 - 1], pa.int64()),
            "step": pa.nulls(3, pa.int8()),
            "copy": pa.array([True, None, None], pa.bool_()),
        }
    )
    folder = run / "tables" / "ops"
    folder.mkdir(parents=True)
    pq.write_table(table.slice(0, count // 2), folder / "part-00000.parquet")
    pq.write_table(
        pa.concat_tables([table.slice(count // 2), not_counted]), folder / "part-00001.parquet"
    )


def _with_steps(table: pa.Table) -> pa.Table:
    """Makes every tenth operation a transaction of three steps: two appends and a read."""
    every = np.arange(table.num_rows) % 10 == 0
    row = np.repeat(np.arange(table.num_rows), np.where(every, 3, 1))
    number = np.arange(len(row)) - np.searchsorted(row, row)
    steps = table.take(pa.array(row))
    f = np.where(number == 2, Function.READ.value, Function.APPEND.value)
    f = np.where(every[row], f, steps.column("f").to_numpy())
    columns = {
        "f": pa.array(f, pa.int8()),
        "step": pa.array(number, pa.int8(), mask=~every[row]),
    }
    for name, values in columns.items():
        steps = steps.set_column(steps.column_names.index(name), name, values)
    return steps


def _document(
    run: Path, made: JudgedRun, due_ns: np.ndarray, took_ns: np.ndarray
) -> VerdictDocument:
    faults = due_ns >= START_NS + PHASES_S["faults"] * 1_000_000_000
    missed = made.max_window_ms is not None and made.window_ms > made.max_window_ms
    checks = [
        CheckEntry(
            name="lost-writes",
            verdict=Verdict.VIOLATED if made.lost else Verdict.PASSED,
            summary=f"{made.lost} are lost",
            violations=made.lost,
            checked=1000,
        ),
        CheckEntry(
            name="availability",
            kind=Kind.OBJECTIVE,
            verdict=Verdict.SLO_BREACHED if missed else Verdict.PASSED,
            summary=f"the longest {made.window_ms:g} ms",
            checked=500 if made.probed else 0,
        ),
        CheckEntry(
            name="latency", kind=Kind.OBJECTIVE, verdict=Verdict.PASSED, summary="", checked=1
        ),
        CheckEntry(name="resets", verdict=Verdict.PASSED, summary="", checked=4),
        CheckEntry(
            name="sacrificed-writes",
            verdict=Verdict.PASSED,
            summary="",
            violations=made.sacrificed,
            checked=1000,
        ),
    ]
    if made.unknown:
        checks.append(
            CheckEntry(
                name="faults",
                kind=Kind.COVERAGE,
                verdict=Verdict.UNKNOWN,
                summary="the fault missed",
                checked=1,
            )
        )
    verdict = worst(check.verdict for check in checks)
    p99s = {
        f"p99_{name}_ms": None if made.several_clocks else float(np.quantile(took, 0.99)) / 1e6
        for name, took in (("before", took_ns[~faults]), ("during", took_ns[faults]))
    }
    is_out = made.probed and made.window_ms > 0
    return VerdictDocument(
        verdict=verdict,
        exit_code=EXIT_CODES[verdict],
        checks=checks,
        headline=f"the run is {verdict}",
        numbers={
            "operations": made.operations,
            "ok": made.operations,
            "duration_s": 45.0,
            "windows": int(is_out),
            "windows_unexplained": 0,
            "longest_window_certain_ms": made.window_ms if made.probed else 0,
            "longest_window_possible_ms": made.window_ms + 100 if made.probed else 0,
            **p99s,
        },
        run=read_facts(run),
        windows=[
            WindowEntry(
                zone="z1",
                partition=0,
                function="write",
                certain_ms=made.window_ms,
                possible_ms=made.window_ms + 100,
            )
        ]
        if is_out
        else [],
        resets=[["z1/0"]] * made.resets,
    )
