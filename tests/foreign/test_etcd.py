"""Three real etcd servers under our load, judged by our checks and by Porcupine.

What a sound system does must pass, whatever happens to its members; what it is asked to do wrongly,
or what was taken from it, must be found.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.foreign.local_etcd import NAMES, LocalEtcd
from tests.foreign.porcupine_judge import Judge, judged_run
from tests.processes.load.load_pod import Findings, LoadPods, check_contract, check_final_reads
from zonequake_agent.disk import tampering
from zonequake_agent.disk.tampering import FAILING_SYNCS, TamperingKind
from zonequake_agent.pods import PROC, PodProcess
from zonequake_analysis.judgement.judge import Judgement, judge_run
from zonequake_analysis.report import write_report
from zonequake_analysis.verdict import Verdict
from zonequake_chaos.kit.members import dump_file, group_of
from zonequake_load.pod.control import (
    AppendListWorkload,
    LoadPlan,
    Phase,
    Preload,
    ReadsAt,
    RegisterWorkload,
)
from zonequake_target_etcd.client.protocol.records import dump_prefix, key_of
from zonequake_target_etcd.members import dumped

pytestmark = pytest.mark.timeout(1200)

Story = Callable[[LocalEtcd, LoadPods], Awaitable[None]]


@pytest.fixture
async def etcd(tmp_path: Path) -> AsyncIterator[LocalEtcd]:
    directory = tmp_path / "etcd"
    directory.mkdir()
    async with LocalEtcd(directory) as started:
        yield started


async def a_run(
    etcd: LocalEtcd, pods: LoadPods, run: Path, story: Story, *, reads_at: ReadsAt = ReadsAt.LEADER
) -> Findings:
    """Load while `story` happens, then final reads; the histories are in the folder `run`."""
    plan = LoadPlan(
        client="zonequake_target_etcd.client:connect",
        zone="z",
        seeds=etcd.seeds,
        workloads=[
            RegisterWorkload(operations_per_second=150, keys_per_partition=4, filler_bytes=64),
            AppendListWorkload(operations_per_second=40, keys_per_partition=2),
        ],
        preload=Preload(bulk_keys_per_partition=20, filler_bytes=256),
        reads_at=reads_at,
        final_timeout_s=20,
    )
    await pods.start(plan)
    await pods.complete(Phase.PRELOAD)
    await pods.enter(Phase.LOAD)
    await pods.answered(operations=200, probes=10)
    await story(etcd, pods)
    for phase in (Phase.QUIET, Phase.FINAL, Phase.DONE):
        await pods.complete(phase)
    (run / "history").mkdir(parents=True)
    files = await pods.collect()
    for name, text in files.items():
        (run / "history" / name).write_bytes(text)
    return check_contract(files)


async def dump_all(etcd: LocalEtcd, run: Path) -> None:
    """A dump of each member, all of one revision."""
    revision = await etcd.settled()
    (run / "dumps").mkdir()
    for name in NAMES:
        dump = await etcd.api(name).dump(dump_prefix("z"), revision=revision)
        content = dump_file(dumped(dump, zone="z"), group=group_of("z", "etcd"), node=name)
        (run / "dumps" / f"0-{name}.jsonl").write_bytes(content)


async def judged(spark: SparkSession, run: Path) -> Judgement:
    found = await asyncio.to_thread(judge_run, spark, run)
    await asyncio.to_thread(write_report, run, found)
    return found


def said(judgement: Judgement) -> dict[str, tuple[Verdict, int, str]]:
    """Verdict, violations and summary of each check that did not pass."""
    return {
        check.name: (check.verdict, check.violations, check.summary)
        for check in judgement.checks
        if check.verdict is not Verdict.PASSED
    }


@pytest.mark.long
async def test_a_leader_killed_under_load_loses_nothing_and_all_members_end_equal(
    etcd: LocalEtcd, pods: LoadPods, spark: SparkSession, porcupine: Judge, tmp_path: Path
) -> None:
    async def kill_the_leader(etcd: LocalEtcd, pods: LoadPods) -> None:
        victim = await etcd.leader()
        etcd.servers[victim].kill()
        await etcd.leader(members=2)
        await asyncio.sleep(1)
        etcd.servers[victim].spawn(etcd.cluster)
        await etcd.leader()
        await pods.answered(operations=500)

    run = tmp_path / "run"
    findings = await a_run(etcd, pods, run, kill_the_leader)
    check_final_reads(findings)
    await dump_all(etcd, run)
    judgement = await judged(spark, run)
    assert said(judgement) == {}
    audit = judgement.evidence.audit
    assert (audit.partitions, audit.replicas) == (1, 3)
    assert audit.writes_compared > 100
    # Every kind of operation worked, also those that had to be decided by a transaction.
    worked = {(line["f"], line["applied"]) for line in findings.of(type="ok", role="load")}
    assert worked == {
        ("read", None), ("write", None), ("append", None), ("cas", True), ("cas", False)
    }  # fmt: skip
    assert {line["node"] for line in findings.of(type="ok")} == set(NAMES)
    porcupines = judged_run(porcupine, run)
    assert (porcupines.disagreement, porcupines.illegal) == ("", [])
    assert porcupines.keys > 20


async def test_a_leader_ends_at_its_first_failed_sync_and_nothing_is_lost(
    etcd: LocalEtcd,
    pods: LoadPods,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within milliseconds, so that it is gone before anybody sees that it was traced."""

    async def fail_the_leaders_syncs(etcd: LocalEtcd, _: LoadPods) -> None:
        victim = await etcd.leader()
        process = etcd.servers[victim].process
        assert process is not None
        only = [PodProcess(pid=process.pid, name="etcd", container="c")]
        monkeypatch.setattr("zonequake_agent.pods.processes", lambda uid, proc=PROC: only)
        monkeypatch.setattr("zonequake_agent.pods.workers", lambda uid: [process.pid])
        await asyncio.to_thread(tampering.begin, "an etcd's", FAILING_SYNCS, seconds=30)
        assert await asyncio.to_thread(process.wait, 60) != 0
        ended = await asyncio.to_thread(tampering.end, "an etcd's", TamperingKind.FAILING)
        assert ended.changed > 0
        await etcd.leader(members=2)
        etcd.servers[victim].spawn(etcd.cluster)
        await etcd.leader()
        await asyncio.sleep(1)

    run = tmp_path / "run"
    check_final_reads(await a_run(etcd, pods, run, fail_the_leaders_syncs))
    await dump_all(etcd, run)
    assert said(await judged(spark, run)) == {}


