"""What outcomes must not say, beside what was found afterwards; a lie is noticed."""

from __future__ import annotations

import pytest

from zonequake_chaos.conformance.judgement import (
    AskedOperation,
    contradictions,
    effects_of_lost,
    out_of_order,
    without_place,
)
from zonequake_load.operation import Function, Operation, Outcome, Type
from zonequake_protocol.client import Value


def asked(
    f: Function, type_: Type, *, applied: bool | None = None, index: int | None = 1
) -> AskedOperation:
    return AskedOperation(
        operation=Operation(f=f, key="k", value=7),
        outcome=Outcome(type=type_, attempts=1, applied=applied, index=index, error="time-out"),
    )


@pytest.mark.parametrize(
    ("one", "found", "words"),
    [
        (asked(Function.WRITE, Type.OK), 7, ""),
        (asked(Function.WRITE, Type.OK), None, "was acknowledged, and nothing of it is there"),
        (asked(Function.WRITE, Type.FAIL), None, ""),
        (asked(Function.WRITE, Type.FAIL), 7, "certainly failed, as the client says (time-out)"),
        (asked(Function.WRITE, Type.INFO), 7, ""),
        (asked(Function.WRITE, Type.INFO), None, ""),
        (asked(Function.CAS, Type.OK, applied=False), 7, "was refused, and its value is there"),
        (asked(Function.CAS, Type.OK, applied=False), 3, ""),
        (asked(Function.CAS, Type.OK, applied=True), 3, "was acknowledged"),
        (asked(Function.APPEND, Type.OK), [1, 7], ""),
        (asked(Function.APPEND, Type.OK), [1], "was acknowledged"),
        (asked(Function.APPEND, Type.INFO), [7, 7], "was carried out 2 times"),
        (asked(Function.APPEND, Type.FAIL), [7], "certainly failed"),
        (asked(Function.READ, Type.OK), None, ""),
    ],
)
def test_an_outcome_is_held_to_what_is_found(one: AskedOperation, found: Value, words: str) -> None:
    problems = contradictions([one], {"k": found})
    if not words:
        assert problems == []
    else:
        (problem,) = problems
        assert words in problem


@pytest.mark.parametrize("type_", [Type.INFO, Type.FAIL])
def test_an_effect_of_a_lost_operation_counts_whatever_the_client_says(type_: Type) -> None:
    lost = [asked(Function.APPEND, type_)]
    assert effects_of_lost(lost, {"k": [7]}) == 1
    assert effects_of_lost(lost, {"k": []}) == 0
    assert effects_of_lost([asked(Function.APPEND, Type.OK)], {"k": [7]}) == 0


def test_an_answer_without_a_place_is_noticed() -> None:
    some = [asked(Function.READ, Type.OK, index=None), asked(Function.READ, Type.OK)]
    assert len(without_place(some)) == 1
    assert without_place([asked(Function.WRITE, Type.INFO, index=None)]) == []


@pytest.mark.parametrize("type_", [Type.INFO, Type.OK, Type.FAIL])
def test_a_transaction_is_there_as_a_whole_or_not_at_all_whatever_its_outcome(type_: Type) -> None:
    steps = [
        AskedOperation(
            operation=Operation(f=Function.WRITE, key=key, value=value),
            outcome=Outcome(type=type_, attempts=1),
            transaction=5,
        )
        for key, value in (("a", 1), ("b", 2))
    ]
    torn = contradictions(steps, {"a": 1, "b": None})
    assert torn[-1] == (
        "a transaction was done in part: write of 1 to a is there, and write of 2 to b isn't"
    )
    if type_ is Type.INFO:
        assert contradictions(steps, {"a": 1, "b": 2}) == []
        assert contradictions(steps, {"a": None, "b": None}) == []


@pytest.mark.parametrize(
    ("second", "index", "problem"),
    [
        (asked(Function.WRITE, Type.OK, index=6), 6, False),
        (asked(Function.WRITE, Type.OK, index=5), 5, True),
        (asked(Function.CAS, Type.OK, applied=True, index=5), 5, True),
        (asked(Function.CAS, Type.OK, applied=False, index=5), 5, False),
        (asked(Function.READ, Type.OK, index=5), 5, False),
        (asked(Function.READ, Type.OK, index=4), 4, True),
        (asked(Function.WRITE, Type.INFO, index=4), 4, False),
    ],
)
def test_answers_stand_in_the_claimed_order_as_they_came(
    second: AskedOperation, index: int, problem: bool
) -> None:
    problems = out_of_order([asked(Function.WRITE, Type.OK, index=5), second])
    assert bool(problems) is problem
    if problem:
        assert f"has the place (0, 0, {index}) in the claimed order" in problems[0]
