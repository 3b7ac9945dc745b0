"""Counts needless elections: three sound data nodes under load on a busy machine.

    python -m benchmarks.store.needless_elections [--minutes 60] [--busy 20]

Nothing is killed, stopped or cut, so that each term that begins is an election too many. Real
processes on loopback, eight groups on all of them, 50 writes a second. `--busy`: so many processes
that do nothing but compute run beside; none if the machine is busy enough. *Proofs*: how often a
node took a living peer's process for ended. The target is none: fewer than half a one.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import statistics
import time
from pathlib import Path

from benchmarks.store import figures
from benchmarks.store.figures import NODES, Limit, Result, create
from tests.processes.store.local_nodes import LocalNodes, Zone

GROUPS = 8
EVERY_S = 0.02
SAMPLE_S = 5.0


def compute() -> None:
    """Never returns."""
    while True:
        pass


async def write(nodes: LocalNodes, zone: Zone, written: list[int]) -> None:
    """Until cancelled."""
    client = nodes.client()
    while True:
        await client.write(zone.groups[written[0] % GROUPS], f"key-{written[0] % 100}", written[0])
        written[0] += 1
        await asyncio.sleep(EVERY_S)


async def terms(nodes: LocalNodes) -> dict[str, int]:
    """The highest term of each group."""
    found: dict[str, int] = {}
    for node in NODES:
        for status in (await nodes.report(node)).replicas:
            found[status.group] = max(found.get(status.group, 0), status.term)
    return found


async def measure(directory: Path, *, minutes: float, busy: int) -> Result:
    burning = [multiprocessing.Process(target=compute, daemon=True) for _ in range(busy)]
    async with LocalNodes(directory) as nodes:
        await nodes.start(*NODES)
        zone = await create(nodes, "z", GROUPS, fsync=True)
        for process in burning:
            process.start()
        before, written, loads = await terms(nodes), [0], []
        writing = asyncio.create_task(write(nodes, zone, written))
        until_s = time.monotonic() + minutes * 60
        while time.monotonic() < until_s and not writing.done():
            await asyncio.sleep(SAMPLE_S)
            loads.append(os.getloadavg()[0])
        if writing.done():
            await writing  # it never ends but by an error
        after = await terms(nodes)
        logs = [(directory / f"{node}.log").read_text() for node in NODES]  # before they end
        writing.cancel()
        for process in burning:
            process.terminate()
    elections = float(sum(after[group] - before[group] for group in before))
    row = {
        "minutes": float(minutes),
        "load average, mean": statistics.mean(loads),
        "highest": max(loads),
        "writes": written[0],
        "elections": elections,
        "proofs": sum(log.count("has ended") for log in logs),
    }
    return Result(rows=[row], limits=[Limit(name="needless elections", found=elections, value=0.5)])


if __name__ == "__main__":
    parser = figures.options(__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--busy", type=int, default=0)
    given = parser.parse_args()
    figures.show(
        lambda directory: measure(directory, minutes=given.minutes, busy=given.busy), given.json
    )
