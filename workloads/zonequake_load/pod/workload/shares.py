"""The workloads: their keys, and the choice of the next operation. Pure.

A key is either a register or a list. Keys live in *slots*; a slot goes on to a new key, its next
*generation*, before the old one has had too many operations (registers) or elements (lists). The
generation follows only from the time since the load began, so that all pods share the keys.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from zonequake_load.operation import Function, Operation, TransactionOperation
from zonequake_load.pod.control import (
    AppendListWorkload,
    LoadPlan,
    RegisterWorkload,
    TransactionWorkload,
)
from zonequake_load.randomness import Randomness

KeyForPartition = Callable[[str, int], str]

LIST_FILL = 0.5
"""A generation of a list is planned for this part of its longest length: arrivals are random, and
each pod has its own part."""

PROBES_PER_KEY = 50_000
"""A pod's probes of a partition go on to a new key after so many."""


def zipf_weights(count: int, skew: float) -> tuple[float, ...]:
    """Shares of `count` keys, by rank; they add up to 1."""
    raw = [1.0 / rank**skew for rank in range(1, count + 1)]
    return tuple(weight / sum(raw) for weight in raw)


def key_weights(count: int, *, skew: float, hot: float) -> tuple[float, ...]:
    """Shares of `count` keys, which add up to 1: `hot` for the first, the rest by `skew`."""
    if not hot or count == 1:
        return zipf_weights(count, skew)
    return hot, *((1 - hot) * weight for weight in zipf_weights(count - 1, skew))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOperation:
    """The next operation; a cas gets its expected value when it begins, see `LastValues`."""

    operation: Operation | TransactionOperation
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodShare:
    """A pod's share of a workload.

    Args:
        index: of the workload in the plan; part of the keys' names.
        pods: how many have a share of the workload.
        partitions: those under load.
        next_value: gives values unique in the run.
        key_for_partition: see `Target`.
    """

    index: int
    pods: int
    partitions: list[int]
    operations_per_key: int
    rng: Randomness
    next_value: Callable[[], int]
    key_for_partition: KeyForPartition


