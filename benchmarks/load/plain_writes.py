"""Writes by a target's client as fast as they are answered, and prints what it took, as JSON.

    python -m benchmarks.load.plain_writes PLAN SECONDS

The loop of plain writes of `recorded_rate`: same client, as many outstanding, nothing recorded.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from pathlib import Path

import msgspec
import uvloop

from zonequake_load.operation import Function, Limits, OnceId, Operation, Type
from zonequake_load.pod.clients import client_for
from zonequake_load.pod.control import LoadPlan

KEYS = 100


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """So many writes, in so much time and CPU time of the client."""

    writes: int
    seconds: float
    cpu_s: float


async def measure(plan: LoadPlan, seconds: float) -> Taken:
    """Raises SystemExit if a write fails."""
    target = client_for(plan, random.Random(1), None)
    await target.open()
    keys = [target.key_for_partition(f"plain/{number}", 0) for number in range(KEYS)]
    until_s, done = time.monotonic() + seconds, 0

    async def lane(name: str) -> None:
        nonlocal done
        sequence = 0
        while time.monotonic() < until_s:
            sequence += 1
            done += 1
            outcome = await target.execute(
                Operation(f=Function.WRITE, key=keys[done % KEYS], value=done),
                Limits(
                    deadline_ns=time.monotonic_ns() + plan.deadline_ms * 1_000_000,
                    attempt_ns=plan.attempt_ms * 1_000_000,
                    retry=True,
                ),
                OnceId(name, sequence),
            )
            if outcome.type is not Type.OK:
                raise SystemExit(f"a write ended {outcome.type}: {outcome.error}")

    began_s, cpu_s = time.perf_counter(), time.process_time()
    await asyncio.gather(*(lane(f"plain-{number}") for number in range(plan.processes)))
    taken = Taken(
        writes=done,
        seconds=time.perf_counter() - began_s,
        cpu_s=time.process_time() - cpu_s,
    )
    await target.close()
    return taken


if __name__ == "__main__":
    wanted = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=LoadPlan)
    print(msgspec.json.encode(uvloop.run(measure(wanted, float(sys.argv[2])))).decode())
