"""Whole runs with `--target etcd` against a made-up cluster, and what is refused before one."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from tests.unit.installed import installed, place_of
from zonequake_analysis.inputs.run_folder import read_description, read_dumps, read_events
from zonequake_analysis.measures.replica_audit import audit
from zonequake_analysis.verdict import Verdict
from zonequake_chaos.cleanup.prove import clean_up
from zonequake_chaos.commands.run import RunOptions, planned, run_once
from zonequake_chaos.errors import ManifestError
from zonequake_chaos.kit.member_set import KINDS, MemberSet, member_objects
from zonequake_chaos.kit.target import TargetPlace
from zonequake_chaos.record.cleanup_journal import CleanupJournal, DeleteObjects
from zonequake_chaos.scenario import manifest
from zonequake_chaos.scenario.control import without_control
from zonequake_chaos.scenario.run import RunTarget, TargetStorage, with_target
from zonequake_ctl.context import ReleasePlace
from zonequake_kube.errors import UsageError
from zonequake_target_etcd.members import PORTS, SERVER_METRICS, container

Events = Callable[[Path], list[dict[str, Any]]]

MEMBERS = [f"zq-etcd-default-{ordinal}" for ordinal in range(3)]


@pytest.fixture
def cluster_type() -> type:
    from tests.unit.chaos.runner.etcd_model import ClusterWithEtcd

    return ClusterWithEtcd


def ask(scenario: str, out: Path, *overrides: str, target: str = "etcd") -> RunOptions:
    quick = ["times={beforeSeconds: 0.2, afterSeconds: 0.2, quietSeconds: 0}"]
    return RunOptions(
        scenario=scenario,
        overrides=[*quick, *overrides],
        seed=1,
        out=out,
        analyze=False,
        target=target,
        image="some/etcd:1",
    )


ONE_ZONE = "zones=[{name: consistent, partitions: 2, replicas: 3}]"


def quiet_console() -> Console:
    return Console(file=io.StringIO(), width=300)


def of_kind(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["kind"] == kind]


async def test_leaders_of_an_etcd_are_killed_and_nothing_of_it_stays(
    cluster: Any, place: ReleasePlace, tmp_path: Path, events_of: Events
) -> None:
    folder, report = await run_once(
        ask("leader-kill", tmp_path / "run", "faults.0.times=2", "faults.0.pauseSeconds=0"),
        place,
        quiet_console(),
    )
    assert report.problems == []
    assert report.verdict is Verdict.PASSED
    events = events_of(folder.path)
    killed = of_kind(events, "fault.effective")
    assert [kill["data"]["targets"] for kill in killed] == [[MEMBERS[0]], [MEMBERS[1]]]
    assert [command[4:] for command in cluster.commands] == [["etcd"], ["etcd"]]
    leaders = of_kind(events, "leader.change")
    assert [(e["data"]["leader"], e["data"]["term"]) for e in leaders] == [
        (MEMBERS[0], 2),
        (MEMBERS[1], 3),
        (MEMBERS[0], 4),
    ]
    audits = of_kind(events, "replica.audit")
    assert [(e["node"], e["data"]["applied"]) for e in audits] == [(m, 9) for m in MEMBERS]
    assert {e["data"]["digest"] for e in audits} == {"0000004d, compacted 0"}
    dumped = (folder.path / "dumps" / f"0-{MEMBERS[0]}.jsonl").read_text().splitlines()
    assert json.loads(dumped[1]) == {"key": "a", "value": 7, "index": 9}
    (plan,) = cluster.plans
    assert plan["client"] == "zonequake_target_etcd.client:connect"
    assert plan["seeds"][0] == "zq-etcd-default-0.zq-target.zonequake.svc:2379"
    assert plan["workloads"][0]["keys_per_partition"] == 16, "those of four partitions"
    written = yaml.safe_load((folder.path / "run.yaml").read_text())
    assert written["target"] == {"name": "etcd", "version": "3.6.4", "image": "some/etcd:1"}
    assert read_description(folder.path).server_metrics == SERVER_METRICS
    assert written["replay"].endswith(" --target etcd --image some/etcd:1")
    assert CleanupJournal(folder.path).debts == []
    assert not any(kind == "statefulsets" for kind, _ in cluster.objects)
    assert cluster.zone is None, "no zone was made for it"


async def test_members_of_several_versions_are_all_described(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    cluster.told_versions[MEMBERS[1]] = "3.5.9"
    folder, _ = await run_once(
        ask("leader-kill", tmp_path / "run", "faults.0.times=1"), place, quiet_console()
    )
    written = yaml.safe_load((folder.path / "run.yaml").read_text())
    assert written["target"]["version"] == "3.5.9, 3.6.4"


async def test_a_start_is_told_with_the_process_that_a_kill_names(
    cluster: Any, place: ReleasePlace, tmp_path: Path, events_of: Events
) -> None:
    """The analysis takes a member for dead until another process of it starts."""
    folder, _ = await run_once(
        ask("leader-kill", tmp_path / "run", "faults.0.type=pod_kill", "faults.0.times=1"),
        place,
        quiet_console(),
    )
    events = events_of(folder.path)
    (killed,) = of_kind(events, "fault.effective")
    (victim,) = killed["data"]["proof"]["victims"]
    starts = [e for e in of_kind(events, "node.started") if e["node"] == victim["node"]]
    processes = [start["data"]["process_incarnation"] for start in starts]
    assert processes[0] == victim["process_incarnation"]
    assert len(processes) >= 2
    assert victim["process_incarnation"] not in processes[1:]
    assert starts[1]["time"] <= of_kind(events, "fault.recovered")[0]["time"]


async def test_members_whose_hashes_differ_are_named(
    cluster: Any, place: ReleasePlace, tmp_path: Path, events_of: Events
) -> None:
    cluster.hashes[MEMBERS[2]] = 78
    folder, report = await run_once(
        ask("leader-kill", tmp_path / "run", "faults.0.times=1"), place, quiet_console()
    )
    assert any("hashes of revision 9 differ" in problem for problem in report.problems)
    audits = [e["data"] for e in of_kind(events_of(folder.path), "replica.audit")]
    assert len({data["digest"] for data in audits}) == 2
    assert {data["log_index"] for data in audits} == {40}
    (apart,) = audit([], read_events(folder.path)[0], read_dumps(folder.path)).disagreements
    assert apart.diverged
    assert apart.what.startswith("at log index 40: ")


async def test_members_of_an_older_release_say_their_hashes_at_the_peers_port(
    cluster: Any, place: ReleasePlace, tmp_path: Path, events_of: Events
) -> None:
    cluster.hash_in_gateway = False
    folder, report = await run_once(
        ask("leader-kill", tmp_path / "run", "faults.0.times=1"), place, quiet_console()
    )
    assert report.problems == []
    audits = [e["data"] for e in of_kind(events_of(folder.path), "replica.audit")]
    assert [(data["digest"], data["log_index"]) for data in audits] == [
        ("0000004d, compacted 0", 40)
    ] * 3
    assert len({data["incarnation"] for data in audits}) == 3


async def test_a_member_that_skipped_an_entry_has_diverged_from_those_at_its_log_index(
    cluster: Any, place: ReleasePlace, tmp_path: Path, events_of: Events, monkeypatch: Any
) -> None:
    monkeypatch.setattr("zonequake_chaos.runner.runner.ALIKE_TIMEOUT_S", 0.5)
    cluster.hash_in_gateway = False
    cluster.revisions[MEMBERS[1]] = 8
    folder, _ = await run_once(
        ask("leader-kill", tmp_path / "run", "faults.0.times=1"), place, quiet_console()
    )
    (apart,) = audit([], read_events(folder.path)[0], read_dumps(folder.path)).disagreements
    assert apart.diverged
    assert apart.what.startswith("at log index 40: applied 9")
    assert f"applied 8, digest 0000004d, compacted 0 on {MEMBERS[1]}" in apart.what


async def test_a_dump_that_broke_off_is_asked_for_again(
    cluster: Any, place: ReleasePlace, tmp_path: Path, events_of: Events
) -> None:
    cluster.broken_ranges = 1
    folder, report = await run_once(
        ask("leader-kill", tmp_path / "run", "faults.0.times=1"), place, quiet_console()
    )
    assert report.problems == []
    assert len(of_kind(events_of(folder.path), "replica.audit")) == 3


async def test_an_etcd_that_is_no_runs_is_left_alone(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    somebodys = {"metadata": {"name": "zq-etcd-default"}}
    cluster.objects["statefulsets", "zq-etcd-default"] = somebodys
    with pytest.raises(UsageError, match="belongs to no run"):
        await run_once(ask("leader-kill", tmp_path / "run"), place, quiet_console())
    assert cluster.objects["statefulsets", "zq-etcd-default"] is somebodys
    assert CleanupJournal(tmp_path / "run").debts == []


async def test_another_process_takes_away_the_etcd_of_a_run_that_was_killed(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    journal = CleanupJournal(tmp_path / "run")
    journal.owe(DeleteObjects(labels="zonequake.io/target=zq-etcd-default", kinds=list(KINDS)))
    async with await place.connect() as kube:
        proof = await clean_up(
            kube,
            node=None,
            shell=None,
            release="zq",
            run="dead",
            journal=CleanupJournal(tmp_path / "run"),
        )
    assert proof.problems == []
    labels = "zonequake.io/target=zq-etcd-default"
    assert f"statefulsets {labels}" in cluster.deleted
    assert f"persistentvolumeclaims {labels}" in cluster.deleted
    assert CleanupJournal(tmp_path / "run").debts == []


async def test_without_an_image_only_the_embedded_cluster_has_an_etcd(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    asked = RunOptions(
        scenario="leader-kill",
        overrides=[],
        seed=1,
        out=tmp_path / "run",
        analyze=False,
        target="etcd",
    )
    with pytest.raises(UsageError, match="needs --image"):
        await run_once(asked, place, quiet_console())


@pytest.mark.parametrize(
    ("scenario", "overrides", "words"),
    [
        ("kill-during-catchup", (), "'kill-catching-up' waits for a stage of a rebalance"),
        ("kill-during-catchup", (), "'grow' scales a pool"),
        ("operator-pause", ("pools.0.replicas=3",), "stops our operator, which decides nothing"),
        ("chain-example-1", (), "is of mode HighAvailability"),
        (
            "ha-dead-survivor",
            (),
            "'by-hand' resets partitions by hand, and it has no request for that",
        ),
        ("in-memory-restart", (), "is volatile"),
        ("clock-step", (), f"keep one, for instance by --set '{ONE_ZONE}'"),
        ("leader-kill", ("pools.0.replicas=5",), "--set pools.0.replicas=3"),
        ("leader-kill", ("expectations={resets: 1}",), "expects forced resets"),
        ("leader-kill", ("target.env={POD: a}",), "POD, which the run sets itself"),
        ("leader-kill", ("zones.0.dataNodesFilter=$.x",), "members are fixed"),
        (
            "leader-kill",
            ("faults.0.trigger={when: key, key: pending}",),
            "waits for a key of a Partition",
        ),
    ],
)
def test_what_etcd_has_no_counterpart_of_is_refused_before_the_run(
    scenario: str, overrides: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as refused:
        planned(ask(scenario, tmp_path, *overrides))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "scenario",
    [
        "leader-kill",
        "leader-pause",
        "leader-partition",
        "one-way-partition",
        "cut-link",
        "lossy-links",
        "slow-links",
        "rolling-restart",
        "node-outage",
        "follower-reads",
        "local-reads",
        "kill-all",
        "outages-in-order",
    ],
)
def test_scenarios_without_zones_of_their_own_kind_go_for_both(
    scenario: str, tmp_path: Path
) -> None:
    run = planned(ask(scenario, tmp_path))
    shipped = manifest.load(scenario, ask(scenario, tmp_path).overrides)
    named = with_target(shipped, name="etcd", image="some/etcd:1")
    assert run == without_control(named), "its members all hold data: none can be a control"


def test_a_scenario_of_two_zones_goes_for_etcd_as_its_refusal_says(tmp_path: Path) -> None:
    (zone,) = planned(ask("clock-step", tmp_path, ONE_ZONE)).spec.zones
    assert zone.name == "consistent"


def test_an_unknown_target_is_refused_and_an_image_of_ours_too(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"found no target 'consul'; installed are: .*etcd"):
        planned(ask("leader-kill", tmp_path, target="consul"))
    with pytest.raises(UsageError, match=r"target\.image can't be changed by a run"):
        planned(ask("leader-kill", tmp_path, target="zonequake"))
    with pytest.raises(UsageError, match=r"target\.clientSecret can't be changed by a run"):
        planned(ask("leader-kill", tmp_path, "target={clientSecret: s}", target="zonequake"))


def test_the_scenario_may_name_the_target_and_a_plan_has_its_name(tmp_path: Path) -> None:
    asked = RunOptions(
        scenario="leader-kill",
        overrides=["target={name: etcd, args: [--snapshot-count=5], env: {A_B: c}}"],
        seed=1,
        out=tmp_path,
        analyze=False,
    )
    assert planned(asked).spec.target == RunTarget(
        name="etcd", args=["--snapshot-count=5"], env={"A_B": "c"}
    )
    assert planned(dataclasses.replace(asked, overrides=[])).spec.target.name == "zonequake"


def members_of(place: TargetPlace) -> MemberSet:
    return MemberSet.of(place, target="etcd", program="etcd", ports=PORTS)


def test_members_start_as_the_target_and_the_scenario_say() -> None:
    def pod_of(*, fsync: bool) -> dict[str, Any]:
        settings = RunTarget(
            image="some/etcd:1",
            args=["--heartbeat-interval=200"],
            env={"GOFAIL_FAILPOINTS": "some=panic"},
            files={"/etc/etcd/more.conf": "a: b"},
        )
        members = members_of(place_of(settings, fsync=fsync))
        objects = member_objects(
            members, container(members, token="run-1"), run_id="run-1", installation=installed()
        )
        (files,) = [o for o in objects if o["kind"] == "ConfigMap"]
        assert list(files["data"].values()) == ["a: b"]
        (found,) = [o for o in objects if o["kind"] == "StatefulSet"]
        pod = found["spec"]["template"]["spec"]
        assert isinstance(pod, dict)
        return pod

    (started, hands) = pod_of(fsync=True)["containers"]
    assert started["args"][-1] == "--heartbeat-interval=200", "after the target's own"
    assert {"name": "GOFAIL_FAILPOINTS", "value": "some=panic"} in started["env"]
    (mount,) = [m for m in started["volumeMounts"] if m["name"] == "files"]
    assert (mount["mountPath"], mount["subPath"]) == ("/etc/etcd/more.conf", "file-0")
    assert "--unsafe-no-fsync" not in started["args"]
    assert "--unsafe-no-fsync" in pod_of(fsync=False)["containers"][0]["args"]
    (cluster,) = [word for word in started["args"] if word.startswith("--initial-cluster=")]
    assert cluster.count("zq-target.ns.svc:7001") == 3
    assert (started["image"], hands["image"]) == ("some/etcd:1", "zonequake/store:1")


def test_members_have_the_volumes_that_the_scenario_names() -> None:
    def claim_of(settings: RunTarget) -> Any:
        members = members_of(place_of(settings))
        made = member_objects(members, {}, run_id="run-1", installation=installed())
        (found,) = [each for each in made if each["kind"] == "StatefulSet"]
        (claim,) = found["spec"]["volumeClaimTemplates"]
        return claim["spec"]

    own = claim_of(RunTarget())
    assert "storageClassName" not in own
    assert own["resources"] == {"requests": {"storage": "1Gi"}}
    named = claim_of(RunTarget(storage=TargetStorage(class_name="limited", size="448Mi")))
    assert named["storageClassName"] == "limited"
    assert named["resources"] == {"requests": {"storage": "448Mi"}}


def test_the_former_key_of_a_target_is_refused_with_the_new_one(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"expected target: \{name: etcd, image, args"):
        planned(ask("leader-kill", tmp_path, "etcd={heartbeatMilliseconds: 300}"))


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("target.files={etc/x: y}", "an absolute path"),
        ("target.files={/etc/../x: y}", "an absolute path"),
        ("target.env={1A: y}", "a name of letters, digits and _"),
        ("target.args=--x", "a list"),
        ("target.storage={size: 1.5G}", "storage.size"),
        ("target.nam=x", 'unknown key "nam"'),
        ("target.secrets={tls: s}", "an absolute path of a folder"),
        ("target.secrets={/tls/: s}", "an absolute path of a folder"),
        ("target.secrets={/tls: S_1}", "the name of a Secret"),
        ("target.clientSecret=S_1", "the name of a Secret"),
    ],
)
def test_a_targets_settings_are_checked(tmp_path: Path, override: str, words: str) -> None:
    with pytest.raises(ManifestError) as refused:
        planned(ask("leader-kill", tmp_path, override))
    assert words in str(refused.value)
