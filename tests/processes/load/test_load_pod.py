"""A load pod's life: phases, kills, files. Against a store in memory."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.processes.load.load_pod import LoadPod, LoadPods, check_contract, check_final_reads
from tests.processes.store.local_nodes import until
from tests.unit.load.reference_store import ZONE, ReferenceStore
from zonequake_load.pod.control import (
    AppendListWorkload,
    LoadPlan,
    Phase,
    Preload,
    RegisterWorkload,
)

pytestmark = pytest.mark.processes


def plan_for(store: ReferenceStore, pods: int = 1) -> LoadPlan:
    return LoadPlan(
        client="zonequake_target_store.client:connect",
        zone=ZONE,
        seeds=store.addresses,
        pods=pods,
        workloads=[
            RegisterWorkload(operations_per_second=150, keys_per_partition=2, filler_bytes=32),
            AppendListWorkload(operations_per_second=100, keys_per_partition=1, longest=20),
        ],
        preload=Preload(bulk_keys_per_partition=10, filler_bytes=1_000),
        # A machine that stands still for seconds costs no operation.
        processes=100,
        deadline_ms=round(PATIENCE_S * 1000),
        attempt_ms=300,
        final_timeout_s=round(PATIENCE_S),
    )


async def test_two_pods_go_through_all_phases_and_write_a_complete_history(
    store: ReferenceStore, pods: LoadPods
) -> None:
    await pods.start(plan_for(store, pods=2))
    statuses = await pods.complete(Phase.PRELOAD)
    assert sum(status.done_keys for status in statuses) == 4 * (2 + 10)
    await pods.enter(Phase.LOAD)
    await pods.answered(operations=300, probes=150)
    before_quiet = await pods.complete(Phase.QUIET)
    for status in before_quiet:
        counts = status.counts[Phase.LOAD]
        assert counts.operations.fail == counts.operations.info == counts.operations.dropped == 0
        assert status.outstanding == 0
    await pods.complete(Phase.FINAL)
    await pods.complete(Phase.DONE)
    findings = check_contract(await pods.collect())
    assert findings.torn == 0
    check_final_reads(findings)
    assert {line["f"] for line in findings.of(role="load", type="ok")} == {
        "read", "write", "cas", "append",
    }  # fmt: skip
    assert findings.of(f="cas", applied=True)
    assert {line["partition"] for line in findings.of(role="probe", f="write")} == {0, 1, 2, 3}
    lists = [line["value"] for line in findings.of(role="final") if isinstance(line["value"], list)]
    assert len(lists) > 8
    assert max(len(each) for each in lists) <= 20
    for pod in pods.pods:
        assert pod.signal(signal.SIGTERM) == 0


async def test_a_killed_pod_goes_on_in_its_phase_and_its_history_stays_whole(
    store: ReferenceStore, pods: LoadPods
) -> None:
    await pods.start(plan_for(store))
    await pods.complete(Phase.PRELOAD)
    await pods.enter(Phase.LOAD)
    (pod,) = pods.pods
    for _ in range(3):
        await pods.answered(operations=100)
        pod.signal(signal.SIGKILL)
        pod.spawn()
        assert (await pods.wait_until_up(pod)).phase is Phase.LOAD
    await pods.answered(operations=100)
    await pods.complete(Phase.QUIET)
    await pods.complete(Phase.FINAL)
    await pods.complete(Phase.DONE)
    files = await pods.collect()
    assert len([name for name in files if name.endswith("-load.jsonl")]) == 4
    findings = check_contract(files)
    check_final_reads(findings)
    # The store's own record: all that it applied was written down before it was sent.
    applied = {value for partition in store.partitions for _, value in partition.applied}
    assert applied <= {line["value"] for line in findings.completed if line["f"] != "read"}


async def test_leaders_that_move_and_die_cost_no_operation_of_the_workloads(
    store: ReferenceStore, pods: LoadPods
) -> None:
    await pods.start(plan_for(store))
    await pods.complete(Phase.PRELOAD)
    await pods.enter(Phase.LOAD)
    await pods.answered(operations=1, probes=1)
    (pod,) = pods.pods
    for turn in range(6):
        node = store.nodes[turn % 3]
        before = await probes_in_vain(pods, pod)
        await node.kill()

        async def is_noticed(before: int = before) -> bool:
            return await probes_in_vain(pods, pod) > before

        await until(is_noticed, f"a probe finds that {node.name} is dead")
        for partition, state in enumerate(store.partitions):
            if state.leader == node.number:
                store.elect(partition, (node.number + 1) % 3)
        await asyncio.sleep(0.2)
        await node.start()
        await asyncio.sleep(0.2)
    (status,) = await pods.complete(Phase.QUIET)
    counts = status.counts[Phase.LOAD]
    assert counts.operations.fail == counts.operations.info == 0
    await pods.complete(Phase.FINAL)
    await pods.complete(Phase.DONE)
    findings = check_contract(await pods.collect())
    check_final_reads(findings)
    assert max(line["attempts"] for line in findings.of(role="load", type="ok")) > 1
    assert {line["attempts"] for line in findings.of(role="probe", type="ok")} == {1}


async def probes_in_vain(pods: LoadPods, pod: LoadPod) -> int:
    counts = (await pods.status(pod)).counts[Phase.LOAD]
    return counts.probes.fail + counts.probes.info


async def test_a_stopped_pod_records_what_was_outstanding_as_info(
    store: ReferenceStore, pods: LoadPods
) -> None:
    await pods.start(plan_for(store))
    await pods.enter(Phase.LOAD)
    await pods.answered(operations=100)
    for node in store.nodes:
        node.paused = True
    (pod,) = pods.pods

    async def all_wait() -> bool:
        return (await pods.status(pod)).counts[Phase.LOAD].operations.dropped > 0

    await until(all_wait, "every process of the load waits for its answer")
    assert pod.signal(signal.SIGTERM) == 0
    files = {path.name: path.read_bytes() for path in pod.directory.glob("*.jsonl")}
    findings = check_contract(files)
    assert findings.of(type="info", role="load")
    assert len(findings.lines) == 2 * len(findings.completed), "each invoke has its completion"


async def test_a_pod_waits_for_its_zone_and_says_so(store: ReferenceStore, pods: LoadPods) -> None:
    plan = plan_for(store)
    await store.stop()
    await pods.start(plan)
    await pods.enter(Phase.PRELOAD)
    (pod,) = pods.pods
    assert not (await pods.status(pod)).complete
    await store.start()
    await pods.complete(Phase.PRELOAD)


async def test_wrong_requests_are_refused_with_a_sentence(
    store: ReferenceStore, pods: LoadPods
) -> None:
    await pods.start(plan_for(store))
    base = f"http://127.0.0.1:{pods.pods[0].port}"
    async with pods.session.post(f"{base}/phase", json={"phase": "sleep"}) as response:
        assert response.status == 400
        assert "sleep" in await response.text()
    async with pods.session.get(f"{base}/files/..%2Fplan.json") as response:
        assert response.status == 404
    await pods.complete(Phase.DONE)
    async with pods.session.post(f"{base}/phase", json={"phase": "load"}) as response:
        assert response.status == 409
        assert "after done" in await response.text()


async def test_metrics_count_operations_by_outcome(store: ReferenceStore, pods: LoadPods) -> None:
    await pods.start(plan_for(store))
    await pods.complete(Phase.PRELOAD)
    async with pods.session.get(f"http://127.0.0.1:{pods.pods[0].port}/metrics") as response:
        text = await response.text()
    assert 'zonequake_load_operations_total{f="write",outcome="ok",role="load"} 48.0' in text


def run_until_it_ends(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "zonequake_load"],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def test_wrong_usage_ends_with_254_and_says_what_is_expected(tmp_path: Path) -> None:
    missing = run_until_it_ends({})
    assert missing.returncode == 254
    assert "ZQ_LOAD_PLAN" in missing.stderr
    plan = tmp_path / "plan.json"
    plan.write_text(
        '{"client":"zonequake_target_store.client:connect","zone":"z","seeds":["a:1"],"speed":3}'
    )
    unknown = run_until_it_ends({"ZQ_LOAD_PLAN": str(plan)})
    assert unknown.returncode == 254
    assert "speed" in unknown.stderr
    plan.write_text(
        '{"client":"zonequake_target_store.client:connect","zone":"z","seeds":["a:1"],"pods":2}'
    )
    beyond = run_until_it_ends(
        {
            "ZQ_LOAD_PLAN": str(plan),
            "ZQ_LOAD_DIR": str(tmp_path / "history"),
            "ZQ_LOAD_PORT": "0",
            "ZQ_LOAD_POD": "load-2",
        }
    )
    assert beyond.returncode == 254
    assert "found pod ordinal 2, expected 0..1" in beyond.stderr


async def test_a_pod_that_cannot_write_its_history_stops_with_1(
    store: ReferenceStore, pods: LoadPods
) -> None:
    await pods.start(plan_for(store))
    (pod,) = pods.pods
    (status,) = await pods.complete(Phase.QUIET)
    # Its file name is taken: nothing may be written there, so nothing may be sent.
    (pod.directory / f"load-0-{status.incarnation}-load.jsonl").touch()
    await pods.enter(Phase.PRELOAD)
    assert pod.process is not None
    assert await asyncio.to_thread(pod.process.wait, PATIENCE_S) == 1
    assert not any(node.requests for node in store.nodes)
