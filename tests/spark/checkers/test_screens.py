"""What the screens clear is clear: the exact checks find the same among suspects as everywhere."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.histories import anomalies
from tests.histories.small_histories import histories
from tests.histories.synthesize import (
    START_NS,
    ZONE,
    SyntheticOperation,
    write_operations,
)
from tests.spark.checkers.over_all_operations import findings_of
from zonequake_analysis.checks import over_files
from zonequake_analysis.checks.exact_checks import findings_of_suspects
from zonequake_analysis.checks.found_rows import SHAPE
from zonequake_analysis.checks.named_findings import NAMES
from zonequake_analysis.inputs.ids import name_id
from zonequake_analysis.inputs.shapes import Function
from zonequake_analysis.spark_pass.bucket import Suspects
from zonequake_analysis.spark_pass.ingest import Ingested, ingest
from zonequake_analysis.spark_pass.operations import cached
from zonequake_analysis.storage.location import Location
from zonequake_analysis.tables.operation_findings import _with_names
from zonequake_analysis.tables.schemas import columns_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

CASES = 1000
MEMBERS = ("a", "b", "c", None)

Findings = Counter[tuple[object, ...]]
Judged = tuple[Ingested, Location]

SCREEN_OF = {
    "sets": "sets",
    "loss": "loss",
    "claimed-order": "replayed",
    "diverged": "replayed",
    "black-box": "registers",
}
"""Field of `Suspects` by check; of a list key the black box has `lists`, and of what breaks real
time the claimed order has `late`."""

OVER_ARRAYS = ("sets", "loss", "replayed", "late", "registers", "lists", "sessions")
"""Screens of the checks over arrays alone: what SQL finds doesn't depend on them."""


def wrecked(rng: Random, history: list[SyntheticOperation]) -> list[SyntheticOperation]:
    """A history with one more thing that a store, a network or a writer could have done to it."""
    at = rng.randrange(len(history))
    other = rng.choice(history)
    o = history[at]
    values = [h.value for h in history if isinstance(h.value, int)] or [7]
    match rng.randrange(13):
        case 0:
            o = replace(o, index=None)
        case 1:
            o = replace(o, bounded=o.f is Function.READ)
        case 2:
            o = replace(o, index=other.index)
        case 3:
            o = replace(o, process=other.process, sequence=1_000 + at)
            if rng.random() < 0.7:  # the process goes on, rather than do two things at once
                begin = other.fin_ns + 1
                o = replace(o, inv_ns=begin, fin_ns=max(begin, o.fin_ns))
        case 4 if isinstance(o.value, list):
            o = replace(o, value=[*o.value, rng.choice([*o.value, 5])] if o.value else [5, 5])
        case 5 if o.type == "ok":
            kind = rng.choice(("fail", "info"))
            o = replace(o, type=kind, index=None, applied=None, found=None)
        case 6 if o.f is Function.CAS:
            o = replace(o, applied=False, found=rng.choice([o.expected, *values]))
        case 7 if o.f is not Function.READ:
            o = replace(o, value=rng.choice(values))
        case 8:
            o = replace(o, f=rng.choice(list(Function)), applied=None)
        case 9 if o.f is Function.READ:
            o = replace(o, value=rng.choice(([], None)))
        case 10:  # two that begin at one moment
            o = replace(o, inv_ns=other.inv_ns, fin_ns=max(o.fin_ns, other.inv_ns))
        case 11:  # by one process, and without a length, so that they don't overlap
            moment, process = other.inv_ns, other.process
            o = replace(o, inv_ns=moment, fin_ns=moment, process=process, sequence=1_000 + at)
        case _:
            o = replace(o, term=rng.choice((1, 2)), inv_ns=o.inv_ns - rng.randrange(30))
    return [*history[:at], o, *history[at + 1 :]]


