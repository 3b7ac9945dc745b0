"""What clients see when a leader's process or pod is killed, or its links are cut, beside etcd.

    zonequake cluster up && zonequake install
    python -m benchmarks.peers.pod_kills [--times 20] [--blows sigkill pod-kill cut]

On pods of an installed release, by the harness's own scenarios, faults and load: one group of three
for each system, equal election time-outs (1 s, and up to as much again by chance), 200 operations a
second. *sigkill*: of the leader's process; its container starts again. *pod-kill*: SIGKILL, and the
pod deleted with grace 0, as `kubectl delete --force --grace-period=0`. *cut*: all of the
leader's links dropped for 5 s. Systems take turns, blow by blow of the list. *Window*: the longest
time without an answered operation from when the fault began until 5 s after it had taken effect.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

BLOWS: dict[str, dict[str, Any]] = {
    "sigkill": {"type": "process_kill"},
    "pod-kill": {"type": "pod_kill"},
    "cut": {"type": "network_partition", "holdSeconds": 5},
}
SYSTEMS = ("zonequake", "etcd")
HEARTBEAT_MS, ELECTION_MS = 200, 1000
BEFORE_NS, BEHIND_NS = 500_000_000, 5_000_000_000


def scenario(blow: str, times: int) -> dict[str, Any]:
    """The manifest of one system's blows."""
    fault = {
        "name": "blow",
        **BLOWS[blow],
        "trigger": {"when": "settled", "timeoutSeconds": 300},
        "target": {"role": "leader"},
        "times": times,
        "pauseSeconds": 3,
    }
    return {
        "apiVersion": "zonequake.io/v1alpha1",
        "kind": "ChaosRun",
        "metadata": {"name": f"pod-kills-{blow}", "description": __doc__},
        "spec": {
            "pools": [{"name": "default", "replicas": 3}],
            "zones": [{"name": "chaos", "partitions": 1, "replicas": 3}],
            "load": {"registerRate": 200, "listRate": 0, "processes": 64},
            "times": {"beforeSeconds": 3, "afterSeconds": 6},
            "maxDurationSeconds": 3600,
            "faults": [fault],
        },
    }


def overrides(system: str) -> list[str]:
    """Changes of the scenario for a system."""
    if system != "etcd":
        return []
    times = [f"--heartbeat-interval={HEARTBEAT_MS}", f"--election-timeout={ELECTION_MS}"]
    return [f"target.args={json.dumps(times)}"]


def lines_of(file: Path) -> Iterator[dict[str, Any]]:
    """Of a JSON lines file; a torn last one is left out."""
    for line in file.read_text().splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return


def windows_ms(folder: Path) -> list[float]:
    """Of each blow that took effect in a run."""
    ends = sorted(
        line["time"]
        for file in (folder / "history").glob("*.jsonl")
        for line in lines_of(file)
        if line["type"] == "ok"
    )
    found: list[float] = []
    begun: int | None = None
    for event in lines_of(folder / "events.jsonl"):
        if event["kind"] == "fault.start":
            begun = event["time"]
        elif event["kind"] == "fault.effective" and begun is not None:
            near = [e for e in ends if begun - BEFORE_NS <= e <= event["time"] + BEHIND_NS]
            found.append(max(b - a for a, b in itertools.pairwise(near)) / 1e6)
            begun = None
    return found


def measure(system: str, blow: str, times: int, folder: Path) -> list[float]:
    """Run the scenario against a system. Raises CalledProcessError if it was refused."""
    file, out = folder / f"{blow}.yaml", folder / f"{system}-{blow}"
    file.write_text(yaml.safe_dump(scenario(blow, times)))
    program = Path(sys.executable).with_name("zonequake")
    command = [str(program), "run", str(file), f"--target={system}", "--no-analyze"]
    command += [f"--set={override}" for override in overrides(system)]
    ended = subprocess.run([*command, "--seed=1", f"--out={out}"], check=False)
    if ended.returncode not in (0, 1, 2, 3):  # judged, whatever the verdict; else it did not run
        raise subprocess.CalledProcessError(ended.returncode, command)
    return windows_ms(out)


def rows(found: dict[tuple[str, str], list[float]], blows: Sequence[str]) -> Iterator[list[str]]:
    """Lines of the table."""
    for blow in blows:
        ours, theirs = (found[system, blow] for system in SYSTEMS)
        if not ours or not theirs:
            yield [blow, f"{len(ours)} and {len(theirs)}", *[""] * 6]
            continue
        medians = statistics.median(ours), statistics.median(theirs)
        longest = max(ours), max(theirs)
        yield [
            blow,
            f"{len(ours)} and {len(theirs)}",
            *(f"{each:,.0f}" for each in medians),
            f"{medians[0] / medians[1]:.2f}",
            *(f"{each:,.0f}" for each in longest),
            f"{longest[0] / longest[1]:.2f}",
        ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--blows", nargs="+", choices=sorted(BLOWS), default=list(BLOWS))
    parser.add_argument("--folder", type=Path, help="keep the runs' folders here")
    given = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = {}
        for blow, system in itertools.product(given.blows, SYSTEMS):
            found[system, blow] = measure(system, blow, given.times, folder)
            print(system, blow, [round(each) for each in found[system, blow]], flush=True)
    head = ["blow to the leader", "blows, ours and etcd's", "median ms, ours", "etcd"]
    head += ["ratio", "longest ms, ours", "etcd", "ratio"]
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    for row in rows(found, given.blows):
        print("| " + " | ".join(row) + " |")
    print(f"\nLoad average {before:.2f} before, {os.getloadavg()[0]:.2f} after.")


if __name__ == "__main__":
    main()
