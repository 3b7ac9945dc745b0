"""Transactions of which reads show a half: planted ones, and small histories against search."""

from random import Random

import pytest

from tests.histories.small_transactions import has_order_in_time, small
from zonequake_analysis.checks.transactions.halves import half_seen
from zonequake_analysis.checks.transactions.recorded import ListTransaction
from zonequake_analysis.inputs.shapes import NEVER_NS, OutcomeCode

BOTH = ListTransaction(
    op="1", inv_ns=0, fin_ns=NEVER_NS, outcome=OutcomeCode.INFO, appends={"a": 1, "b": 2}
)


def read(op: str, key: str, *values: int, at_ns: int, place: int | None = None) -> ListTransaction:
    """A single read that takes 10 ns."""
    return ListTransaction(
        op=op, inv_ns=at_ns, fin_ns=at_ns + 10, position=place, reads={key: values}
    )


def test_a_later_read_misses_the_other_append() -> None:
    shows, misses = read("2", "a", 1, at_ns=20), read("3", "b", at_ns=31)
    (found,) = half_seen([BOTH, shows, misses])
    assert (found.transaction, found.shows, found.misses) == (BOTH, shows, misses)
    assert (found.shown, found.missed) == ("a", "b")


def test_reads_at_the_same_time_prove_nothing_without_places() -> None:
    assert not list(half_seen([BOTH, read("2", "a", 1, at_ns=20), read("3", "b", at_ns=30)]))


@pytest.mark.parametrize(("shows", "misses", "count"), [(7, 7, 1), (7, 9, 1), (9, 7, 0)])
def test_places_order_reads_at_the_same_time(shows: int, misses: int, count: int) -> None:
    both = [read("2", "a", 1, at_ns=20, place=shows), read("3", "b", at_ns=20, place=misses)]
    assert len(list(half_seen([BOTH, *both]))) == count


def test_a_half_that_places_show_is_preferred_to_one_of_times_alone() -> None:
    shows, misses = read("2", "a", 1, at_ns=20), read("3", "b", at_ns=31)
    (found,) = half_seen([BOTH, shows, misses])
    assert found.by_times
    placed = read("4", "a", 1, at_ns=50, place=7), read("5", "b", at_ns=40, place=8)
    (found,) = half_seen([BOTH, shows, misses, *placed])
    assert (found.shows, found.misses, found.by_times) == (*placed, False)


def test_a_read_before_the_transaction_misses_it_rightly() -> None:
    assert not list(half_seen([BOTH, read("2", "b", at_ns=0), read("3", "a", 1, at_ns=20)]))


def test_the_first_place_counts_and_not_the_first_end() -> None:
    early_end = read("2", "a", 1, at_ns=20, place=9)
    early_place = read("3", "a", 1, at_ns=25, place=5)
    misses = read("4", "b", at_ns=25, place=6)
    (found,) = half_seen([BOTH, early_end, early_place, misses])
    assert found.shows is early_place


def test_one_transaction_reads_both_keys() -> None:
    torn = ListTransaction(op="2", inv_ns=5, fin_ns=50, reads={"a": (), "b": (2,)})
    earlier = read("3", "b", 2, at_ns=0)
    (found,) = half_seen([BOTH, earlier, torn])
    assert found.shows is found.misses is torn
    assert (found.shown, found.missed) == ("b", "a")


def test_a_store_that_applies_half_a_transaction_is_found() -> None:
    lists: dict[str, list[int]] = {"a": [], "b": []}
    for key, value in list(BOTH.appends.items())[:1]:  # the store dies between the two
        lists[key].append(value)
    final = [read(key, key, *values, at_ns=100) for key, values in lists.items()]
    again = [read(f"{key}2", key, *values, at_ns=200) for key, values in lists.items()]
    assert [one.transaction for one in half_seen([BOTH, *final, *again])] == [BOTH]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_found_has_no_order_in_time(seed: int) -> None:
    rng = Random(seed)
    found = 0
    for _ in range(150):
        history = small(rng)
        if list(half_seen(history)):
            found += 1
            assert not has_order_in_time(history), history
    assert found
