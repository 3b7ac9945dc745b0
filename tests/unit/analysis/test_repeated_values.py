"""Registers whose values repeat: the task that searches them, and what the verdict says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from tests.histories.repeated_values import hot_register
from tests.unit.analysis.made_up_evidence import evidence
from zonequake_analysis.checks import repeated_values
from zonequake_analysis.checks.repeated_values import BySearch, search_task, step_of
from zonequake_analysis.checks.search.order_search import MOST_CONFIGURATIONS
from zonequake_analysis.checks.search.register_step import Step
from zonequake_analysis.inputs.shapes import ABSENT, NEVER_NS, Function, OutcomeCode
from zonequake_analysis.judgement.judge import judge
from zonequake_analysis.tables.kinds import named
from zonequake_analysis.verdict import Check, Verdict


def rows_of(key_id: int, steps: Sequence[Step]) -> list[dict[str, object]]:
    return [
        {
            "partition_id": 7,
            "key_id": key_id,
            "f": step.f.value,
            "outcome": (OutcomeCode.INFO if step.fin_ns == NEVER_NS else OutcomeCode.OK).value,
            "inv": step.inv_ns,
            "fin": step.fin_ns,
            "value": None if step.value == ABSENT else step.value,
            "expected": step.expected if step.f is Function.CAS else None,
            "found": None,
            "applied": step.f is Function.CAS and step.fin_ns != NEVER_NS,
        }
        for step in sorted(steps, key=lambda s: s.inv_ns)
    ]


def searched(rows: Sequence[dict[str, object]], batch_rows: int) -> list[dict[str, object]]:
    whole = pa.Table.from_pylist(list(rows))
    done = search_task(iter(whole.to_batches(max_chunksize=batch_rows)))
    return [row for batch in done for row in batch.to_pylist()]


WRITE = Step(Function.WRITE, 0, 1, 5)
READ = Step(Function.READ, 2, 3, 5)


def test_each_key_of_a_task_gets_its_own_answer_wherever_batches_end() -> None:
    good = [WRITE, READ, WRITE._replace(inv_ns=4, fin_ns=5), READ._replace(inv_ns=6, fin_ns=7)]
    bad = [*good, READ._replace(inv_ns=8, fin_ns=9, value=6)]
    rows = [*rows_of(1, good), *rows_of(2, bad), *rows_of(3, good)]
    for size in (1, 3, 100):
        found = searched(rows, size)
        assert [(row["key_id"], row["answer"]) for row in found] == [
            (1, "order"),
            (2, "no-order"),
            (3, "order"),
        ]
        assert (found[1]["at_ns"], found[1]["value"], found[1]["partition_id"]) == (8, 6, 7)


def test_a_key_that_is_too_hard_is_given_up_and_the_next_one_is_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("zonequake_analysis.checks.search.order_search.MOST_CONFIGURATIONS", 0)
    monkeypatch.setattr("zonequake_analysis.checks.search.order_search.PER_STEP", 1)
    hard = hot_register(200, clients=24, unanswered=0.1, cas=0.2)
    given_up, judged = searched([*rows_of(1, hard), *rows_of(2, [WRITE, READ])], 50)
    assert given_up["answer"] == "gave-up"
    assert given_up["at_ns"] == min(step.inv_ns for step in hard)
    assert judged["answer"] == "order"


def test_a_refused_cas_reads_what_it_found_and_one_without_an_answer_may_be_applied() -> None:
    refused = step_of(Function.CAS, True, 0, 1, 5, 4, 3, False)
    assert refused == Step(Function.READ, 0, 1, 3)
    assert step_of(Function.CAS, True, 0, 1, 5, 4, None, False).value == ABSENT
    open_one = step_of(Function.CAS, False, 0, NEVER_NS, 5, None, None, False)
    assert open_one == Step(Function.CAS, 0, NEVER_NS, 5, ABSENT)


def linearizability(by_search: BySearch, *, keyless_lines: int = 0) -> Check:
    e = evidence()
    e = replace(
        e,
        found=replace(e.found, counts=Counter(), by_search=by_search),
        quality=replace(e.quality, keyless_lines=keyless_lines),
    )
    (check,) = (check for check in judge(e) if check.name == "linearizability")
    return check


def test_keys_without_an_order_are_violations_and_those_with_one_pass() -> None:
    check = linearizability(BySearch(with_order=3))
    assert check.verdict is Verdict.PASSED
    assert "3 keys whose values repeat, by search" in check.summary
    check = linearizability(BySearch(with_order=3, without_order=2))
    assert (check.verdict, check.violations) == (Verdict.VIOLATED, 2)
    assert "2 keys are not linearizable" in check.summary


def test_a_search_that_gave_up_leaves_it_unknown_and_says_how_to_go_on() -> None:
    gave_up = BySearch(with_order=3, gave_up=1, most_explored=MOST_CONFIGURATIONS + 9)
    check = linearizability(gave_up)
    assert (check.verdict, check.violations) == (Verdict.UNKNOWN, 1)
    assert "500,009 configurations" in check.summary
    assert "write a value only once" in check.summary
    check = linearizability(replace(gave_up, without_order=1))
    assert check.verdict is Verdict.VIOLATED
    assert "1 keys whose values repeat are undecided" in check.summary


def test_a_write_that_may_be_missing_leaves_a_key_without_an_order_unknown() -> None:
    check = linearizability(BySearch(without_order=2), keyless_lines=1)
    assert (check.verdict, check.violations) == (Verdict.UNKNOWN, 2)
    assert "any of them may be a write that is missing" in check.summary


def test_what_the_search_finds_counts_as_linearizability() -> None:
    for kind in ("no-order", "gave-up"):
        assert named((repeated_values.CHECK, kind))[0] == "linearizability"
