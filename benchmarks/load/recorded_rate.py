"""What recording costs: the load's operations a second for a core, beside plain writes.

    python -m benchmarks.load.recorded_rate [--seconds S] [--no-go] [--json FILE] [zonequake] [etcd]

Three members on loopback that sync their logs, and clients of one process with 64 writes
outstanding, one after another at the same members:

    recorded   a load pod with a closed loop: its schedule, processes, history and metrics
    plain      a loop of the same target's client, and nothing else
    Go         etcd's own benchmark, on one connection

*For a core*: writes for a second of the client's CPU. Drivers and members share the machine, so
that it bounds the writes a second.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec

from benchmarks.load.issue_rate import loaded
from benchmarks.load.plain_writes import KEYS, Taken
from benchmarks.peers import systems
from benchmarks.peers.etcd import Tool
from benchmarks.peers.systems import ZONE, Etcd, Zonequake
from benchmarks.store import figures
from benchmarks.store.figures import Limit, Result, Row
from zonequake_load.pod.control import LoadPlan, Loop, Phase, Preload, RegisterWorkload

OUTSTANDING = 64
CEILING_PER_S = 100_000.0
WANTED_FOR_A_CORE = 3_000
VALUE_BYTES = 9
"""Of etcd's own benchmark: as long as the load's values are."""

CLIENTS = {
    "zonequake": "zonequake_target_store.client:connect",
    "etcd": "zonequake_target_etcd.client:connect",
}


def plan_of(system: Zonequake | Etcd) -> LoadPlan:
    return LoadPlan(
        client=CLIENTS[system.name],
        zone=ZONE,
        seeds=seeds_of(system),
        workloads=[
            RegisterWorkload(
                operations_per_second=CEILING_PER_S, keys_per_partition=KEYS, reads=0, cas=0
            )
        ],
        probes=None,
        preload=Preload(concurrency=OUTSTANDING),
        processes=OUTSTANDING,
        deadline_ms=60_000,
        attempt_ms=30_000,
        loop=Loop.CLOSED,
    )


def seeds_of(system: Zonequake | Etcd) -> list[str]:
    if isinstance(system, Etcd):
        return system.etcd.seeds
    return [f"127.0.0.1:{node.client_port}" for node in system.nodes.nodes.values()]


async def recorded(plan: LoadPlan, seconds: float) -> Taken:
    status, used_s, _ = await loaded(plan, seconds)
    counts = status.counts[Phase.LOAD].operations
    return Taken(writes=counts.ok, seconds=seconds, cpu_s=used_s)


async def plain(folder: Path, plan: LoadPlan, seconds: float) -> Taken:
    file = folder / "plan-of-plain-writes.json"
    file.write_bytes(msgspec.json.encode(plan))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.load.plain_writes",
        str(file),
        str(seconds),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"the loop of plain writes ended with {process.returncode}")
    return msgspec.json.decode(said, type=Taken)


async def by_go(system: Etcd, tool: Tool, writes: int) -> Taken:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = await tool.put(system.etcd, clients=OUTSTANDING, total=writes, value_bytes=VALUE_BYTES)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Taken(writes=writes, seconds=writes / found.writes_per_s, cpu_s=used_s)


def row(system: str, client: str, taken: Taken, ours: Taken) -> Row:
    return {
        "system": system,
        "client": client,
        "writes/s": taken.writes / taken.seconds,
        "CPU us/write": taken.cpu_s / taken.writes * 1e6,
        "for a core": for_a_core(taken),
        "recorded / it": for_a_core(ours) / for_a_core(taken),
    }


def for_a_core(taken: Taken) -> float:
    return taken.writes / taken.cpu_s


async def beside(
    system: Zonequake | Etcd, folder: Path, seconds: float, tool: Tool | None
) -> Result:
    plan = plan_of(system)
    ours = await recorded(plan, seconds)
    taken = {"recorded": ours, "plain": await plain(folder, plan, seconds)}
    if isinstance(system, Etcd) and tool is not None:
        taken["Go"] = await by_go(system, tool, taken["plain"].writes)
    limit = Limit(
        name=f"{system.name}: recorded writes a second for a core",
        found=for_a_core(ours),
        value=WANTED_FOR_A_CORE,
        at_least=True,
    )
    rows = [row(system.name, client, each, ours) for client, each in taken.items()]
    return Result(rows=rows, limits=[limit])


async def measure(names: list[str], folder: Path, seconds: float, *, with_go: bool) -> Result:
    tool = Tool.build() if with_go and "etcd" in names else None
    result = Result(rows=[], limits=[])
    for name in names:
        started: AbstractAsyncContextManager[Zonequake | Etcd] = (
            systems.etcd(folder / name) if name == "etcd" else systems.zonequake(folder / name)
        )
        async with started as system:
            found = await beside(system, folder, seconds, tool)
        result.rows.extend(found.rows)
        result.limits.extend(found.limits)
    return result


def main() -> None:
    parser = figures.options(__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each client")
    parser.add_argument(
        "--no-go", action="store_true", help="leave etcd's own benchmark out, which Go must build"
    )
    parser.add_argument("system", nargs="*", help=f"{' or '.join(CLIENTS)}; all if none is named")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.system) - set(CLIENTS)):
        parser.error(f"found {unknown}, expected of {list(CLIENTS)}")
    names = asked.system or list(CLIENTS)
    figures.show(
        lambda folder: measure(names, folder, asked.seconds, with_go=not asked.no_go), asked.json
    )


if __name__ == "__main__":
    main()
