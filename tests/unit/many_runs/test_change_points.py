"""Planted steps are found at their place, and series without one stay whole."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from zonequake_analysis.many_runs.change_points import (
    CHANCE,
    chance_of,
    change_points,
    mid_ranks,
)


def noise(seed: int, count: int, spread: float = 0.2) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(0.0, spread, count) * 40.0


def test_a_step_is_found_at_its_place_with_its_levels() -> None:
    values = noise(1, 200)
    values[120:] *= 1.6
    (found,) = change_points(values.tolist())
    assert abs(found.index - 120) <= 2
    assert found.after / found.before == pytest.approx(1.6, rel=0.08)
    assert found.chance < 1e-6


def test_a_step_is_found_in_nearly_every_series() -> None:
    """By half, where runs spread by a fifth."""
    near = alone = 0
    for seed in range(100):
        values = noise(seed, 100)
        values[60:] *= 1.5
        found = [abs(point.index - 60) <= 4 for point in change_points(values.tolist())]
        near, alone = near + any(found), alone + (found == [True])
    assert near >= 95
    assert alone >= 90


def test_a_regression_of_the_last_four_runs_is_found_and_of_the_last_two_not_yet() -> None:
    values = noise(2, 60)
    values[-4:] = values[:-4].max() * 1.5
    assert [point.index for point in change_points(values.tolist())] == [56]
    values = noise(2, 60)
    values[-2:] = values[:-2].max() * 1.5
    assert change_points(values.tolist()) == []


def test_up_and_down_again_are_two_change_points() -> None:
    values = noise(3, 180)
    values[60:110] *= 2
    found = change_points(values.tolist())
    assert [abs(p.index - at) <= 2 for p, at in zip(found, (60, 110), strict=True)] == [True, True]
    assert found[0].after == found[1].before


@pytest.mark.parametrize("spread", [0.1, 0.3, 0.8])
def test_series_without_a_change_seldom_show_one(spread: float) -> None:
    wrong = sum(bool(change_points(noise(seed, 150, spread).tolist())) for seed in range(200))
    assert wrong <= 200 * CHANCE + 3


def test_single_outliers_are_no_change() -> None:
    values = noise(4, 100)
    values[::17] *= 50
    assert change_points(values.tolist()) == []


def test_a_step_below_a_tenth_is_none_however_sure_it_is() -> None:
    values = [100.0 + 0.001 * i for i in range(50)] + [108.0 + 0.001 * i for i in range(50)]
    assert change_points(values) == []


def test_counts_that_are_mostly_zero_have_change_points_too() -> None:
    found = change_points([0.0] * 40 + [1.0, 2.0] * 5)
    assert [(point.index, point.before, point.after) for point in found] == [(40, 0.0, 1.5)]
    assert change_points([0.0, 0.0, 0.0, 1.0] * 20) == []


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0] * 3, [5.0] * 50])
def test_short_and_constant_series_have_none(values: list[float]) -> None:
    assert change_points(values) == []


def test_the_chance_is_that_of_all_ways_to_deal_the_values_also_with_ties() -> None:
    for before, after in (
        ([1.0, 2.0, 3.0, 7.0], [4.0, 5.0, 6.0, 8.0]),
        ([1.0, 1.0, 2.0, 2.0, 2.0], [2.0, 3.0, 3.0, 1.0]),
    ):
        together = np.array(before + after)
        ranks = mid_ranks(together)
        middle = len(after) * (len(together) + 1) / 2
        seen = abs(ranks[len(before) :].sum() - middle)
        dealt = [
            abs(ranks[list(chosen)].sum() - middle) >= seen - 1e-9
            for chosen in itertools.combinations(range(len(together)), len(after))
        ]
        exact = sum(dealt) / len(dealt)
        assert chance_of(np.array(before), np.array(after)) == pytest.approx(exact)


def test_a_thousand_runs_with_five_changes_are_searched_in_order() -> None:
    values = noise(5, 1000)
    steps = [150, 300, 480, 700, 990]
    for place in steps:
        values[place:] *= 1.5
    began = time.process_time()
    found = [point.index for point in change_points(values.tolist())]
    print(f"{time.process_time() - began:.2f} s")
    assert len(found) == len(steps)
    assert all(abs(a - b) <= 4 for a, b in zip(found, steps, strict=True))
