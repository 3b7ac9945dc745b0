"""The checks over arrays find what their definitions say, operation by operation.

That they find row by row what the same checks find in SQL is in `tests/spark/checkers`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.histories.small_histories import histories
from tests.histories.synthesize import ZONE, SyntheticOperation
from tests.unit.analysis.test_screens_against_search import in_columns
from zonequake_analysis.checks import over_columns
from zonequake_analysis.checks.screens import claimed
from zonequake_analysis.checks.screens.columns import NULL
from zonequake_analysis.inputs.ids import name_id
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


def missed(case: list[SyntheticOperation]) -> Iterator[Row]:
    """By the definition: a read shows an older version than was known before it began."""
    known = versions(case)
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


@pytest.fixture(scope="module")
def cases() -> list[list[SyntheticOperation]]:
    made = histories(Random(5), 3000, lists=False, spoil=0.7)
    return [case for case in made if answered(case)]


def test_stale_reads_lost_writes_and_flicker_are_those_of_the_definition(
    tmp_path: Path, cases: list[list[SyntheticOperation]]
) -> None:
    c = in_columns(tmp_path, [o for case in cases for o in case])
    names = {name_id(ZONE, case[0].key): case[0].key for case in cases}
    expected = Counter(row for case in cases for row in missed(case))
    found: Counter[Row] = Counter()
    for part in over_columns.missed(c):
        for kind, key, at_ns, position in zip(
            part.kind, part.key, part.at_ns, part.position, strict=True
        ):
            name = names[int(c.key_ids[key])]
            found[part.kinds[kind], name, int(at_ns), int(position)] += 1
    assert found == expected
    assert {kind for kind, *_ in expected} >= {"lost", "stale"}
    assert len(expected) > 100


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
