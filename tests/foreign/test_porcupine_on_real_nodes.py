"""Histories of real data node processes: both judges say the same, key by key."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.foreign.porcupine_judge import Judge, judged_run
from tests.processes.load.load_pod import LoadPods
from tests.processes.store.local_nodes import LocalNodes
from zonequake_load.pod.control import (
    AppendListWorkload,
    LoadPlan,
    Phase,
    Preload,
    ReadsAt,
    RegisterWorkload,
)

pytestmark = pytest.mark.timeout(1200)

THREE = ["n0", "n1", "n2"]


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[LocalNodes]:
    directory = tmp_path / "nodes"
    directory.mkdir()
    async with LocalNodes(directory) as started:
        yield started


async def a_run(nodes: LocalNodes, pods: LoadPods, run: Path, *, reads_at: ReadsAt) -> None:
    """Load on three nodes, one of which is killed, in the folder `run`; judged by our analysis."""
    zone = await nodes.create("z", partitions=3, on=THREE)
    plan = LoadPlan(
        client="zonequake_target_store.client:connect",
        zone="z",
        seeds=[f"127.0.0.1:{node.client_port}" for node in nodes.nodes.values()],
        workloads=[
            RegisterWorkload(operations_per_second=150, keys_per_partition=2),
            AppendListWorkload(operations_per_second=50, keys_per_partition=1),
        ],
        preload=Preload(bulk_keys_per_partition=5),
        reads_at=reads_at,
        final_timeout_s=30,
    )
    await pods.start(plan)
    await pods.complete(Phase.PRELOAD)
    await pods.enter(Phase.LOAD)
    await pods.answered(operations=400)
    victim = await nodes.leader(zone.groups[0])
    nodes.nodes[victim].kill()
    await asyncio.sleep(3)
    await nodes.restart(zone, victim)
    await pods.answered(operations=800)
    for phase in (Phase.QUIET, Phase.FINAL, Phase.DONE):
        await pods.complete(phase)
    (run / "history").mkdir(parents=True)
    for name, text in (await pods.collect()).items():
        (run / "history" / name).write_bytes(text)
    done = await asyncio.to_thread(
        subprocess.run,
        [str(Path(sys.executable).parent / "zonequake"), "analyze", str(run)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run / "verdict.json").exists(), done.stdout + done.stderr


@pytest.mark.long
async def test_both_find_an_order_of_every_key_when_a_leader_was_killed(
    nodes: LocalNodes, pods: LoadPods, porcupine: Judge, tmp_path: Path
) -> None:
    await nodes.start(*THREE)
    await a_run(nodes, pods, tmp_path / "run", reads_at=ReadsAt.LEADER)
    judged = judged_run(porcupine, tmp_path / "run")
    assert not judged.disagreement
    assert (judged.illegal, judged.undecided) == ([], [])
    assert judged.keys > 15


@pytest.mark.long
async def test_both_miss_an_order_of_the_same_number_of_keys_when_replicas_answer_alone(
    nodes: LocalNodes, pods: LoadPods, porcupine: Judge, tmp_path: Path
) -> None:
    await nodes.start(
        *THREE, ZQ_PLANTED_FAULT="local-reads", ZQ_ALLOW_PLANTED_FAULTS="yes-for-a-test"
    )
    await a_run(nodes, pods, tmp_path / "run", reads_at=ReadsAt.ANY)
    judged = judged_run(porcupine, tmp_path / "run")
    assert not judged.disagreement
    assert judged.illegal


@pytest.mark.long
async def test_both_miss_an_order_when_sound_nodes_are_asked_for_their_own_state(
    nodes: LocalNodes, pods: LoadPods, porcupine: Judge, tmp_path: Path
) -> None:
    await nodes.start(*THREE)
    await a_run(nodes, pods, tmp_path / "run", reads_at=ReadsAt.LOCAL)
    judged = judged_run(porcupine, tmp_path / "run")
    assert not judged.disagreement
    assert judged.illegal
