"""The search for an order of registers whose values repeat, against the independent reference."""

from __future__ import annotations

from random import Random

import pytest

from tests.histories.repeated_values import as_reference, hot_register, small_histories
from zonequake_analysis.checks.search import order_search
from zonequake_analysis.checks.search.order_search import (
    MOST_CONFIGURATIONS,
    PER_STEP,
    Answer,
    search,
)
from zonequake_analysis.checks.search.reference import is_linearizable
from zonequake_analysis.checks.search.register_step import Step
from zonequake_analysis.inputs.shapes import ABSENT, NEVER_NS, Function


def write(value: int, inv: int, fin: int = NEVER_NS) -> Step:
    return Step(Function.WRITE, inv, fin, value)


def read(value: int, inv: int, fin: int) -> Step:
    return Step(Function.READ, inv, fin, value)


def cas(expected: int, value: int, inv: int, fin: int = NEVER_NS) -> Step:
    return Step(Function.CAS, inv, fin, value, expected)


def test_search_agrees_with_the_reference_on_eight_thousand_histories() -> None:
    illegal = 0
    for history in small_histories(Random(5), 8000):
        legal = is_linearizable(as_reference(history))
        illegal += not legal
        expected = Answer.ORDER if legal else Answer.NO_ORDER
        assert search(history).answer is expected, history
    assert 800 < illegal < 7200


def test_a_narrow_search_alone_never_says_that_there_is_no_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A width of nothing drops what it can at each event, and is wrong unless it says so."""
    monkeypatch.setattr(order_search, "_WIDTHS", (0, None))
    for history in small_histories(Random(6), 2000):
        legal = is_linearizable(as_reference(history))
        assert search(history).answer is (Answer.ORDER if legal else Answer.NO_ORDER), history


LEGAL = {
    "the same value twice": [write(1, 0, 1), write(2, 2, 3), write(1, 4, 5), read(1, 6, 7)],
    "a cas back to an earlier value": [
        *(write(0, 0, 1), cas(0, 1, 2, 3), cas(1, 0, 4, 5), read(0, 6, 7)),
    ],
    "a read of a key that was never written": [read(ABSENT, 0, 1), write(1, 2, 3)],
    "a write without an answer, seen late": [write(1, 0), write(2, 1, 2), read(1, 5, 6)],
    "a write without an answer, never seen": [write(1, 0), write(2, 1, 2), read(2, 5, 6)],
    "a write hidden by one that came after it in time": [
        *(write(2, 0, 9), write(1, 1, 3), read(1, 4, 5), write(1, 6, 8), read(1, 10, 11)),
    ],
    "ends that meet are concurrent": [write(1, 0, 5), read(ABSENT, 5, 6)],
    "a cas without an answer in a chain": [write(0, 0, 1), cas(0, 3, 2), read(3, 4, 5)],
}

FAULTS = {
    "a stale read": [write(1, 0, 1), write(2, 2, 3), write(1, 4, 5), read(2, 6, 7)],
    "a value that nothing wrote": [write(1, 0, 1), write(1, 2, 3), read(7, 4, 5)],
    "absent after a write": [write(1, 0, 1), write(1, 2, 3), read(ABSENT, 4, 5)],
    "two reads that go back": [
        *(write(1, 0, 1), write(2, 2, 9), write(1, 3, 9)),
        *(read(2, 10, 11), read(1, 12, 13), read(2, 14, 15)),
    ],
    "an applied cas that found another value": [
        *(write(0, 0, 1), write(1, 2, 3), cas(0, 1, 4, 5), read(1, 6, 7)),
    ],
    "two cas from one value": [write(0, 0, 1), cas(0, 1, 2, 5), cas(0, 1, 2, 5), write(1, 6, 7)],
    "a write without an answer seen twice": [
        *(write(1, 0), write(2, 1, 2), read(1, 3, 4), write(2, 5, 6), read(1, 7, 8)),
    ],
    "a read before its write began": [
        write(2, 0, 1),
        read(1, 2, 3),
        write(1, 4, 5),
        write(1, 6, 7),
    ],
    "a value read after its only writer was hidden": [
        *(write(1, 0, 1), write(2, 2, 4), write(2, 3, 5), read(1, 6, 7)),
    ],
}


@pytest.mark.parametrize("name", LEGAL)
def test_what_has_an_order_passes(name: str) -> None:
    assert is_linearizable(as_reference(LEGAL[name]))
    assert search(LEGAL[name]).answer is Answer.ORDER


@pytest.mark.parametrize("name", FAULTS)
def test_what_has_no_order_is_found(name: str) -> None:
    assert not is_linearizable(as_reference(FAULTS[name]))
    assert search(FAULTS[name]).answer is Answer.NO_ORDER


@pytest.mark.parametrize("name", FAULTS)
def test_the_end_that_shows_it_is_named_and_what_came_before_it_has_an_order(name: str) -> None:
    history = FAULTS[name]
    place = search(history).failed_at
    assert place is not None
    end = history[place].fin_ns
    before = [
        step if step.fin_ns < end else step._replace(fin_ns=NEVER_NS)
        for step in history
        if step.fin_ns < end or (step.f is not Function.READ and step.inv_ns < end)
    ]
    assert search(before).answer is Answer.ORDER


def test_operations_that_never_meet_explore_nothing() -> None:
    alone = [
        step
        for at in range(0, 4000, 4)
        for step in (write(at % 5, at, at + 1), read(at % 5, at + 2, at + 3))
    ]
    assert search(alone).explored == 0
    assert search([*alone, read(7, 4000, 4001)]).failed_at == len(alone)


def test_a_hot_register_of_few_values_is_decided_within_the_bound() -> None:
    history = hot_register(3000, clients=10, unanswered=0.01, cas=0.1)
    found = search(history)
    assert found.answer is Answer.ORDER
    assert found.explored <= MOST_CONFIGURATIONS + PER_STEP * len(history)


def test_it_gives_up_at_its_bound_and_not_before() -> None:
    history = hot_register(400, clients=24, unanswered=0.1, cas=0.2)
    needed = search(history).explored
    assert needed > 1000
    assert search(history, most=needed).answer is Answer.ORDER
    given_up = search(history, most=100)
    assert given_up.answer is Answer.GAVE_UP
    assert given_up.failed_at is None
    assert 100 < given_up.explored < 400, "it stops within one operation of its bound"


def test_a_hard_history_with_a_fault_is_given_up_and_never_passed() -> None:
    """Two reads of 7 that one write without an answer can't explain, among much that is open."""
    history = hot_register(400, clients=24, unanswered=0.2, cas=0.2)
    wrong = [write(7, 0), read(7, 12 * 10**8, 12 * 10**8 + 1)]
    assert search([*history, *wrong], most=20_000).answer is Answer.ORDER
    last = max(step.fin_ns for step in history if step.fin_ns != NEVER_NS)
    twice = [write(8, last + 1, last + 2), read(7, last + 3, last + 4)]
    assert search([*history, *wrong, *twice], most=20_000).answer is Answer.GAVE_UP


def test_an_answer_that_nothing_explains_is_found_at_once_where_a_search_would_give_up() -> None:
    history = hot_register(400, clients=24, unanswered=0.2, cas=0.2)
    found = search([*history, read(7, 12 * 10**8, 12 * 10**8 + 1)])
    assert (found.answer, found.explored, found.failed_at) == (Answer.NO_ORDER, 0, len(history))
