"""What a reset takes and an unwind brings back, place by place, and what each lineage explains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from tests.histories.synthesize import ZONE, SyntheticOperation, write_operations
from tests.unit.analysis.one_list import SECOND, append, read
from zonequake_analysis.checks.screens.columns import columns
from zonequake_analysis.inputs.ids import name_id
from zonequake_analysis.inputs.integer_columns import typed
from zonequake_analysis.inputs.layout import laid_out
from zonequake_analysis.inputs.lineages import Lineages, in_words, place_of, read_lineages
from zonequake_analysis.inputs.lines import byte_ranges, kept_lines
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.inputs.shapes import OutcomeCode
from zonequake_analysis.inputs.views import last_view, viewed
from zonequake_analysis.measures.sacrificed import Cut, cuts
from zonequake_analysis.spark_pass.bucket import screened


def reset(lineage: int, at_s: float, last: tuple[int, int, int], node: str = "E") -> RecordedEvent:
    """The survivor's word: its log ended at `last` (lineage, term, index)."""
    return RecordedEvent(
        kind="group.reset",
        time=int(at_s * SECOND),
        source="store",
        zone=ZONE,
        partition=0,
        node=node,
        data={
            "lineage": lineage,
            "last_lineage": last[0],
            "last_term": last[1],
            "last_index": last[2],
        },
    )


def known(*events: RecordedEvent) -> dict[int, Lineages]:
    return {name_id(zone, str(n)): found for (zone, n), found in read_lineages(events).items()}


def ops_of(folder: Path, operations: list[SyntheticOperation]) -> pa.Table:
    file = folder / "load-0.jsonl"
    write_operations(file, operations)
    found = [
        typed(lines, writer="load-0", clock_offset_ns=0)[0]
        for part in byte_ranges([file], 1 << 26)
        for lines in kept_lines(part)
    ]
    return laid_out(pa.concat_tables(found)).ops


def is_clean(folder: Path, operations: list[SyntheticOperation], *events: RecordedEvent) -> bool:
    """Whether no screen finds anything in any lineage."""
    found = screened(columns(viewed(ops_of(folder, operations), known(*events))))
    return not any(
        getattr(found, name)
        for name in ("sets", "loss", "replayed", "late", "lists", "sessions", "entries")
    )


TEN = [append(n, n, (0, 1, n)) for n in range(1, 11)]
"""Ten appends, written by seven nodes; E has the first five."""

RESET_E = reset(7, 20, (0, 1, 5))
UNWOUND = reset(9, 40, (0, 1, 10), node="A")


def test_places_of_the_survivors_log_are_part_of_the_new_lineage_and_no_others() -> None:
    (found,) = known(RESET_E, UNWOUND).values()
    places = np.array([place_of(0, 1, 5), place_of(0, 1, 6), place_of(7, 2, 7), place_of(9, 3, 11)])
    assert found.has(0, places).tolist() == [True, True, False, False]
    assert found.has(7, places).tolist() == [True, False, True, False]
    assert found.has(9, places).tolist() == [True, True, False, True]
    assert in_words(place_of(7, 2, 9)) == "(lineage 7, term 2, index 9)"


def test_a_later_term_at_a_lower_index_lies_behind_the_survivors_end() -> None:
    """Lexicographically: the old majority's next leader cut the log and went on at index 4."""
    (found,) = known(RESET_E).values()
    assert not found.has(7, np.array([place_of(0, 2, 4)])).any()


def test_exactly_what_lies_behind_the_survivors_end_is_sacrificed(tmp_path: Path) -> None:
    operations = [
        *TEN,
        append(17, 21, (7, 2, 7)),
        read([1, 2, 3, 4, 5, 17], 22, (7, 2, 7)),
    ]
    (cut,) = cuts(ops_of(tmp_path, operations), known(RESET_E))
    assert cut.sacrificed == {7: 5}
    assert (cut.restored, cut.beside, cut.unrecorded) == (0, 0, [])
    assert cut.first_write_ns == {0: SECOND + 1000, 7: 21 * SECOND + 1000}
    assert is_clean(tmp_path, operations, RESET_E)


