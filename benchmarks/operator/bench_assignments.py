"""Assignments of a large zone, beside the same function in plain Python; and what-if over it.

    python -m benchmarks.operator.bench_assignments [--partitions N] [--nodes N]

Prints Markdown for docs/performance.md. Seconds are CPU seconds of this process, so that other work
on the machine matters less. Target: 65,000 partitions on 100 nodes in at most 2 s. The peer is the
function as the documents' Ignite writes it, one node and one partition at a time; both must agree.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from zonequake_ctl.what_if.lines import line
from zonequake_ctl.what_if.reading.fields import read
from zonequake_ctl.what_if.timeline import run
from zonequake_operator.nodes.affinity import java_hash_code, rendezvous

TARGET_S = 2.0
REPLICAS = 3
PEER_PARTITIONS = 1000
"""The peer ranks so many partitions; its time is scaled up, because all of them take a minute."""

_WORD = (1 << 64) - 1
T = TypeVar("T")


def plain(nodes: list[str], partition: int, replicas: int) -> tuple[str, ...]:
    """One partition's nodes, best first, without arrays."""

    def rank(node: str) -> int:
        key = java_hash_code(node) | (partition << 32)
        key = (~key + (key << 21)) & _WORD
        key ^= key >> 24
        key = (key + (key << 3) + (key << 8)) & _WORD
        key ^= key >> 14
        key = (key + (key << 2) + (key << 4)) & _WORD
        key ^= key >> 28
        key = (key + (key << 31)) & _WORD
        return key - (1 << 64) if key >> 63 else key

    return tuple(sorted(nodes, key=lambda node: (rank(node), node))[:replicas])


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What `work` returns, and its CPU seconds."""
    began_s = time.process_time()
    found = work()
    return found, time.process_time() - began_s


def what_if(nodes: list[str], partitions: int) -> int:
    """Create the zone and let one more node join; the number of replicas that were started."""
    topology = ", ".join(f"{node}: {{}}" for node in nodes)
    question = read(
        f"topology: {{{topology}}}\nzone: {{partitions: {partitions}, replicas: {REPLICAS}}}\n"
        "events:\n- {at: 1, join: {another: {}}}\n"
    )
    started = 0
    for step in run(question):
        line(step.cause, step.state, step.actions)
        started += sum(action.do == "startReplica" for action in step.actions)
    return started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=65_000)
    parser.add_argument("--nodes", type=int, default=100)
    asked = parser.parse_args()
    nodes = [f"zq-default-{i}" for i in range(asked.nodes)]
    rendezvous(nodes, 10, REPLICAS)  # numpy's first call
    sets, ours_s = timed(lambda: rendezvous(nodes, asked.partitions, REPLICAS))
    some = min(PEER_PARTITIONS, asked.partitions)
    peers, peer_s = timed(lambda: [plain(nodes, n, REPLICAS) for n in range(some)])
    if peers != sets[:some]:
        print("the two functions disagree", file=sys.stderr)
        return 1
    _, what_if_s = timed(lambda: what_if(nodes, asked.partitions))
    print(f"{asked.partitions:,} partitions of {REPLICAS} replicas on {asked.nodes} nodes\n")
    print("| | CPU s |\n| --- | --- |")
    print(f"| assignments (target {TARGET_S:g}) | {ours_s:.2f} |")
    print(f"| the same in plain Python, from {some:,} | {peer_s * asked.partitions / some:.0f} |")
    print(f"| what-if: the zone's creation, and a node that joins | {what_if_s:.0f} |")
    return 0 if ours_s <= TARGET_S else 1


if __name__ == "__main__":
    sys.exit(main())
