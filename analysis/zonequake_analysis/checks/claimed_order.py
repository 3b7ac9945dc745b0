"""Check 1: the order that the store claims, by (lineage, term, index) of its replies.

A certificate: if the operations of a key, ranked by their claimed places, respect real time and
replay to the values that were read, the key is linearizable, whatever else is true. Rules
(docs/interfaces.md, "The claimed order"; design §7, Two checkers):

    rank = (lineage, term, index); a read ranks just after the entry whose state it saw
    real time    no operation starts after one of higher rank has finished
    replay       a read returns what the last write of lower rank wrote; a list read, all appends
    precondition a cas that was applied found what it expected
    one entry    no two writes have one place in a partition, unless they are one transaction

A write without an answer takes the place of the first operation that observed it. It is left out
if no operation observed it: it may never have happened. An append takes an earlier place if an
answered append comes after it in a list:

    append x (no answer), append y at 7, read [x, y] at 9: x belongs before 7, not before 9

A cas that an answer shows was applied, so what it expected was written right before it, also if
nothing else observed that write:

    write 5, cas 5 to 6, cas 6 to 7 (no answers), read 7 at 9: all three come before 9
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from zonequake_analysis.checks.findings import findings
from zonequake_analysis.inputs.shapes import Function, OutcomeCode

CHECK = "claimed-order"

_KEY = ["partition_id", "key_id"]
_PLACES = "partition_id bigint, key_id bigint, value bigint, seen_rank bigint, place_in_list bigint"
_HASH_MASK = (1 << 40) - 1
"""Element hashes are cut to 40 bits, so that the sum over a list can't overflow 64 bits."""


def replay(ops: DataFrame, *, unplaced: int) -> DataFrame:
    """Returns findings where a value is not what the claimed order leaves there, or where a
    precondition fails; each key by itself.

    `unplaced` is the number of answered operations without a place; keys with one are left out.
    """
    return _replay(_ranked(ops, unplaced))


def real_time(ops: DataFrame, *, unplaced: int) -> DataFrame:
    """Returns findings where the claimed order breaks real time; each key by itself."""
    return _real_time(_ranked(ops, unplaced))


def entries(ops: DataFrame, *, unplaced: int) -> DataFrame:
    """Returns places that two writes claim, as findings; each partition by itself."""
    return _one_entry(
        _judged(ops, unplaced).where(
            (F.col("outcome") == OutcomeCode.OK.value)
            & _writes()
            & ~F.col("copy")
            & (F.col("step").isNull() | (F.col("step") == 0))
        )
    )


def _ranked(ops: DataFrame, unplaced: int) -> DataFrame:
    answered = F.col("outcome") == OutcomeCode.OK.value
    return _placed(_judged(ops, unplaced).withColumns({"writes": _writes(), "answered": answered}))


def _judged(ops: DataFrame, unplaced: int) -> DataFrame:
    outcome = F.col("outcome")
    ok = outcome == OutcomeCode.OK.value
    read = F.col("f") == Function.READ.value
    judged = ops.where((outcome != OutcomeCode.FAIL.value) & ~F.col("bounded") & ~(read & ~ok))
    if unplaced:
        holes = judged.where(ok & F.col("position").isNull()).select(*_KEY).distinct()
        judged = judged.join(holes, _KEY, "left_anti")
    return judged


def _writes() -> Column:
    f = F.col("f")
    return f.isin(Function.WRITE.value, Function.APPEND.value) | (
        (f == Function.CAS.value) & (F.col("applied") | (F.col("outcome") != OutcomeCode.OK.value))
    )