def test_a_write_that_the_survivor_had_and_no_node_serves_is_lost_not_sacrificed(
    tmp_path: Path,
) -> None:
    operations = [*TEN, append(17, 21, (7, 2, 7)), read([1, 2, 3, 4, 17], 22, (7, 2, 7))]
    assert not is_clean(tmp_path, operations, RESET_E)


def test_what_the_old_lineage_lost_by_itself_is_found_beside_a_reset(tmp_path: Path) -> None:
    operations = [
        *TEN,
        read([1, 2, 3, 4, 5, 6, 7, 8, 9], 11, (0, 1, 10)),
        read([1, 2, 3, 4, 5], 22, (7, 2, 6)),
    ]
    assert not is_clean(tmp_path, operations, RESET_E)
    operations[10] = read(list(range(1, 11)), 11, (0, 1, 10))
    assert is_clean(tmp_path, operations, RESET_E)


def test_a_lineage_whose_reset_was_not_recorded_is_named(
    tmp_path: Path,
) -> None:
    operations = [*TEN, read([1, 2, 3, 4, 5], 22, (7, 2, 6))]
    (cut,) = cuts(ops_of(tmp_path, operations), {})
    assert cut.unrecorded == [7]


def test_an_unwind_restores_what_the_reset_took_and_takes_what_came_after_it(
    tmp_path: Path,
) -> None:
    operations = [
        *TEN,
        append(17, 21, (7, 2, 7)),
        read([1, 2, 3, 4, 5, 17], 22, (7, 2, 7)),
        append(18, 41, (9, 3, 12)),
        read([*range(1, 11), 18], 42, (9, 3, 12)),
    ]
    (cut,) = cuts(ops_of(tmp_path, operations), known(RESET_E, UNWOUND))
    assert (cut.sacrificed, cut.restored) == ({9: 1}, 5)
    assert is_clean(tmp_path, operations, RESET_E, UNWOUND)
    still_missing = [*operations[:-1], read([1, 2, 3, 4, 5, 18], 42, (9, 3, 12))]
    assert not is_clean(tmp_path, still_missing, RESET_E, UNWOUND)


def test_an_answer_of_the_old_lineage_that_began_after_the_survivor_led_is_beside_it(
    tmp_path: Path,
) -> None:
    late = append(50, 20.5, (0, 1, 11))
    operations = [*TEN, late, append(17, 21, (7, 2, 7))]
    (cut,) = cuts(ops_of(tmp_path, operations), known(RESET_E))
    assert cut.beside == 1
    assert cut.examples == ["append of list at (lineage 0, term 1, index 11) by zq-default-0"]
    (cut,) = cuts(ops_of(tmp_path, operations), known(RESET_E), one_clock=False)
    assert cut.beside == 0, "it isn't known which came first"
    in_time = replace(late, inv_ns=int(19.9 * SECOND))
    (cut,) = cuts(ops_of(tmp_path, [*TEN, in_time]), known(RESET_E))
    assert cut.beside == 0, "begun before, answered after: its answer was on its way"
    bounded = replace(read([1], 30, (0, 1, 1)), bounded=True)
    (cut,) = cuts(ops_of(tmp_path, [*TEN, bounded]), known(RESET_E))
    assert cut.beside == 0, "a bounded read may be old"


def test_the_last_record_of_a_lineage_counts() -> None:
    crashed = reset(7, 19, (0, 1, 4))
    (found,) = known(RESET_E, crashed).values()
    assert found.begun[7].last == place_of(0, 1, 5)


def test_a_group_that_was_bootstrapped_anew_has_no_past(tmp_path: Path) -> None:
    events = known(reset(3, 20, (0, 0, 0)))
    operations = [*TEN, append(17, 21, (3, 1, 2)), read([17], 22, (3, 1, 2))]
    (cut,) = cuts(ops_of(tmp_path, operations), events)
    assert cut.sacrificed == {3: 10}
    assert is_clean(tmp_path, operations, reset(3, 20, (0, 0, 0)))


