"""Availability probes: reads and writes of each partition, on schedule and never repeated.

A probe that fails says that the partition was not available through this pod's routes at that
moment, so it is sent once, to the leader by the routing table; a refusal refreshes the table for
the next one. Each probe is a process of its own, so that several may be outstanding.
"""

from __future__ import annotations

import asyncio

from zonequake_load.operation import Function, Limits, Operation
from zonequake_load.pod.control import Phase, Probes
from zonequake_load.pod.execution import OperationExecutor
from zonequake_load.pod.history import OperationRole
from zonequake_load.pod.pacing import StopSignal, sleep_until
from zonequake_load.pod.workload.schedule import probe_arrivals, probe_interval_ns
from zonequake_load.pod.workload.shares import probe_stem


async def run_probes(
    executor: OperationExecutor,
    probes: Probes,
    *,
    partitions: list[int],
    pods: int,
    ordinal: int,
    started_ns: int,
    turns_before: int,
    stop: StopSignal,
) -> None:
    """Probe until `stop`; returns when no probe is outstanding.

    Args:
        started_ns: monotonic time of the first interval.
        turns_before: intervals of earlier incarnations of this pod; they decide the keys.

    Raises:
        HistoryError, IdentityError: see `OperationExecutor.run`.
    """
    interval_ns = probe_interval_ns(probes, len(partitions), pods)
    deadline_ns = probes.deadline_ms * 1_000_000
    clock = executor.recorder.clock

    async def probe(key: str, partition: int, is_write: bool, due_ns: int) -> None:
        operation = Operation(
            f=Function.WRITE if is_write else Function.READ,
            key=key,
            value=executor.numbers.next_value() if is_write else None,
        )
        limits = Limits(deadline_ns=due_ns + deadline_ns, attempt_ns=deadline_ns, retry=False)
        await executor.run(
            executor.new_process(),
            operation,
            phase=Phase.LOAD,
            role=OperationRole.PROBE,
            partition=partition,
            sched_ns=due_ns,
            limits=limits,
        )

    keys: dict[str, str] = {}
    async with asyncio.TaskGroup() as outstanding:
        for offset_ns, position, is_write in probe_arrivals(len(partitions), interval_ns):
            due_ns = started_ns + offset_ns
            if not await sleep_until(due_ns, clock, stop):
                return
            if clock.monotonic_ns() - due_ns >= deadline_ns:
                executor.tally.dropped(Phase.LOAD, OperationRole.PROBE)
                continue
            partition = partitions[position]
            stem = probe_stem(partition, ordinal, turns_before + offset_ns // interval_ns)
            key = keys.get(stem)
            if key is None:
                key = keys[stem] = executor.target.key_for_partition(stem, partition)
            outstanding.create_task(probe(key, partition, is_write, due_ns))
