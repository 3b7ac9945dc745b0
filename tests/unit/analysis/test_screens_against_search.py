"""The screens over arrays, without Spark: against exhaustive search, and their parts by hand."""

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.histories.small_histories import histories, steps, with_few_answers
from tests.histories.synthesize import ZONE, SyntheticOperation, write_operations
from zonequake_analysis.checks.screens import black_box, claimed
from zonequake_analysis.checks.screens.columns import Columns, columns
from zonequake_analysis.checks.screens.segments import heads, lookup, ordered, running
from zonequake_analysis.checks.search.reference import is_linearizable
from zonequake_analysis.inputs.ids import bucket_of, name_id
from zonequake_analysis.inputs.integer_columns import Facts, together, typed
from zonequake_analysis.inputs.layout import joined, laid_out, split
from zonequake_analysis.inputs.lines import byte_ranges, kept_lines
from zonequake_analysis.inputs.shapes import Function
from zonequake_analysis.spark_pass.bucket import judged_bucket
from zonequake_analysis.storage.location import Location


def events(
    folder: Path, operations: list[SyntheticOperation], size: int = 1 << 26
) -> list[pa.Table]:
    """The events of these operations, by ranges of `size` bytes, and the facts of all."""
    file = folder / "load-0.jsonl"
    write_operations(file, operations)
    return [
        typed(lines, writer="load-0", clock_offset_ns=0)[0]
        for part in byte_ranges([file], size)
        for lines in kept_lines(part)
    ]


def in_columns(folder: Path, operations: list[SyntheticOperation]) -> Columns:
    return columns(laid_out(pa.concat_tables(events(folder, operations))).ops)


@pytest.mark.parametrize("lists", [False, True], ids=["registers", "lists"])
def test_no_screen_clears_a_history_without_an_order(tmp_path: Path, lists: bool) -> None:
    cases = list(histories(Random(21), 1500, lists=lists, spoil=0.6))
    c = in_columns(tmp_path, [o for case in cases for o in case])
    place = {number: row for row, number in enumerate(c.key_ids.tolist())}
    outside = (black_box.lists if lists else black_box.registers)(c)
    by_claim = claimed.suspects(c).either
    illegal = cleared = 0
    for case in cases:
        row = place[name_id(ZONE, case[0].key)]
        if is_linearizable(steps(case)):
            cleared += not outside[row]
            continue
        illegal += 1
        assert outside[row], case
        assert by_claim[row], case
    assert illegal > 125
    assert cleared > 0.99 * (len(cases) - illegal), "the screen flags what needs no second look"


def test_what_only_a_cas_without_an_answer_observed_is_no_hole_in_the_claimed_order(
    tmp_path: Path,
) -> None:
    """Else zones alone would find no order, and the run be `harness-failed`."""
    rng = Random(31)
    made = [with_few_answers(rng, case) for case in histories(rng, 3000, lists=False, spoil=0.0)]
    cases = [case for case in made if any(o.expected is not None for o in case if o.index is None)]
    c = in_columns(tmp_path, [o for case in cases for o in case])
    place = {number: row for row, number in enumerate(c.key_ids.tolist())}
    by_claim = claimed.suspects(c).either
    illegal = cleared = 0
    for case in cases:
        row = place[name_id(ZONE, case[0].key)]
        if is_linearizable(steps(case)):
            cleared += not by_claim[row]
            continue
        illegal += 1
        assert by_claim[row], case
    assert illegal > 125
    assert cleared > 0.99 * (len(cases) - illegal), "the screen flags what needs no second look"


def test_what_is_no_plain_number_makes_a_key_suspect_everywhere(tmp_path: Path) -> None:
    write = SyntheticOperation(
        f=Function.WRITE, key="k", partition=0, process=1, inv_ns=5, fin_ns=6, value=7, index=1
    )
    other = replace(write, key="other", process=2, value=8, index=2)
    ops = laid_out(pa.concat_tables(events(tmp_path, [write, other]))).ops
    row = ops.column("key").to_pylist().index("k")
    # No line that says so comes so far; the screens don't rely on it.
    for name, odd in (("value", -(2**63)), ("fin", 4), ("position", -3)):
        cells = ops.column(name).to_pylist()
        cells[row] = odd
        c = columns(ops.set_column(ops.column_names.index(name), name, pa.array(cells, pa.int64())))
        suspect = c.key_ids == name_id(ZONE, "k")
        by_claim = claimed.suspects(c)
        of_boxes = (black_box.registers(c), black_box.lists(c))
        for flagged in (by_claim.replayed, by_claim.late, *of_boxes):
            assert (flagged == suspect).all()


