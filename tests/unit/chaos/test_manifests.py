"""Scenario files: what is accepted, and what the errors say."""

from __future__ import annotations

from pathlib import Path

import pytest

from zonequake_chaos.errors import ManifestError
from zonequake_chaos.record.run_folder import RunFolder, expectations
from zonequake_chaos.scenario import manifest
from zonequake_chaos.scenario.faults import PodKillSpec
from zonequake_chaos.scenario.triggers import OnStage
from zonequake_kube.errors import UsageError
from zonequake_protocol.admin import Stage

GOOD = """
apiVersion: zonequake.io/v1alpha1
kind: ChaosRun
metadata: {name: x}
spec:
  pools: [{name: default, replicas: 3}]
  zones: [{name: z, partitions: 4}]
  faults:
    - {name: grow, type: scale, pool: default, replicas: 4}
    - name: kill
      type: pod_kill
      trigger: {when: stage, stages: [CATCHING_UP], minProgress: 0.3}
      target: {role: catching_up_peer}
"""


def test_every_shipped_scenario_is_valid_and_says_what_it_is_for() -> None:
    shipped = manifest.shipped()
    assert {"kill-during-catchup", "rolling-restart", "leader-kill", "kill-all"} <= set(shipped)
    for name, text in shipped.items():
        run = manifest.parse(text, where=name)
        assert run.metadata.name == name
        assert run.metadata.description
        assert expectations(run)["faults"], "a scenario without a fault shows nothing"


@pytest.mark.parametrize("text", ["&a [*a]", "[" * 900 + "]" * 900, "a: 2001-99-99", "a: {"])
def test_a_text_that_is_no_yaml_is_refused_with_its_file(text: str) -> None:
    with pytest.raises(ManifestError, match=r"^x: not YAML: "):
        manifest.parse(text, where="x")
    with pytest.raises(ManifestError, match=r"--set 'zones=.*: not YAML: "):
        manifest.parse(GOOD, where="x", overrides=[f"zones={text}"])


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ManifestError, match="can't be read"):
        manifest.load(str(tmp_path / "x.yaml"))


@pytest.mark.parametrize("text", ["&a [*a]", "[" * 900, "a: 2001-99-99", "{"])
def test_a_run_folder_whose_description_is_no_yaml_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(UsageError, match=r"run\.yaml can't be read"):
        RunFolder.open(tmp_path).run_id()
    with pytest.raises(UsageError, match=r"run\.yaml can't be read"):
        RunFolder.open(tmp_path).cluster()


def test_a_manifest_becomes_types() -> None:
    run = manifest.parse(GOOD, where="x")
    kill = run.spec.faults[1]
    assert isinstance(kill, PodKillSpec)
    assert isinstance(kill.trigger, OnStage)
    assert kill.trigger.stages == [Stage.CATCHING_UP]
    assert kill.trigger.min_progress == 0.3


@pytest.mark.parametrize("parts", ["pools", "zones"])
def test_a_run_of_nothing_is_refused(parts: str) -> None:
    with pytest.raises(
        ManifestError, match=rf"spec\.{parts}: found \[\], expected a list of length >= 1"
    ):
        manifest.load("leader-kill", [f"{parts}=[]"])


def test_a_node_that_may_be_of_two_pools_is_refused_by_its_short_name() -> None:
    pools = "pools=[{name: default, replicas: 1}, {name: x-default, replicas: 1}]"

    def load(name: str) -> None:
        trigger = f"faults.0.trigger={{when: nodes, nodes: [{name}], state: silent}}"
        manifest.load("leader-kill", [pools, trigger])

    with pytest.raises(ManifestError, match="which may be default-0 or x-default-0"):
        load("default-0")
    load("zq-default-0")
    load("x-default-0")