def random_run(folder: Path, seed: int) -> Path:
    """A run folder with registers and lists, some legal, some spoilt, some wrecked.

    Each case has processes of its own: an operation's name is used once in a run.
    """
    rng = Random(seed)
    cases: list[list[SyntheticOperation]] = []
    for lists in (False, True):
        for case in histories(rng, CASES // 2, lists=lists, spoil=0.4):
            name = f"{'l' if lists else 'r'}-{case[0].key}"
            process = 100 * len(cases)
            named = [replace(o, key=name, process=process + o.process % 100) for o in case]
            for _ in range(rng.choice((0, 0, 1, 2))):
                named = wrecked(rng, named)
            cases.append([replace(o, node=rng.choice(MEMBERS)) for o in named])
    write_operations(folder / "history" / "load-0.jsonl", [o for case in cases for o in case])
    return folder


def rows(found: DataFrame | None) -> Findings:
    if found is None:
        return Counter()
    return Counter(tuple(row) for row in found.select(*columns_of(SHAPE)).collect())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_run(tmp_path_factory.mktemp("random"), seed=1)


@pytest.fixture(scope="module")
def judged(spark: SparkSession, run: Path) -> Judged:
    """(what was ingested, the folder of the operations)."""
    return ingest(spark, run), Location.of(run / "tables" / "ops")


@pytest.fixture(scope="module")
def everywhere(judged: Judged) -> Findings:
    """Findings over all operations."""
    ingested, _ = judged
    return rows(findings_of(ingested.ops, unplaced=ingested.quality.unplaced))


def among_suspects(judged: Judged, suspects: list[Suspects]) -> DataFrame:
    ingested, folder = judged
    unplaced = ingested.quality.unplaced
    found = findings_of_suspects(ingested.ops, suspects, unplaced=unplaced, folder=folder)
    assert found is not None
    return found


def suspects_of(judged: Judged) -> list[Suspects]:
    return [bucket.suspects for bucket in judged[0].buckets]


def over_arrays(spark: SparkSession, judged: Judged, suspects: list[Suspects]) -> DataFrame:
    """The part of `among_suspects` that is found over arrays."""
    found = over_files.found_in_files(spark, judged[1], suspects)
    assert found is not None
    return found


@pytest.mark.long
def test_the_checks_find_the_same_among_the_suspects_as_everywhere(
    judged: Judged, everywhere: Findings
) -> None:
    assert rows(among_suspects(judged, suspects_of(judged))) == everywhere
    assert len({row[:2] for row in everywhere}) >= 21, "too few kinds of findings"


def test_what_arrays_find_has_the_names_that_sql_looks_up(
    spark: SparkSession, judged: Judged
) -> None:
    found = over_arrays(spark, judged, suspects_of(judged)).where("ops IS NOT NULL").persist()
    nothing = {name: F.lit(None).cast(kind) for name, kind in columns_of(NAMES).items()}
    nameless = found.withColumns(nothing)
    looked_up = _with_names(judged[0].ops, nameless, nameless).select(found.columns)
    by_arrays = sorted(map(str, found.collect()))
    assert by_arrays == sorted(map(str, looked_up.collect()))
    assert found.where("size(ops) > 1").count() > 3, "two that begin at one moment"
    found.unpersist()


def test_most_keys_are_cleared_though_half_of_them_are_spoilt(judged: Judged) -> None:
    suspects = suspects_of(judged)
    for name in ("sets", "loss", "replayed", "late", "registers", "lists"):
        flagged = sum(len(getattr(s, name)) for s in suspects)
        assert 20 < flagged < CASES * 0.6, name


@pytest.mark.parametrize(
    "screen",
    [
        pytest.param(name, marks=[] if name in OVER_ARRAYS else [pytest.mark.long])
        for name in Suspects.__struct_fields__
        if name not in ("partitions", "split_sessions")
    ],
)
def test_a_screen_that_flags_nothing_is_noticed(
    spark: SparkSession, judged: Judged, request: pytest.FixtureRequest, screen: str
) -> None:
    suspects = suspects_of(judged)
    blind = [msgspec.structs.replace(some, **{screen: []}) for some in suspects]
    if screen in OVER_ARRAYS:
        found = rows(over_arrays(spark, judged, blind))
        assert found != rows(over_arrays(spark, judged, suspects))
    else:
        assert rows(among_suspects(judged, blind)) != request.getfixturevalue("everywhere")


@pytest.mark.long
def test_more_suspects_than_a_condition_can_name_are_all_looked_at(
    judged: Judged, everywhere: Findings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_files, "MOST_NAMED", 3)
    assert rows(among_suspects(judged, suspects_of(judged))) == everywhere


def exchanges(found: DataFrame | None) -> int:
    """The shuffles of a plan, without those that filled a cache."""
    assert found is not None
    shuffles, below = 0, 0
    for line in found._jdf.queryExecution().executedPlan().toString().splitlines():
        column = len(line) - len(line.lstrip(" :+-*"))
        if below and column > below:
            continue
        below = column if "InMemoryRelation" in line else 0
        shuffles += line[column:].startswith("Exchange ")  # a broadcast is none
    return shuffles


@pytest.mark.long
def test_cached_from_a_store_the_suspects_show_the_same_and_no_check_shuffles_more(
    spark: SparkSession, judged: Judged, everywhere: Findings
) -> None:
    ingested, folder = judged
    suspects = suspects_of(judged)
    unplaced = ingested.quality.unplaced
    ops = cached(spark, folder, suspects, len(suspects))
    assert ops.rdd.getNumPartitions() == len(suspects)
    found = findings_of_suspects(ops, suspects, unplaced=unplaced, folder=folder)
    assert rows(found) == everywhere
    in_a_table = among_suspects(judged, suspects)
    assert exchanges(found) == exchanges(in_a_table) == 0
    assert exchanges(ops.repartition(3, "key_id")) > 0, "a shuffle is seen"
    ops.unpersist()


def test_a_cache_has_the_suspects_alone(spark: SparkSession, run: Path, judged: Judged) -> None:
    ingested = judged[0]
    suspects = [  # keys alone: of a partition all operations are suspect
        msgspec.structs.replace(b.suspects, sessions=[], entries=[]) for b in ingested.buckets
    ]
    ops = cached(spark, Location.of(run / "tables" / "ops"), suspects, len(suspects))
    keys = {key for s in suspects for key in s.keys}
    assert {row["key_id"] for row in ops.select("key_id").collect()} == keys
    assert ops.count() == ingested.ops.where(F.col("key_id").isin(list(keys))).count()
    ops.unpersist()


@pytest.fixture(scope="module")
def planted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[int]]:
    """Ids that each screen flags in a run with one of each anomaly."""
    run: Path = tmp_path_factory.mktemp("planted")
    given = [anomalies.plant(name, START_NS) for name in anomalies.NAMES]
    write_operations(run / "history" / "a.jsonl", [o for one in given for o in one.operations])
    flagged: dict[str, set[int]] = {}
    for bucket in ingest(spark, run).buckets:
        for name in Suspects.__struct_fields__:
            flagged.setdefault(name, set()).update(getattr(bucket.suspects, name))
    return flagged


