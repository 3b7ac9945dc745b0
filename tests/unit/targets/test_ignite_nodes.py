"""Ignite as a target: its zone, its nodes' objects, and what they say of themselves."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from zonequake_chaos.kit.member_set import MemberSet
from zonequake_chaos.kit.registry import find_target
from zonequake_chaos.load.installation import Installation
from zonequake_chaos.scenario import manifest
from zonequake_chaos.scenario.faults import ScaleSpec
from zonequake_chaos.scenario.run import (
    ChaosRun,
    Expectations,
    Metadata,
    Pool,
    RunSpec,
    RunTarget,
    RunZone,
)
from zonequake_kube.objects import PodView
from zonequake_operator.nodes.affinity import rendezvous
from zonequake_protocol.admin import ReplicaRole, Stage
from zonequake_target_ignite.node_sight import NodeSight, ReplicaSight
from zonequake_target_ignite.nodes import (
    CONFIGURATION,
    PORTS,
    STATUS_PORT,
    configuration,
    node_objects,
    status_server_sources,
)
from zonequake_target_ignite.package import TARGET
from zonequake_target_ignite.status_server import (
    EPOCH_S,
    ShutOut,
    Terms,
    WatchedNode,
    application,
    is_refused,
)
from zonequake_target_ignite.zone.definition import cluster_configuration, create_zone
from zonequake_target_ignite.zone.states import report_of, role_of

REFUSED = (
    "WARNING: Handshake rejected by acceptor: n1:bb1d3f7d-d8fe-48bb-83ef-559c2b25ce89 is stale, it "
    "should be restarted to be allowed to connect\n"
)
"""Recorded: n1 had been paused for half a minute."""

REFUSING = (
    "WARNING: Rejecting handshake: n1:bb1d3f7d-d8fe-48bb-83ef-559c2b25ce89 is stale, it should be "
    "restarted to be allowed to connect\n"
)
"""Recorded: in the log of n2."""


def members(**changed: Any) -> MemberSet:
    given: dict[str, Any] = {
        "name": "zq-ignite-default",
        "target": "ignite",
        "program": "java",
        "pool": "default",
        "count": 3,
        "namespace": "data",
        "image": "ignite",
        "pull_policy": "IfNotPresent",
        "fsync": True,
        "ports": PORTS,
        "settings": RunTarget(),
        "service": "zq-target",
    }
    return MemberSet(**{**given, **changed})


def run_of(zone: RunZone, *, nodes: int = 3, **spec: Any) -> ChaosRun:
    return ChaosRun(
        api_version="zonequake.io/v1alpha1",
        kind="ChaosRun",
        metadata=Metadata(name="r"),
        spec=RunSpec(pools=[Pool(name="default", replicas=nodes)], zones=[zone], **spec),
    )


def test_the_package_is_installed() -> None:
    assert find_target("ignite") is TARGET
    assert not TARGET.claims.order


def test_a_zone_is_defined_with_all_that_the_scenario_says() -> None:
    zone = RunZone(
        name="z1",
        partitions=4,
        replicas=3,
        data_nodes_auto_adjust_scale_up=5,
        consistency_mode="HighAvailability",
        storage="Volatile",
        partition_distribution_reset_timeout=2,
    )
    assert create_zone(zone) == (
        'CREATE ZONE IF NOT EXISTS "z1" (PARTITIONS 4, REPLICAS 3, AUTO SCALE UP 5, AUTO SCALE '
        "DOWN OFF, CONSISTENCY MODE 'HIGH_AVAILABILITY') STORAGE PROFILES ['volatile']"
    )
    assert cluster_configuration(zone, attempt_ms=500) == (
        "ignite { transaction { readWriteTimeoutMillis = 500 }, "
        'system { properties { partitionDistributionResetTimeout = "2" } } }'
    )
    assert "STORAGE PROFILES ['default']" in create_zone(RunZone(name="z1"))


def test_a_node_repeats_a_write_no_longer_than_the_load_waits() -> None:
    configured = cluster_configuration(RunZone(name="z1"), attempt_ms=700)
    assert configured == "ignite { transaction { readWriteTimeoutMillis = 700 } }"


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (run_of(RunZone(name="z", replicas=4)), "--set pools.0.replicas=4"),
        (run_of(RunZone(name="z", data_nodes_filter='"SSD"')), "filters its data nodes"),
        (run_of(RunZone(name="z", change_peers="Queue")), "changePeers"),
        (run_of(RunZone(name="z"), expectations=Expectations(resets=1)), "forced resets"),
        (run_of(RunZone(name="z"), target=RunTarget(args=["--node-name=x"])), "--node-name=x"),
        (run_of(RunZone(name="z"), target=RunTarget(env={"POD": "x"})), "target.env has POD"),
    ],
)
def test_what_ignite_can_not_have_is_refused(run: ChaosRun, words: str) -> None:
    (problem,) = TARGET.unsuited(run)
    assert words in problem


def test_a_node_more_than_replicas_is_allowed() -> None:
    assert list(TARGET.unsuited(run_of(RunZone(name="z", replicas=3), nodes=4))) == []


def test_a_zone_may_shrink_and_grow_by_its_own_timers_and_by_a_fault() -> None:
    zone = RunZone(name="z", replicas=4, data_nodes_auto_adjust_scale_down=5)
    grow = ScaleSpec(name="grow", pool="default", replicas=4)
    run = run_of(zone, faults=[grow])
    assert list(TARGET.unsuited(run)) == list(TARGET.refuses.of(run)) == []
    assert "AUTO SCALE DOWN 5" in create_zone(zone)


@pytest.mark.parametrize(
    ("scenario", "refused"), [("kill-during-catchup", []), ("ha-loss", ["alone", "three-again"])]
)
def test_only_keys_of_a_partition_are_no_triggers(scenario: str, refused: list[str]) -> None:
    found = list(TARGET.refuses.of(manifest.load(scenario)))
    assert [each.split("'")[1] for each in found] == refused
    assert all("a key of a Partition" in each for each in found)


def test_the_page_says_of_each_shipped_scenario_whether_it_runs_as_it_is() -> None:
    text = (Path(__file__).parents[3] / "docs" / "ignite.md").read_text()
    said = text.partition("## Scenarios")[2].partition("Limits in milliseconds")[0]
    rows = [line for line in said.splitlines() if line.startswith("| ") and "`" in line]
    names = [set(re.findall(r"`([a-z0-9-]+)`", row)) & set(manifest.shipped()) for row in rows]
    suited = {
        name
        for name in manifest.shipped()
        if not [*TARGET.refuses.of(run := manifest.load(name)), *TARGET.unsuited(run)]
    }
    assert names[0] == suited
    assert names[0] | names[1] | names[2] == set(manifest.shipped())


def test_nodes_find_each_other_and_sync_their_logs_as_the_zone_says() -> None:
    found = json.loads(configuration(members(fsync=False)))["ignite"]
    assert found["raft"] == {"fsync": False}
    assert found["network"]["nodeFinder"]["netClusterNodes"] == [
        f"zq-ignite-default-{number}.zq-target.data.svc:7001" for number in range(3)
    ]


def containers(settings: RunTarget | None = None) -> tuple[Any, Any]:
    """The container of a node, and the one beside it."""
    files = {CONFIGURATION: "{}", **status_server_sources(TARGET.client)}
    installation = Installation(
        release="zq",
        namespace="data",
        load_image="load",
        load_pull_policy="Never",
        store_service="s",
        prometheus_service="",
        tls=None,
    )
    made = members(files=files, settings=settings or RunTarget())
    objects = node_objects(made, zone="z1", run_id="run-1", installation=installation)
    (stateful_set,) = [each for each in objects if each["kind"] == "StatefulSet"]
    node, hands = stateful_set["spec"]["template"]["spec"]["containers"]
    return node, hands


def test_a_secret_of_the_nodes_is_in_no_other_container() -> None:
    node, hands = containers(
        RunTarget(secrets={"/status-server-tls": "a", "/status-server/tls": "b"})
    )
    named = {each["mountPath"] for each in node["volumeMounts"]}
    assert {"/status-server-tls", "/status-server/tls"} <= named
    assert not any(each["name"].startswith("secret") for each in hands["volumeMounts"])


def test_beside_each_node_runs_its_status_server_with_all_that_it_imports() -> None:
    node, hands = containers()
    assert (node["name"], hands["name"], hands["image"]) == ("ignite", "hands", "load")
    assert node["livenessProbe"]["httpGet"] == {"path": "/live", "port": STATUS_PORT}
    assert hands["args"][:3] == ["python", "-m", "zonequake_target_ignite.status_server"]
    assert hands["args"][3:5] == ["--zone", "z1"]
    assert [each["mountPath"] for each in node["volumeMounts"]] == ["/data", "/tmp", CONFIGURATION]
    mounted = {each["mountPath"] for each in hands["volumeMounts"]}
    assert mounted == {*status_server_sources(TARGET.client), "/node"}
    server = "/status-server/zonequake_target_ignite/status_server.py"
    text = status_server_sources(TARGET.client)[server]
    imported = re.findall(r"^from (zonequake_target_ignite\.[\w.]+) import", text, re.MULTILINE)
    assert {"/status-server/" + name.replace(".", "/") + ".py" for name in imported} <= mounted
    assert "zonequake_target_ignite.client.wire" in imported


def sight(*replicas: ReplicaSight, primaries: tuple[str, ...] = ("d-0", "d-1")) -> NodeSight:
    return NodeSight(
        node="d-0", state="STARTED", replicas=list(replicas), primaries=list(primaries)
    )


POD = PodView(
    name="d-0",
    uid="u",
    pool="default",
    ready=True,
    phase="Running",
    deleting=False,
    container="hands",
    restarts=1,
)


@pytest.mark.parametrize(
    ("state", "primary", "role"),
    [
        ("HEALTHY", True, ReplicaRole.LEADER),
        ("HEALTHY", False, ReplicaRole.FOLLOWER),
        ("CATCHING_UP", True, ReplicaRole.LEADER),
        ("CATCHING_UP", False, ReplicaRole.FOLLOWER),
        ("INSTALLING_SNAPSHOT", False, ReplicaRole.WAITING),
        ("BROKEN", True, ReplicaRole.BROKEN),
        ("SOMETHING_NEW", True, ReplicaRole.WAITING),
    ],
)
def test_a_state_becomes_a_role(state: str, primary: bool, role: ReplicaRole) -> None:
    assert role_of(ReplicaSight(partition=0, state=state, rows=1, primary=primary)) is role


def test_a_report_has_a_replica_for_each_partition() -> None:
    first = ReplicaSight(partition=0, state="HEALTHY", rows=5, primary=True, term=7)
    second = ReplicaSight(partition=1, state="BROKEN", rows=4)
    placed = {0: ("d-0", "d-1"), 1: ("d-0",)}
    found = report_of(POD, sight(first, second), zone="z", members=placed, volatile=False)
    one, other = found.replicas
    assert (one.group, one.role, one.term, one.applied) == ("z.ignite.0", ReplicaRole.LEADER, 7, 5)
    assert one.configuration is not None
    assert [peer.node for peer in one.configuration.peers] == ["d-0", "d-1"]
    assert (other.role, other.broken_reason) == (ReplicaRole.BROKEN, "BROKEN")
    volatile = report_of(POD, sight(), zone="z", members=placed, volatile=True)
    assert volatile.node.storage_incarnation == "u/1", "a process that ends loses its data"


def test_a_term_is_the_time_since_which_a_node_is_primary() -> None:
    terms = Terms()
    began_s = EPOCH_S + 100
    assert terms.of(0, primary=True, now_s=began_s) == 100
    assert terms.of(0, primary=True, now_s=began_s + 9) == 100
    assert terms.of(0, primary=False, now_s=began_s + 10) == 0
    assert terms.of(0, primary=True, now_s=began_s + 20) == 120


def test_only_the_refused_node_is_said_to_be_refused() -> None:
    assert is_refused("n1", REFUSED)
    assert not is_refused("n2", REFUSED)
    assert not is_refused("n1", REFUSING)


def test_the_status_server_answers_at_each_path_that_its_module_names() -> None:
    watched = WatchedNode(zone="z1", rest="http://n", client="n:1", log=Path("log"))
    routes = application(watched, rest="http://n").router.routes()
    answered = {(each.method, each.resource.canonical) for each in routes if each.resource}
    named = re.findall(
        r"^    (GET|POST) +(/\w+) ",
        sys.modules[WatchedNode.__module__].__doc__ or "",
        flags=re.MULTILINE,
    )
    assert answered - {("HEAD", path) for _, path in named} == set(named)


def test_a_node_is_shut_out_if_it_is_refused_and_alone(tmp_path: Path) -> None:
    log = tmp_path / "ignite.log"
    shut_out = ShutOut(log)
    assert not shut_out.look("n1", physical=["n1"]), "it has no log yet"
    log.write_text("INFO: started\n")
    assert not shut_out.look("n1", physical=["n1"]), "it may be the only one that lives"
    log.write_text("INFO: started\n" + REFUSED)
    assert not shut_out.look("n1", physical=["n1", "n2"]), "others are with it"
    assert shut_out.look("n1", physical=["n1"])
    log.write_text("INFO\n")
    assert not shut_out.look("n1", physical=["n1"]), "it was restarted"
    half = len(REFUSED) // 2
    log.write_text("INFO\n" + REFUSED[:half])
    assert not shut_out.look("n1", physical=["n1"])
    log.write_text("INFO\n" + REFUSED)
    assert shut_out.look("n1", physical=["n1"]), "a line that was being written is read again"
    shut_out.forget()
    log.write_text("INFO: a longer log\n" * 50)
    assert not shut_out.look("n1", physical=["n1"]), "of another process"


def test_a_primary_tells_who_is_behind_it_and_by_how_much() -> None:
    replica = ReplicaSight(partition=0, state="HEALTHY", rows=200, primary=True, term=7)
    behind = {0: {"d-1": 50, "d-2": 900}}
    placed = {0: ("d-0", "d-1", "d-2")}
    found = report_of(POD, sight(replica), zone="z", members=placed, volatile=False, behind=behind)
    (one,) = found.replicas
    assert one.stage is Stage.CATCHING_UP
    assert {each.peer.node: each.fraction for each in one.progress} == {"d-1": 0.25, "d-2": 1.0}
    other = ReplicaSight(partition=0, state="HEALTHY", rows=200)
    (follower,) = report_of(
        POD, sight(other), zone="z", members=placed, volatile=False, behind=behind
    ).replicas
    assert follower.stage is Stage.NONE


def test_replicas_lie_where_a_real_ignite_puts_them() -> None:
    """Recorded: of a zone of 8 partitions, with one replica each, among n1, n2 and n3, the node n2
    told the state of partition 1 alone.
    """
    placed = rendezvous(["n1", "n2", "n3"], 8, 1)
    assert [number for number, nodes in enumerate(placed) if "n2" in nodes] == [1]


@pytest.mark.parametrize(
    ("error", "stays"),
    [
        (aiohttp.ServerDisconnectedError(), False),
        (aiohttp.ClientOSError(104, "connection reset"), False),
        (aiohttp.ServerTimeoutError(), True),
        (TimeoutError(), True),
        (ValueError("not JSON"), True),
    ],
)
async def test_a_status_outlives_a_slow_answer_and_not_the_process(
    monkeypatch: pytest.MonkeyPatch, error: Exception, stays: bool
) -> None:
    """A dead node would be seen to answer, and to be primary, until its status is old."""
    watched = WatchedNode(zone="z1", rest="http://n", client="n:1", log=Path("log"))
    watched._shut_out._told = True
    looked, calls = asyncio.Event(), itertools.count(1)

    async def look(_: object) -> NodeSight:
        match next(calls):
            case 1:
                return sight()
            case 2:
                raise error
        looked.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(watched, "_look", look)
    monkeypatch.setattr("zonequake_target_ignite.status_server.EVERY_S", 0)
    monkeypatch.setattr("zonequake_target_ignite.status_server.STALE_S", 600)
    watching = asyncio.create_task(watched.watch(cast("aiohttp.ClientSession", None)))
    await looked.wait()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert (watched.newest is not None) == stays
    assert watched._shut_out._told == stays, "the next process begins another log"