def test_growing_a_pool_is_no_fault_that_must_be_shown_to_land() -> None:
    assert expectations(manifest.parse(GOOD, where="x"))["faults"] == ["kill"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "partitions: 4",
            "partitons: 4",
            ["$.spec.zones[0]: found the unknown key", "(did you mean partitions?)"],
        ),
        (
            "minProgress",
            "progress",
            ["faults[1].trigger", "expected only when, stages, minProgress"],
        ),
        ("type: pod_kill", "type: pod_kil", ["pod_kil", "faults[1]"]),
        ("partitions: 4", "partitions: 0", [">= 1", "zones[0].partitions"]),
        ("minProgress: 0.3", "minProgress: 30", ["<= 1"]),
        ("[CATCHING_UP]", "[CATCHING]", ["CATCHING", "stages"]),
        ("pool: default, replicas: 4", "pool: other, replicas: 4", ["'other'", "default"]),
        ("name: kill\n", "name: grow\n", ["two faults are named 'grow'"]),
        ("minProgress: 0.3", "otherPartitionThan: nobody", ["nobody", "no earlier fault"]),
        (
            "{when: stage, stages: [CATCHING_UP], minProgress: 0.3}",
            "{when: now}",
            ["'when: stage'"],
        ),
        ("minProgress: 0.3", "minProgress: 0.6, maxProgress: 0.5", ["can never fire"]),
        (
            "{when: stage, stages: [CATCHING_UP], minProgress: 0.3}",
            "{when: key, key: pending, empty: true, holds: default-0}",
            ["to be empty, and to have nodes"],
        ),
        ("{role: catching_up_peer}", "{role: node}", ["target.node"]),
        ("kind: ChaosRun", "kind: Chaos", ["Chaos"]),
        (
            "{when: stage, stages: [CATCHING_UP], minProgress: 0.3}",
            "{when: time, afterSeconds: 1, since: later}",
            ["since names 'later'", "(grow)"],
        ),
        ("replicas: 4}", "replicas: 4, heldUntil: grow}", ["no later fault (kill)"]),
        (
            "replicas: 4}",
            "replicas: 4, heldUntil: kill, holdSeconds: 1}",
            ["can't be combined with holdSeconds"],
        ),
        (
            "type: pod_kill",
            "type: slow_disk\n      delayMilliseconds: 5\n      calls: writes",
            ["calls: writes without files", "files: [/data"],
        ),
        ("{role: catching_up_peer}", "{role: nodes}", ["target.nodes"]),
        ("{role: catching_up_peer}", "{role: any, nodes: [default-0]}", ["target.nodes"]),
        ("{role: catching_up_peer}", "{role: all, count: 2}", ["count is 2", "role 'any'"]),
        (
            "{role: catching_up_peer}",
            "{role: nodes, nodes: [default-0], pool: default}",
            ["target.pool does not belong to role 'nodes'"],
        ),
        (
            "{when: stage, stages: [CATCHING_UP], minProgress: 0.3}",
            "{when: nodes, nodes: [zq-default-3, defualt-0], state: silent}",
            ["'kill'", "names node 'defualt-0', which no pool ever has: default has 4"],
        ),
        (
            "{when: stage, stages: [CATCHING_UP], minProgress: 0.3}",
            "{when: nodes, nodes: [default-4], state: silent}",
            ["names node 'default-4'"],
        ),
        ("partitions: 4", "storage: Volatil", ["Volatil", "zones[0].storage"]),
        (
            "spec:\n",
            "spec:\n  load: {registerReads: 0.7, registerCas: 0.4}\n",
            ["registerReads 0.7 and registerCas 0.4", "lower one"],
        ),
        ("spec:\n", "spec:\n  load: {loop: close}\n", ["close", "load.loop"]),
        ("spec:\n", "spec:\n  load: {keySkew: 6}\n", ["<= 5", "load.keySkew"]),
        ("spec:\n", "spec:\n  load: {hotKeyShare: 1}\n", ["< 1", "load.hotKeyShare"]),
        (
            "spec:\n",
            "spec:\n  load: {hotKeyShare: 0.5, listKeysPerPartition: 1}\n",
            ["hotKeyShare 0.5", "listKeysPerPartition is 1, expected at least 2", "raise it"],
        ),
        ("spec:\n", "spec:\n  load: {pressure: {keys: 5}}\n", ["load.pressure", "processes"]),
        (
            "spec:\n",
            "spec:\n  load: {pressure: {processes: 0}}\n",
            [">= 1", "load.pressure.processes"],
        ),
        ("spec:\n", "spec:\n  load: {transactions: {steps: 2}}\n", ["load.transactions", "rate"]),
        (
            "spec:\n",
            "spec:\n  load: {transactions: {rate: 5, steps: 5}}\n",
            ["steps is 5", "keysPerPartition 4", "raise keysPerPartition"],
        ),
    ],
)
def test_an_error_names_path_value_and_what_is_allowed(
    old: str, new: str, words: list[str]
) -> None:
    assert old in GOOD
    with pytest.raises(ManifestError) as error:
        manifest.parse(GOOD.replace(old, new), where="my.yaml")
    for word in ["my.yaml", *words]:
        assert word in str(error.value)


