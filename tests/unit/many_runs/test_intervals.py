"""Intervals hold the true value about as often as they say, also where slow ones come in bursts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from zonequake_analysis.many_runs import intervals
from zonequake_analysis.many_runs.quantities import Estimate


def test_the_ranks_of_a_median_are_those_of_the_tables() -> None:
    """Le Boudec, Performance Evaluation (2010), table A.1: n, and the ranks at 95 %."""
    assert intervals.ranks(10, 0.5) == (2, 9)
    assert intervals.ranks(31, 0.5) == (10, 22)
    assert intervals.ranks(70, 0.5) == (27, 44)


def test_the_ranks_hold_the_quantile_with_at_least_the_level_and_no_more_than_needed() -> None:
    for count, q in itertools.product((20, 100, 400), (0.5, 0.95)):
        low, high = intervals.ranks(count, q)
        chance = [math.comb(count, k) * q**k * (1 - q) ** (count - k) for k in range(count + 1)]
        assert sum(chance[:low]) <= 0.025 + 1e-12
        assert sum(chance[: low + 1]) > 0.025
        if high <= count:
            assert sum(chance[high:]) <= 0.025 + 1e-12
        assert sum(chance[high - 1 :]) > 0.025


def test_the_ranks_of_many_operations_are_near_the_normal_approximation() -> None:
    count, q = 1_000_000, 0.99
    low, high = intervals.ranks(count, q)
    spread = 1.96 * math.sqrt(count * q * (1 - q))
    assert low == pytest.approx(count * q - spread, abs=3)
    assert high == pytest.approx(count * q + spread, abs=3)


def test_too_few_operations_leave_the_upper_end_open() -> None:
    found = intervals.quantiles(np.arange(1.0, 51.0), np.arange(50) % 20, {"p99": 0.99})["p99"]
    assert found.value == 50
    assert found.high == math.inf
    assert 0 < found.low < 50


def test_intervals_of_independent_operations_hold_the_true_quantile() -> None:
    held = 0
    true = math.exp(0.5 * 1.6448536269514722)  # p95 of lognormal(0, 0.5)
    for seed in range(300):
        rng = np.random.default_rng(seed)
        latency = rng.lognormal(0, 0.5, 2000)
        found = intervals.quantiles(latency, np.arange(2000) * 20 // 2000, {"p95": 0.95})["p95"]
        held += found.low <= true <= found.high
    assert held / 300 >= 0.93


def test_intervals_hold_where_slow_operations_come_in_bursts() -> None:
    """A tenth of the parts is slow; as if they were independent they would hold far too seldom."""
    held = naive = 0
    runs = 300
    true = math.exp(1.2815515655446004 * 0.3)  # p90: bursts of 3 % of the time don't move it much
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        part = np.arange(4000) * 20 // 4000
        level = rng.lognormal(0, 0.3, 20)  # each part has a level of its own
        latency = level[part] * np.ones(4000)
        latency += rng.normal(0, 1e-6, 4000)
        found = intervals.quantiles(latency, part, {"p90": 0.90})["p90"]
        held += found.low <= true <= found.high
        low, high = intervals.ranks(4000, 0.9)
        ordered = np.sort(latency)
        naive += ordered[low - 1] <= true <= ordered[min(high, 4000) - 1]
    assert naive / runs < 0.5
    assert held / runs >= 0.85


def test_one_burst_leaves_the_upper_end_of_p99_open() -> None:
    part = np.arange(4000) * 20 // 4000
    latency = np.full(4000, 20.0) + np.arange(4000) / 1e6
    latency[2000:2060] = 900.0
    found = intervals.quantiles(latency, part, {"p99": 0.99})["p99"]
    assert found.value == 900.0
    assert found.low < 21
    assert found.high == math.inf


def test_the_rate_of_an_even_load_has_a_narrow_interval_and_one_with_an_outage_a_wide_one() -> None:
    part = np.arange(4000) * 20 // 4000
    even = intervals.rate(part, 40.0)
    assert even == Estimate(value=100.0, low=100.0, high=100.0)
    halved = intervals.rate(part[(part < 5) | (part >= 15)], 40.0)
    assert halved.value == 50.0
    assert halved.low < 30 < 70 < halved.high


def test_the_bootstrap_of_the_same_runs_is_the_same_and_holds_their_median() -> None:
    runs = [Estimate.exact(v) for v in (10.0, 11.0, 12.0, 13.0, 30.0)]
    found = intervals.of_runs(runs, "base p99")
    assert found == intervals.of_runs(runs, "base p99")
    assert found.value == 12.0
    assert 10.0 <= found.low < 12.0 < found.high <= 30.0


def test_two_runs_have_the_widest_of_their_own_intervals() -> None:
    runs = [Estimate(value=10, low=9, high=12), Estimate(value=20, low=15, high=math.inf)]
    assert intervals.of_runs(runs, "x") == Estimate(value=15, low=9, high=math.inf)
