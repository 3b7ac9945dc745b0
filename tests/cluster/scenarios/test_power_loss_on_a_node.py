"""Volumes that lose their power on a real node: what synced its writes keeps them, and what did not
is found.

Needs loop devices: the volumes are those of `zonequake cluster limited-volumes`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from zonequake_chaos.scenario import manifest
from zonequake_cluster.embedded import EmbeddedCluster

if TYPE_CHECKING:
    from tests.cluster.scenarios.conftest import Judged, Release

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

TRIES = 5
"""What a store loses must be found within so many runs; the seeds differ."""

SHORT = "times={beforeSeconds: 5, afterSeconds: 3}"
ON_OWN_VOLUMES = ("pools=[{name: default, replicas: 0}, {name: limited, replicas: 3}]",)
LIMITED = (
    "nodePools[0].name=default",
    "nodePools[0].replicas=3",
    "nodePools[1].name=limited",
    "nodePools[1].replicas=0",
    "nodePools[1].storage.className=limited",
    "nodePools[1].storage.size=448Mi",
)
FOR_TARGETS = ("target.storage={className: limited, size: 448Mi}",)
OF_ONE = ("faults.0.target={role: leader}", "faults.0.times=2", "faults.0.pauseSeconds=5")
SYNCHRONOUS = (
    "target.args=[synchronous_mode=true, synchronous_mode_strict=true, "
    "postgresql.parameters.max_wal_size=96MB, postgresql.parameters.min_wal_size=32MB]",
    *("zones.0.partitions=1", "load.processes=32", "load.probeRate=50"),
    *("load.registerRate=30", "load.listRate=20"),
)

# The kernel stores pages after 30 s by itself: what members need to begin at all is there then.
LATE = ("times={beforeSeconds: 45, afterSeconds: 3}", "faults.0.times=1")


@pytest.fixture
def run(run_scenario: Any, release: Release, embedded_cluster: EmbeddedCluster) -> Any:
    """Runs a scenario on three free volumes that are file systems of their own."""

    def once(
        scenario: str = "power-loss",
        *overrides: str,
        fault: str = "",
        agent: bool = False,
        target: str = "zonequake",
        seed: int = 1,
    ) -> Judged:
        embedded_cluster.limit_volumes(count=3, mebibytes=512)
        release.plant(fault, agent=agent, more=LIMITED)
        where = ON_OWN_VOLUMES if target == "zonequake" else FOR_TARGETS
        judged: Judged = run_scenario(
            scenario, *where, SHORT, *overrides, target=target, seed=seed, plant=False
        )
        return judged

    return once


def lost_power(judged: Judged) -> list[dict[str, Any]]:
    """The proofs of the run's power losses."""
    found = [event["data"] for event in judged.events("fault.effective")]
    return [data["proof"] for data in found if "kept_bytes" in data["proof"]]


@pytest.mark.parametrize(
    ("agent", "times"), [(False, 1), pytest.param(True, 2, marks=pytest.mark.long)]
)
def test_a_sound_store_keeps_what_it_acknowledged(run: Any, agent: bool, times: int) -> None:
    rates = ("load.registerRate=75", "load.listRate=50")
    judged = run("power-loss", f"faults.0.times={times}", *rates, agent=agent)
    assert judged.exit_code == 0, judged.output
    proofs = lost_power(judged)
    assert [len(proof["killed"]) for proof in proofs] == [3] * times
    assert all(proof["kept_bytes"] == proof["lost_bytes"] == 4096 for proof in proofs)


@pytest.mark.long
def test_a_sound_store_keeps_it_through_fifty_losses(run: Any) -> None:
    judged = run("power-loss", "faults.0.times=50", "faults.0.pauseSeconds=2")
    assert judged.exit_code == 0, judged.output
    assert [len(proof["killed"]) for proof in lost_power(judged)] == [3] * 50
    print(judged.verdict["headline"])


@pytest.mark.long
def test_a_sound_etcd_keeps_what_it_acknowledged(run: Any) -> None:
    judged = run(target="etcd")
    assert judged.exit_code == 0, judged.output
    assert len(lost_power(judged)) == 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("target", "overrides"),
    [
        ("zonequake", ()),
        ("etcd", ()),
        # A failover takes it longer than the rest of a short run.
        ("patroni", (*SYNCHRONOUS, "times={beforeSeconds: 30, afterSeconds: 10}")),
    ],
)
def test_a_leader_alone_loses_its_power(run: Any, target: str, overrides: tuple[str, ...]) -> None:
    judged = run("power-loss", *OF_ONE, *overrides, target=target)
    assert judged.exit_code == 0, judged.output
    proofs = lost_power(judged)
    assert [len(proof["killed"]) for proof in proofs] == [1, 1]
    assert all(proof["kept_bytes"] == proof["lost_bytes"] == 4096 for proof in proofs)
    print(judged.says("lost-writes"), judged.says("availability"))


@pytest.mark.long
def test_a_postgresql_that_syncs_keeps_what_it_acknowledged(run: Any) -> None:
    judged = run("power-loss", *SYNCHRONOUS, target="patroni")
    assert judged.exit_code == 0, judged.output
    assert [len(proof["killed"]) for proof in lost_power(judged)] == [3, 3]
    print(judged.says("lost-writes"), judged.says("availability"))


