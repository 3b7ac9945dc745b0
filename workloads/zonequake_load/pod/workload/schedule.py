"""Due times of open-loop operations. Pure: offsets from the start, in ns.

An open loop sends on schedule, whatever the store does; latency counts from the scheduled time, so
that a slow store can't hide behind a client that waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from zonequake_load.pod.control import Arrivals, Probes
from zonequake_load.randomness import Randomness

SECOND_NS = 1_000_000_000


def arrivals(
    per_second: float, kind: Arrivals, rng: Randomness, *, share: int = 0, shares: int = 1
) -> Iterator[int]:
    """Due times of one of `shares` pods that send `per_second` together."""
    mean_ns = SECOND_NS * shares / per_second
    if kind is Arrivals.POISSON:
        due = 0.0
        while True:
            due += rng.expovariate(1.0) * mean_ns
            yield int(due)
    first = mean_ns * share / shares
    count = 0
    while True:
        yield int(first + count * mean_ns)
        count += 1


def probe_interval_ns(probes: Probes, partitions: int, pods: int) -> int:
    """Returns the time between a pod's probes of one class (read, write) of one partition."""
    within_budget_ns = 2 * partitions * pods * SECOND_NS // probes.budget_per_second
    return max(probes.interval_ms * 1_000_000, within_budget_ns)


def probe_arrivals(partitions: int, interval_ns: int) -> Iterator[tuple[int, int, bool]]:
    """(due, position of the partition, is it a write?): each class of each partition once in every
    interval, spread evenly over it."""
    slots = 2 * partitions
    count = 0
    while True:
        turn, slot = divmod(count, slots)
        yield (
            turn * interval_ns + slot * interval_ns // slots,
            slot % partitions,
            slot >= partitions,
        )
        count += 1
