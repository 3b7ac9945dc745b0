"""Schedules, keys and numbers: pure, so the same seed gives the same load."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonequake_load.errors import IdentityError
from zonequake_load.operation import Function, Operation
from zonequake_load.pod.control import (
    AppendListWorkload,
    Arrivals,
    LoadPlan,
    Preload,
    Probes,
    RegisterWorkload,
)
from zonequake_load.pod.identity import COUNTER_BITS, INCARNATION_BITS, Numbers, incarnation_after
from zonequake_load.pod.workload.schedule import (
    SECOND_NS,
    arrivals,
    probe_arrivals,
    probe_interval_ns,
)
from zonequake_load.pod.workload.shares import (
    LastValues,
    PlannedOperation,
    PodShare,
    WorkloadShare,
    key_weights,
    preload_keys,
    probe_stem,
    zipf_weights,
)
from zonequake_load.targets.keys import key_for_partition
from zonequake_protocol.client import partition_of

PARTITIONS = 5
key_of = partial(key_for_partition, partitions=PARTITIONS)


def traffic(
    workload: RegisterWorkload | AppendListWorkload, seed: int = 1, pods: int = 1
) -> WorkloadShare:
    pod = PodShare(
        index=0,
        pods=pods,
        partitions=list(range(PARTITIONS)),
        operations_per_key=100_000,
        rng=random.Random(seed),
        next_value=Numbers(0, 1).next_value,
        key_for_partition=key_of,
    )
    return WorkloadShare(workload, pod)


def take(
    workload: RegisterWorkload | AppendListWorkload, count: int, seed: int
) -> list[PlannedOperation]:
    source = traffic(workload, seed)
    gap_s = 1 / workload.operations_per_second
    return [source.next(n * gap_s) for n in range(count)]


@pytest.mark.parametrize("workload", [RegisterWorkload(), AppendListWorkload()])
def test_a_seed_gives_the_same_operations_again_and_another_seed_others(
    workload: RegisterWorkload | AppendListWorkload,
) -> None:
    assert take(workload, 300, 7) == take(workload, 300, 7)
    assert take(workload, 300, 7) != take(workload, 300, 8)


def test_the_mix_of_operations_is_the_one_asked_for() -> None:
    counts = Counter(p.operation.f for p in take(RegisterWorkload(reads=0.5, cas=0.3), 5_000, 1))
    assert counts[Function.READ] == pytest.approx(2_500, rel=0.1)
    assert counts[Function.CAS] == pytest.approx(1_500, rel=0.1)
    assert counts[Function.WRITE] == pytest.approx(1_000, rel=0.1)


def test_every_key_belongs_to_the_partition_it_is_planned_for() -> None:
    for planned in take(RegisterWorkload(), 500, 1) + take(AppendListWorkload(), 500, 1):
        assert partition_of(planned.operation.key, PARTITIONS) == planned.partition


def test_no_value_is_written_twice_or_is_zero() -> None:
    operations = [p.operation for p in take(RegisterWorkload(reads=0), 2_000, 1)]
    values = [each.value for each in operations if isinstance(each, Operation)]
    assert 0 not in values
    assert len(set(values)) == 2_000


def test_a_list_is_left_for_a_new_key_before_it_is_full() -> None:
    workload = AppendListWorkload(operations_per_second=100, keys_per_partition=1, longest=50)
    lengths = Counter(
        p.operation.key for p in take(workload, 20_000, 3) if p.operation.f is Function.APPEND
    )
    assert len(lengths) > 50
    assert max(lengths.values()) <= 50


def test_no_list_grows_too_long_whatever_the_number_of_pods_and_the_luck() -> None:
    workload = AppendListWorkload(operations_per_second=100, keys_per_partition=1, longest=6)
    for pods in (1, 2, 4):
        lengths: Counter[str] = Counter()
        for seed in range(pods):
            source = traffic(workload, seed, pods)
            planned = [source.next(n * pods / 100) for n in range(20_000 // pods)]
            lengths.update(p.operation.key for p in planned if p.operation.f is Function.APPEND)
        assert len(lengths) > 1_000
        assert max(lengths.values()) <= 6


def test_pods_share_the_keys_of_one_workload() -> None:
    keys = [
        {p.operation.key for p in take(AppendListWorkload(longest=20), 4_000, seed)}
        for seed in (1, 2)
    ]
    assert len(keys[0]) > 20
    assert len(keys[0] & keys[1]) > 0.9 * len(keys[0])


def test_skew_favours_the_first_keys() -> None:
    assert zipf_weights(4, 0) == (0.25, 0.25, 0.25, 0.25)
    weights = zipf_weights(10, 1)
    assert weights[0] == pytest.approx(10 * weights[9])
    assert sum(weights) == pytest.approx(1)


def test_a_hot_key_gets_its_share_and_the_others_the_rest() -> None:
    assert key_weights(4, skew=0, hot=0.7) == pytest.approx((0.7, 0.1, 0.1, 0.1))
    assert key_weights(3, skew=1, hot=0.4) == pytest.approx((0.4, 0.4, 0.2))
    assert key_weights(3, skew=1, hot=0) == zipf_weights(3, 1)
    assert key_weights(1, skew=0, hot=0.5) == (1,)


@pytest.mark.parametrize(
    "workload",
    [
        RegisterWorkload(keys_per_partition=10, hot=0.8),
        AppendListWorkload(keys_per_partition=10, hot=0.8, longest=10_000),
    ],
)
def test_operations_go_to_the_hot_key_of_each_partition(
    workload: RegisterWorkload | AppendListWorkload,
) -> None:
    slots = Counter((p.partition, p.operation.key.split("/")[2]) for p in take(workload, 5_000, 1))
    for partition in range(PARTITIONS):
        assert slots[partition, "0"] == pytest.approx(800, rel=0.2)


@pytest.mark.parametrize("kind", list(Arrivals))
def test_two_pods_together_send_at_the_rate_asked_for(kind: Arrivals) -> None:
    due = [
        offset
        for share in (0, 1)
        for offset in itertools.takewhile(
            lambda at: at < 100 * SECOND_NS,
            arrivals(40, kind, random.Random(share), share=share, shares=2),
        )
    ]
    assert len(due) == pytest.approx(4_000, rel=0.05)


def test_even_arrivals_of_two_pods_interleave() -> None:
    first, second = (
        list(
            itertools.islice(arrivals(10, Arrivals.UNIFORM, random.Random(0), share=n, shares=2), 3)
        )
        for n in (0, 1)
    )
    assert first == [0, 200_000_000, 400_000_000]
    assert second == [100_000_000, 300_000_000, 500_000_000]


@given(st.integers(1, 2_000), st.integers(1, 8))
def test_probes_keep_their_interval_and_their_budget(partitions: int, pods: int) -> None:
    interval_ns = probe_interval_ns(Probes(), partitions, pods)
    assert interval_ns >= 100_000_000
    per_second = 2 * partitions * pods * SECOND_NS / interval_ns
    assert per_second <= 500 * (1 + 1e-6)


def test_each_partition_is_probed_once_by_read_and_once_by_write_in_each_interval() -> None:
    probes = list(itertools.islice(probe_arrivals(3, 600), 12))
    assert probes[:6] == [
        (0, 0, False), (100, 1, False), (200, 2, False),
        (300, 0, True), (400, 1, True), (500, 2, True),
    ]  # fmt: skip
    assert [(due - 600, where, write) for due, where, write in probes[6:]] == probes[:6]


def test_probe_keys_are_of_one_pod_and_change_before_they_have_too_long_a_history() -> None:
    assert probe_stem(3, 0, 0) == probe_stem(3, 0, 1_000) != probe_stem(3, 1, 0)
    assert probe_stem(3, 0, 0) != probe_stem(3, 0, 25_000)


def test_preload_has_every_register_key_and_the_bulk_once() -> None:
    plan = LoadPlan(
        client="zonequake_target_store.client:connect",
        zone="z",
        seeds=["s:1"],
        workloads=[RegisterWorkload(keys_per_partition=3, filler_bytes=10), AppendListWorkload()],
        preload=Preload(bulk_keys_per_partition=4, filler_bytes=1_000),
    )
    keys = list(preload_keys(plan, [1, 4], key_of))
    assert len({key.key for key in keys}) == len(keys) == 2 * (3 + 4)
    assert {partition_of(key.key, PARTITIONS) for key in keys} == {1, 4}
    assert sum(key.filler_bytes for key in keys) == 6 * 10 + 8 * 1_000
    registers = {key.key for key in keys[:6]}
    source = traffic(RegisterWorkload(keys_per_partition=3))
    assert registers == {
        source.key(partition, slot, 0) for partition in (1, 4) for slot in range(3)
    }


def test_memory_offers_what_was_last_seen() -> None:
    last_values = LastValues()
    assert last_values.expected("k") is None
    last_values.saw("k", 4)
    assert last_values.expected("k") == 4
    last_values.saw("k", [1, 2])
    assert last_values.expected("k") == 4


def test_numbers_of_different_pods_and_incarnations_never_meet() -> None:
    sources = [Numbers(ordinal, n) for ordinal in (0, 1, 63) for n in (0, 1, 77)]
    numbers = [source.next_value() for source in sources for _ in range(100)]
    assert len(set(numbers)) == len(numbers)
    assert 0 not in numbers
    assert max(numbers) < 2**53


def test_used_up_numbers_are_an_error_and_not_a_repetition() -> None:
    source = Numbers(0, 0)
    source._values = itertools.count((1 << COUNTER_BITS) - 1)
    source.next_value()
    with pytest.raises(IdentityError, match="used up"):
        source.next_value()


@given(st.integers(0, 2**34), st.integers(-1_000, 2**20 - 1))
def test_an_incarnation_is_above_the_last_one_even_if_the_clock_goes_back(
    started_s: int, later_s: int
) -> None:
    size = 1 << INCARNATION_BITS
    last = incarnation_after(None, started_s)
    following = incarnation_after(last, max(0, started_s + later_s))
    assert 0 < (following - last) % size < size // 2 + 1
