"""The partition's update counter: the document's rules, and a plain model of it."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zonequake_store.errors import CounterError
from zonequake_store.state import counters
from zonequake_store.state.counters import PartitionUpdateCounter


def state(counter: PartitionUpdateCounter) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    return counter.lwm, counter.hwm, counter.ranges


def test_a_reservation_answers_the_old_high_watermark_and_applies_nothing() -> None:
    counter = PartitionUpdateCounter()
    assert counter.reserve(3) == 0
    assert counter.reserve(2) == 3
    assert state(counter) == (0, 5, ())
    assert not counter.is_sequential


def test_updates_in_order_move_the_low_watermark() -> None:
    counter = PartitionUpdateCounter()
    counter.reserve(5)
    assert counter.update(0, 3)
    assert counter.update(3, 2)
    assert state(counter) == (5, 5, ())
    assert counter.is_sequential


def test_an_update_out_of_order_waits_as_a_range_and_is_swallowed_when_the_gap_closes() -> None:
    counter = PartitionUpdateCounter()
    counter.reserve(5)
    assert counter.update(3, 2)
    assert state(counter) == (0, 5, ((3, 2),))
    assert counter.update(0, 3)
    assert state(counter) == (5, 5, ())


def test_ranges_that_touch_become_one() -> None:
    counter = PartitionUpdateCounter(0, 20)
    assert counter.update(5, 2)
    assert counter.update(10, 2)
    assert counter.ranges == ((5, 2), (10, 2))
    assert counter.update(12, 1)
    assert counter.update(4, 1)
    assert counter.ranges == ((4, 3), (10, 3))
    assert counter.update(7, 3)
    assert list(counter.ranges) == [(4, 9)]


@pytest.mark.parametrize("again", [(0, 3), (1, 1), (6, 2), (7, 1)])
def test_what_was_applied_before_is_told_and_changes_nothing(again: tuple[int, int]) -> None:
    counter = PartitionUpdateCounter(3, 10, ((6, 2),))
    assert not counter.update(*again)
    assert state(counter) == (3, 10, ((6, 2),))


@pytest.mark.parametrize("overlapping", [(2, 2), (4, 3), (5, 5), (7, 2), (3, 4)])
def test_a_range_that_partly_overlaps_applied_updates_is_refused(
    overlapping: tuple[int, int],
) -> None:
    counter = PartitionUpdateCounter(3, 12, ((6, 2),))
    with pytest.raises(CounterError, match="overlaps"):
        counter.update(*overlapping)
    assert state(counter) == (3, 12, ((6, 2),))


@pytest.mark.parametrize("unreserved", [(3, 3), (5, 1), (-1, 2), (3, 0)])
def test_a_range_that_was_never_reserved_is_refused(unreserved: tuple[int, int]) -> None:
    counter = PartitionUpdateCounter(3, 5)
    with pytest.raises(CounterError, match="never reserved"):
        counter.update(*unreserved)
    assert state(counter) == (3, 5, ())


def test_nothing_or_less_cannot_be_reserved() -> None:
    with pytest.raises(CounterError, match="cannot be reserved"):
        PartitionUpdateCounter().reserve(0)


def test_one_range_too_many_is_refused_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counters, "MAX_RANGES", 2)
    counter = PartitionUpdateCounter(0, 20)
    counter.update(5, 1)
    counter.update(10, 1)
    with pytest.raises(CounterError, match="2 ranges wait behind the low watermark 0"):
        counter.update(15, 1)
    assert state(counter) == (0, 20, ((5, 1), (10, 1)))
    assert counter.update(11, 1), "one that joins another needs no room"
    assert counter.update(0, 5)


@pytest.mark.parametrize(
    "contradicting",
    [
        (5, 3, ()),
        (-1, 3, ()),
        (2, 9, ((2, 2),)),
        (2, 9, ((5, 2), (7, 1))),
        (2, 6, ((5, 2),)),
        (2, 9, ((5, 0),)),
    ],
)
def test_a_stored_counter_that_contradicts_itself_is_refused(
    contradicting: tuple[int, int, tuple[tuple[int, int], ...]],
) -> None:
    with pytest.raises(CounterError):
        PartitionUpdateCounter(*contradicting)


def test_counting_one_is_reserving_and_applying_it() -> None:
    counter = PartitionUpdateCounter()
    counter.count()
    assert state(counter) == (1, 1, ())
    start = counter.reserve(2)
    counter.count()
    counter.count()
    assert state(counter) == (1, 5, ((3, 2),))
    counter.update(start, 2)
    assert state(counter) == (5, 5, ())


class CounterAgainstSets(RuleBasedStateMachine):
    """The counter beside two sets of numbers: those reserved and those applied."""

    def __init__(self) -> None:
        super().__init__()
        self.counter = PartitionUpdateCounter()
        self.reserved = 0
        self.applied: set[int] = set()
        self.outstanding: list[tuple[int, int]] = []

    @rule(delta=st.integers(1, 4))
    def reserve(self, delta: int) -> None:
        assert self.counter.reserve(delta) == self.reserved
        self.outstanding.append((self.reserved, delta))
        self.reserved += delta

    @precondition(lambda self: self.outstanding)
    @rule(choice=st.data())
    def end_one(self, choice: st.DataObject) -> None:
        start, delta = self.outstanding.pop(
            choice.draw(st.integers(0, len(self.outstanding) - 1), label="which")
        )
        assert self.counter.update(start, delta)
        self.applied |= set(range(start + 1, start + delta + 1))

    @rule()
    def count(self) -> None:
        self.counter.count()
        self.reserved += 1
        self.applied.add(self.reserved)

    @rule(start=st.integers(0, 40), delta=st.integers(1, 6))
    def update_anything(self, start: int, delta: int) -> None:
        numbers = set(range(start + 1, start + delta + 1))
        before = state(self.counter)
        if max(numbers) <= self.reserved and not numbers & self.applied:
            return  # legal, and the rules above do it
        if numbers <= self.applied:
            assert not self.counter.update(start, delta)
        else:
            with pytest.raises(CounterError):
                self.counter.update(start, delta)
        assert state(self.counter) == before

    @rule()
    def restart(self) -> None:
        self.counter = PartitionUpdateCounter(*state(self.counter))

    @invariant()
    def it_says_what_the_sets_say(self) -> None:
        lwm, hwm, ranges = state(self.counter)
        assert hwm == self.reserved >= lwm
        assert lwm + 1 not in self.applied
        above = [n for start, delta in ranges for n in range(start + 1, start + delta + 1)]
        assert above == sorted(set(above))
        assert set(range(1, lwm + 1)) | set(above) == self.applied
        ends = [lwm, *(start + delta for start, delta in ranges)]
        assert all(start > end for (start, _), end in zip(ranges, ends, strict=False))


CounterAgainstSets.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestCounterAgainstSets = CounterAgainstSets.TestCase
