"""Whole runs against a made-up cluster: phases, faults, proofs, interrupts and cleanup."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from rich.console import Console

from zonequake_analysis.verdict import Verdict
from zonequake_chaos.commands.cli import main
from zonequake_chaos.commands.run import RunOptions, print_dry_run, run_once
from zonequake_chaos.errors import GuardError, PlanRefused
from zonequake_chaos.load import pods
from zonequake_chaos.node_access.own_machine import OwnMachine
from zonequake_chaos.observe.view import ClusterView
from zonequake_chaos.record.cleanup_journal import CleanupJournal
from zonequake_chaos.scenario.control import holding
from zonequake_ctl.context import ReleasePlace
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, UsageError
from zonequake_kube.execution import ExecResult

QUICK = [
    "times={beforeSeconds: 0.2, afterSeconds: 0.2, quietSeconds: 0}",
    "load={registerRate: 10}",
]
Events = Callable[[Path], list[dict[str, Any]]]


def ask(scenario: str, out: Path, *overrides: str, seed: int = 1) -> RunOptions:
    return RunOptions(
        scenario=scenario, overrides=[*QUICK, *overrides], seed=seed, out=out, analyze=False
    )


def quiet_console() -> Console:
    return Console(file=io.StringIO(), width=300)


def of_kind(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["kind"] == kind]


async def test_kill_during_catchup_hits_both_stages_and_leaves_nothing(
    cluster: Any, place: ReleasePlace, tmp_path: Path, events_of: Events
) -> None:
    folder, report = await run_once(
        ask("kill-during-catchup", tmp_path / "run"), place, quiet_console()
    )
    assert report.problems == []
    assert report.verdict is Verdict.PASSED
    events = events_of(folder.path)
    hits = {hit["data"]["fault"]: hit for hit in of_kind(events, "fault.hit")}
    assert set(hits) == {"kill-catching-up", "kill-leader"}
    assert hits["kill-catching-up"]["node"] == "zq-default-3"
    assert hits["kill-catching-up"]["data"]["stage"] == "CATCHING_UP"
    assert hits["kill-catching-up"]["data"]["progress"] >= 0.3
    assert hits["kill-leader"]["partition"] != hits["kill-catching-up"]["partition"]
    assert [e["data"]["phase"] for e in of_kind(events, "run.phase")] == [
        "setup", "preload", "before", "faults", "recovery", "quiet", "final", "end",
    ]  # fmt: skip
    assert len(of_kind(events, "replica.audit")) == 24
    assert {e["source"] for e in of_kind(events, "rebalance.stage")} == {"store"}
    assert sorted(p.name for p in (folder.path / "history").iterdir()) == [
        "zq-load-chaos-0.jsonl",
        "zq-load-chaos-1.jsonl",
    ]
    assert cluster.zone is None
    assert cluster.replicas == 3
    assert CleanupJournal(folder.path).debts == []
    written = yaml.safe_load((folder.path / "run.yaml").read_text())
    assert written["seed"] == 1
    assert written["expectations"]["faults"] == ["kill-catching-up", "kill-leader"]
    assert written["harness"]["verdict"] == "passed"
    assert {"events.jsonl", "history/zq-load-chaos-0.jsonl"} < written["files"].keys()
    for name, size_bytes in written["files"].items():
        assert (folder.path / name).stat().st_size == size_bytes


async def test_pieces_that_have_ended_have_column_files_which_a_judgement_does_not_need(
    cluster: Any, place: ReleasePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zonequake_chaos.runner.runner.PIECE_BYTES", 2)
    monkeypatch.setattr("zonequake_chaos.load.column_files.WAIT_S", 3600.0)  # for a busy machine
    folder, report = await run_once(ask("leader-kill", tmp_path / "run"), place, quiet_console())
    assert report.problems == []
    pieces = [file.name for file in (folder.path / "history").iterdir()]
    found = [file.name for file in (folder.path / "columns").iterdir()]
    assert sorted(found) == sorted(f"{name}.0.arrows" for name in pieces)
    written = yaml.safe_load((folder.path / "run.yaml").read_text())
    assert not any("columns" in name for name in written["files"])


async def test_a_run_tells_that_pieces_were_not_converted_and_passes(
    cluster: Any, place: ReleasePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zonequake_chaos.runner.runner.PIECE_BYTES", 2)
    monkeypatch.setattr("zonequake_chaos.load.column_files.PROGRAM", ("-c", "1 / 0"))
    _, report = await run_once(ask("leader-kill", tmp_path / "run"), place, quiet_console())
    (problem,) = report.problems
    assert problem.endswith("ZeroDivisionError: division by zero")
    assert report.verdict is Verdict.PASSED


async def test_a_stage_that_never_comes_is_missed_and_the_run_is_unknown(
    cluster: Any, place: ReleasePlace, tmp_path: Path, events_of: Events
) -> None:
    folder, report = await run_once(
        ask(
            "kill-during-catchup",
            tmp_path / "run",
            "faults.0.replicas=3",
            "faults.1.trigger.timeoutSeconds=0.3",
            "faults.2.trigger.timeoutSeconds=0.3",
        ),
        place,
        quiet_console(),
    )
    assert report.verdict is Verdict.UNKNOWN
    missed = [e["data"]["fault"] for e in of_kind(events_of(folder.path), "fault.missed")]
    assert missed == ["kill-catching-up", "kill-leader"]


async def test_a_fault_that_cannot_be_prepared_is_missed_and_the_next_one_is_done(
    cluster: Any,
    place: ReleasePlace,
    tmp_path: Path,
    events_of: Events,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refused(_: object) -> object:
        raise ClusterError("GET pods: HTTP 503: not now", status=503)

    monkeypatch.setattr("zonequake_chaos.faults.kinds.operator._operators", refused)
    killed = {"name": "second", "type": "process_kill", "target": {"role": "leader"}}
    faults = json.dumps([{"name": "first", "type": "operator_kill"}, killed])
    folder, report = await run_once(
        ask("leader-kill", tmp_path / "run", f"faults={faults}"), place, quiet_console()
    )
    assert report.verdict is Verdict.UNKNOWN
    assert report.problems == [
        "first missed: it could not be prepared: GET pods: HTTP 503: not now"
    ]
    (effective,) = of_kind(events_of(folder.path), "fault.effective")
    assert effective["data"]["fault"] == "second"


async def test_a_reset_by_hand_of_what_has_its_majority_is_refused_and_missed(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    faults = [
        {"name": "by-hand", "type": "reset_by_hand", "survivor": "default-0"},
        {"name": "kill", "type": "process_kill", "target": {"role": "leader"}},
    ]
    _, report = await run_once(
        ask("leader-kill", tmp_path / "run", f"faults={json.dumps(faults)}"),
        place,
        quiet_console(),
    )
    assert report.verdict is Verdict.UNKNOWN
    healthy = "no partition of zone chaos has lost its majority"
    assert report.problems == [f"by-hand missed: it could not be prepared: by-hand: {healthy}"]


async def test_a_run_without_faults_shows_nothing(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    _, report = await run_once(
        ask("leader-kill", tmp_path / "run", "faults=[]"), place, quiet_console()
    )
    assert report.verdict is Verdict.UNKNOWN
    assert any("no fault was injected" in problem for problem in report.problems)


@pytest.mark.parametrize(
    ("fault", "shows"),
    [
        ({"type": "scale", "pool": "default", "replicas": 4}, True),
        ({"type": "load_pause"}, False),
        ({"type": "reached"}, False),
    ],
)
async def test_only_a_step_that_the_system_must_cope_with_shows_something(
    fault: dict[str, Any],
    shows: bool,
    cluster: Any,
    place: ReleasePlace,
    tmp_path: Path,
    events_of: Events,
) -> None:
    faults = json.dumps([{"name": "only", **fault}])
    folder, report = await run_once(
        ask("leader-kill", tmp_path / "run", f"faults={faults}"), place, quiet_console()
    )
    (effective,) = of_kind(events_of(folder.path), "fault.effective")
    assert effective["data"]["fault"] == "only"
    said = any("no fault was injected" in problem for problem in report.problems)
    assert said is not shows


async def test_a_load_that_does_nothing_makes_the_run_unknown(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    cluster.rate = 0.0
    _, report = await run_once(
        ask("leader-kill", tmp_path / "run", "faults.0.times=1"), place, quiet_console()
    )
    assert report.verdict is Verdict.UNKNOWN
    assert any("without load" in problem for problem in report.problems)


async def test_a_zone_whose_filter_matches_no_node_fails_at_once_in_the_operators_words(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    message = 'There are no data nodes that match $[?(@.disk == "gold")].'
    cluster.refused = {"reason": "NoDataNodes", "message": message}
    cluster.objects["logicaltopologies", "topology"] = {
        "status": {
            "nodes": [
                {"name": f"zq-default-{n}", "attributes": {"disk": "silver"}} for n in range(3)
            ]
        }
    }
    console = quiet_console()
    began_s = time.monotonic()
    _, report = await run_once(
        ask("leader-kill", tmp_path / "run", 'zones.0.dataNodesFilter=$[?(@.disk == "gold")]'),
        place,
        console,
    )
    assert time.monotonic() - began_s < 150, "it doesn't wait for the setup's end, 180 s"
    assert report.verdict is Verdict.HARNESS_FAILED
    (problem,) = report.problems
    assert message in problem
    assert 'zq-default-2 {"disk": "silver"}' in problem
    assert "ExceptionGroup" not in console.file.getvalue()  # type: ignore[attr-defined]
    assert "zone chaos can't be served" in console.file.getvalue()  # type: ignore[attr-defined]


async def test_a_wait_for_partitions_that_never_start_ends_and_names_them(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    console = quiet_console()
    cluster.refused = {"reason": "Starting", "message": "8 partitions haven't started yet."}
    # A busy machine may need the whole second before it asks for them.
    cluster.phases |= {"zq-load-chaos-0": "quiet", "zq-load-chaos-1": "quiet"}
    short = f"{QUICK[0][:-1]}, setupTimeoutSeconds: 1}}"
    _, report = await run_once(ask("leader-kill", tmp_path / "run", short), place, console)
    (problem,) = report.problems
    # The pods were looked at; the model's carry neither the run's name nor the release's.
    assert problem.startswith(
        "not within 1 s: chaos has 0 of 4 partitions; found no pod of zonequake"
    )
    assert "not within 1 s" in console.file.getvalue()  # type: ignore[attr-defined]


async def test_a_load_pod_that_is_lost_at_the_end_takes_neither_the_others_history_nor_the_logs(
    cluster: Any, place: ReleasePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pods, "_RETRIES", 2)
    cluster.load_lost_at = "done"
    folder, report = await run_once(
        ask("leader-kill", tmp_path / "run", "faults.0.times=1"), place, quiet_console()
    )
    assert report.verdict is Verdict.UNKNOWN
    refused = "/api/v1/namespaces/zonequake/pods/zq-load-chaos-0%3A8081/proxy/{}: HTTP 503"
    closed, kept = report.problems[:2]
    assert closed.startswith("history not closed: POST " + refused.format("phase"))
    assert kept.startswith("history: GET " + refused.format("files"))
    assert cluster.phases["zq-load-chaos-1"] == "done"
    assert [f.name for f in (folder.path / "history").iterdir()] == ["zq-load-chaos-1.jsonl"]
    assert list((folder.path / "logs").iterdir())


async def test_faults_that_can_not_be_judged_take_no_history_and_no_log(
    cluster: Any, place: ReleasePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an event of a data node that this version doesn't know."""
    broken = Mock(side_effect=ValueError("no such stage"))
    monkeypatch.setattr("zonequake_chaos.runner.judged_faults.judge_faults", broken)
    folder, report = await run_once(
        ask("leader-kill", tmp_path / "run", "faults.0.times=1"), place, quiet_console()
    )
    assert report.verdict is Verdict.HARNESS_FAILED
    assert report.problems == ["collect: events: ValueError: no such stage"]
    assert len(list((folder.path / "history").iterdir())) == 2
    assert list((folder.path / "logs").iterdir())


