"""A partition whose keys are in several buckets is judged as if it were in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.histories.synthesize import ZONE, SyntheticOperation, write_operations
from tests.unit.analysis.judged_lines import judged
from zonequake_analysis.inputs.defects.of_history import Defects, HistoryDefectKind, in_words
from zonequake_analysis.inputs.ids import bucket_of, name_id, siblings
from zonequake_analysis.inputs.lineages import Begun, Lineages, place_of
from zonequake_analysis.inputs.shapes import Function, RoleCode
from zonequake_analysis.measures.timeline import timeline
from zonequake_analysis.spark_pass.bucket import JudgedBucket, Known

STEP_NS = 1_000_000
Told = dict[str, Any]
PARTITION = name_id(ZONE, "0")

RECORDED = Known(
    lineages={
        PARTITION: Lineages(
            zone=ZONE,
            partition=0,
            begun={
                7: Begun(lineage=7, at_ns=150 * STEP_NS, survivor="E", last=place_of(0, 1, 1400)),
                9: Begun(lineage=9, at_ns=200 * STEP_NS, survivor="A", last=place_of(0, 1, 2400)),
            },
        )
    },
    without_majority={PARTITION: [(100 * STEP_NS, 140 * STEP_NS)]},
    one_clock=True,
)


def sequence(rng: Random, count: int = 300) -> list[SyntheticOperation]:
    """A valid history: processes that go from key to key, one operation after the other."""
    values: dict[tuple[int, str], int] = {}
    found = []
    for number in range(count):
        process, partition, key = rng.randrange(4), rng.choice((0, 0, 0, 1)), rng.randrange(12)
        at = 10 * STEP_NS + number * STEP_NS
        place = (partition, f"{partition}-k{key}")
        write = rng.random() < 0.5
        if write:
            values[place] = 1000 + number
        found.append(
            SyntheticOperation(
                f=Function.WRITE if write else Function.READ,
                key=place[1],
                partition=partition,
                process=process,
                sequence=number,
                inv_ns=at,
                fin_ns=at + STEP_NS // 2,
                value=values.get(place),
                index=10 * number,
            )
        )
    return found


def probes(rng: Random, count: int = 120) -> list[SyntheticOperation]:
    """Probes of both classes that go on to new keys; some fail, and for a while there are none."""
    found = []
    for number in range(count):
        if 40 <= number < 48:
            continue
        failed = 70 <= number < 75 or rng.random() < 0.05
        at = 10 * STEP_NS + number * 2 * STEP_NS
        found.append(
            SyntheticOperation(
                f=Function.READ if number % 2 else Function.WRITE,
                role=RoleCode.PROBE,
                key=f"probe/{number // 15}/{number % 2}",
                partition=0,
                process=50 + number % 2,
                sequence=number,
                inv_ns=at,
                fin_ns=at + STEP_NS // 2,
                value=None if number % 2 else 9000 + number,
                type=rng.choice(("info", "invoke", "fail")) if failed else "ok",
                index=None if failed else 10 * number + 5,
            )
        )
    return found


def spoilt(rng: Random, whole: list[SyntheticOperation]) -> list[SyntheticOperation]:
    """The history with some things that a store, a network or a writer can do to it."""
    found = list(whole)
    for _ in range(rng.randrange(8)):
        at, other = rng.randrange(len(found)), rng.choice(found)
        o = found[at]
        match rng.randrange(9):
            case 0:
                o = replace(o, index=other.index)
            case 1:
                o = replace(o, type=rng.choice(("info", "invoke", "fail")), index=None)
            case 2:
                o = replace(o, inv_ns=o.inv_ns - rng.choice((1, 3, 9)) * STEP_NS)
            case 3 if o.f is Function.WRITE:
                o = replace(o, f=Function.APPEND)
            case 4:
                o = replace(o, process=other.process)
            case 5:
                o = replace(o, lineage=rng.choice((0, 7, 9)))
            case 6:
                o = replace(o, fin_ns=o.inv_ns - 5)  # a fault of its line
            case 7:
                o = replace(o, sequence=other.sequence, process=other.process)
            case _:
                o = replace(o, index=None, bounded=o.f is Function.READ)
        found[at] = o
    return found


def history(folder: Path, operations: Sequence[SyntheticOperation]) -> list[Path]:
    files = [folder / "history" / name for name in ("load-0.jsonl", "probe-0.jsonl")]
    for file, of_probes in zip(files, (False, True), strict=True):
        own = [o for o in operations if (o.role is RoleCode.PROBE) is of_probes]
        write_operations(file, own)
    return files


def told(found: Sequence[JudgedBucket], faults: Defects, files: Sequence[Path], ops: Path) -> Told:
    """Everything that a run is judged by, in a form that doesn't know of buckets."""
    first = found[0]
    numbers = (
        "operations",
        "refused",
        "orphans",
        "cut_off",
        "unplaced",
        "acknowledged",
        "uncovered",
        "compared_writes",
        "compared_reads",
        "placed",
    )
    facts = first.facts
    drawn = timeline((one.tally for one in found), start_ns=facts.start or 0, end_ns=facts.end or 0)
    ids = ("sets", "loss", "replayed", "late", "unclear", "registers", "lists")
    rows = pa.concat_tables(
        [pq.read_table(file, use_threads=False) for file in sorted(ops.glob("*.parquet"))]
    )
    by_place = [(name, "ascending") for name in ("partition_id", "key_id", "inv", "process", "op")]
    return {
        "numbers": [sum(getattr(one, name) for one in found) for name in numbers],
        "suspects": {
            name: {suspect for one in found for suspect in getattr(one.suspects, name)}
            for name in ids
        },
        "sessions": {
            number
            for one in found
            for number in (*one.suspects.sessions, *one.suspects.split_sessions)
        },
        "entries": {number for one in found for number in one.suspects.entries},
        "faults": (faults.counts, sorted(faults.refused), in_words(faults, files)),
        "answers": [(p.partition, p.good.tolist(), p.bad.tolist()) for p in drawn.partitions],
        "latencies": {f: (c.counts.tolist(), c.bad.tolist()) for f, c in drawn.latencies.items()},
        "outcomes": drawn.counts,
        "probes": (first.vantages, first.islands),
        "resets": (first.cuts, first.unfounded),
        "held": first.held,
        "rows": rows.sort_by(by_place).to_pylist(),
    }


