"""The shrinker, against predicates whose smallest failing lists are known."""

from __future__ import annotations

import itertools
import random

import pytest

from zonequake_simulation.shrink import NothingToShrink, shrink


def test_the_needed_causes_are_left_in_their_order() -> None:
    needed = {3, 40, 41, 97}
    assert shrink(range(100), lambda part: needed <= set(part)) == (3, 40, 41, 97)


def test_one_cause_among_many_is_found_in_few_runs() -> None:
    runs = 0

    def fails(part: tuple[int, ...]) -> bool:
        nonlocal runs
        runs += 1
        return 777 in part

    assert shrink(range(1000), fails) == (777,)
    assert runs <= 40, runs


def test_a_failure_without_any_cause_needs_none() -> None:
    assert shrink("abc", lambda part: True) == ()


def test_a_list_that_does_not_fail_is_refused() -> None:
    with pytest.raises(NothingToShrink, match="list of 3"):
        shrink("abc", lambda part: False)


def test_nothing_can_be_taken_from_the_result_even_if_causes_hide_each_other() -> None:
    for seed in range(50):
        pick = random.Random(seed)
        causes = range(12)
        failing = {
            part
            for size in range(1, 13)
            for part in itertools.combinations(causes, size)
            if pick.random() < 0.2
        } | {tuple(causes)}
        found = shrink(causes, failing.__contains__)
        assert found in failing
        for without in itertools.combinations(found, len(found) - 1):
            assert without not in failing


def test_the_same_list_is_never_run_twice() -> None:
    seen: list[tuple[int, ...]] = []

    def fails(part: tuple[int, ...]) -> bool:
        seen.append(part)
        return {1, 6, 7} <= set(part)

    shrink(range(9), fails)
    assert len(seen) == len(set(seen))


def test_equal_causes_at_different_places_are_different() -> None:
    assert shrink("xxxx", lambda part: len(part) >= 2) == ("x", "x")


def test_progress_tells_how_many_are_left_and_how_often_it_ran() -> None:
    told: list[tuple[int, int]] = []
    shrink(range(8), lambda part: 5 in part, progress=lambda left, runs: told.append((left, runs)))
    assert [left for left, _ in told] == [4, 2, 1]
    assert told == sorted(told, key=lambda each: each[1])
