"""Members whose states differ, as their own answers show (docs/analysis.md, "Checks").

    diverged  a member's answer lacks a write that was acknowledged at its place or before, and that
              another member shows at that place or later (of a list: or to a later read)

An answer's place says what its state must hold. So a member that merely lags is not reported: its
answers name earlier places. Nor is a lost write, since no member shows it any more, nor a write
that was replaced, since another member must still show it.

Whatever this check finds, the claimed order finds too: in it the two answers contradict each other,
so that one of them is not what the order leaves there. So this check uses the screen of its replay.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from zonequake_analysis.checks.findings import findings
from zonequake_analysis.inputs.shapes import Function, OutcomeCode

CHECK = "diverged"
KIND = "diverged"

_KEY = ["partition_id", "key_id"]


def diverged(ops: DataFrame, *, unplaced: int) -> DataFrame:
    """Returns answers that lack what another member holds, as findings; each key by itself.

    `unplaced` is the number of answered operations without a place; keys with one are left out.
    """
    answers = _answers(ops, unplaced)
    held = _held(answers)
    return findings(
        _lists(answers, held)
        .unionByName(_registers(answers, held))
        .withColumn("at_ns", F.col("inv")),
        check=CHECK,
        kind=KIND,
        value="element",
        position="written",
        magnitude_ns=F.col("inv") - F.col("known_at"),
    )


def _answers(ops: DataFrame, unplaced: int) -> DataFrame:
    """Returns answered operations with their place: what each wrote (`element`) or showed
    (`shown`).
    """
    f, ok = F.col("f"), F.col("outcome") == OutcomeCode.OK.value
    judged = ops.where(ok & ~F.col("bounded"))
    if unplaced:
        holes = judged.where(F.col("position").isNull()).select(*_KEY).distinct()
        judged = judged.join(holes, _KEY, "left_anti")
    writes = f.isin(Function.WRITE.value, Function.APPEND.value) | (
        (f == Function.CAS.value) & F.col("applied")
    )
    shown = (
        F.when(F.col("list").isNotNull(), F.col("list"))
        .when(f == Function.CAS.value, F.array("found"))
        .otherwise(F.array("value"))
    )
    return judged.where(F.col("node").isNotNull() & F.col("position").isNotNull()).select(
        *_KEY,
        "process",
        "inv",
        "fin",
        "position",
        "node",
        writes.alias("writes"),
        F.when(writes, F.col("value")).alias("element"),
        F.when(~writes, shown).alias("shown"),
        ((f == Function.APPEND.value) | F.col("list").isNotNull()).alias("of_list"),
    )


def _held(answers: DataFrame) -> DataFrame:
    """Returns acknowledged values: the place of the write, and the last place at which each member
    showed the value.
    """
    written = (
        answers.where("writes")
        .groupBy(*_KEY, "element")
        .agg(
            F.max("position").alias("written"),
            F.min("fin").alias("known_at"),
            F.max_by("node", "position").alias("writer"),
        )
    )
    reads = (
        answers.where(~F.col("writes"))
        .select(*_KEY, "node", "position", "inv", F.explode("shown").alias("element"))
        .where("element is not null")
        .groupBy(*_KEY, "element", "node")
        .agg(F.max("position").alias("place"), F.max("inv").alias("read_at"))
    )
    members = F.struct("node", "place", "read_at")
    shown = reads.groupBy(*_KEY, "element").agg(F.collect_list(members).alias("shown_by"))
    return written.join(shown, [*_KEY, "element"], "left")


def _lists(answers: DataFrame, held: DataFrame) -> DataFrame:
    """Returns lists that lack an acknowledged element: of several, the one written first."""
    shown = F.col("shown")
    is_list = F.col("of_list") | ((F.size(shown) == 1) & shown[0].isNull())
    reads = answers.where(~F.col("writes") & is_list).drop("element", "writes")
    appended = held.join(
        answers.where(F.col("writes") & F.col("of_list")).select(*_KEY, "element").distinct(),
        [*_KEY, "element"],
        "left_semi",
    )
    lacking = reads.join(appended, _KEY).where(
        (F.col("written") <= F.col("position"))
        & ~F.coalesce(F.array_contains(shown, F.col("element")), F.lit(False))
        & (
            _shown_at_its_place()
            | F.expr("exists(shown_by, m -> m.node != node AND m.read_at > fin)")
        )
    )
    first = F.min(F.struct("written", "element", "known_at"))
    return (
        lacking.groupBy(*_KEY, "inv", "process")
        .agg(first.alias("first"))
        .select(*_KEY, "inv", "first.written", "first.element", "first.known_at")
    )


def _registers(answers: DataFrame, held: DataFrame) -> DataFrame:
    """Returns registers that show another value than the last one acknowledged at their place or
    before.
    """
    wrote = F.col("writes") & ~F.col("of_list")
    before = (
        Window.partitionBy(*_KEY)
        .orderBy("position", F.desc("writes"), "inv", "process")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    reads = (
        answers.withColumn(
            "state", F.last(F.when(wrote, F.col("element")), ignorenulls=True).over(before)
        )
        .where(~F.col("writes") & ~F.col("of_list"))
        .select(*_KEY, "inv", "position", "node", F.col("state").alias("element"), "shown")
    )
    return (
        reads.join(held, [*_KEY, "element"])
        .where(
            (F.col("written") <= F.col("position"))
            & ~F.col("shown")[0].eqNullSafe(F.col("element"))
            & _shown_at_its_place()
        )
        .select(*_KEY, "inv", "written", "element", "known_at")
    )


def _shown_at_its_place() -> Column:
    """Returns whether another member shows the value at the place of the answer or later."""
    acknowledged = (F.col("writer") != F.col("node")) & (F.col("written") == F.col("position"))
    return acknowledged | F.expr("exists(shown_by, m -> m.node != node AND m.place >= position)")
