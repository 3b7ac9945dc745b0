"""Writes to every partition while it moves, and reads that prove what was acknowledged."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.patience import PATIENCE_S
from zonequake_load.client.client import Client
from zonequake_load.operation import Function, Limits, OnceId, Operation, Outcome, Type
from zonequake_load.targets.keys import key_for_partition

if TYPE_CHECKING:
    from tests.kube.operator.relay import Relay

SEEDED_KEYS = 5
"""In each partition, written once before anything moves."""
PAUSE_S = 0.05


@dataclass(slots=True)
class _Register:
    """What a key may hold: the last acknowledged value, or a later one."""

    acknowledged: int = 0
    attempted: int = 0


@dataclass(slots=True)
class BackgroundLoad:
    """Writes from `open` until `close`; all methods belong to one loop."""

    zone: str
    seeds: list[str]
    partitions: int
    registers: dict[str, _Register] = field(default_factory=dict)
    _client: Client = field(init=False)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._client = Client(self.zone, self.seeds, rng=random.Random(1))

    @classmethod
    def begin(cls, loop: Relay, *, zone: str, seeds: list[str], partitions: int) -> BackgroundLoad:
        """One that writes in a relay's loop, until it is closed or that closes."""
        load = cls(zone=zone, seeds=seeds, partitions=partitions)
        loop.at_close(load.close)
        loop.run(load.open())
        return load

    async def open(self) -> None:
        """Write the keys that stay, then write the others until `close`."""
        await self._client.open(PATIENCE_S)
        stems = [f"kept{n}" for n in range(SEEDED_KEYS)]
        partitions = range(self.partitions)
        keys = [key_for_partition(stem, p, self.partitions) for stem in stems for p in partitions]
        for key in keys:
            await self._write(key)
        moving = [key_for_partition("moving", p, self.partitions) for p in partitions]
        self._tasks = [asyncio.create_task(self._keep_writing(key)) for key in moving]

    async def close(self) -> None:
        """Also twice, and though it was never open."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()

    async def unreadable(self) -> tuple[str, ...]:
        """The keys that can't be read, or hold less than was acknowledged before the read."""
        checked = [(key, await self._check(key)) for key in self.registers]
        return tuple(f"{key} ({why})" for key, why in checked if why is not None)

    async def _check(self, key: str) -> str | None:
        register = self.registers[key]
        floor = register.acknowledged
        found = await self._execute(Operation(f=Function.READ, key=key), None)
        if found.type is not Type.OK:
            return found.error
        if isinstance(found.value, int) and floor <= found.value <= register.attempted:
            return None
        return f"found {found.value}, {floor} was acknowledged, {register.attempted} attempted"

    async def _keep_writing(self, key: str) -> None:
        while True:
            await self._write(key)
            await asyncio.sleep(PAUSE_S)

    async def _write(self, key: str) -> None:
        register = self.registers.setdefault(key, _Register())
        register.attempted += 1
        value = register.attempted
        write = Operation(f=Function.WRITE, key=key, value=value)
        done = await self._execute(write, OnceId(f"background {key}", value))
        if done.type is Type.OK:
            register.acknowledged = value

    def _execute(self, operation: Operation, once: OnceId | None) -> Coroutine[None, None, Outcome]:
        limits = Limits(
            deadline_ns=time.monotonic_ns() + round(PATIENCE_S * 1e9),
            attempt_ns=1_000_000_000,
            retry=True,
        )
        return self._client.execute(operation, limits, once)