class _Share:
    """The partitions, keys and values of a share, whatever its operations are.

    Each pod has an equal part of the `longest` elements of a list, so that all pods together keep
    to it. A pod that is started again starts over.
    """

    def __init__(self, pod: PodShare, letter: str, longest: int = 0) -> None:
        assert pod.partitions, "a workload needs a partition"
        self._partitions = pod.partitions
        self._rng = pod.rng
        self._next_value = pod.next_value
        self._key_of = lru_cache(maxsize=65_536)(pod.key_for_partition)
        self._stem = f"{letter}{pod.index}"
        self._most = max(1, longest // pod.pods)
        self._appended: dict[tuple[int, int], tuple[int, int]] = {}

    def key(self, partition: int, slot: int, generation: int) -> str:
        return self._key_of(f"{self._stem}/{partition}/{slot}/{generation}", partition)

    def list_step(self, partition: int, slot: int, generation: int, *, append: bool) -> Operation:
        """Returns an append to a list, or a read of it; a read too if the pod's part is used up."""
        key = self.key(partition, slot, generation)
        last, count = self._appended.get((partition, slot), (generation, 0))
        count = count if last == generation else 0
        if not append or count >= self._most:
            return Operation(f=Function.READ, key=key)
        self._appended[partition, slot] = generation, count + 1
        return Operation(f=Function.APPEND, key=key, value=self._next_value())


class WorkloadShare(_Share):
    """The operations of one workload, as one pod sends its share of them."""

    def __init__(self, workload: RegisterWorkload | AppendListWorkload, pod: PodShare) -> None:
        if isinstance(workload, AppendListWorkload):
            super().__init__(pod, "l", workload.longest)
        else:
            super().__init__(pod, "r")
        self._workload = workload
        weights = key_weights(workload.keys_per_partition, skew=workload.skew, hot=workload.hot)
        self._cumulative = list(itertools.accumulate(weights))
        per_partition = workload.operations_per_second / len(pod.partitions)
        self._periods_s = [
            _capacity(workload, pod.operations_per_key) / (per_partition * weight)
            for weight in weights
        ]
        self._filler = (
            bytes(workload.filler_bytes) if isinstance(workload, RegisterWorkload) else b""
        )

    def next(self, elapsed_s: float) -> PlannedOperation:
        """Returns the operation that is due `elapsed_s` after the load began."""
        partition = self._rng.choice(self._partitions)
        slot = min(
            bisect.bisect_left(self._cumulative, self._rng.random()), len(self._cumulative) - 1
        )
        generation = int(elapsed_s / self._periods_s[slot])
        return PlannedOperation(
            operation=self._operation(partition, slot, generation), partition=partition
        )

    def _operation(self, partition: int, slot: int, generation: int) -> Operation:
        draw = self._rng.random()
        workload = self._workload
        if isinstance(workload, AppendListWorkload):
            return self.list_step(partition, slot, generation, append=draw >= workload.reads)
        key = self.key(partition, slot, generation)
        if draw < workload.reads:
            return Operation(f=Function.READ, key=key)
        if draw < workload.reads + workload.cas:
            return Operation(f=Function.CAS, key=key, value=self._next_value())
        return Operation(f=Function.WRITE, key=key, value=self._next_value(), filler=self._filler)


class TransactionShare(_Share):
    """The transactions of one workload, as one pod sends its share of them."""

    def __init__(self, workload: TransactionWorkload, pod: PodShare) -> None:
        super().__init__(pod, "t", workload.longest)
        self._workload = workload
        steps_per_second = workload.operations_per_second * workload.steps
        per_key = steps_per_second / len(pod.partitions) / workload.keys_per_partition
        self._period_s = _list_capacity(workload, pod.operations_per_key) / per_key

    def next(self, elapsed_s: float) -> PlannedOperation:
        """Returns the transaction that is due `elapsed_s` after the load began."""
        workload, partition = self._workload, self._rng.choice(self._partitions)
        generation = int(elapsed_s / self._period_s)
        slots = self._rng.sample(range(workload.keys_per_partition), workload.steps)
        steps = [
            self.list_step(partition, slot, generation, append=self._rng.random() >= workload.reads)
            for slot in slots
        ]
        return PlannedOperation(
            operation=TransactionOperation(steps=tuple(steps)), partition=partition
        )


def share_of(
    workload: RegisterWorkload | AppendListWorkload | TransactionWorkload, pod: PodShare
) -> WorkloadShare | TransactionShare:
    """Returns a pod's share of a workload of any kind."""
    if isinstance(workload, TransactionWorkload):
        return TransactionShare(workload, pod)
    return WorkloadShare(workload, pod)


def _capacity(workload: RegisterWorkload | AppendListWorkload, operations_per_key: int) -> float:
    """Operations that one generation of a slot is planned for."""
    if isinstance(workload, RegisterWorkload):
        return operations_per_key
    return _list_capacity(workload, operations_per_key)


def _list_capacity(
    workload: AppendListWorkload | TransactionWorkload, operations_per_key: int
) -> float:
    appends = workload.longest * LIST_FILL / max(1e-9, 1.0 - workload.reads)
    return min(operations_per_key, appends)


@dataclass(slots=True)
class LastValues:
    """The newest value known of each register, so that a cas may find what it expects."""

    _values: dict[str, int | str | None] = field(default_factory=dict)

    def saw(self, key: str, value: object) -> None:
        if value is None or isinstance(value, (int, str)):
            self._values[key] = value

    def expected(self, key: str) -> int | str | None:
        return self._values.get(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreloadKey:
    """One key to be written before the load."""

    key: str
    partition: int
    filler_bytes: int


def preload_keys(
    plan: LoadPlan, partitions: list[int], key_for_partition: KeyForPartition
) -> Iterator[PreloadKey]:
    """All keys that exist before the load: each register's first generation, and the bulk."""
    for index, workload in enumerate(plan.workloads):
        if isinstance(workload, RegisterWorkload):
            for partition, slot in itertools.product(
                partitions, range(workload.keys_per_partition)
            ):
                yield PreloadKey(
                    key=key_for_partition(f"r{index}/{partition}/{slot}/0", partition),
                    partition=partition,
                    filler_bytes=workload.filler_bytes,
                )
    for partition, number in itertools.product(
        partitions, range(plan.preload.bulk_keys_per_partition)
    ):
        yield PreloadKey(
            key=key_for_partition(f"b/{partition}/{number}", partition),
            partition=partition,
            filler_bytes=plan.preload.filler_bytes,
        )


def probe_stem(partition: int, ordinal: int, turn: int) -> str:
    """Beginning of the key that pod `ordinal` probes `partition` with in its `turn`-th interval."""
    return f"probe/{partition}/{ordinal}/{2 * turn // PROBES_PER_KEY}"
