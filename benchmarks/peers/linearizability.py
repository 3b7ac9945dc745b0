"""Is this history linearizable? Our checkers beside Porcupine, on the same files.

    python -m benchmarks.peers.linearizability

Ours by Spark is the whole `zonequake analyze` (every check, windows, the report); in-process are
the two screens that decide registers and append-lists by themselves, without Spark, and the search
for keys whose values repeat. Porcupine is
another project's program in Go that searches an order; `plain` is its search without the look-ahead
that our model gives it. Each is a process of its own, from its start to its verdict, and is ended
after a minute or above 12 GiB. *Easy* are many keys with few operations that meet. *Hot key* is one
register with dozens of clients at once; *never answered* are writes, which may be applied at any
later time; *of 5 values* are written again and again, as in Jepsen's examples.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from benchmarks.analysis.engines import Cost, cost_of
from benchmarks.store import figures
from benchmarks.store.figures import Result, Row
from tests.foreign.porcupine_judge import Judge, Judged, KeyVerdict
from tests.histories.synthesize import (
    START_NS,
    Shape,
    SyntheticOperation,
    synthesize,
    write_operations,
)
from zonequake_analysis.checks.register_zones import KINDS, violations
from zonequake_analysis.checks.screens import black_box
from zonequake_analysis.checks.screens.columns import Columns, columns
from zonequake_analysis.checks.search.order_search import Answer, search
from zonequake_analysis.checks.search.register_step import Step
from zonequake_analysis.inputs.integer_columns import typed
from zonequake_analysis.inputs.layout import laid_out
from zonequake_analysis.inputs.lines import byte_ranges, kept_lines
from zonequake_analysis.inputs.shapes import Function, OutcomeCode

LIMIT_S = 60.0
LIMIT_GIB = 12.0
GAP_NS = 50_000
CLIENTS = 24
HARD = [
    (5_000, 0.0, False, 0),
    (5_000, 0.02, False, 0),
    (5_000, 0.02, True, 0),
    (100_000, 0.02, False, 0),
    (100_000, 0.02, True, 0),
    (5_000, 0.0, False, 5),
    (5_000, 0.02, False, 5),
    (5_000, 0.02, True, 5),
    (100_000, 0.0, False, 5),
]
"""Operations, the share of writes that were never answered, whether one read is stale, and how many
values are written; 0 if each is unique."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A history under `run`, and whether it is linearizable."""

    name: str
    run: Path
    legal: bool


