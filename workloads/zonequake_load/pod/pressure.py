"""Pressure: writes in a closed loop beside the recorded load, which no history has.

They keep the system busy as other clients would. Their keys begin with `pressure/`, as no key of a
workload, the preload or a probe does: no recorded operation meets them, and no check judges them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from zonequake_load.operation import Function, Limits, OnceId, Operation, Outcome, Type
from zonequake_load.pod.control import Phase, Pressure
from zonequake_load.pod.history import HistoryClock
from zonequake_load.pod.pacing import StopSignal
from zonequake_load.pod.tally import OperationTally
from zonequake_load.randomness import Randomness
from zonequake_load.targets.protocol import Target

PREFIX = "pressure/"

FAILED_PAUSE_S = 0.1
"""After a write that didn't end ok: a system that refuses all at once is not asked in a spin."""


def pressure_keys(pressure: Pressure, partitions: list[int], target: Target) -> list[str]:
    """Returns the keys, evenly over the partitions."""
    return [
        target.key_for_partition(f"{PREFIX}{number}", partitions[number % len(partitions)])
        for number in range(pressure.keys)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureWriters:
    """Writes until `stop`, as often as answers come.

    `name` is unique among the pods and incarnations of a run. `deadline_ns` bounds a write with all
    its attempts, `attempt_ns` each attempt.
    """

    target: Target
    tally: OperationTally
    clock: HistoryClock
    keys: list[str]
    filler: bytes
    name: str
    rng: Randomness
    deadline_ns: int
    attempt_ns: int
    stop: StopSignal

    async def write(self, writer: int) -> None:
        """Writes as one process; several run at once, each with a number of its own."""
        client, sequence = 0, 0
        while not self.stop.asked:
            sequence += 1
            outcome = await self._once(OnceId(f"{self.name}-{writer}-{client}", sequence))
            self.tally.pressed(Phase.LOAD, outcome)
            if outcome.type is Type.INFO:
                client, sequence = client + 1, 0
            if outcome.type is not Type.OK:
                await asyncio.sleep(FAILED_PAUSE_S)

    async def _once(self, once: OnceId) -> Outcome:
        operation = Operation(
            f=Function.WRITE,
            key=self.rng.choice(self.keys),
            value=once.sequence,
            filler=self.filler,
        )
        limits = Limits(
            deadline_ns=self.clock.monotonic_ns() + self.deadline_ns,
            attempt_ns=self.attempt_ns,
            retry=True,
        )
        return await self.target.execute(operation, limits, once)