@pytest.mark.long
@pytest.mark.parametrize(("args", "exit_code"), [("[--sync]", 0), ("[]", 1)])
def test_the_model_of_new_targets_keeps_what_it_syncs(run: Any, args: str, exit_code: int) -> None:
    alone = ("zones.0.replicas=1", "pools.0.replicas=1", "faults.0.times=1")
    judged = run("power-loss", *alone, f"target.args={args}", target="toy")
    assert judged.exit_code == exit_code, judged.output
    assert [len(proof["killed"]) for proof in lost_power(judged)] == [1]
    assert ("lost-writes" in judged.failed_checks()) is (exit_code == 1)
    print(args, judged.says("lost-writes"))


@pytest.mark.long
def test_a_library_that_never_syncs_is_found(run: Any) -> None:
    judged = run("power-loss", *LATE, target="pysyncobj")
    assert judged.exit_code == 1, judged.output
    print(judged.failed_checks(), judged.says("lost-writes"))


@pytest.mark.long
def test_an_etcd_that_does_not_sync_is_found(run: Any) -> None:
    for seed in range(1, TRIES + 1):
        judged = run("power-loss", "zones.0.fsync=false", *LATE, target="etcd", seed=seed)
        if judged.exit_code == 1 and "lost-writes" in judged.failed_checks():
            print(f"try {seed} of {TRIES}: {judged.says('lost-writes')}")
            return
    pytest.fail(f"nothing was lost in {TRIES} runs: {judged.output[-3000:]}")


@pytest.mark.long
def test_a_zone_that_does_not_sync_loses_its_replicas_and_answers_no_more(run: Any) -> None:
    """It loses all of them, not the last writes: no reset, no answer, so only its nodes tell."""
    judged = run("power-loss", "zones.0.fsync=false", *LATE)
    assert judged.exit_code == 1, judged.output
    assert "lost-groups" in judged.failed_checks()
    assert "after the quiet time all of its replicas said so" in judged.says("lost-groups")
    print(judged.says("lost-groups"))
    assert "leader unknown" in judged.says("harness")
    assert "never read again" in judged.says("coverage")


@pytest.mark.long
def test_a_store_that_goes_on_after_failed_syncs_is_found(run: Any, tmp_path: Path) -> None:
    """Every node's syncs fail, and are not executed, until all lose their power."""
    scenario = yaml.safe_load(manifest.shipped()["power-loss"])
    (loss,) = scenario["spec"]["faults"]
    everyone = loss["target"]
    scenario["spec"]["faults"] = [
        {
            "name": "syncs-fail",
            "type": "failed_fsync",
            "trigger": {"when": "settled"},
            "target": everyone,
            "heldUntil": "no-power",
        },
        {
            "name": "written-meanwhile",
            "type": "reached",
            "trigger": {"when": "time", "afterSeconds": 3, "since": "syncs-fail"},
        },
        {"name": "no-power", "type": "power_loss", "target": everyone},
    ]
    file = tmp_path / "failed-syncs.yaml"
    file.write_text(yaml.safe_dump(scenario))
    for seed in range(1, TRIES + 1):
        judged = run(str(file), fault="ignore-failed-sync", seed=seed)
        if judged.exit_code == 1 and "lost-writes" in judged.failed_checks():
            print(f"try {seed} of {TRIES}: {judged.says('lost-writes')}")
            return
    pytest.fail(f"nothing was lost in {TRIES} runs: {judged.output[-3000:]}")


@pytest.mark.long
def test_a_volume_that_shares_its_file_system_is_refused(run_scenario: Any) -> None:
    judged = run_scenario("power-loss", SHORT, "faults.0.times=1")
    assert judged.exit_code == 2, judged.output
    (missed,) = judged.events("fault.missed")
    assert "of a shared file system" in missed["data"]["reason"]
    assert not judged.events("fault.effective")


@pytest.mark.long
def test_a_kill_while_the_log_is_slow_is_proven_by_both(run_scenario: Any, tmp_path: Path) -> None:
    scenario = yaml.safe_load(manifest.shipped()["kill-all"])
    (kill,) = scenario["spec"]["faults"]
    slow = {
        "name": "slow-log",
        "type": "slow_disk",
        "trigger": {"when": "settled"},
        "target": kill["target"],
        "calls": "writes",
        "delayMilliseconds": 40,
        "files": ["/data/etcd/member/wal/*.wal"],
        "heldUntil": "kill-all",
    }
    waits = {
        "name": "written-meanwhile",
        "type": "reached",
        "trigger": {"when": "time", "afterSeconds": 2, "since": "slow-log"},
    }
    scenario["spec"]["faults"] = [slow, waits, {**kill, "times": 1, "trigger": {"when": "now"}}]
    file = tmp_path / "slow-log.yaml"
    file.write_text(yaml.safe_dump(scenario))
    judged = run_scenario(str(file), SHORT, target="etcd")
    assert judged.exit_code == 0, judged.output
    proofs = [event["data"]["proof"] for event in judged.events("fault.effective")]
    delayed = next(proof["delayed"] for proof in proofs if "delayed" in proof)
    assert len(delayed) == 3
    assert all(delayed.values())
