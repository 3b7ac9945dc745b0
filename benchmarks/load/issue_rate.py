"""How many operations one load pod can issue, and what each costs it.

    python -m benchmarks.load.issue_rate [SECONDS]

Runs a real load pod against a store in memory (one process, no disk) at rising rates, and prints
completed operations per second, CPU of the load pod for each, latency from the scheduled time, and
how many were late or dropped. The store shares the machine's cores, so the highest rate is a lower
bound.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.processes.load.load_pod import Findings, LoadPod, LoadPods, check_contract
from tests.unit.load.reference_store import ZONE
from zonequake_load.pod.control import LoadPlan, LoadStatus, Phase, Preload, RegisterWorkload

ROOT = Path(__file__).resolve().parents[2]
RATES = (250, 500, 1_000, 2_000, 3_000, 4_000)


async def cpu_s(pods: LoadPods, pod: LoadPod) -> float:
    """CPU seconds the pod has used so far, by its own metrics."""
    async with pods.session.get(f"http://127.0.0.1:{pod.port}/metrics") as response:
        for line in (await response.text()).splitlines():
            if line.startswith("process_cpu_seconds_total"):
                return float(line.split()[1])
    raise AssertionError("found no CPU time among the metrics")


async def loaded(plan: LoadPlan, seconds: float) -> tuple[LoadStatus, float, Findings]:
    """Has one pod carry out a plan, with so much time of load: its status, CPU seconds, history."""
    with tempfile.TemporaryDirectory() as directory:
        async with LoadPods(Path(directory)) as pods:
            await pods.start(plan)
            (pod,) = pods.pods
            await pods.complete(Phase.PRELOAD)
            before_s = await cpu_s(pods, pod)
            await pods.enter(Phase.LOAD)
            await asyncio.sleep(seconds)
            (status,) = await pods.complete(Phase.QUIET)
            used_s = await cpu_s(pods, pod) - before_s
            await pods.complete(Phase.DONE)
            return status, used_s, check_contract(await pods.collect())


async def measure(rate: float, seconds: float, seeds: list[str]) -> str:
    plan = LoadPlan(
        client="zonequake_target_store.client:connect",
        zone=ZONE,
        seeds=seeds,
        workloads=[RegisterWorkload(operations_per_second=rate)],
        probes=None,
        preload=Preload(),
    )
    status, used_s, findings = await loaded(plan, seconds)
    counts = status.counts[Phase.LOAD].operations
    preloaded = status.counts[Phase.PRELOAD].operations.ok
    latencies_ms = sorted(
        (line["time"] - line["sched"]) / 1e6 for line in findings.completed[preloaded:]
    )
    p50, p99 = (latencies_ms[int(len(latencies_ms) * q)] for q in (0.5, 0.99))
    return (
        f"{rate:>8.0f} {counts.ok / seconds:>8.0f} {used_s / counts.ok * 1e6:>12.0f} "
        f"{p50:>8.2f} {p99:>8.2f} {counts.late:>7} {counts.dropped:>8}"
    )


async def measure_all(seconds: float, seeds: list[str]) -> None:
    print(f"{'asked/s':>8} {'ok/s':>8} {'CPU µs/op':>12} {'p50 ms':>8} {'p99 ms':>8} late dropped")
    for rate in RATES:
        print(await measure(rate, seconds, seeds), flush=True)


def main(seconds: float) -> None:
    store = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.load.reference_store", "3", "25"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert store.stdout is not None
    seeds = [store.stdout.readline().strip() for _ in range(3)]
    try:
        asyncio.run(measure_all(seconds, seeds))
    finally:
        store.terminate()
        store.wait()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0)