def hot_key(
    operations: int, *, clients: int, unanswered: float, stale: bool, values: int = 0
) -> list[SyntheticOperation]:
    """One register under `clients` at once; of a stale history one read gives an old value: of
    repeated ones the first, which no other write has.

    Each operation takes effect at an instant of its own, about `clients` of them in any interval.
    """
    rng = random.Random(11)
    reach_ns = clients * GAP_NS // 2 - GAP_NS
    processes, newest_process = list(range(clients)), clients
    register: int | None = None
    index = 0
    found: list[SyntheticOperation] = []
    for number in range(operations):
        at_ns, slot = START_NS + number * GAP_NS, number % clients
        read = SyntheticOperation(
            f=Function.READ,
            key="hot",
            partition=0,
            process=processes[slot],
            sequence=number,
            inv_ns=at_ns - rng.randrange(reach_ns),
            fin_ns=at_ns + rng.randrange(reach_ns),
        )
        if rng.random() < 0.5:
            found.append(replace(read, value=register, index=index))
            continue
        is_lost = rng.random() < unanswered
        value = rng.randrange(values) + 1 if values and index else number + 1
        value += values if not index else 0
        if not is_lost or rng.random() < 0.5:
            register, index = value, index + 1
        write = replace(read, f=Function.WRITE, value=value)
        if is_lost:
            found.append(replace(write, type="info"))
            processes[slot] = newest_process = newest_process + 1
        else:
            found.append(replace(write, index=index))
    if stale:
        reads = [n for n, o in enumerate(found) if o.f is Function.READ]
        late = reads[len(reads) // 2]
        early = next(o.value for o in found if o.f is Function.WRITE and o.type == "ok")
        if not values:
            early = found[reads[len(reads) // 4]].value
        found[late] = replace(found[late], value=early)
    return found


def cases(folder: Path) -> list[Case]:
    """All histories, written."""
    easy = folder / "easy"
    synthesize(easy, Shape(operations=100_000, keys=1600, processes=32))
    found = [Case(name="easy: 100,000 operations, 1,600 registers and lists", run=easy, legal=True)]
    for operations, unanswered, stale, values in HARD:
        name = f"hot key, {operations:,} operations, {CLIENTS} clients"
        name += f", {unanswered:.0%} never answered" if unanswered else ""
        name += ", one stale read" if stale else ""
        name += f", of {values} values" if values else ""
        run = folder / name.replace(" ", "-").replace(",", "").replace("%", "")
        history = hot_key(
            operations, clients=CLIENTS, unanswered=unanswered, stale=stale, values=values
        )
        write_operations(run / "history" / "load-0.jsonl", history)
        found.append(Case(name=name, run=run, legal=not stale))
    return found


def by_screens(run: Path) -> bool:
    """Whether the black-box screens find an order for every key, or the search does where values
    repeat; both decide by themselves."""
    tables = [
        typed(lines, writer="benchmark", clock_offset_ns=0)[0]
        for part in byte_ranges(sorted((run / "history").glob("*.jsonl")))
        for lines in kept_lines(part)
    ]
    c = columns(laid_out(pa.concat_tables(tables)).ops)
    clusters = black_box.register_clusters(c)
    twice = np.zeros(c.keys, bool)
    twice[clusters.key[violations(clusters) == KINDS.index("value-twice")]] = True
    if np.any((black_box.registers(c) & ~twice) | black_box.lists(c)):
        return False
    return all(search(_steps(c, int(key))).answer is Answer.ORDER for key in np.flatnonzero(twice))


def _steps(c: Columns, key: int) -> list[Step]:
    """The reads and writes of one register that may have happened."""
    rows = np.flatnonzero((c.key == key) & ((c.outcome == OutcomeCode.OK) | (c.f != Function.READ)))
    columns_of_key = [column[rows].tolist() for column in (c.f, c.inv, c.fin, c.value)]
    return [Step(Function(f), *rest) for f, *rest in zip(*columns_of_key, strict=True)]


def by_spark(run: Path) -> bool:
    """Whether `zonequake analyze` says so."""
    from zonequake_analysis.cli import analyze

    analyze(run)
    document = msgspec.json.decode((run / "verdict.json").read_bytes())
    (check,) = (each for each in document["checks"] if each["name"] == "linearizability")
    return bool(check["verdict"] == "passed")


def verdict_of(engine: str, judge: Judge, case: Case) -> tuple[str, Cost]:
    """legal, illegal or unknown, and what it cost."""
    cost = cost_of(command(engine, judge, case.run), limit_s=LIMIT_S, limit_gib=LIMIT_GIB)
    if cost.ended:
        return "unknown", cost
    if not engine.startswith("Porcupine"):
        said = "legal" if cost.output.splitlines()[-1] == b"legal" else "illegal"
    else:
        keys = [msgspec.json.decode(line, type=Judged) for line in cost.output.splitlines()]
        left_out = [key for key in keys if key.verdict is KeyVerdict.LEFT_OUT]
        assert not left_out, left_out[:3]
        said = max((key.verdict for key in keys), key=_WORST.index).value
    return said, cost


_WORST = [KeyVerdict.LEGAL, KeyVerdict.UNKNOWN, KeyVerdict.ILLEGAL]


def command(engine: str, judge: Judge, run: Path) -> Sequence[str]:
    """The program of its own that judges `run`."""
    files = [str(file) for file in sorted((run / "history").glob("*.jsonl"))]
    options = [f"--time-per-key={LIMIT_S:g}s", "--most-operations=1000000"]
    match engine:
        case "Porcupine":
            return [str(judge.program), *options, *files]
        case "Porcupine, plain":
            return [str(judge.program), "--plain", *options, *files]
        case _:
            return [sys.executable, "-m", "benchmarks.peers.linearizability", engine, str(run)]


async def measure(folder: Path) -> Result:
    judge = Judge.build()
    rows: list[Row] = []
    for case in cases(folder):
        theirs = 0.0
        for engine in ("Porcupine", "Porcupine, plain", *OURS):
            said, cost = verdict_of(engine, judge, case)
            right = "legal" if case.legal else "illegal"
            if said not in ("unknown", right):
                raise SystemExit(f"{engine} calls {case.name} {said}; it is {right}")
            theirs = theirs or cost.seconds
            rows.append(
                {
                    "history": case.name,
                    "engine": engine,
                    "verdict": said,
                    "s": cost.seconds,
                    "CPU s": cost.cpu_seconds,
                    "GiB": cost.peak_gib,
                    "s / Porcupine's": cost.seconds / theirs,
                }
            )
    return Result(rows=rows, limits=[])


OURS = {"ours, in-process": by_screens, "ours, Spark, everything": by_spark}


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in OURS:
        is_legal = OURS[sys.argv[1]](Path(sys.argv[2]))
        print("legal" if is_legal else "illegal")
    else:
        figures.run(__doc__, measure)
