"""How soon a lost majority is acted on, from the event that proves the last loss.

    python -m benchmarks.operator.bench_losses [--lost 2 5 20] [--repeat 3]

A real API server, the real operator, and data nodes as processes; there is no kubelet, this
program says what one says. A HighAvailability zone has one partition on 2 × lost - 1 nodes, so that
the last loss takes its majority. The nodes are lost within 1.5 s. *Counted out*: the
LogicalTopology is without them. *Decided*: with a time-out of 1 s the timer is armed, with 0 the
reset is written (pending forced to a survivor). Times are those at which a watch of this program
shows it. *Writable*: a client's write was acknowledged, less the time-out.
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


def once(api: ApiServer, folder: Path, lost: int, reset_timeout_s: int) -> tuple[Written, float]:
    """One zone whose nodes are lost, and the seconds until a client wrote again."""
    folder.mkdir()
    machine = Machine(api, folder)
    loop = Relay(api.url, api.token, UNVERIFIED)
    nodes = 2 * lost - 1
    try:
        machine.begin(nodes)
        create(api, replicas=nodes, reset_timeout_s=reset_timeout_s)
        api_server.wait_until(lambda: machine.is_whole(nodes), limit_s=WHOLE_S)
        registers = Registers(loop, ZONE, client_addresses(nodes))
        registers.write("before", 1)
        gone = range(nodes - lost, nodes)
        losses = [partial(lose, machine, ordinal) for ordinal in gone]
        names = {f"zq-default-{ordinal}" for ordinal in gone}
        written = measure(api, names, losses, reset_timeout_s=reset_timeout_s)
        registers.write("after", 2)
        return written, time.monotonic() - written.said_s - reset_timeout_s
    finally:
        loop.close()
        machine.end()


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