async def cut_a_follower_off(etcd: LocalEtcd, pods: LoadPods) -> None:
    """For three seconds, or as many operations as the load does in that time."""
    leader = await etcd.leader()
    await etcd.cut(next(name for name in NAMES if name != leader))
    statuses = [await pods.status(pod) for pod in pods.pods]
    done = max(status.counts[Phase.LOAD].operations.ok for status in statuses)
    await asyncio.sleep(3)
    await pods.answered(operations=done + 400)
    etcd.relays.heal()
    await etcd.settled()


def stale_by_revision(findings: Findings) -> int:
    """Reads of a revision below that of a write of their key which had been acknowledged before."""
    written: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for line in findings.of(type="ok"):
        if line["f"] in ("write", "append") or line["applied"]:
            written[line["key"]].append((line["time"], line["index"]))
    return sum(
        any(time < read["inv"] and index > read["index"] for time, index in written[read["key"]])
        for read in findings.of(type="ok", f="read")
    )


async def test_serializable_reads_at_a_follower_that_is_cut_off_are_found_stale(
    etcd: LocalEtcd, pods: LoadPods, spark: SparkSession, porcupine: Judge, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    findings = await a_run(etcd, pods, run, cut_a_follower_off, reads_at=ReadsAt.LOCAL)
    judgement = await judged(spark, run)
    assert judgement.verdict is Verdict.VIOLATED
    # By what clients saw, without any revision.
    counts = judgement.evidence.found.counts
    assert counts["loss", "stale"] >= stale_by_revision(findings) > 20
    assert counts["loss", "lost"] == 0, "they are old, not lost"
    shown = next(one for one in judgement.shown if one.finding.kind == "stale")
    assert len(shown.witness.operations) >= 2
    # Both checkers of linearizability agree, and Porcupine with them.
    without_order = judgement.evidence.found.without_order
    assert without_order.by_both > 0
    assert without_order.by_black_box_only == 0
    porcupines = judged_run(porcupine, run)
    assert porcupines.disagreement == ""
    assert porcupines.illegal


async def test_linearizable_reads_pass_while_leaders_move_and_followers_are_cut_off_or_hang(
    etcd: LocalEtcd, pods: LoadPods, spark: SparkSession, tmp_path: Path
) -> None:
    async def moved_then_cut_off_then_hung(etcd: LocalEtcd, pods: LoadPods) -> None:
        for _ in range(5):
            await etcd.move_leader()
        await cut_a_follower_off(etcd, pods)
        leader = await etcd.leader()
        hung = etcd.servers[next(name for name in NAMES if name != leader)]
        hung.pause()
        await asyncio.sleep(2)
        hung.resume()
        await asyncio.sleep(1)

    run = tmp_path / "run"
    findings = await a_run(etcd, pods, run, moved_then_cut_off_then_hung)
    check_final_reads(findings)
    await dump_all(etcd, run)
    assert said(await judged(spark, run)) == {}


@pytest.mark.long
async def test_writes_that_a_majority_lost_with_its_disks_are_found_lost(
    etcd: LocalEtcd, pods: LoadPods, spark: SparkSession, tmp_path: Path
) -> None:
    async def lose_two_of_three(etcd: LocalEtcd, _: LoadPods) -> None:
        for server in etcd.servers.values():
            server.kill()
        # Two come back with nothing and are a majority; the one that knew better stays away.
        for name in NAMES[:2]:
            etcd.servers[name].wipe()
            etcd.servers[name].spawn(etcd.cluster)
        await etcd.leader(members=2)
        await asyncio.sleep(2)

    run = tmp_path / "run"
    await a_run(etcd, pods, run, lose_two_of_three)
    judgement = await judged(spark, run)
    assert judgement.verdict is Verdict.VIOLATED
    found = said(judgement)
    assert found["lost-writes"][1] > 20
    assert found["linearizability"][0] is Verdict.VIOLATED


async def test_a_member_whose_disk_changed_values_is_found_by_its_hash_and_by_what_it_serves(
    etcd: LocalEtcd, pods: LoadPods, spark: SparkSession, tmp_path: Path
) -> None:
    async def change_values(etcd: LocalEtcd, _: LoadPods) -> None:
        leader = await etcd.leader()
        name = next(name for name in NAMES if name != leader)
        dump = await etcd.api(name).dump(key_of("z", "b/"))
        victim = etcd.servers[name]
        victim.kill()
        victim.rot(kv.value for kv in dump.kvs)
        victim.spawn(etcd.cluster)
        await etcd.leader()
        await asyncio.sleep(0.5)  # Until the load's client takes it for well again.

    run = tmp_path / "run"
    await a_run(etcd, pods, run, change_values)
    await dump_all(etcd, run)
    judgement = await judged(spark, run)
    found = said(judgement)
    assert found["diverged"][0] is Verdict.VIOLATED
    (apart,) = judgement.evidence.audit.disagreements
    assert apart.kind == "digest"
    assert apart.what.startswith("at log index "), "a member at rest says at which entry"
    assert found["phantoms"][1] > 3, "a third of the reads are served by it"