@pytest.mark.parametrize("name", anomalies.NAMES)
def test_a_planted_anomaly_is_flagged_by_the_screens_of_its_checks(
    planted: dict[str, set[int]], name: str
) -> None:
    anomaly = anomalies.plant(name, START_NS)
    is_list = any(o.f is Function.APPEND for o in anomaly.operations)
    key, partition = name_id(ZONE, f"planted-{name}"), name_id(ZONE, "0")
    for check, kind in anomaly.expected:
        if kind in ("session", "entry-twice"):
            assert partition in planted["sessions" if kind == "session" else "entries"]
        else:
            screen = "late" if (check, kind) == ("claimed-order", "order") else SCREEN_OF[check]
            assert key in planted["lists" if is_list and screen == "registers" else screen], check


def test_the_files_are_buckets_to_spark_and_sorted_in_each(
    judged: Judged, spark: SparkSession
) -> None:
    ops = judged[0].ops
    buckets = len(judged[0].buckets)
    spark_says = ops.selectExpr(
        f"pmod(hash(partition_id), {buckets}) AS bucket",
        "regexp_extract(input_file_name(), '_(\\\\d+)\\\\.c000', 1) AS file",
    ).distinct()
    found = [(row["bucket"], int(row["file"])) for row in spark_says.collect()]
    assert found
    assert all(bucket == file for bucket, file in found)
    for file in Path(ops.inputFiles()[0].removeprefix("file:")).parent.glob("*.parquet"):
        part = spark.read.parquet(str(file)).select("partition_id", "key_id", "inv").collect()
        assert part == sorted(part)