HELD = """
    - {name: slow, type: TYPE, target: {role: any}, MOREheldUntil: kill}
    - {name: cut, type: network_partition, target: {role: any}, holdSeconds: HOLD, times: 2}
    - {name: here, type: reached}
    - {name: kill, type: pod_kill, trigger: TRIGGER, target: {role: any}}
"""


@pytest.mark.parametrize("kind", ["slow_disk", "failed_fsync", "network_partition"])
@pytest.mark.parametrize(
    ("hold", "trigger"),
    [(901, "{when: now}"), (1, "{when: time, afterSeconds: 1802, since: here}")],
)
def test_a_fault_that_would_end_by_itself_before_the_one_that_ends_it_is_refused(
    kind: str, hold: int, trigger: str
) -> None:
    head, _, _ = GOOD.partition("    - {name: grow")

    def parsed(hold: int, trigger: str) -> None:
        more = "delayMilliseconds: 5, " if kind == "slow_disk" else ""
        held = HELD.replace("TYPE", kind).replace("MORE", more).replace("HOLD", str(hold))
        manifest.parse(head + held.replace("TRIGGER", trigger), where="my.yaml")

    with pytest.raises(ManifestError, match=r"'slow': 'kill' comes after 1802 s at least.* 1800 s"):
        parsed(hold, trigger)
    parsed(900, "{when: time, afterSeconds: 1800, since: here}")


SCALE = "type: scale, pool: default, replicas: 4"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("type: pod_kill", "type: pod_kil", 'faults[1].type: found "pod_kil", expected pod_kill, '),
        ("type: pod_kill", "tipe: pod_kill", ", expected type too: pod_kill, process_kill, "),
        ("partitions: 4", "partitions: x", 'zones[0].partitions: found "x", expected a whole num'),
        ("partitions: 4", "storage: Disk", 'found "Disk", expected Persistent or Volatile'),
        ("role: catching_up_peer", "", "$.spec.faults[1].target: found {}, expected role too"),
        ("{role: catching_up_peer}", "A", 'found "A", expected a mapping with role, count, node'),
        (SCALE, f"{SCALE}, waitRecovered: 1", "waitRecovered: found 1, expected true or false"),
        (SCALE, "type: network_partition, between: [[a], b]", 'between[1]: found "b", expected'),
        (SCALE, "type: operator_kill, trigger: {when: x}", 'trigger.when: found "x", expected now'),
    ],
)
def test_an_error_says_what_was_found_and_what_is_expected(old: str, new: str, words: str) -> None:
    with pytest.raises(ManifestError) as error:
        manifest.parse(GOOD.replace(old, new), where="my.yaml")
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("zone: y", "zone 'y' is not among spec.zones (z)"),
        ("partitions: [0, 4]", "zone 'z' has no partition 4, only 0 to 3"),
        ("partitions: [-1]", ">= 0"),
        ("target: {role: any}", 'the unknown key "target"'),
    ],
)
def test_a_reset_by_hand_is_of_partitions_that_there_are(fault: str, words: str) -> None:
    text = GOOD.replace("type: scale, pool: default, replicas: 4", f"type: reset_by_hand, {fault}")
    with pytest.raises(ManifestError) as error:
        manifest.parse(text, where="x")
    assert words in str(error.value)


