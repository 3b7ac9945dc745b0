"""Where the processors' time goes while nodes are restarted, and which operations were slow then.

    python -m benchmarks.scenarios.restart_costs FOLDER [SCENARIO and options of `zonequake run`]

as root, on the machine of an embedded cluster that has the release installed. Runs the scenario,
samples /proc ten times a second meanwhile, and prints per phase the cores that each kind of process
used, and per step of the restarts how many operations took longer than 25 ms:

    delete ─► stopping ─► another answers ─► Ready and settled
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

SAMPLE_S = 0.1
SLOW_NS = 25_000_000
LOAD_ROLE = 0
TICK_S = 1 / os.sysconf("SC_CLK_TCK")

KINDS = (
    ("data nodes", "zonequake_store"),
    ("load pods", "zonequake_load"),
    ("operator", "zonequake_operator"),
    ("Prometheus", "prometheus"),
    ("harness", "zonequake run"),
    ("API server", "kube-apiserver"),  # whose options name the kubelet
    ("kubelet", "kubelet"),
    ("etcd", "zonequake-node etcd"),
    ("scheduler, controllers, proxy, DNS", "zonequake-node"),
    ("containerd, shims, runc", "containerd"),
    ("containerd, shims, runc", "runc"),
)


@dataclass
class Sampler:
    """CPU time by kind of process, at each sample."""

    at_ns: list[int] = field(default_factory=list)
    used_s: list[defaultdict[str, float]] = field(default_factory=list)
    _kinds: dict[tuple[int, str], str] = field(default_factory=dict)
    _last: dict[tuple[int, str], float] = field(default_factory=dict)
    _sum: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def sample(self) -> None:
        """Adds what each process used since the last time. What lived for less than a sample is
        in the sum of all alone."""
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                key = (int(folder.name), fields[19])
                kind = self._kinds.get(key)
                if kind is None or kind.startswith("containerd"):
                    kind = self._kinds[key] = _kind_of(folder)
            except (OSError, IndexError):
                continue
            used_s = sum(map(int, fields[11:13])) * TICK_S
            self._sum[kind] += max(0.0, used_s - self._last.get(key, 0.0 if self.at_ns else used_s))
            self._last[key] = used_s
        total = sum(map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:4])) * TICK_S
        self._sum["all"] = total
        self.at_ns.append(time.monotonic_ns())
        self.used_s.append(self._sum.copy())

    def cores(self, begin_ns: int, end_ns: int) -> dict[str, float]:
        """Cores used between two moments, by kind."""
        within = [n for n, at in enumerate(self.at_ns) if begin_ns <= at <= end_ns]
        if len(within) < 2:
            return {}
        first, last = within[0], within[-1]
        took_s = (self.at_ns[last] - self.at_ns[first]) / 1e9
        return {
            kind: (self.used_s[last][kind] - self.used_s[first][kind]) / took_s
            for kind in self.used_s[last]
        }


def _kind_of(folder: Path) -> str:
    words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return next((kind for kind, word in KINDS if word in words), "others")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("run", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    sampler, ended = Sampler(), threading.Event()

    def watch() -> None:
        while not ended.wait(SAMPLE_S):
            sampler.sample()

    thread = threading.Thread(target=watch)
    thread.start()
    command = [str(Path(sys.executable).parent / "zonequake"), "run"]
    words = given.run or ["rolling-restart"]
    done = subprocess.run([*command, *words, "--out", str(given.folder)], check=False)
    ended.set()
    thread.join()
    events = [json.loads(line) for line in (given.folder / "events.jsonl").open()]
    events.sort(key=lambda event: event["time"])
    phases = [(e["data"]["phase"], e["time"]) for e in events if e["kind"] == "run.phase"]
    _print_cores(sampler, phases)
    _print_slow(given.folder, events, dict(phases))
    verdict = json.loads((given.folder / "verdict.json").read_text())
    print()
    for check in verdict["checks"]:
        if check["name"] in ("availability", "latency"):
            print(f"{check['verdict']}: {check['summary']}")
    return done.returncode


def _print_cores(sampler: Sampler, phases: Sequence[tuple[str, int]]) -> None:
    spans = {
        name: sampler.cores(begin, end)
        for (name, begin), (_, end) in pairwise(phases)
        if name in ("before", "control", "faults", "recovery")
    }
    kinds = sorted({k for cores in spans.values() for k in cores}, key=lambda k: (k == "all", k))
    print(f"\n| cores used by | {' | '.join(spans)} |")
    print("| --- " * (len(spans) + 1) + "|")
    for kind in kinds:
        print(f"| {kind} | {' | '.join(f'{cores.get(kind, 0):.3f}' for cores in spans.values())} |")


def _print_slow(folder: Path, events: Sequence[dict[str, Any]], phases: dict[str, int]) -> None:
    table = ds.dataset(folder / "tables" / "ops", format="parquet").to_table(
        columns=["role", "sched", "inv", "fin", "step", "copy"]
    )
    # A closed loop has no schedule.
    begun = pc.coalesce(table["sched"], table["inv"])
    took = pc.subtract(table["fin"], begun)
    load = pc.and_(pc.equal(table["role"], LOAD_ROLE), pc.invert(table["copy"]))
    load = pc.and_(load, pc.less_equal(pc.fill_null(table["step"], 0), 0))
    late = pc.subtract(table["inv"], begun)
    rows = list(
        zip(
            begun.filter(load).to_pylist(),
            took.filter(load).to_pylist(),
            late.filter(load).to_pylist(),
            strict=True,
        )
    )
    steps = _steps(events)
    end = phases.get("control", phases["faults"])
    steps = {"before": [(phases["before"], end)], **steps}
    print("\n| step | s | operations | longer than 25 ms | of these begun late by the load |")
    print("| --- | --- | --- | --- | --- |")
    for name, spans in steps.items():
        own = [r for r in rows if any(begin <= r[0] < stop for begin, stop in spans)]
        slow = [r for r in own if r[1] is not None and r[1] > SLOW_NS]
        tardy = sum(r[2] > SLOW_NS / 2 for r in slow)
        took_s = sum(stop - begin for begin, stop in spans) / 1e9
        print(f"| {name} | {took_s:.1f} | {len(own)} | {len(slow)} | {tardy} |")


STEPS = ("until its successor has started", "until it answers", "until all is settled")


def _steps(events: Sequence[dict[str, Any]]) -> dict[str, list[tuple[int, int]]]:
    """When each step of each restart began and ended, by fault and step."""
    steps: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, start in enumerate(events):
        if start["kind"] != "fault.start" or start["data"]["type"] != "graceful_delete":
            continue
        own = [e for e in events[number:] if e["node"] == start["node"]]
        moments = [start["time"]]
        for kind in ("node.started", "fault.effective", "fault.recovered"):
            moments += [e["time"] for e in own if e["kind"] == kind][:1]
        if len(moments) == len(STEPS) + 1:
            for name, span in zip(STEPS, pairwise(sorted(moments)), strict=True):
                steps[f"{start['data']['fault']}, {name}"].append(span)
    return steps


if __name__ == "__main__":
    sys.exit(main())