def _placed(judged: DataFrame) -> DataFrame:
    """Adds `rank` and drops unanswered writes that nothing observed.

    The last bit of a rank is 1 for reads: they come after the entry of the same place. What a
    read at place p observed is at p or before, rank 2p; what a cas expected, or what comes before
    an append in a list, is before p, rank 2p - 1.
    """
    unanswered = judged.where(~F.col("answered"))
    sought = F.broadcast(unanswered.select(*_KEY, F.col("value").alias("element")))
    observed = (
        judged.where("answered")
        .select(
            *_KEY,
            (F.shiftleft("position", 1) - F.when(F.col("writes"), 1).otherwise(0)).alias("at_most"),
            F.when(F.col("list").isNotNull(), F.col("list"))
            .when(F.col("f") == Function.READ.value, F.array("value"))
            .when(F.col("writes"), F.array("expected"))
            .otherwise(F.array("found"))
            .alias("elements"),
        )
        .join(F.broadcast(unanswered.select(*_KEY).distinct()), _KEY, "left_semi")
        .select(*_KEY, "at_most", F.explode("elements").alias("element"))
        .join(sought, [*_KEY, "element"])
        .groupBy(*_KEY, "element")
        .agg(F.min("at_most").alias("seen_rank"))
    )
    places = F.broadcast(
        observed.join(_followers(judged, unanswered), [*_KEY, "element"], "left").select(
            *_KEY,
            F.col("element").alias("value"),
            F.least("seen_rank", "followed_rank").alias("seen_rank"),
            F.coalesce("place_in_list", F.lit(0)).alias("place_in_list"),
        )
    )
    return (
        judged.join(_with_expected(unanswered, places), [*_KEY, "value"], "left")
        .withColumn(
            "rank",
            F.when(
                F.col("answered"),
                F.shiftleft("position", 1) + F.when(F.col("writes"), 0).otherwise(1),
            ).otherwise(F.col("seen_rank")),
        )
        .where(F.col("rank").isNotNull())
    )


def _with_expected(unanswered: DataFrame, places: DataFrame) -> DataFrame:
    """Adds to the places of unanswered writes those of which only an unanswered cas tells.

    SQL can't follow the chains, so `expected_places` does, in rows of a key each.
    """
    expected = F.when(F.col("f") == Function.CAS.value, F.col("expected")).alias("expected")
    write = F.struct("value", "expected", "seen_rank", "place_in_list")
    return F.broadcast(
        unanswered.select(*_KEY, "value", expected)
        .join(places, [*_KEY, "value"], "left")
        .groupBy(*_KEY)
        .agg(F.collect_list(write).alias("writes"))
        .mapInArrow(_follow, _PLACES)
    )


def _follow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the places of each key's unanswered writes."""
    for batch in batches:
        keys = zip(*(batch.column(name).to_pylist() for name in (*_KEY, "writes")), strict=True)
        rows = [
            (partition, key, value, *place)
            for partition, key, writes in keys
            for value, place in expected_places(writes).items()
        ]
        names = (*_KEY, "value", "seen_rank", "place_in_list")
        yield pa.RecordBatch.from_pydict(
            {
                name: pa.array([row[place] for row in rows], pa.int64())
                for place, name in enumerate(names)
            }
        )


def expected_places(
    writes: Sequence[Mapping[str, int | None]],
) -> dict[int | None, tuple[int, int]]:
    """Returns the rank and the place in the list of each value, of unanswered writes of one key.

    What a cas expected has the cas's rank, and the place before it; if several cas expected it, the
    cas that is fewest steps from an answer counts, of these the one of the lowest rank.
    """
    found = {
        write["value"]: (rank, write["place_in_list"] or 0)
        for write in writes
        if (rank := write["seen_rank"]) is not None
    }
    hidden = {write["value"] for write in writes} - found.keys()
    fresh = set(found)
    while fresh:
        nearer: dict[int | None, tuple[int, int]] = {}
        for write in writes:
            expected = write["expected"]
            if write["value"] in fresh and expected is not None and expected in hidden:
                rank, place = found[write["value"]]
                nearer[expected] = min(nearer.get(expected, (rank, place)), (rank, place))
        found |= {value: (rank, place - 1) for value, (rank, place) in nearer.items()}
        hidden -= nearer.keys()
        fresh = set(nearer)
    return found


def _followers(judged: DataFrame, unanswered: DataFrame) -> DataFrame:
    """Returns the elements of the longest list of each key with unanswered appends.

    `place_in_list` is where the element is; an element that the list shows twice was appended
    once, at the first of its places. `followed_rank` is just below the lowest rank of the
    answered appends from there on.
    """
    append = F.col("f") == Function.APPEND.value
    lists = F.broadcast(unanswered.where(append).select(*_KEY).distinct())
    longest = (
        judged.where(F.col("list").isNotNull())
        .join(lists, _KEY, "left_semi")
        .groupBy(*_KEY)
        .agg(F.max_by("list", F.size("list")).alias("longest"))
        .select(*_KEY, F.posexplode("longest").alias("place_in_list", "element"))
    )
    answered = (
        judged.where(append & F.col("answered"))
        .join(lists, _KEY, "left_semi")
        .select(*_KEY, F.col("value").alias("element"), "position")
    )
    behind = Window.partitionBy(*_KEY).orderBy(F.desc("place_in_list"))
    shown = longest.join(answered, [*_KEY, "element"], "left").select(
        *_KEY,
        "element",
        "place_in_list",
        (F.shiftleft(F.min("position").over(behind), 1) - 1).alias("followed_rank"),
    )
    return shown.groupBy(*_KEY, "element").agg(
        F.min("place_in_list").alias("place_in_list"),
        F.min("followed_rank").alias("followed_rank"),
    )