def test_operations_are_the_same_however_the_files_are_cut(tmp_path: Path) -> None:
    cases = histories(Random(8), 25, lists=True, spoil=0.5)
    operations = [o for case in cases for o in case]
    whole = laid_out(pa.concat_tables(events(tmp_path, operations)))
    for size in (500, 4000, 50_000):
        parts = events(tmp_path, operations, size)
        blobs = [list(split(part, 3)) for part in parts]
        buckets = [laid_out(joined([blob[i] for blob in blobs])) for i in range(3)]
        assert sum(b.cut_off for b in buckets) == whole.cut_off
        assert sum(b.orphans for b in buckets) == whole.orphans == 0
        together_again = pa.concat_tables([b.ops for b in buckets])
        by_place = [("partition_id", "ascending"), ("key_id", "ascending"), ("inv", "ascending")]
        order = [*by_place, ("op", "ascending")]
        assert together_again.sort_by(order).equals(whole.ops.sort_by(order))


def test_a_completion_without_an_invoke_is_an_orphan(tmp_path: Path) -> None:
    operation = SyntheticOperation(
        f=Function.WRITE, key="k", partition=0, process=1, inv_ns=5, fin_ns=6, value=7, index=1
    )
    file = tmp_path / "load-0.jsonl"
    write_operations(file, [operation])
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[1])
    (lines,) = [batch for part in byte_ranges([file]) for batch in kept_lines(part)]
    paired = laid_out(typed(lines, writer="load-0", clock_offset_ns=0)[0])
    assert (paired.ops.num_rows, paired.orphans, paired.cut_off) == (1, 1, 0)


def test_a_repeated_task_leaves_one_file_and_says_the_same(tmp_path: Path) -> None:
    cases = histories(Random(9), 20, lists=False, spoil=0.5)
    table = pa.concat_tables(events(tmp_path, [o for case in cases for o in case]))
    (blob,) = split(table, 1)
    facts = [Facts(lines=table.num_rows, start=0, end=100)]
    target = tmp_path / "ops"
    target.mkdir()
    first, again = (
        judged_bucket(0, [blob], facts, folder=Location.of(target), dumps=True) for _ in range(2)
    )
    assert first == again
    (file,) = target.iterdir()
    assert pq.read_table(file).num_rows == first.operations


def test_facts_of_parts_are_those_of_the_whole() -> None:
    parts = [
        Facts(lines=2, first_clock="b", last_clock="b", start=5, end=9, wall_offset=1),
        Facts(lines=1),
        Facts(lines=3, torn=1, first_clock="a", last_clock="c", start=4, end=6, wall_offset=0),
    ]
    assert together(parts) == Facts(
        lines=6, torn=1, first_clock="a", last_clock="c", start=4, end=9, wall_offset=1
    )


def test_folds_and_lookups_within_groups_agree_with_loops() -> None:
    rng = np.random.default_rng(4)
    for _ in range(200):
        size = int(rng.integers(0, 40))
        group = np.sort(rng.integers(0, 6, size))
        value = (
            rng.integers(-(2**62), 2**62, size) if rng.random() < 0.5 else rng.integers(0, 9, size)
        )
        expected = [
            max((value[j] for j in range(i) if group[j] == group[i]), default=-(2**63))
            for i in range(size)
        ]
        assert running(value, heads(group), np.maximum, -(2**63)).tolist() == expected
        order = ordered(group, value)
        assert order.tolist() == sorted(range(size), key=lambda i: (group[i], value[i]))
        asked_group, asked = rng.integers(0, 7, 10), rng.integers(0, 9, 10)
        firsts = [
            next((i for i in range(size) if (group[i], value[i]) == pair), -1)
            for pair in zip(asked_group, asked, strict=True)
        ]
        assert lookup(group, value, asked_group, asked).tolist() == firsts


def test_buckets_are_those_that_spark_computes() -> None:
    """`SELECT pmod(hash(CAST(x AS BIGINT)), 7)` of Spark 4.3."""
    ids = np.array([0, 1, -1, 2**62, -(2**63), 123456789012345], np.int64)
    assert bucket_of(ids, 7).tolist() == [4, 5, 6, 0, 2, 0]