def both(folder: Path, operations: Sequence[SyntheticOperation], known: Known) -> list[Told]:
    """What is told with whole partitions, and with their keys in five buckets."""
    files = history(folder, operations)
    found = []
    for by_key in (False, True):
        ops = folder / f"ops-{by_key}"
        result, faults = judged(
            files, ops, size=60_000, buckets=5 if by_key else 2, by_key=by_key, known=known
        )
        found.append(told(result, faults, files, ops))
    return found


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(8, 30))]
)
def test_what_is_told_does_not_depend_on_buckets(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    operations = [*spoilt(rng, sequence(rng)), *probes(rng)]
    known = RECORDED if seed % 2 else replace(RECORDED, lineages={})
    whole, split = both(tmp_path, operations, known)
    for file in (tmp_path / "ops-True").glob("*.parquet"):
        keys = pq.read_table(file, use_threads=False).column("key_id").to_numpy()
        number = int(file.name[5:10])
        assert (bucket_of(keys, 5) == number).all(), "Spark looks for a key in another file"
    assert whole.pop("entries") <= split.pop("entries"), "a place of two writes is missed"
    assert {name for name in whole if split[name] != whole[name]} == set()


def test_a_key_of_two_uses_is_refused_in_all_buckets(tmp_path: Path) -> None:
    rng = Random(1)
    operations = [*sequence(rng), *probes(rng)]
    one = next(o for o in operations[100:] if o.f is Function.WRITE)
    ahead = replace(one, key="mixed", partition=0, sequence=901, index=9_000)
    mixed = [
        ahead,  # its process would go back from here
        replace(ahead, f=Function.APPEND, value=77, process=90, sequence=902, index=9_001),
        *(replace(o, key="mixed") for o in operations if o.key == "probe/1/0"),
    ]
    others = [o for o in operations if o.key != "probe/1/0"]
    whole, split = both(tmp_path, [*others, *mixed], RECORDED)
    assert {name for name in whole if split[name] != whole[name]} == set()
    assert whole["sessions"] == set()
    assert whole["faults"][0] == {HistoryDefectKind.TWO_USES.value: 1}


def test_siblings_are_other_ids_in_the_same_buckets() -> None:
    ids = np.random.default_rng(3).integers(-(2**63), 2**63 - 1, 2000)
    every = [ids, *(siblings(ids, number) for number in (1, 7, 9, 1023))]
    for buckets in (2, 7, 64, 1000):
        for other in every[1:]:
            assert (bucket_of(other, buckets) == bucket_of(ids, buckets)).all()
    assert len(np.unique(np.concatenate(every))) == len(every) * len(ids)
