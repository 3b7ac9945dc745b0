"""Porcupine finds on every key what we find: by search, and in a whole analysis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.foreign.porcupine_judge import Comparison, Judge, KeyVerdict, compare
from tests.histories import anomalies
from tests.histories.small_histories import histories, steps
from tests.histories.synthesize import (
    START_NS,
    Shape,
    SyntheticOperation,
    synthesize,
    write_operations,
)
from tests.spark.checkers.over_all_operations import findings_of
from zonequake_analysis.checks import list_prefixes, sets
from zonequake_analysis.checks.search.reference import ReferenceStep, is_linearizable
from zonequake_analysis.inputs.ids import name_id
from zonequake_analysis.inputs.shapes import Function
from zonequake_analysis.judgement.judge import judge_run
from zonequake_analysis.verdict import Verdict

pytestmark = pytest.mark.timeout(600)

CASES = 4000
_AFTER_ALL = 10**6

Check = Callable[[Sequence[ReferenceStep]], bool]


def by_search(
    porcupine: Judge, folder: Path, *, lists: bool, check: Check = is_linearizable
) -> Comparison:
    cases = list(histories(Random(31), CASES, lists=lists, spoil=0.6))
    write_operations(folder / "load-0.jsonl", [o for case in cases for o in case])
    return compare(porcupine.judged(folder), {case[0].key: check(steps(case)) for case in cases})


@pytest.mark.parametrize("lists", [False, True], ids=["registers", "lists"])
def test_porcupine_agrees_with_the_search_on_thousands_of_small_histories(
    porcupine: Judge, tmp_path: Path, lists: bool
) -> None:
    compared = by_search(porcupine, tmp_path, lists=lists)
    assert compared.disagreements == []
    assert compared.not_judged == {}
    assert compared.alike.total() == CASES
    assert compared.alike[KeyVerdict.ILLEGAL] > CASES / 10, "too few spoilt histories"


@pytest.mark.parametrize("lists", [False, True], ids=["registers", "lists"])
def test_what_our_model_lets_porcupine_skip_changes_no_verdict(
    porcupine: Judge, tmp_path: Path, lists: bool
) -> None:
    cases = histories(Random(32), CASES, lists=lists, spoil=0.6)
    write_operations(tmp_path / "load-0.jsonl", [o for case in cases for o in case])
    assert porcupine.judged(tmp_path) == porcupine.judged(tmp_path, "--plain")


def without_real_time(given: Sequence[ReferenceStep]) -> bool:
    """A wrong checker: sequential consistency of each key, not linearizability."""
    return is_linearizable([replace(s, inv_ns=0, fin_ns=max(s.fin_ns, _AFTER_ALL)) for s in given])


def without_open_writes(given: Sequence[ReferenceStep]) -> bool:
    """A wrong checker: what nobody answered never happened."""
    return is_linearizable([s for s in given if s.fin_ns < 2**62])


def without_refusals(given: Sequence[ReferenceStep]) -> bool:
    """A wrong checker: believes every refused cas."""
    return is_linearizable([s for s in given if not s.refused])


@pytest.mark.parametrize("wrong", [without_real_time, without_open_writes, without_refusals])
def test_a_wrong_checker_of_ours_is_noticed(porcupine: Judge, tmp_path: Path, wrong: Check) -> None:
    assert by_search(porcupine, tmp_path, lists=False, check=wrong).disagreements


def in_whole_analysis(
    porcupine: Judge, spark: SparkSession, run: Path
) -> tuple[Comparison, Verdict]:
    """Both verdicts on each key of a run folder, and ours on the linearizability of the run."""
    judgement = judge_run(spark, run)
    ops = judgement.ingested.ops
    bad, twice = set(), set()
    for row in findings_of(ops, unplaced=0).collect():
        if row["kind"] == "value-twice":
            twice.add(row["key_id"])
        elif row["check"] == list_prefixes.CHECK or (row["check"], row["kind"]) == (
            sets.CHECK,
            "wrong-refusal",
        ):
            bad.add(row["key_id"])
    theirs = [
        one
        for one in porcupine.judged(run / "history")
        # Our checks need unique values, and say so where they are not.
        if name_id(one.zone, one.key) not in twice
    ]
    legal = {one.key: name_id(one.zone, one.key) not in bad for one in theirs}
    (check,) = (c for c in judgement.checks if c.name == "linearizability")
    return compare(theirs, legal), check.verdict


@pytest.mark.long
def test_porcupine_agrees_with_the_whole_analysis_on_valid_and_on_spoilt_keys(
    porcupine: Judge, spark: SparkSession, tmp_path: Path
) -> None:
    synthesize(tmp_path, Shape(operations=20_000, rate=1000, files=2, partitions=8, keys=64))
    planted = [anomalies.plant(name, START_NS + 1_000_000_000) for name in anomalies.NAMES]
    small = [case for lists in (False, True) for case in renamed(lists=lists)]
    write_operations(
        tmp_path / "history" / "planted.jsonl",
        [o for operations in (*(p.operations for p in planted), *small) for o in operations],
    )
    compared, verdict = in_whole_analysis(porcupine, spark, tmp_path)
    assert compared.disagreements == []
    assert compared.not_judged == {}
    assert compared.alike[KeyVerdict.LEGAL] > 300
    assert compared.alike[KeyVerdict.ILLEGAL] > 40
    assert verdict is not Verdict.PASSED


def renamed(*, lists: bool) -> list[list[SyntheticOperation]]:
    """Small histories whose keys, processes and values are those of no other."""
    shift = 10**12 * (1 + lists)

    def moved(value: int | None) -> int | None:
        return None if value is None else value + shift

    return [
        [
            replace(
                o,
                key=f"{'list' if lists else 'register'}-{o.key}",
                process=o.process + shift,
                value=[v + shift for v in o.value] if isinstance(o.value, list) else moved(o.value),
                expected=moved(o.expected),
                found=moved(o.found),
                partition=900 + lists,
                inv_ns=o.inv_ns + START_NS,
                fin_ns=o.fin_ns + START_NS,
                index=None if o.index is None else o.index + shift % 2**30,
            )
            for o in case
        ]
        for case in histories(Random(7), 200, lists=lists, spoil=0.6)
    ]


@pytest.mark.long
def test_both_pass_a_run_without_a_fault(
    porcupine: Judge, spark: SparkSession, tmp_path: Path
) -> None:
    synthesize(tmp_path, Shape(operations=30_000, rate=2000, files=2, unknown=0.02))
    compared, verdict = in_whole_analysis(porcupine, spark, tmp_path)
    assert compared.disagreements == []
    assert compared.not_judged == {}
    assert verdict is Verdict.PASSED
    assert compared.alike[KeyVerdict.LEGAL] > 100
    assert compared.alike[KeyVerdict.ILLEGAL] == 0


def test_what_is_no_question_of_one_order_is_left_out(porcupine: Judge, tmp_path: Path) -> None:
    write = SyntheticOperation(
        f=Function.WRITE, key="k", partition=0, process=1, inv_ns=5, fin_ns=6, value=7, index=1
    )
    stale = replace(write, f=Function.READ, process=2, inv_ns=8, fin_ns=9, value=None, index=1)
    reset = replace(write, key="reset", process=3, value=8)
    write_operations(
        tmp_path / "a.jsonl",
        [
            write,
            replace(stale, bounded=True),
            reset,
            replace(stale, key="reset", process=4, lineage=9),
            replace(write, key="stale", process=5, value=9),
            replace(stale, key="stale", process=6),
        ],
    )
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write('{"schema":1,"type":"inv')
    judged = {one.key: one for one in porcupine.judged(tmp_path)}
    assert judged["k"].verdict is KeyVerdict.LEGAL
    assert judged["k"].operations == 1
    assert judged["reset"].reason == "several lineages"
    assert judged["stale"].verdict is KeyVerdict.ILLEGAL
