"""How soon a lost majority is acted on, from the event that proves the last loss.

    python -m benchmarks.operator.bench_losses [--lost 2 5 20] [--repeat 3]

A real API server, the real operator, and data nodes as processes; there is no kubelet, this
program says what one says. A HighAvailability zone has one partition with 2 × lost - 1 replicas,
9 at most, and the nodes are lost within 1.5 s: first those without a replica, then members, until
the last loss takes the majority. *Counted out*: the LogicalTopology is without them. *Decided*:
with a time-out of 1 s the timer is armed, with 0 the reset is written (pending forced to a
survivor). Times are those at which a watch of this program shows it, from just before the status of
the last pod is written. *Writable*: a client's write was acknowledged, less the time-out.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from functools import partial
from pathlib import Path

from benchmarks.store import figures
from benchmarks.store.figures import Limit, Result, Row
from tests.kube.operator import api_server
from tests.kube.operator.addresses import client_addresses
from tests.kube.operator.api_server import UNVERIFIED, ApiServer
from tests.kube.operator.losses_in_a_row import ZONE, Written, create, lose, measure
from tests.kube.operator.machine import Machine
from tests.kube.operator.registers import Registers
from tests.kube.operator.relay import Relay

TARGET_MS = 200.0
WHOLE_S = 180.0
MOST_REPLICAS = 9
"""Of more, nearly all of the time is what so many processes take of two cores."""


def once(api: ApiServer, folder: Path, lost: int, reset_timeout_s: int) -> tuple[Written, float]:
    """One zone whose nodes are lost, and the seconds until a client wrote again."""
    folder.mkdir()
    machine = Machine(api, folder)
    loop = Relay(api.url, api.token, UNVERIFIED)
    replicas = min(2 * lost - 1, MOST_REPLICAS)
    nodes = lost + replicas // 2
    try:
        machine.begin(nodes)
        create(api, replicas=replicas, reset_timeout_s=reset_timeout_s)
        api_server.wait_until(lambda: _is_whole(machine, nodes, replicas), limit_s=WHOLE_S)
        registers = Registers(loop, ZONE, client_addresses(nodes))
        registers.write("before", 1)
        gone = _order(machine.partition()["stable"]["nodes"], nodes)[:lost]
        losses = [partial(lose, machine, ordinal) for ordinal in gone]
        names = {f"zq-default-{ordinal}" for ordinal in gone}
        written = measure(api, names, losses, reset_timeout_s=reset_timeout_s)
        registers.write("after", 2)
        return written, time.monotonic() - written.said_s - reset_timeout_s
    finally:
        loop.close()
        machine.end()


def _is_whole(machine: Machine, nodes: int, replicas: int) -> bool:
    stable = machine.partition().get("stable") or {"nodes": []}
    is_there = machine.status(ZONE).get("dataNodeCount") == nodes
    return is_there and machine.is_stable(*stable["nodes"]) and len(stable["nodes"]) == replicas


def _order(members: list[str], nodes: int) -> list[int]:
    """Ordinals in the order in which they are lost: those of no member first."""
    of_members = {int(name.rpartition("-")[2]) for name in members}
    return sorted(range(nodes), key=lambda ordinal: (ordinal in of_members, ordinal))


async def measure_all(folder: Path, counts: list[int], repeat: int) -> Result:
    """Each number of nodes, with both time-outs."""
    rows: list[Row] = []
    limits: list[Limit] = []
    with api_server.running(folder) as server:
        for lost in counts:
            for reset_timeout_s in (0, 1):
                found = []
                for number in range(repeat):
                    name = f"lost-{lost}-after-{reset_timeout_s}-{number}"
                    api = server.in_namespace(name)
                    found.append(
                        await asyncio.to_thread(
                            once, api, folder / f"{name}-files", lost, reset_timeout_s
                        )
                    )
                decided = [written.decided_s * 1000 for written, _ in found]
                rows.append(
                    {
                        "lost": lost,
                        "time-out s": reset_timeout_s,
                        "counted out ms": statistics.median(w.left_s * 1000 for w, _ in found),
                        "decided ms, median": statistics.median(decided),
                        "longest": max(decided),
                        "writable ms, longest": max(s * 1000 for _, s in found),
                    }
                )
                what = f"{lost} lost, time-out {reset_timeout_s}: decided ms"
                limits.append(Limit(name=what, found=max(decided), value=TARGET_MS))
    return Result(rows=rows, limits=limits)


if __name__ == "__main__":
    parser = figures.options(__doc__)
    parser.add_argument("--lost", type=int, nargs="+", default=[2, 5, 20])
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    figures.show(lambda f: measure_all(f, asked.lost, asked.repeat), asked.json)