async def test_a_rebalance_that_never_ends_makes_the_run_unknown_and_is_cleaned(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    cluster.never_catch_up = True
    overrides = [f"{QUICK[0][:-1]}, recoveryTimeoutSeconds: 0.5}}"]
    folder, report = await run_once(
        ask("kill-during-catchup", tmp_path / "run", *overrides), place, quiet_console()
    )
    assert report.verdict is Verdict.UNKNOWN
    assert any("recovery" in problem and "CATCHING_UP" in problem for problem in report.problems)
    assert cluster.zone is None
    assert CleanupJournal(folder.path).debts == []


async def test_sigkill_of_all_reaches_every_node_and_is_proven_by_new_processes(
    cluster: Any, place: ReleasePlace, tmp_path: Path, events_of: Events
) -> None:
    folder, report = await run_once(
        ask("kill-all", tmp_path / "run", "faults.0.times=1"), place, quiet_console()
    )
    assert report.problems == []
    nodes = [f"zq-default-{n}" for n in range(3)]
    assert sorted(cluster.signals) == [(node, 9) for node in nodes]
    (effective,) = of_kind(events_of(folder.path), "fault.effective")
    assert effective["data"]["targets"] == nodes
    assert set(effective["data"]["proof"]["gone_ns"]) == set(nodes)
    assert len(of_kind(events_of(folder.path), "fault.recovered")) == 1


async def test_paused_processes_are_silent_and_are_continued(
    cluster: Any, place: ReleasePlace, tmp_path: Path, events_of: Events
) -> None:
    overrides = ["faults.0.times=1", "faults.1.times=1"]
    folder, report = await run_once(
        ask("leader-churn", tmp_path / "run", *overrides), place, quiet_console()
    )
    assert report.problems == []
    paused = [number for _, number in cluster.signals]
    assert paused.count(19) == 2
    assert paused.count(18) >= 2
    assert cluster.stopped == set()
    (start, _) = of_kind(events_of(folder.path), "fault.start")
    assert start["data"]["type"] == "process_pause"


async def test_a_node_outage_holds_until_the_finalizer_goes(
    cluster: Any, place: ReleasePlace, tmp_path: Path, events_of: Events
) -> None:
    folder, report = await run_once(
        ask("node-outage", tmp_path / "run", "faults.0.holdSeconds=1"), place, quiet_console()
    )
    assert report.problems == []
    events = events_of(folder.path)
    (start,), (back,) = of_kind(events, "fault.effective"), of_kind(events, "fault.recovered")
    assert back["time"] - start["time"] >= 1e9
    assert all(not pod["metadata"].get("finalizers") for pod in cluster.pods.values())


def outage(name: str, node: str, **more: object) -> dict[str, object]:
    target = {"role": "nodes", "nodes": [node]}
    return {"name": name, "type": "node_outage", "target": target} | more


async def test_a_fault_is_held_until_a_later_one_has_taken_effect(
    cluster: Any, place: ReleasePlace, tmp_path: Path, events_of: Events
) -> None:
    faults = [
        outage("first", "default-0", heldUntil="second"),
        {
            "name": "gone",
            "type": "reached",
            "trigger": {"when": "nodes", "nodes": ["default-0"], "state": "silent"},
        },
        outage("second", "default-2", holdSeconds=0.3),
    ]
    folder, report = await run_once(
        ask(
            "node-outage",
            tmp_path / "run",
            "floor={aliveReplicas: 0}",
            f"faults={json.dumps(faults)}",
        ),
        place,
        quiet_console(),
    )
    assert report.problems == []
    order = [
        (e["data"]["fault"], e["kind"].removeprefix("fault."))
        for e in events_of(folder.path)
        if e["kind"] in ("fault.effective", "fault.stop", "fault.recovered")
    ]
    assert order.index(("first", "effective")) < order.index(("gone", "effective"))
    assert order.index(("second", "effective")) < order.index(("first", "stop"))
    assert order.index(("first", "stop")) < order.index(("second", "stop"))
    assert ("first", "recovered") in order
    written = yaml.safe_load((folder.path / "run.yaml").read_text())
    assert written["expectations"]["faults"] == ["first", "gone", "second"]


async def test_a_state_that_is_not_reached_makes_the_run_unknown_and_what_was_held_returns(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    never = {"when": "key", "key": "chain", "length": 2, "timeoutSeconds": 0.3}
    faults = [
        outage("held", "default-0", heldUntil="reset"),
        {"name": "reset", "type": "reached", "trigger": never},
    ]
    _, report = await run_once(
        ask(
            "node-outage",
            tmp_path / "run",
            "floor={aliveReplicas: 0}",
            f"faults={json.dumps(faults)}",
        ),
        place,
        quiet_console(),
    )
    assert report.verdict is Verdict.UNKNOWN
    assert len(report.problems) == 1
    assert "reset missed" in report.problems[0]
    assert "chain has 2 links" in report.problems[0]
    assert all(not pod["metadata"].get("finalizers") for pod in cluster.pods.values())


async def test_the_load_is_quiet_while_a_pause_of_it_lasts(
    cluster: Any, place: ReleasePlace, tmp_path: Path, events_of: Events
) -> None:
    seen: list[set[str]] = []
    die = cluster.die

    def noted(name: str) -> None:
        seen.append(set(cluster.phases.values()))
        die(name)

    cluster.die = noted
    faults = [
        {"name": "no-load", "type": "load_pause", "heldUntil": "back"},
        outage("down", "default-0", holdSeconds=0.1),
        {"name": "back", "type": "reached"},
        outage("again", "default-1", holdSeconds=0.1),
    ]
    folder, report = await run_once(
        ask(
            "node-outage",
            tmp_path / "run",
            "floor={aliveReplicas: 0}",
            f"faults={json.dumps(faults)}",
        ),
        place,
        quiet_console(),
    )
    assert report.problems == []
    assert seen[0] == {"quiet"}
    assert seen[-1] == {"load"}
    recovered = of_kind(events_of(folder.path), "fault.recovered")
    (back,) = [each["data"] for each in recovered if each["data"]["fault"] == "no-load"]
    assert all(back["proof"]["operations"].values()), "each load pod works again"


async def test_named_nodes_return_in_the_order_of_their_names(
    cluster: Any, place: ReleasePlace, tmp_path: Path, events_of: Events
) -> None:
    target = {"role": "nodes", "nodes": ["default-2", "default-0"]}
    fault = {"name": "both", "type": "node_outage", "target": target, "returnGapSeconds": 0.4}
    returned_s: list[float] = []
    reborn = cluster._reborn

    def noted(name: str) -> None:
        returned_s.append(time.monotonic())
        reborn(name)

    cluster._reborn = noted
    folder, report = await run_once(
        ask(
            "node-outage",
            tmp_path / "run",
            "floor={aliveReplicas: 0}",
            f"faults={json.dumps([fault])}",
        ),
        place,
        quiet_console(),
    )
    assert report.problems == []
    added = [
        event["data"]["pod"]
        for event in of_kind(events_of(folder.path), "pod.event")
        if event["data"]["type"] == "ADDED"
    ]
    assert added[-2:] == ["zq-default-2", "zq-default-0"]
    # As the cluster does it: a busy harness may see both at once.
    first_s, second_s = returned_s
    assert second_s - first_s >= 0.4


async def test_a_fault_on_the_node_is_refused_where_the_node_is_not_ours(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    fault = {"name": "hang", "type": "component_pause"}
    with pytest.raises(UsageError, match="hang: these faults need an embedded cluster"):
        await run_once(
            ask(
                "node-outage",
                tmp_path / "run",
                "floor={aliveReplicas: 0}",
                f"faults={json.dumps([fault])}",
            ),
            place,
            quiet_console(),
        )
    assert not (tmp_path / "run").exists()
    assert cluster.zone is None


async def test_a_rolling_restart_restarts_each_node_once_and_waits_between(
    cluster: Any, place: ReleasePlace, tmp_path: Path, events_of: Events
) -> None:
    folder, report = await run_once(
        ask("rolling-restart", tmp_path / "run"), place, quiet_console()
    )
    assert report.problems == []
    events = events_of(folder.path)
    assert restarted(events, "restart-all") == [f"zq-default-{n}" for n in range(3)]


def restarted(events: list[dict[str, Any]], fault: str) -> list[str]:
    """The nodes that a rolling restart took, each back before the next one's turn; sorted."""
    single = [
        (e["kind"], e["data"]["targets"])
        for e in events
        if e["kind"] in ("fault.start", "fault.recovered")
        and len(e["data"]["targets"]) == 1
        and e["data"]["fault"] == fault
    ]
    nodes = [targets[0] for kind, targets in single if kind == "fault.start"]
    assert [kind for kind, _ in single] == ["fault.start", "fault.recovered"] * len(nodes)
    return sorted(nodes)


@pytest.mark.parametrize("scenario", ["rolling-restart", "ha-rolling-restart"])
async def test_a_control_restarts_nodes_that_hold_nothing_before_the_faults(
    scenario: str, cluster: Any, place: ReleasePlace, tmp_path: Path, events_of: Events
) -> None:
    folder, report = await run_once(ask(scenario, tmp_path / "run"), place, quiet_console())
    assert report.verdict is Verdict.PASSED
    events = events_of(folder.path)
    assert restarted(events, "control") == [f"zq-default-{n}" for n in (3, 4, 5)]
    assert restarted(events, "restart-all") == [f"zq-default-{n}" for n in range(3)]
    begun = {e["data"]["phase"]: e["time"] for e in of_kind(events, "run.phase")}
    assert list(begun)[2:5] == ["before", "control", "faults"]
    for event in of_kind(events, "fault.start"):
        of_control = begun["control"] <= event["time"] < begun["faults"]
        assert of_control is (event["data"]["fault"] == "control")
    written = yaml.safe_load((folder.path / "run.yaml").read_text())
    assert written["expectations"]["faults"] == ["control", "restart-all"]
    assert cluster.replicas == 3, "the control's nodes go with the run"
    assert CleanupJournal(folder.path).debts == []


async def test_a_control_whose_nodes_hold_something_compares_nothing(
    cluster: Any,
    place: ReleasePlace,
    tmp_path: Path,
    events_of: Events,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found(view: ClusterView, nodes: Sequence[str]) -> list[str]:
        moved = dict(view.partitions)
        moved["chaos", 0] = replace(moved["chaos", 0], members=("zq-default-0", nodes[1]))
        return holding(replace(view, partitions=moved), nodes)

    monkeypatch.setattr("zonequake_chaos.runner.runner.holding", found)
    folder, report = await run_once(
        ask("rolling-restart", tmp_path / "run"), place, quiet_console()
    )
    assert report.verdict is Verdict.UNKNOWN
    assert "the control's nodes must hold nothing: zq-default-4 holds chaos/0" in report.problems
    assert restarted(events_of(folder.path), "control") == []


async def test_no_fault_is_for_a_node_of_the_control(
    cluster: Any, place: ReleasePlace, tmp_path: Path, events_of: Events
) -> None:
    kill = {"name": "kill", "type": "process_kill", "target": {"role": "all"}}
    faults = json.dumps([{**kill, "trigger": {"when": "settled"}}])
    folder, _ = await run_once(
        ask(
            "rolling-restart",
            tmp_path / "run",
            f"faults={faults}",
            "floor={aliveReplicas: 0}",
            "control.nodes=1",
        ),
        place,
        quiet_console(),
    )
    (killed,) = [
        e["data"]["targets"]
        for e in of_kind(events_of(folder.path), "fault.start")
        if e["data"]["fault"] == "kill"
    ]
    assert killed == [f"zq-default-{n}" for n in range(3)]


async def test_a_signal_heals_collects_cleans_and_fails_the_harness(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    running = asyncio.create_task(
        run_once(
            ask("node-outage", tmp_path / "run", "faults.0.holdSeconds=60"),
            place,
            quiet_console(),
        )
    )
    await asyncio.wait_for(cluster.held.wait(), timeout=120)
    os.kill(os.getpid(), signal.SIGTERM)
    folder, report = await asyncio.wait_for(running, timeout=120)
    assert report.verdict is Verdict.HARNESS_FAILED
    assert "interrupted" in report.problems
    assert all(not pod["metadata"].get("finalizers") for pod in cluster.pods.values())
    assert cluster.zone is None
    assert list((folder.path / "history").iterdir()), "what there was is collected"
    assert CleanupJournal(folder.path).debts == []


class KilledApi:
    """A node whose API server is killed again and again, and serves on all the same."""

    agent = ("agent",)

    def __init__(self) -> None:
        self.kills_ns: list[int] = []

    def kill(self, component: str) -> int:
        self.kills_ns.append(time.monotonic_ns())
        return 7

    def stopped_components(self) -> list[str]:
        return []

    def stopped_processes(self, pod_uid: str) -> list[int]:
        return []

    async def run(self, pod: object, argv: Sequence[str], *, timeout_s: float = 0) -> ExecResult:
        return ExecResult(code=0, stdout="[]", stderr="")


async def test_kills_of_a_component_end_with_the_run_that_is_interrupted(
    cluster: Any,
    place: ReleasePlace,
    tmp_path: Path,
    events_of: Events,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else nothing could be healed, collected or cleaned without the API server."""
    node, held = KilledApi(), asyncio.Event()

    async def is_refused(_: Kube) -> bool:
        held.set()
        return True

    monkeypatch.setattr(OwnMachine, "of", lambda *_: node)
    monkeypatch.setattr(Kube, "is_refused", is_refused)
    fault = {"name": "dead", "type": "component_kill", "holdSeconds": 60}
    asked = ask("node-outage", tmp_path / "run", f"faults={json.dumps([fault])}")
    running = asyncio.create_task(run_once(asked, place, quiet_console()))
    await asyncio.wait_for(held.wait(), timeout=120)
    os.kill(os.getpid(), signal.SIGTERM)
    folder, report = await asyncio.wait_for(running, timeout=120)
    assert "interrupted" in report.problems
    phases = of_kind(events_of(folder.path), "run.phase")
    (end_ns,) = [each["time"] for each in phases if each["data"]["phase"] == "end"]
    assert max(node.kills_ns) < end_ns


async def test_a_plan_below_its_floor_is_refused_before_anything_is_asked_of_a_cluster(
    tmp_path: Path,
) -> None:
    nowhere = ReleasePlace(
        kubeconfig=None, context=None, namespace="zonequake", release="zq", embedded=False
    )
    asked = ask("node-outage", tmp_path / "run", "faults.0.target.count=2")
    with pytest.raises(PlanRefused, match=r"declare spec.floor: \{aliveReplicas: 1\}"):
        await run_once(asked, nowhere, quiet_console())
    with pytest.raises(PlanRefused):
        await print_dry_run(asked, lambda: nowhere, quiet_console())
    assert not (tmp_path / "run").exists()


def test_a_refused_plan_ends_the_command_with_254(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["zonequake", "run", "kill-all", "--dry-run", "--set", "floor={aliveReplicas: 1}"]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 254
    assert "fault 'kill-all' could leave 0 of 3 replicas" in capsys.readouterr().err


async def test_a_namespace_that_did_not_agree_gets_no_chaos(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    cluster.namespace_labels = {}
    with pytest.raises(GuardError, match=r"zonequake\.io/chaos=allowed"):
        await run_once(ask("leader-kill", tmp_path / "run"), place, quiet_console())
    assert not (tmp_path / "run").exists()
    assert cluster.zone is None


def test_a_dry_run_of_a_target_that_the_run_makes_needs_no_cluster(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    words = ["zonequake", "run", "leader-kill", "--dry-run", "--target"]
    for target, code in (("etcd", 0), ("zonequake", 254)):
        monkeypatch.setattr("sys.argv", [*words, target, "--set", "zones.0.partitions=1"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert (ended.value.code or 0) == code
    told = capsys.readouterr()
    assert "etcd with 3 members" in told.out
    assert "no cluster" in told.err


async def test_a_dry_run_shows_targets_and_changes_nothing(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    console = quiet_console()
    await print_dry_run(ask("kill-all", tmp_path / "run"), lambda: place, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "process kill of all data nodes" in text
    assert "now: zq-default-0, zq-default-1, zq-default-2" in text
    assert cluster.zone is None
    assert not (tmp_path / "run").exists()
