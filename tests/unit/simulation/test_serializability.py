"""The order over several keys: what has one, and what contradicts itself."""

from __future__ import annotations

import pytest

from zonequake_simulation.serializability import ObservedOperation, judge
from zonequake_simulation.violation import Violation

LISTS: dict[str, tuple[int, ...]] = {"a": (1, 2), "b": (1, 2)}


def appending(
    name: str, value: int, inv_us: int, fin_us: int | None, *keys: str
) -> ObservedOperation:
    return ObservedOperation(
        name=name, inv_us=inv_us, fin_us=fin_us, appends=dict.fromkeys(keys, value)
    )


def reading(name: str, inv_us: int, fin_us: int, **shown: tuple[int, ...]) -> ObservedOperation:
    return ObservedOperation(name=name, inv_us=inv_us, fin_us=fin_us, reads=shown)


ONE = appending("one", 1, 0, 10, "a", "b")
TWO = appending("two", 2, 5, 20, "a", "b")


def test_operations_that_stand_in_one_order_are_right() -> None:
    judge([ONE, TWO, reading("r", 15, 16, a=(1,), b=(1,)), reading("s", 30, 31, a=(1, 2))], LISTS)


def test_an_unanswered_transaction_may_be_there_as_a_whole_or_not() -> None:
    judge([ONE, appending("?", 2, 5, None, "a", "b")], LISTS)
    judge([ONE, TWO, appending("?", 3, 5, None, "a", "b")], LISTS)
    with pytest.raises(Violation, match="all of a transaction is there, or nothing"):
        judge([ONE, appending("?", 2, 5, None, "a", "b")], {"a": (1, 2), "b": (1,)})


def test_an_answered_transaction_that_is_in_no_list_is_found() -> None:
    with pytest.raises(Violation, match="all of a transaction is there, or nothing"):
        judge([ONE, TWO, appending("lost", 3, 5, 6, "a", "b")], LISTS)


def test_a_reader_that_sees_a_transaction_in_one_list_and_then_not_in_the_other_is_found() -> None:
    half = [reading("r", 12, 13, a=(1, 2)), reading("s", 14, 15, b=(1,))]
    with pytest.raises(Violation, match="one order explains all answers and real time"):
        judge([ONE, TWO, *half], LISTS)


def test_two_transactions_in_different_orders_on_two_lists_are_found() -> None:
    with pytest.raises(Violation, match="one order explains all answers and real time"):
        judge([ONE, TWO], {"a": (1, 2), "b": (2, 1)})


def test_an_order_against_real_time_is_found() -> None:
    late = appending("late", 3, 30, 40, "a")
    with pytest.raises(Violation, match="one order explains all answers and real time"):
        judge([ONE, TWO, late], {"a": (3, 1, 2), "b": (1, 2)})


def test_a_read_that_is_not_how_the_list_began_is_found() -> None:
    with pytest.raises(Violation, match="a list that was read is a prefix of the list"):
        judge([ONE, TWO, reading("r", 12, 13, a=(2,))], LISTS)
