"""What clients see of a leader's kill and of a rolling restart, beside etcd.

    python -m benchmarks.peers.failover [--kills-only]

The same heartbeats (200 ms) and election time-outs (1 s, and up to as much again by chance) at
both, each three processes on loopback that sync their logs, spoken to by the load's own targets. A
probe writes every 10 ms, on schedule, whether or not the last ones were answered, and is given up
after 500 ms. *Window*: from the last success before the blow to the first one after it. *Kill*:
SIGKILL to the leader, and a new start 3 s later. *Rolling restart*: SIGTERM to each member in turn,
the leader's included, as soon as the last one has caught up, but not sooner than 2 s after that
one's: who restarts faster would else be measured by fewer probes for as many hand-overs. p99 counts
every probe from when it was due.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.systems import System, etcd, zonequake
from benchmarks.store import figures
from benchmarks.store.figures import NODES, Result, Row
from zonequake_load.operation import Function, Limits, OnceId, Operation, Type
from zonequake_load.targets.protocol import Target

EVERY_S = 0.01
DEADLINE_NS = 500_000_000
KILLS = 20
RESTARTS = 5
"""Of every member."""
PACE_S = 2.0
"""From one member's restart to the next one's, at least."""
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
        outcome = await self.target.execute(
            Operation(f=Function.WRITE, key=f"probe-{number % 100}", value=number),
            Limits(deadline_ns=now_ns + DEADLINE_NS, attempt_ns=DEADLINE_NS, retry=True),
            OnceId(f"probe-{number}", 1),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingRestarts:
    """`windows_ms`: the longest time without a success of each round. `before_ms`, `during_ms`:
    p99. `restarting_s`: in all, without what was waited between two of them."""

    windows_ms: list[float]
    before_ms: float
    during_ms: float
    failed: float
    restarting_s: float


async def rolling_restarts(system: System, probes: Probes) -> RollingRestarts:
    """So many rounds of them."""
    await asyncio.sleep(CALM_S)
    begun_s = time.perf_counter()
    await asyncio.sleep(2 * CALM_S)
    rounds_s = [time.perf_counter()]
    restarting_s = 0.0
    for _ in range(RESTARTS):
        for member in system.members:
            due_s = time.perf_counter() + PACE_S
            await asyncio.to_thread(system.end, member, gently=True)
            await system.begin(member)
            rest_s = due_s - time.perf_counter()
            restarting_s += PACE_S - rest_s
            await asyncio.sleep(max(0.0, rest_s))
        rounds_s.append(time.perf_counter())
    await asyncio.sleep(CALM_S)
    first_s, last_s = rounds_s[0], rounds_s[-1]
    return RollingRestarts(
        windows_ms=[probes.longest_ms(*each) for each in itertools.pairwise(rounds_s)],
        before_ms=probes.p99_ms(begun_s, first_s),
        during_ms=probes.p99_ms(first_s, last_s),
        failed=float(sum(first_s <= due < last_s for due in probes.failures)),
        restarting_s=restarting_s,
    )


async def measured(system: System, *, restarts: bool) -> tuple[list[float], RollingRestarts | None]:
    target = await system.target()
    probes = Probes(target)
    probing = asyncio.create_task(probes.run())
    try:
        windows = await kills(system, probes)
        return windows, await rolling_restarts(system, probes) if restarts else None
    finally:
        probing.cancel()
        await probing
        await target.close()


async def measure(folder: Path, *, restarts: bool = True) -> Result:
    async with zonequake(folder / "ours") as system:
        our_windows, ours = await measured(system, restarts=restarts)
    async with etcd(folder / "etcd") as system:
        their_windows, theirs = await measured(system, restarts=restarts)
    rows = [
        row(f"leader's kill, window ms, {name} of {KILLS}", of(our_windows), of(their_windows))
        for name, of in _STATISTICS.items()
    ]
    if ours is None or theirs is None:
        return Result(rows=rows, limits=[])
    rows += [
        row(
            f"rolling restart, longest time without a success ms, {name} of {RESTARTS}",
            of(ours.windows_ms),
            of(theirs.windows_ms),
        )
        for name, of in _STATISTICS.items()
    ]
    rows += [
        row("rolling restart, p99 before ms", ours.before_ms, theirs.before_ms),
        row("rolling restart, p99 during ms", ours.during_ms, theirs.during_ms),
        row("rolling restart, probes that failed", ours.failed, theirs.failed),
        row(
            f"rolling restart, s for {RESTARTS} × {len(NODES)} members",
            ours.restarting_s,
            theirs.restarting_s,
        ),
    ]
    return Result(rows=rows, limits=[])


_STATISTICS: dict[str, Callable[[list[float]], float]] = {
    "median": statistics.median,
    "longest": max,
}


def row(name: str, ours: float, theirs: float) -> Row:
    """A line with its ratio."""
    ratio = ours / theirs if theirs else None
    return {"what": name, "zonequake": ours, "etcd": theirs, "zonequake / etcd": ratio}


if __name__ == "__main__":
    parser = figures.options(__doc__)
    parser.add_argument("--kills-only", action="store_true")
    given = parser.parse_args()
    figures.show(lambda folder: measure(folder, restarts=not given.kills_only), given.json)
