"""The checks over arrays find what their definitions say, operation by operation.

That they find row by row what the same checks find in SQL is in `tests/spark/checkers`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from tests.histories import anomalies
from tests.histories.small_histories import histories
from tests.histories.synthesize import START_NS, ZONE, SyntheticOperation
from tests.unit.analysis.test_screens_against_search import events, in_columns
from zonequake_analysis.checks.arrays import over_columns
from zonequake_analysis.checks.found_rows import FoundRows
from zonequake_analysis.checks.screens import black_box, claimed
from zonequake_analysis.checks.screens.columns import NULL, Columns
from zonequake_analysis.checks.screens.sessions import gone_back
from zonequake_analysis.inputs.ids import name_id
from zonequake_analysis.inputs.layout import laid_out
from zonequake_analysis.inputs.shapes import Function

Row = tuple[str, str, int, int]
"""Kind, key, begin and place of a finding."""


def writes(o: SyntheticOperation) -> bool:
    return o.f in (Function.WRITE, Function.APPEND) or (o.f is Function.CAS and bool(o.applied))


def shown(o: SyntheticOperation) -> object:
    return o.found if o.f is Function.CAS and not o.applied else o.value


def place(o: SyntheticOperation) -> int:
    assert o.index is not None
    return (o.term << 32) + o.index


def late(case: list[SyntheticOperation]) -> Iterator[tuple[str, int]]:
    """By the definition: some operation of a later rank has ended before this one begins."""
    rank = {o.sequence * 1000 + o.process: 2 * place(o) + (not writes(o)) for o in case}

    def of(o: SyntheticOperation) -> int:
        return rank[o.sequence * 1000 + o.process]

    for o in case:
        if any(of(other) > of(o) and other.fin_ns < o.inv_ns for other in case):
            yield o.key, o.inv_ns


def versions(case: list[SyntheticOperation]) -> list[tuple[SyntheticOperation, bool, int]]:
    """Each operation of a register, whether it is a write, and the version that it shows."""
    found = []
    for o in case:
        same = [other for other in case if shown(other) == shown(o)]
        by_writes = [place(other) for other in same if writes(other)]
        version = max(by_writes) if by_writes else min(map(place, same))
        found.append((o, writes(o), -1 if shown(o) is None else version))
    return found


def of_elements(case: list[SyntheticOperation]) -> list[tuple[SyntheticOperation, bool, int]]:
    """The same for a list: the place in its last read, or how much a read shares with that one."""
    last = elements(last_read(case))
    found = []
    for o in case:
        if not writes(o):
            mine = elements(o)
            is_prefix = last[: len(mine)] == mine
            found.append((o, False, len(mine) if is_prefix else len(set(mine) & set(last))))
        elif o.value in last:
            found.append((o, True, last.index(o.value) + 1))
    return found


def elements(o: SyntheticOperation) -> list[int]:
    return o.value if isinstance(o.value, list) else []


def last_read(case: list[SyntheticOperation]) -> SyntheticOperation:
    return max((o for o in case if not writes(o)), key=lambda o: o.inv_ns)


def gone(case: list[SyntheticOperation]) -> Iterator[Row]:
    """By the definition: the last read misses an element that was acknowledged before it began."""
    last = last_read(case)
    for o in case:
        if writes(o) and o.fin_ns < last.inv_ns and o.value not in elements(last):
            yield "lost", o.key, last.inv_ns, NULL


def missed(known: list[tuple[SyntheticOperation, bool, int]]) -> Iterator[Row]:
    """By the definition: a read shows an older version than was known before it began."""
    reads = [(o, version) for o, is_write, version in known if not is_write]
    if not reads:
        return
    last, newest = max(reads, key=lambda pair: pair[0].inv_ns)
    for o, version in reads:
        before = [pair for pair in known if pair[0].fin_ns < o.inv_ns]
        acked = max((v for _, is_write, v in before if is_write), default=-2)
        seen = max((v for _, is_write, v in before if not is_write), default=-2)
        if version >= max(acked, seen):
            continue
        kind = "stale"
        if version < acked:
            kind = "lost" if o.inv_ns == last.inv_ns else "stale"
        elif newest >= seen:
            kind = "flicker"
        yield kind, o.key, o.inv_ns, max(acked, seen)


def answered(case: list[SyntheticOperation]) -> bool:
    """Whether every operation was answered, and no two begin or write alike."""
    values = [o.value for o in case if o.f is not Function.READ]
    return (
        all(o.type == "ok" and o.index is not None for o in case)
        and len({o.inv_ns for o in case}) == len(case)
        and len(set(values)) == len(values)
    )


def without_order(case: list[SyntheticOperation]) -> Iterator[Row]:
    """By the definition: what no order of the appends explains."""
    reads = [o for o in case if not writes(o) and o.type == "ok" and not o.bounded]
    longest: list[int] = []
    for o in sorted(reads, key=lambda o: o.inv_ns):
        longest = elements(o) if len(elements(o)) >= len(longest) else longest
    appends = [
        o for o in case if writes(o) and o.type != "fail" and (o.type == "ok" or o.value in longest)
    ]
    rank = {
        o.process: 2 * (longest.index(o.value) + 1 if o.value in longest else 10**9)
        for o in appends
    } | {o.process: 2 * len(elements(o)) + 1 for o in reads}
    for o in reads:
        if longest[: len(elements(o))] != elements(o):
            yield "not-prefix", o.key, o.inv_ns, NULL
    different = len(set(longest))
    if different < len(longest) or sum(o.value in longest for o in appends) < different:
        kind = "element-twice" if different < len(longest) else "phantom"
        yield kind, case[0].key, max(o.inv_ns for o in [*appends, *reads]), NULL
    ended = [o for o in [*appends, *reads] if o.type == "ok"]
    for o in [*appends, *reads]:
        if rank[o.process] < 10**9 and any(
            rank[other.process] > rank[o.process] and other.fin_ns < o.inv_ns for other in ended
        ):
            yield "stale", o.key, o.inv_ns, NULL


def counted(c: Columns, parts: Iterable[FoundRows], names: dict[int, str]) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for part in parts:
        for kind, key, at_ns, position in zip(
            part.kind, part.key, part.at_ns, part.position, strict=True
        ):
            name = names[int(c.key_ids[key])]
            found[part.kinds[kind], name, int(at_ns), int(position)] += 1
    return found


@pytest.fixture(scope="module")
def lists() -> list[list[SyntheticOperation]]:
    """Lists whose operations begin at different moments; some show nothing, as `[]` or as null, and
    some elements are appended twice.
    """
    rng = Random(6)
    made = []
    for case in histories(rng, 3000, lists=True, spoil=0.7):
        changed = [
            replace(o, value=[], bounded=rng.random() < 0.1)
            if o.f is Function.READ and o.value is None and rng.random() < 0.5
            else replace(o, bounded=o.f is Function.READ and rng.random() < 0.1)
            for o in case
        ]
        asked = [o.value for o in case if o.f is Function.APPEND]
        at = rng.randrange(len(case))
        if changed[at].f is Function.APPEND and rng.random() < 0.2:
            changed[at] = replace(changed[at], value=rng.choice(asked))
        is_list = any(o.f is Function.APPEND or isinstance(o.value, list) for o in changed)
        if is_list and len({o.inv_ns for o in case}) == len(case):
            made.append(changed)
    append = SyntheticOperation(
        f=Function.APPEND, key="5", partition=0, process=1, inv_ns=1, fin_ns=2, value=5, index=1
    )
    again = replace(append, process=2, inv_ns=3, fin_ns=4, index=2)
    shown = replace(again, f=Function.READ, process=3, inv_ns=5, fin_ns=6, value=[5, 5])
    return [*made, [append, again, shown]]


@pytest.fixture(scope="module")
def cases() -> list[list[SyntheticOperation]]:
    made = histories(Random(5), 3000, lists=False, spoil=0.7)
    return [case for case in made if answered(case)]


def test_stale_reads_lost_writes_and_flicker_are_those_of_the_definition(
    tmp_path: Path, cases: list[list[SyntheticOperation]]
) -> None:
    c = in_columns(tmp_path, [o for case in cases for o in case])
    names = {name_id(ZONE, case[0].key): case[0].key for case in cases}
    expected = Counter(row for case in cases for row in missed(versions(case)))
    assert counted(c, over_columns.missed(c), names) == expected
    assert {kind for kind, *_ in expected} >= {"lost", "stale"}
    assert len(expected) > 100


def test_of_lists_the_last_read_decides_what_is_lost_or_stale(
    tmp_path: Path, lists: list[list[SyntheticOperation]]
) -> None:
    cases = [
        judged
        for case in lists
        if (judged := [o for o in case if o.type == "ok" and not o.bounded])
        and any(not writes(o) for o in judged)
    ]
    c = in_columns(tmp_path, [o for case in lists for o in case])
    names = {name_id(ZONE, case[0].key): case[0].key for case in lists}
    expected = Counter(row for case in cases for row in (*missed(of_elements(case)), *gone(case)))
    assert counted(c, over_columns.missed(c), names) == expected
    assert {kind for kind, *_ in expected} == {"lost", "stale", "flicker"}
    several = [case for case in cases if sum(not writes(o) for o in case) > 1]
    assert len(several) > len(cases) / 2, "too few lists are read twice"


def test_lists_without_an_order_are_those_of_the_definition(
    tmp_path: Path, lists: list[list[SyntheticOperation]]
) -> None:
    c = in_columns(tmp_path, [o for case in lists for o in case])
    names = {name_id(ZONE, case[0].key): case[0].key for case in lists}
    expected = Counter(row for case in lists for row in without_order(case))
    assert counted(c, [over_columns.torn_lists(c)], names) == expected
    kinds = {kind for kind, *_ in expected}
    assert kinds == {"not-prefix", "element-twice", "phantom", "stale"}
    flagged = {names[number] for number in c.key_ids[black_box.lists(c)].tolist()}
    assert flagged == {key for _, key, *_ in expected}, "the screen is exact"


def test_a_list_without_elements_is_an_absent_register(tmp_path: Path) -> None:
    write = SyntheticOperation(
        f=Function.WRITE, key="k", partition=0, process=1, inv_ns=1, fin_ns=2, value=5, index=7
    )
    shown = replace(write, f=Function.READ, process=2, inv_ns=3, fin_ns=4, value=[])
    c = in_columns(tmp_path, [write, shown])
    assert claimed.suspects(c).replayed.all()
    assert black_box.registers(c).all()
    assert not black_box.registers(in_columns(tmp_path, [shown, replace(write, inv_ns=4)])).any()


def test_a_list_that_is_read_as_its_last_element_fails_both_checkers(tmp_path: Path) -> None:
    append = SyntheticOperation(
        f=Function.APPEND, key="k", partition=0, process=1, inv_ns=1, fin_ns=2, value=5, index=7
    )
    shown = replace(append, f=Function.READ, process=2, inv_ns=3, fin_ns=4)
    c = in_columns(tmp_path, [append, shown])
    assert claimed.suspects(c).replayed.all()
    assert black_box.registers(c).all()
    assert not claimed.suspects(in_columns(tmp_path, [append, replace(shown, value=[5])])).replayed


def test_an_append_without_an_answer_that_a_list_shows_twice_breaks_the_claimed_order(
    tmp_path: Path,
) -> None:
    retried = SyntheticOperation(
        f=Function.APPEND,
        key="k",
        partition=0,
        process=1,
        inv_ns=1,
        fin_ns=2,
        value=11,
        type="info",
    )
    append = replace(retried, process=2, inv_ns=3, fin_ns=4, value=12, index=7, type="ok")
    shown = replace(append, f=Function.READ, process=3, inv_ns=5, fin_ns=6, index=8)
    twice = in_columns(tmp_path, [retried, append, replace(shown, value=[12, 11, 11])])
    assert claimed.suspects(twice).replayed.all()
    assert black_box.lists(twice).all(), "both checkers say so, and contradict each other nowhere"
    once = in_columns(tmp_path, [retried, append, replace(shown, value=[12, 11])])
    assert not claimed.suspects(once).either.any()
    assert not black_box.lists(once).any()


def test_sessions_that_went_back_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(3)
    ties = backwards = 0
    for _ in range(300):
        size = int(rng.integers(0, 25))
        partition, process = rng.integers(-1, 2, size), rng.integers(0, 3, size)
        inv, position = rng.integers(-5, 9, size), rng.integers(0, rng.choice([6, 2**62]), size)
        found = gone_back(partition=partition, process=process, inv=inv, position=position)
        expected = {}
        for row in range(size):
            own = (partition == partition[row]) & (process == process[row])
            before = position[own & (inv < inv[row])]
            ties += int(np.sum(own & (inv == inv[row]))) - 1
            if len(before) and before.max() > position[row]:
                expected[row] = int(before.max())
        backwards += len(expected)
        assert dict(zip(found.rows.tolist(), found.reached.tolist(), strict=True)) == expected
    assert ties > 100
    assert backwards > 100


def test_what_breaks_real_time_is_what_the_definition_says(
    tmp_path: Path, cases: list[list[SyntheticOperation]]
) -> None:
    c = in_columns(tmp_path, [o for case in cases for o in case])
    names = {name_id(ZONE, case[0].key): case[0].key for case in cases}
    judged, wrote = claimed.judged_rows(c)
    unanswered = claimed.unanswered_writes(c, judged, wrote)
    found = over_columns.late(c, judged, wrote, unanswered)
    expected = Counter(row for case in cases for row in late(case))
    assert expected == Counter(
        (names[int(c.key_ids[key])], int(at_ns))
        for key, at_ns in zip(found.key, found.at_ns, strict=True)
    )
    assert len(expected) > 100
    assert not np.any(found.position == NULL)


IN_ORDER = {"list", "value", "precondition"}
"""Kinds of the claimed order that its replay finds."""


@pytest.mark.parametrize("name", anomalies.NAMES)
def test_of_a_planted_anomaly_they_find_the_kinds_that_it_has(tmp_path: Path, name: str) -> None:
    anomaly = anomalies.plant(name, START_NS)
    ops = laid_out(pa.concat_tables(events(tmp_path, [*anomaly.operations]))).ops
    batches = (*over_columns.found_in_order(ops), *over_columns.found_in_sets(ops))
    found = {
        pair
        for batch in batches
        for pair in zip(batch["check"].to_pylist(), batch["kind"].to_pylist(), strict=True)
    }
    of_order = {("claimed-order", kind) for kind in IN_ORDER}
    assert anomaly.expected & of_order <= found
    others = {pair for pair in anomaly.expected if pair[0] in ("sets", "diverged")}
    assert found - of_order == others


def test_the_writer_the_place_and_the_age_of_what_a_diverged_member_lacks(tmp_path: Path) -> None:
    write = SyntheticOperation(
        f=Function.WRITE, key="k", partition=0, process=1, inv_ns=1, fin_ns=2, value=5, index=7,
        node="a",
    )  # fmt: skip
    behind = replace(
        write, f=Function.READ, process=2, inv_ns=9, fin_ns=10, value=None, index=8, node="b"
    )
    at_its_place = replace(behind, index=7)
    lags = replace(behind, index=6)
    itself = replace(behind, node="a")
    seen = replace(behind, process=3, value=5, node="c", inv_ns=20, fin_ns=21)
    for answers, lacking in (
        ([write, behind], 0),  # no other member shows it at that place
        ([write, behind, seen], 1),
        ([write, at_its_place], 1),
        ([write, lags, seen], 0),
        ([write, itself], 0),
    ):
        ops = laid_out(pa.concat_tables(events(tmp_path, answers))).ops
        found = [
            row
            for batch in over_columns.found_in_order(ops)
            for row in batch.to_pylist()
            if row["check"] == "diverged"
        ]
        assert len(found) == lacking
        for row in found:
            assert (row["value"], row["position"]) == (5, (1 << 32) + 7)
            assert row["magnitude_ns"] == 9 - 2
