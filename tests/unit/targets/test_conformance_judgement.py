"""What outcomes must not say, beside what was found afterwards; a lie is noticed."""

from __future__ import annotations

import pytest

from zonequake_chaos.conformance.judgement import (
    AskedOperation,
    contradictions,
    effects_of_lost,
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