def _replay(placed: DataFrame) -> DataFrame:
    """Returns reads and cas whose value is not what the writes of lower rank left."""
    order = Window.partitionBy(*_KEY).orderBy("rank", "answered", "place_in_list")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    append = F.col("f") == Function.APPEND.value
    listed = F.aggregate(
        F.transform("list", lambda element, place: _mark(element, place + 1)),
        F.lit(0).cast("bigint"),
        lambda total, mark: total + mark,
    )
    # The window copies every row, so lists are left out: their marks are enough.
    narrow = placed.withColumns(
        {"is_list": F.col("list").isNotNull(), "listed": F.when(F.col("list").isNotNull(), listed)}
    ).drop("list")
    replayed = narrow.withColumns(
        {
            "state": F.last(F.when(F.col("writes"), F.col("value")), ignorenulls=True).over(before),
            "of_list": F.last(F.when(F.col("writes"), append), ignorenulls=True).over(before),
            "place": F.count_if(append).over(order.rowsBetween(Window.unboundedPreceding, 0)),
        }
    ).withColumn("marks", F.sum(F.when(append, _mark(F.col("value"), F.col("place")))).over(before))
    read = F.col("f") == Function.READ.value
    cas = F.col("f") == Function.CAS.value
    is_list = F.col("is_list")
    state = F.col("state")
    wrong_list = is_list & (F.coalesce("marks", F.lit(0)) != F.col("listed"))
    # A list is no number, though the number may be its last element.
    number_of_list = F.coalesce("of_list", F.lit(False)) & F.col("value").isNotNull()
    wrong_read = read & ~is_list & (~F.col("value").eqNullSafe(state) | number_of_list)
    wrong_found = cas & ~F.col("writes") & ~F.col("found").eqNullSafe(state)
    wrong_expected = cas & F.col("writes") & ~F.col("expected").eqNullSafe(state)
    kind = (
        F.when(wrong_list, "list")
        .when(wrong_read | wrong_found, "value")
        .when(wrong_expected, "precondition")
    )
    wrong = replayed.withColumns({"kind": kind, "at_ns": F.col("inv")}).where("kind is not null")
    return findings(wrong, check=CHECK, kind=F.col("kind"), value="state", position="position")


def _mark(element: Column, place: Column) -> Column:
    return F.xxhash64(element, place.cast("bigint")).bitwiseAND(F.lit(_HASH_MASK))


def _real_time(placed: DataFrame) -> DataFrame:
    """Returns operations that start after one of higher rank has finished.

    From the highest rank down, the earliest finish so far must not be before a start. At equal
    stamps intervals touch, and such operations are concurrent. Among equal ranks the later start
    comes first, so that two reads of one place are never reported against each other: what comes
    before a read in this order started, and so finished, no earlier than the read starts.
    """
    higher = (
        Window.partitionBy(*_KEY)
        .orderBy(F.desc("rank"), F.desc("inv"))
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    finish = F.when(F.col("answered"), F.col("fin"))
    late = (
        placed.select(*_KEY, "value", "rank", "inv", finish.alias("finish"))
        .withColumns(
            {
                "earliest": F.min("finish").over(higher),
                "seen": F.min_by("rank", F.col("finish")).over(higher),
            }
        )
        .where("earliest < inv")
        .withColumn("at_ns", F.col("inv"))
    )
    return findings(
        late, check=CHECK, kind="order", value="value", position=F.shiftright("seen", 1)
    )


def _one_entry(writes: DataFrame) -> DataFrame:
    """Returns places of a partition that two writes claim."""
    twice = (
        writes.groupBy("partition_id", "position")
        .agg(
            F.count(F.lit(1)).alias("claims"),
            F.max(F.struct("inv", "key_id", "value")).alias("later"),
        )
        .where("claims > 1")
        .select("partition_id", "position", "later.*")
        .withColumnRenamed("inv", "at_ns")
    )
    return findings(twice, check=CHECK, kind="entry-twice", value="value", position="position")