def test_a_reset_by_hand_names_its_zone_where_there_are_several() -> None:
    text = GOOD.replace("type: scale, pool: default, replicas: 4", "type: reset_by_hand")
    assert expectations(manifest.parse(text, where="x"))["faults"] == ["grow", "kill"]
    two = ["zones.0.name=a", "zones=[{name: a}, {name: b}]"]
    with pytest.raises(ManifestError, match="'grow': needs a zone, since there are a, b"):
        manifest.parse(text, where="x", overrides=two)
    manifest.parse(text, where="x", overrides=[*two, "faults.0.zone=b"])


def test_text_that_is_no_yaml_is_refused() -> None:
    with pytest.raises(ManifestError, match="not YAML"):
        manifest.parse("a: [", where="x")
    with pytest.raises(ManifestError, match="mapping"):
        manifest.parse("- 1", where="x")


def test_overrides_change_single_values() -> None:
    run = manifest.parse(
        GOOD, where="x", overrides=["zones.0.partitions=9", "spec.load.registerRate=7"]
    )
    assert run.spec.zones[0].partitions == 9
    assert run.spec.load.register_rate == 7


@pytest.mark.parametrize("override", ["zones.5.partitions=1", "zones", "zones.0.name.x=1", "=1"])
def test_an_override_that_points_nowhere_is_refused(override: str) -> None:
    with pytest.raises(ManifestError, match="--set"):
        manifest.parse(GOOD, where="x", overrides=[override])


def test_a_misspelled_override_is_refused_like_a_misspelled_field() -> None:
    with pytest.raises(ManifestError, match='the unknown key "registerrate"'):
        manifest.parse(GOOD, where="x", overrides=["load.registerrate=7"])


def test_an_unknown_scenario_is_answered_with_the_shipped_ones() -> None:
    with pytest.raises(ManifestError, match="kill-during-catchup"):
        manifest.load("kill-during-katchup")


CONTROL = """
apiVersion: zonequake.io/v1alpha1
kind: ChaosRun
metadata: {name: own}
spec:
  pools: [{name: default, replicas: 3}]
  zones: [{name: z1, dataNodesAutoAdjustScaleUp: Infinite}]
  control: {pool: default, nodes: 3}
  faults: [{name: restart, type: rolling_restart}]
"""


def test_a_control_is_refused_where_its_nodes_could_come_to_hold_something() -> None:
    control = manifest.parse(CONTROL, where="own").spec.control
    assert (control.pool, control.nodes) == ("default", 3) if control else False
    for override, words in (
        ("control.pool=other", "control: pool 'other' is not among spec.pools (default)"),
        ("zones.0.dataNodesAutoAdjustScaleUp=5", "zone 'z1' would take its nodes"),
        ("faults.0={name: grow, type: scale, pool: default, replicas: 4}", "'grow' scales its"),
        ("faults.0.name=control", "two faults are named 'control'"),
        ("control.nodes=0", "$.spec.control.nodes: found 0, expected a whole number >= 1"),
    ):
        with pytest.raises(ManifestError) as refused:
            manifest.parse(CONTROL, where="own", overrides=[override])
        assert words in str(refused.value)
    manifest.parse(CONTROL, where="own", overrides=["control=null", "faults.0.name=control"])


def test_a_rolling_restart_is_of_a_pool_or_of_nodes() -> None:
    both = ["faults.0.pool=default", "faults.0.nodes=[default-0]"]
    manifest.parse(CONTROL, where="own", overrides=both[1:])
    with pytest.raises(ManifestError, match="either pool or nodes"):
        manifest.parse(CONTROL, where="own", overrides=both)
