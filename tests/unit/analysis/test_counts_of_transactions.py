"""What counts a transaction as one operation, and what counts each of its steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.analysis.judged_lines import judged, operation, told, written
from tests.unit.analysis.made_up_evidence import evidence, found
from tests.unit.analysis.transaction_lines import append, read, transaction
from zonequake_analysis.judgement.safety import safety_checks
from zonequake_analysis.measures.timeline import Timeline, timeline

MIXED = [
    *operation(1, key="r"),
    *transaction(2, append("a", 1), append("b", 2), read("c")),
    *transaction(3, read("a", 1), read("b", 2), type="info", index=None),
    *operation(4, f="read", key="r", value=1),
]


def drawn(run: Path, lines: list[str], **more: Any) -> Timeline:
    buckets, _ = judged(written(run, lines), run / "ops", **more)
    facts = buckets[0].facts
    return timeline(
        (one.tally for one in buckets), start_ns=facts.start or 0, end_ns=facts.end or 0
    )


@pytest.mark.parametrize("by_key", [False, True])
def test_a_transaction_is_one_operation_and_its_steps_are_counted_by_themselves(
    tmp_path: Path, by_key: bool
) -> None:
    found = drawn(tmp_path, MIXED, by_key=by_key)
    assert found.counts == {
        ("load", "write", "ok"): 1,
        ("load", "read", "ok"): 1,
        ("load", "transaction", "ok"): 1,
        ("load", "transaction", "info"): 1,
    }
    assert found.steps == {
        ("load", "append", "ok"): 2,
        ("load", "read", "ok"): 1,
        ("load", "read", "info"): 2,
    }


def test_the_last_write_is_one_that_the_store_counts(tmp_path: Path) -> None:
    """Which are single writes: a transaction that ended later is none of them."""
    assert drawn(tmp_path, MIXED).last_write_ns == 150


@pytest.mark.parametrize("by_key", [False, True])
def test_a_line_that_lacks_its_other_half_counts_once(tmp_path: Path, by_key: bool) -> None:
    steps = append("a", 1), append("b", 2), read("c")
    asked, done = transaction(1, *steps)
    for lines, cut_off, orphans in (([asked], 1, 0), ([done], 0, 1), ([asked, done], 0, 0)):
        buckets, faults = judged(written(tmp_path, lines), tmp_path / "ops", by_key=by_key)
        assert sum(one.cut_off for one in buckets) == cut_off, lines
        assert sum(one.orphans for one in buckets) == orphans, lines
        assert sum(faults.counts.values()) == orphans, lines


def test_a_fault_of_all_steps_is_one_of_their_line(tmp_path: Path) -> None:
    def strange(number: int) -> list[str]:
        lines = transaction(number, append("a", number), append("b", number + 1), read("c"))
        return [json.dumps(json.loads(line) | {"role": "other"}) for line in lines]

    lines = [line for number in (10, 20, 30, 40) for line in strange(number)]
    (said,) = told(written(tmp_path, lines), tmp_path / "ops")
    assert said.startswith("8 ")
    places = [f"history/load-0.jsonl:{number}" for number in (1, 2, 3)]
    assert all(said.count(f"{place}, ") == 1 for place in places), said


def test_lines_without_a_partition_are_as_many_as_lack_it(tmp_path: Path) -> None:
    lines = transaction(1, append("a", 1), append("b", 2), partition=None)
    _, faults = judged(written(tmp_path, lines), tmp_path / "ops")
    assert faults.keyless == 2


def test_reads_and_operations_of_keys_have_those_of_transactions() -> None:
    alone = evidence(
        counts={("load", "transaction", "ok"): 10, ("final", "read", "ok"): 4},
        steps={("load", "append", "ok"): 12, ("load", "read", "ok"): 18},
        found=found({("loss", "stale"): 5}),
        compared_reads=20,
    )
    checks = {check.name: check for check in safety_checks(alone)}
    assert checks["stale-reads"].summary == "5 of 22 reads are stale"
    assert checks["stale-reads"].excluded == checks["flicker"].excluded == 22 - 20
    for name in ("phantoms", "diverged"):
        assert checks[name].checked == 22, name
    assert checks["linearizability"].checked == 34