def test_operations_of_a_partition_without_resets_are_left_as_they_are(tmp_path: Path) -> None:
    ops = ops_of(tmp_path, TEN)
    seen = viewed(ops, {})
    assert seen.drop_columns(["copy"]).equals(ops)
    assert not np.any(seen.column("copy").to_numpy())
    assert cuts(ops, {}) == []


def test_each_operation_stands_once_that_is_no_copy(tmp_path: Path) -> None:
    operations = [
        *TEN,
        replace(append(60, 12, (0, 1, 11)), type="info", index=None),
        append(17, 21, (7, 2, 7)),
        read([1, 2, 3, 4, 5, 17], 22, (7, 2, 7)),
    ]
    seen = viewed(ops_of(tmp_path, operations), known(RESET_E))
    own = seen.filter(pa.compute.invert(seen.column("copy")))
    assert sorted(own.column("process").to_pylist()) == sorted(o.process for o in operations)
    lineage = own.column("position").fill_null(0).to_numpy() >> 52
    assert lineage.max() == 7
    layout = ["partition_id", "key_id", "inv", "process"]
    assert seen.sort_by([(name, "ascending") for name in layout]).equals(seen)


def test_replicas_must_hold_what_is_part_of_the_last_lineage(tmp_path: Path) -> None:
    ops = ops_of(tmp_path, [*TEN, append(17, 21, (7, 2, 7))])
    kept = ops.filter(pa.array(last_view(ops, known(RESET_E)))).column("value").to_pylist()
    assert sorted(kept) == [1, 2, 3, 4, 5, 17]


@pytest.mark.parametrize("seed", range(20))
def test_random_chains_are_cut_as_a_replay_of_their_logs_says(tmp_path: Path, seed: int) -> None:
    """The reference keeps each lineage's whole log; what it lacks at the end was sacrificed."""
    rng = Random(seed)
    logs = {0: [place_of(0, 1, i) for i in range(1, rng.randint(4, 12))]}
    operations = [append(i, i / 10, (0, 1, i)) for i in range(1, len(logs[0]) + 1)]
    events, now, value = [], 10.0, 100
    for lineage in range(5, 5 + 2 * rng.randint(1, 4), 2):
        past = logs[rng.choice(list(logs))]
        kept = past[: rng.randint(1, len(past))]
        last = kept[-1]
        place = (last >> 52, (last >> 32) & 0xFFFFF, last & 0xFFFFFFFF)
        events.append(reset(lineage, now, place))
        logs[lineage] = list(kept)
        for step in range(1, rng.randint(2, 6)):
            index = place[2] + step
            logs[lineage].append(place_of(lineage, place[1] + 1, index))
            operations.append(append(value, now + step, (lineage, place[1] + 1, index)))
            value += 1
        now += 20
    final = set(logs[max(logs)])
    written = [place_of(o.lineage, o.term, o.index or 0) for o in operations]
    lacked = {
        place
        for place in written
        if any(place >> 52 < lineage and place not in log for lineage, log in logs.items())
    }
    (cut,) = cuts(ops_of(tmp_path, operations), known(*events))
    assert sum(cut.sacrificed.values()) == sum(place not in final for place in written)
    assert cut.restored == len(lacked & final)
    assert isinstance(cut, Cut)


def test_foreign_writes_may_still_have_happened(tmp_path: Path) -> None:
    """An earlier attempt of a sacrificed write may be in the survivor's log: it is no phantom."""
    operations = [*TEN, read([1, 2, 3, 4, 5, 8], 22, (7, 2, 6))]
    assert is_clean(tmp_path, operations, RESET_E)
    seen = viewed(ops_of(tmp_path, operations), known(RESET_E))
    unknown = seen.column("outcome").to_numpy() == OutcomeCode.INFO.value
    assert unknown.sum() == 5
