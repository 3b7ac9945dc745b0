"""What the store's benchmarks share: the nodes, what a process costs, and how figures are shown.

Each benchmark prints Markdown, for docs/performance.md: one table, in which figures stand beside a
peer of the same run and as a ratio to it, and its targets. What others do on the machine takes part
in every figure, so that the load average is told before and after.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import uvloop

from tests.processes.store.local_nodes import LocalNodes, Zone, until
from zonequake_protocol.admin import Bootstrap, OrderStatus, ReplicaRole, TransferLeadership

NODES = ["n0", "n1", "n2"]


Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A target: `value` at most (or, `at_least`, at least)."""

    name: str
    found: float
    value: float
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the target is reached."""
        return self.found >= self.value if self.at_least else self.found <= self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a benchmark found."""

    rows: list[Row]
    limits: list[Limit]


def run(text: str | None, measure: Callable[[Path], Coroutine[Any, Any, Result]]) -> None:
    """A benchmark's command line: measure in a temporary folder, print, and keep with `--json`."""
    show(measure, options(text).parse_args().json)


def options(text: str | None) -> argparse.ArgumentParser:
    """What every benchmark's command line has; some have more."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the figures here too")
    return parser


def show(measure: Callable[[Path], Coroutine[Any, Any, Result]], json_file: Path | None) -> None:
    """Measure in a temporary folder, print, and keep the figures if there is a file for them."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        result = uvloop.run(measure(Path(folder)))
    loads = [round(load, 2), round(os.getloadavg()[0], 2)]
    print(_markdown(result, loads), flush=True)
    if json_file:
        document = {"load_average": loads, **asdict(result)}
        json_file.write_text(json.dumps(document, indent=1) + "\n")


def _markdown(result: Result, loads: list[float]) -> str:
    """Columns are the rows' keys, in order of appearance."""
    columns = list(dict.fromkeys(key for row in result.rows for key in row))
    cells = [columns] + [[_text(row.get(column)) for column in columns] for row in result.rows]
    widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
    lines = [
        "| "
        + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True))
        + " |"
        for line in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    lines += ["", f"Load average {loads[0]} before, {loads[1]} after.", ""]
    for limit in result.limits:
        sign = "at least" if limit.at_least else "at most"
        lines.append(
            f"- {limit.name}: {_text(limit.found)}, target {sign} {_text(limit.value)}: "
            f"{'met' if limit.is_met else '**missed**'} ({limit.found / limit.value:.2f} of it)"
        )
    return "\n".join(lines) + "\n"


def _text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    return (
        f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    )


def bare_process(*arguments: str) -> subprocess.Popen[bytes]:
    """Start one of `bare_processes`."""
    program = str(Path(__file__).parent / "bare_processes.py")
    return subprocess.Popen([sys.executable, program, *arguments])


def cpu_s(pid: int) -> float:
    """CPU time of all threads of a process, to the nanosecond."""
    spent_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        spent_ns += int((task / "schedstat").read_text().split()[0])
    return spent_ns / 1e9


def heap_bytes(pid: int) -> int:
    """Memory that the process holds by itself: no file, and so none of LMDB's pages."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/{pid}/smaps_rollup names no anonymous memory")


def pid_of(nodes: LocalNodes, name: str) -> int:
    """The process of a running node."""
    process = nodes.nodes[name].process
    assert process is not None
    return process.pid


async def create(nodes: LocalNodes, name: str, partitions: int, **settings: object) -> Zone:
    """A zone on all nodes whose leaders are spread evenly."""
    groups = [f"{name}.00000000.{partition}" for partition in range(partitions)]
    zone = Zone(name, partitions, groups, 1, list(NODES), settings)
    peers = await nodes.start_replicas(zone, *NODES)
    for node in NODES:
        orders = [Bootstrap(group=group, token=1, peers=peers[group]) for group in groups]
        for reply in await nodes.order(node, *orders):
            assert reply.status is OrderStatus.RECEIVED, reply
    wanted = {group: NODES[place % len(NODES)] for place, group in enumerate(groups)}

    async def is_spread() -> bool:
        found = await leaders(nodes, groups)
        for node in NODES:
            moves = [
                TransferLeadership(group=group, token=1, to=wanted[group])
                for group, leader in found.items()
                if leader == node != wanted[group]
            ]
            if moves:
                await nodes.order(node, *moves)
        return found == wanted

    await until(is_spread, f"the leaders of {name} are spread", timeout_s=120, every_s=0.3)
    return zone


async def leaders(nodes: LocalNodes, groups: list[str]) -> dict[str, str]:
    """The nodes that lead these groups, as far as they have leaders."""
    wanted = set(groups)
    found: dict[str, tuple[int, str]] = {}
    for node in NODES:
        for status in (await nodes.report(node)).replicas:
            if status.role is ReplicaRole.LEADER and status.group in wanted:
                known = found.get(status.group)
                if known is None or known[0] < status.term:
                    found[status.group] = (status.term, node)
    return {group: node for group, (_, node) in found.items()}
