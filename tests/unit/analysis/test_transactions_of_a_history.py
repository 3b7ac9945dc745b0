"""Lines of transactions: read as steps, refused in words, and judged by partition and lineage."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.analysis.judged_lines import LINE, judged, operation, suspicious, told, written
from tests.unit.analysis.made_up_evidence import evidence
from tests.unit.analysis.tasks_without_spark import without_spark
from zonequake_analysis.checks.transactions.of_operations import (
    TransactionFinding,
    TransactionFindings,
)
from zonequake_analysis.judgement.safety import safety_checks
from zonequake_analysis.judgement.sufficiency import sufficiency_checks
from zonequake_analysis.measures.timeline import timeline
from zonequake_analysis.spark_pass.transactions import transaction_findings
from zonequake_analysis.storage.place import Place
from zonequake_analysis.tables.check_findings import check_findings
from zonequake_analysis.verdict import Verdict

Step = tuple[str, str, object]


def append(key: str, value: int) -> Step:
    return "append", key, value


def read(key: str, *values: int) -> Step:
    return "read", key, list(values) or None


def transaction(number: int, *steps: Step, **fields: Any) -> list[str]:
    """The two lines of a transaction of its own process, time and place."""
    asked = [(f, key, None if f == "read" else value) for f, key, value in steps]

    def line(of: Sequence[Step], **more: Any) -> str:
        own = {
            **LINE, "schema": 2, "f": "transaction", "process": number, "op": f"{number}-1",
            "key": None, "value": None, "inv": number * 100, "sched": number * 100,
            "time": number * 100 + 50, "index": number * 10,
            "steps": [{"f": f, "key": key, "value": value} for f, key, value in of],
        }  # fmt: skip
        return json.dumps(own | fields | more, separators=(",", ":"))

    done = steps if fields.get("type", "ok") == "ok" else asked
    return [line(asked, type="invoke", time=number * 100, index=None), line(done)]


def rows(folder: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(file) for file in sorted(folder.glob("*.parquet")))


def findings(tmp_path: Path, *lines: str, **more: Any) -> TransactionFindings:
    folder = tmp_path / "ops"
    found, _ = judged(written(tmp_path, lines), folder, **more)
    if not any(one.transactions for one in found):
        return TransactionFindings()
    files = Place.of(folder).all_below(".parquet")
    return transaction_findings(None, files, run=without_spark)  # type: ignore[arg-type]


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


def test_a_cycle_is_told_with_its_keys(tmp_path: Path) -> None:
    found = findings(
        tmp_path,
        *transaction(1, append("a", 1), read("b", 2)),
        *transaction(2, append("b", 2), read("a", 1)),
    )
    assert found.counts == {"G1c": 1}
    assert found.examples[0].text == "1-1 –wr a→ 2-1 –wr b→ 1-1"


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
        (transaction(1, ("append", "a", None)), "field `value`: it is missing"),
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


def test_the_check_is_there_only_with_transactions() -> None:
    assert "transactions" not in {check.name for check in safety_checks(evidence())}


def test_findings_are_a_violation_and_write_skew_is_none() -> None:
    half = TransactionFinding(kind="half", zone="z1", partition=0, at_ns=5, text="1-1 is half")
    skew = replace_kind(half, "G2")
    found = TransactionFindings(
        judged=9, excluded=1, counts={"G2": 1, "half": 30}, examples=[skew, half]
    )
    judged_so = evidence(transactions=found)
    (check,) = [one for one in safety_checks(judged_so) if one.name == "transactions"]
    assert (check.verdict, check.violations) == (Verdict.VIOLATED, 30)
    assert check.summary == (
        "30 findings among 9 transactions (30 half): 1-1 is half; 1 cycles that need two missed "
        "reads (G2) are not judged"
    )
    told_rows = check_findings(judged_so, [check], set())
    assert [(one.kind, one.count) for one in told_rows] == [("half", 30)]
    only = replace(judged_so, transactions=TransactionFindings(judged=9, counts={"G2": 1}))
    (check,) = [one for one in safety_checks(only) if one.name == "transactions"]
    assert check.verdict is Verdict.PASSED


def test_a_load_of_transactions_alone_is_a_load() -> None:
    alone = evidence(counts={("load", "transaction", "ok"): 9, ("final", "read", "ok"): 4})
    (check,) = [one for one in sufficiency_checks(alone) if one.name == "coverage"]
    assert check.verdict is Verdict.PASSED


def replace_kind(one: TransactionFinding, kind: str) -> TransactionFinding:
    return TransactionFinding(
        kind=kind, zone=one.zone, partition=one.partition, at_ns=one.at_ns, text=one.text
    )
