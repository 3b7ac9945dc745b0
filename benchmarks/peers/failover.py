"""What clients see of a leader's kill and of a rolling restart, beside etcd.

    python benchmarks/peers/failover.py

The same heartbeats (200 ms) and election time-outs (1 s, and up to as much again by chance) at
both, each three processes on loopback that sync their logs, spoken to by the load's own targets. A
probe writes every 10 ms, on schedule, whether or not the last ones were answered, and is given up
after 500 ms. *Window*: from the last success before the blow to the first one behind it. *Kill*:
SIGKILL to the leader, and a new start 3 s later. *Rolling restart*: SIGTERM to each member in turn,
the leader's included, begun again when the last one has caught up; p99 counts every probe from when
it was due.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "store"))

import figures
from figures import Result, Row
from systems import System, etcd, zonequake

from zonequake_load.operation import Limits, Once, Type
from zonequake_load.target import Target

EVERY_S = 0.01
DEADLINE_NS = 500_000_000
KILLS = 20
RESTARTS = 2
"""Of every member."""
DOWN_S = 3.0
CALM_S = 3.0


@dataclass
class Probes:
    """Writes on schedule. `successes`: when each was due and ended; `failures`: when it was due."""

    target: Target
    successes: list[tuple[float, float]] = field(default_factory=list)
    failures: list[float] = field(default_factory=list)
    number: int = 0

    async def run(self) -> None:
        """Until cancelled; those that are under way are awaited."""
        begun_s = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            try:
                while True:
                    due_s = begun_s + self.number * EVERY_S
                    await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
                    self.number += 1
                    group.create_task(self._write(self.number, due_s))
            except asyncio.CancelledError:
                return

    async def _write(self, number: int, due_s: float) -> None:
        now_ns = time.monotonic_ns()
        outcome = await self.target.write(
            f"probe-{number % 100}",
            number,
            limits=Limits(deadline_ns=now_ns + DEADLINE_NS, attempt_ns=DEADLINE_NS, retry=True),
            once=Once(f"probe-{number}", 1),
        )
        if outcome.type is Type.OK:
            self.successes.append((due_s, time.perf_counter()))
        else:
            self.failures.append(due_s)

    def window_ms(self, blow_s: float) -> float:
        """Between the last success that ended before `blow_s` and the next one."""
        before = max(end for _, end in self.successes if end <= blow_s)
        behind = min(end for _, end in self.successes if end > blow_s + EVERY_S)
        return (behind - before) * 1e3

    def longest_ms(self, since_s: float, until_s: float) -> float:
        """The longest time without a success."""
        ends = sorted(end for _, end in self.successes if since_s <= end <= until_s)
        return max(b - a for a, b in itertools.pairwise(ends)) * 1e3

    def p99_ms(self, since_s: float, until_s: float) -> float:
        """Of all probes that were due then; one that failed took its whole deadline."""
        times = [end - due for due, end in self.successes if since_s <= due < until_s]
        times += [DEADLINE_NS / 1e9 for due in self.failures if since_s <= due < until_s]
        return sorted(times)[int(len(times) * 0.99)] * 1e3


async def kills(system: System, probes: Probes) -> list[float]:
    """The windows of so many kills."""
    found = []
    for _ in range(KILLS):
        await asyncio.sleep(CALM_S)
        leader = await system.leader()
        blow_s = time.perf_counter()
        system.end(leader, gently=False)
        await asyncio.sleep(DOWN_S)
        found.append(probes.window_ms(blow_s))
        await system.begin(leader)
    return found


async def rolling_restarts(system: System, probes: Probes) -> dict[str, float]:
    """Longest time without a success, and p99 before and during."""
    await asyncio.sleep(CALM_S)
    begun_s = time.perf_counter()
    await asyncio.sleep(2 * CALM_S)
    restarts_s = time.perf_counter()
    for _ in range(RESTARTS):
        for member in system.members:
            await asyncio.to_thread(system.end, member, gently=True)
            await system.begin(member)
    ended_s = time.perf_counter()
    await asyncio.sleep(CALM_S)
    before_ms = probes.p99_ms(begun_s, restarts_s)
    during_ms = probes.p99_ms(restarts_s, ended_s)
    return {
        "s": ended_s - restarts_s,
        "window": probes.longest_ms(restarts_s, ended_s),
        "before": before_ms,
        "during": during_ms,
        "failed": float(sum(restarts_s <= due < ended_s for due in probes.failures)),
    }


async def measured(system: System) -> tuple[list[float], dict[str, float]]:
    target = await system.target()
    probes = Probes(target)
    probing = asyncio.create_task(probes.run())
    try:
        return await kills(system, probes), await rolling_restarts(system, probes)
    finally:
        probing.cancel()
        await probing
        await target.close()


async def measure(folder: Path) -> Result:
    async with zonequake(folder / "ours") as system:
        our_windows, our_restart = await measured(system)
    async with etcd(folder / "etcd") as system:
        their_windows, their_restart = await measured(system)
    rows = [
        row(f"leader's kill, window ms, {name} of {KILLS}", of(our_windows), of(their_windows))
        for name, of in _STATISTICS.items()
    ]
    rows += [
        row(f"rolling restart, {text}", our_restart[name], their_restart[name])
        for name, text in _RESTART.items()
    ]
    return Result(rows=rows, limits=[])


_STATISTICS: dict[str, Callable[[list[float]], float]] = {
    "median": statistics.median,
    "longest": max,
}
_RESTART = {
    "window": "longest time without a success ms",
    "before": "p99 before ms",
    "during": "p99 during ms",
    "failed": "probes that failed",
    "s": f"s for {RESTARTS} × 3 members",
}


def row(name: str, ours: float, theirs: float) -> Row:
    """A line with its ratio."""
    ratio = ours / theirs if theirs else None
    return {"what": name, "zonequake": ours, "etcd": theirs, "zonequake / etcd": ratio}


if __name__ == "__main__":
    figures.run(__doc__, measure)
