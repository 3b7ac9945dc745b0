"""Lines of transactions: read as steps, refused in words, and judged by partition and lineage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.analysis.judged_lines import judged, operation, suspicious, told, written
from tests.unit.analysis.made_up_evidence import evidence
from tests.unit.analysis.transaction_lines import append, findings, read, transaction
from zonequake_analysis.checks.transactions.of_operations import (
    ALLOWED,
    TransactionFinding,
    TransactionFindings,
)
from zonequake_analysis.inputs.defects.of_history import HistoryDefectKind
from zonequake_analysis.inputs.ids import name_id
from zonequake_analysis.inputs.lineages import Begun, Lineages, place_of
from zonequake_analysis.judgement.safety import safety_checks
from zonequake_analysis.judgement.sufficiency import sufficiency_checks
from zonequake_analysis.measures.timeline import timeline
from zonequake_analysis.spark_pass.bucket import Known
from zonequake_analysis.tables.check_findings import check_findings
from zonequake_analysis.verdict import Verdict


def rows(folder: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(file) for file in sorted(folder.glob("*.parquet")))


CLEAN = [
    *transaction(1, append("a", 1), append("b", 2)),
    *transaction(2, read("a", 1), append("b", 3)),
    *operation(3, f="read", key="b", value=[2, 3]),
]


def test_steps_are_operations_with_the_times_and_the_place_of_their_transaction(
    tmp_path: Path,
) -> None:
    found, faults = judged(written(tmp_path, CLEAN), tmp_path / "ops")
    assert not faults.counts
    assert not suspicious(found)
    names = ("op", "step", "key", "value", "list", "inv", "fin", "index")
    steps = [
        row for row in rows(tmp_path / "ops").select(names).to_pylist() if row["step"] is not None
    ]
    assert sorted(tuple(row.values()) for row in steps if row["list"] is None) == [
        ("1-1/1of2", 0, "a", 1, None, 100, 150, 10),
        ("1-1/2of2", 1, "b", 2, None, 100, 150, 10),
        ("2-1/2of2", 0, "b", 3, None, 200, 250, 20),
    ]
    assert [row["key"] for row in steps if row["list"] == [1]] == ["a"]


def test_a_transaction_counts_once_and_its_lines_are_the_files(tmp_path: Path) -> None:
    found, _ = judged(written(tmp_path, CLEAN), tmp_path / "ops")
    facts = found[0].facts
    assert facts.lines == len(CLEAN)
    drawn = timeline((one.tally for one in found), start_ns=facts.start or 0, end_ns=facts.end or 0)
    assert drawn.counts == {("load", "transaction", "ok"): 2, ("load", "read", "ok"): 1}


def test_a_clean_history_has_no_finding(tmp_path: Path) -> None:
    assert findings(tmp_path, *CLEAN) == TransactionFindings(judged=2)


def test_the_last_line_may_be_torn(tmp_path: Path) -> None:
    (file,) = written(tmp_path, CLEAN)
    file.write_text(file.read_text() + transaction(4, append("a", 9))[0][:-20])
    found, faults = judged([file], tmp_path / "ops")
    assert (found[0].facts.torn, faults.counts) == (1, {})


HALF = [
    *transaction(1, append("a", 1), append("b", 2), type="info", index=None),
    *operation(2, f="read", key="a", value=[1]),
    *operation(3, f="read", key="b", value=None),
]


@pytest.mark.parametrize("by_key", [False, True])
def test_a_transaction_seen_half_is_found_however_keys_are_spread(
    tmp_path: Path, by_key: bool
) -> None:
    found = findings(tmp_path, *HALF, by_key=by_key)
    assert found.counts == {"half": 1}
    assert found.examples == [
        TransactionFinding(
            kind="half",
            zone="z1",
            partition=0,
            at_ns=100,
            text="1-1 appended 1 to a and 2 to b: 2-1 read the first, and 3-1, which came later, "
            "did not read the second",
        )
    ]


APPENDS_APART = [
    *transaction(1, append("a", 1), append("b", 2)),
    *transaction(2, append("a", 3), append("b", 4)),
    *transaction(3, read("a", 1, 3), append("x", 5)),
    *transaction(4, read("b", 4, 2), append("y", 6)),
]
EACH_SHOWS_THE_OTHER = [
    *transaction(1, append("a", 1), read("b", 2)),
    *transaction(2, append("b", 2), read("a", 1)),
]
ONE_READ_MISSES = [
    *transaction(1, append("a", 1), append("c", 2)),
    *transaction(2, read("b", 3), read("c")),
    *transaction(3, append("b", 3), read("a", 1)),
]
HALF_BY_TIMES = [
    *transaction(1, append("a", 1), append("b", 2), type="info", index=None),
    *operation(2, f="read", key="a", value=[1], index=None),
    *operation(3, f="read", key="b", value=None, index=None, clock="d"),
]
BOTH_READS_MISS = [
    *transaction(1, append("a", 1), read("b"), time=270),
    *transaction(2, append("b", 2), read("a")),
]
WITHOUT_PLACES = [
    *transaction(1, append("a", 1), read("b"), time=270, index=None),
    *transaction(2, append("b", 2), read("a"), index=None),
]


@pytest.mark.parametrize(
    ("lines", "kind", "text"),
    [
        (APPENDS_APART, "G0", "1-1 –ww a→ 2-1 –ww b→ 1-1"),
        (EACH_SHOWS_THE_OTHER, "G1c", "1-1 –wr a→ 2-1 –wr b→ 1-1"),
        (ONE_READ_MISSES, "G-single", "1-1 –wr a→ 3-1 –wr b→ 2-1 –rw c→ 1-1"),
        (BOTH_READS_MISS, "G2", "1-1 –rw b→ 2-1 –rw a→ 1-1"),
        (WITHOUT_PLACES, ALLOWED, "1-1 –rw b→ 2-1 –rw a→ 1-1"),
    ],
)
@pytest.mark.parametrize("by_key", [False, True])
def test_a_planted_cycle_is_told_with_its_keys(
    tmp_path: Path, lines: list[str], kind: str, text: str, by_key: bool
) -> None:
    found = findings(tmp_path, *lines, by_key=by_key)
    assert found.counts == {kind: 1}
    assert found.examples[0].text == text
    assert found.violations == (kind != ALLOWED)


def test_write_skew_without_places_is_all_that_such_a_history_shows(tmp_path: Path) -> None:
    found, _ = judged(written(tmp_path, WITHOUT_PLACES), tmp_path / "ops")
    assert not suspicious(found)


def test_keys_of_other_partitions_are_compared_with_none(tmp_path: Path) -> None:
    found = findings(
        tmp_path,
        *transaction(1, append("a", 1), append("b", 2)),
        *transaction(2, append("c", 3), read("d"), partition=1),
        *operation(3, f="read", key="c", value=[3], partition=1),
        *operation(4, f="read", key="a", value=[1]),
        *operation(5, f="read", key="b", value=[2]),
    )
    assert (found.judged, found.counts) == (2, {})


def test_a_reset_that_took_a_transaction_leaves_no_half(tmp_path: Path) -> None:
    taken = [
        *transaction(1, append("a", 1), append("b", 2)),
        *operation(2, f="read", key="a", value=[1]),
        *operation(3, f="read", key="b", value=None, lineage=1, index=5),
        *operation(4, f="read", key="a", value=None, lineage=1, index=5),
    ]
    assert findings(tmp_path, *taken).counts == {}


def test_a_half_that_a_reset_left_is_found_once_and_every_transaction_counts_once(
    tmp_path: Path,
) -> None:
    kept = Lineages(
        zone="z1",
        partition=0,
        begun={2: Begun(lineage=2, at_ns=450, survivor="n1", last=place_of(1, 1, 100))},
    )
    found = findings(
        tmp_path,
        *transaction(1, append("a", 1), append("b", 2), read("c")),
        *transaction(2, append("c", 3), read("a", 1)),
        *operation(3, f="read", key="a", value=[1], lineage=1, index=5),
        *operation(4, f="read", key="b", value=None, lineage=1, index=6),
        *operation(5, f="read", key="b", value=None, lineage=2, index=107),
        known=Known(lineages={name_id("z1", "0"): kept}, without_majority={}, one_clock=True),
    )
    assert found.counts == {"half": 1}
    assert (found.judged, found.excluded) == (2, 0)


def test_a_transaction_without_a_refused_step_is_left_out(tmp_path: Path) -> None:
    found = findings(
        tmp_path,
        *transaction(1, append("a", 1), append("b", 2), append("d", 3)),
        *operation(2, f="read", key="a", value=[1]),
        *operation(3, f="read", key="b", value=None),
        *operation(4, f="write", key="d"),
    )
    assert found == TransactionFindings(excluded=1)


def test_what_a_failed_transaction_appended_and_a_read_shows_is_suspect(tmp_path: Path) -> None:
    aborted = transaction(1, append("a", 1), append("b", 2), type="fail", index=None)
    unseen = operation(2, f="read", key="b", value=None)
    found, _ = judged(written(tmp_path, [*aborted, *unseen]), tmp_path / "ops")
    assert not suspicious(found)
    seen = operation(3, f="read", key="a", value=[1])
    found, _ = judged(written(tmp_path, [*aborted, *unseen, *seen]), tmp_path / "ops")
    assert suspicious(found)


def test_a_transaction_that_was_applied_twice_is_suspect_and_gives_no_cycle(
    tmp_path: Path,
) -> None:
    lines = [
        *transaction(1, append("a", 1), append("b", 2), attempts=2),
        *operation(2, f="read", key="a", value=[1, 1]),
        *operation(3, f="read", key="b", value=[2, 2]),
    ]
    found, _ = judged(written(tmp_path, lines), tmp_path / "ops")
    assert suspicious(found)
    assert findings(tmp_path, *lines) == TransactionFindings(judged=1)


@pytest.mark.parametrize("shown", [[], [1]])
def test_an_unanswered_transaction_that_was_done_late_or_never_is_none_of_both(
    tmp_path: Path, shown: list[int]
) -> None:
    found = findings(
        tmp_path,
        *transaction(1, append("a", 1), read("b"), append("c", 2), type="info", index=None),
        *operation(2, f="read", key="a", value=None),
        *operation(3, f="read", key="c", value=None),
        *operation(4, f="append", key="b", value=8),
        *operation(5, f="read", key="a", value=shown or None),
        *operation(6, f="read", key="c", value=[2] if shown else None),
    )
    assert found == TransactionFindings(judged=1)


def test_a_write_at_the_place_of_a_transaction_is_suspect_and_its_own_steps_are_not(
    tmp_path: Path,
) -> None:
    own = transaction(1, read("a"), append("b", 2), append("c", 3))
    found, _ = judged(written(tmp_path, own), tmp_path / "ops")
    assert not suspicious(found)
    assert not any(one.suspects.entries for one in found)
    other = operation(2, key="d", index=10)
    for by_key in (False, True):
        found, _ = judged(written(tmp_path, [*own, *other]), tmp_path / "ops", by_key=by_key)
        assert any(one.suspects.entries for one in found)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            transaction(1, append("a", 1), ("write", "b", 2)),
            "field `steps[1].f`: found write, expected append or read",
        ),
        (
            transaction(1, append("a", 1), read("a")),
            "field `steps[1].key`: found a again, expected each key in one step",
        ),
        (
            transaction(1, append("a", 1), schema=1),
            "field `schema`: found 1, expected 2, of transactions",
        ),
        (transaction(1), "field `steps`: found 0 steps, expected 1 to 127"),
        (transaction(1, append("a", 1), schema=None), "field `schema`: it is missing, expected 2"),
        (
            transaction(1, ("append", "a", None)),
            "field `steps[0].value`: found null, expected an integer to append",
        ),
        (
            [one.replace(',"value":[7]', "") for one in transaction(1, read("a", 7))],
            "field `steps[0].value`: it is missing",
        ),
        (
            [one.replace('"a","value":7', '"a"') for one in transaction(1, append("a", 7))],
            "field `steps[0].value`: it is missing",
        ),
        (
            transaction(1, ("append", "a", [1])),
            "field `steps[0].value`: found a list, expected an integer to append",
        ),
        (
            transaction(1, append("a", 1), ("read", "b", 7)),
            "field `steps[1].value`: found 7, expected a list or null",
        ),
        (
            transaction(1, append("a", 1), applied=False),
            "field `applied`: found false, expected null, as the steps have it",
        ),
        (
            transaction(1, append("a", 1), read="bounded"),
            'field `read`: found "bounded", expected null',
        ),
        (
            [
                one.replace('"key":"a",', '"key":"a","key":"b",')
                for one in transaction(1, read("a"))
            ],
            "field `steps[].key`: it stands twice",
        ),
        (
            [one.replace('"term":1,', '"term":1,"term":2,') for one in transaction(1, read("a"))],
            "field `term`: it stands twice",
        ),
        (
            transaction(1, append("a", "x")),  # type: ignore[arg-type]
            "field `steps[0].value`: Expected `int | array | null`, got `str`",
        ),
        (
            [transaction(1, append("a", 1))[0], transaction(1, append("a", 1), read("b"))[1]],
            "no invoke has this name",
        ),
    ],
)
def test_a_line_that_cannot_be_judged_is_refused_in_words(
    tmp_path: Path, lines: list[str], words: str
) -> None:
    assert words in " ".join(told(written(tmp_path, lines), tmp_path / "ops"))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (b'"key":"a"', b'"key":"\xff"', "found the byte 0xff, which is no UTF-8"),
        (b'"node":null', b'"node":"\xff"', "found the byte 0xff, which is no UTF-8"),
        (b'"c":1', b'"c":"\xff"', "found the byte 0xff, which is no UTF-8"),
    ],
)
def test_damaged_bytes_of_a_transaction_are_a_line_that_cannot_be_read(
    tmp_path: Path, before: bytes, after: bytes, words: str
) -> None:
    (file,) = written(tmp_path, transaction(1, append("a", 1), node=None, c=1))
    content = file.read_bytes()
    assert before in content
    file.write_bytes(content.replace(before, after))
    assert words in " ".join(told([file], tmp_path / "ops"))


def test_a_transaction_that_overlaps_another_operation_refuses_all_its_keys(
    tmp_path: Path,
) -> None:
    own = transaction(1, append("a", 1), append("b", 2))
    other = operation(1, op="1-2", key="c", inv=120, sched=120, time=180, index=5)
    apart = operation(9, key="d")
    found, faults = judged(written(tmp_path, [*own, *other, *apart]), tmp_path / "ops")
    assert faults.counts == {HistoryDefectKind.OVERLAP.value: 1}
    assert rows(tmp_path / "ops").column("key").to_pylist() == ["d"]
    assert not any(one.transactions for one in found)


def test_an_operation_of_a_transactions_name_is_none_of_its_steps(tmp_path: Path) -> None:
    same = operation(7, op="1-1", f="append", key="a", value=5)
    shown = operation(8, f="read", key="a", value=[1, 5])
    own = transaction(1, append("a", 1), append("b", 2))
    found = findings(tmp_path, *own, *same, *shown, *operation(9, f="read", key="b", value=[2]))
    assert found == TransactionFindings(judged=1)


def test_the_check_is_there_only_with_transactions() -> None:
    assert "transactions" not in {check.name for check in safety_checks(evidence())}


def test_findings_are_a_violation_and_write_skew_without_places_is_none() -> None:
    half = TransactionFinding(kind="half", zone="z1", partition=0, at_ns=5, text="1-1 is half")
    skew, allowed = replace_kind(half, "G2"), replace_kind(half, ALLOWED)
    found = TransactionFindings(
        judged=9,
        excluded=1,
        counts={ALLOWED: 1, "half": 30, "G2": 2},
        examples=[allowed, half, skew],
    )
    judged_so = evidence(transactions=found)
    (check,) = [one for one in safety_checks(judged_so) if one.name == "transactions"]
    assert (check.verdict, check.violations) == (Verdict.VIOLATED, 32)
    assert check.summary == (
        "32 findings among 9 transactions (30 half, 2 G2): 1-1 is half; 1 cycles that need two "
        "missed reads (G2) are not judged, as their answers claim no place"
    )
    told_rows = check_findings(judged_so, [check], set())
    assert [(one.kind, one.count) for one in told_rows] == [("half", 30), ("G2", 2)]
    only = replace(judged_so, transactions=TransactionFindings(judged=9, counts={ALLOWED: 1}))
    (check,) = [one for one in safety_checks(only) if one.name == "transactions"]
    assert check.verdict is Verdict.PASSED


def test_a_load_of_transactions_alone_is_a_load() -> None:
    alone = evidence(counts={("load", "transaction", "ok"): 9, ("final", "read", "ok"): 4})
    (check,) = [one for one in sufficiency_checks(alone) if one.name == "coverage"]
    assert check.verdict is Verdict.PASSED


@pytest.mark.parametrize("lines", [HALF, HALF_BY_TIMES])
def test_times_of_several_clocks_show_no_transaction_half(tmp_path: Path, lines: list[str]) -> None:
    found = findings(tmp_path, *lines)
    assert found.violations == 1
    several = evidence(transactions=found)
    several = replace(several, quality=replace(several.quality, clocks=("c", "d")))
    verdicts = []
    for e in (evidence(transactions=found), several):
        (check,) = [one for one in safety_checks(e) if one.name == "transactions"]
        verdicts.append(check.verdict)
        assert [one.check for one in check_findings(e, [check], set())] == ["transactions"]
    by_times = lines is HALF_BY_TIMES
    assert verdicts == [Verdict.VIOLATED, Verdict.UNKNOWN if by_times else Verdict.VIOLATED]


def replace_kind(one: TransactionFinding, kind: str) -> TransactionFinding:
    return TransactionFinding(
        kind=kind, zone=one.zone, partition=one.partition, at_ns=one.at_ns, text=one.text
    )
