"""Broken links on a real node, by the fault agent in its privileged pod.

The runs are the chaos account's, as all of the group: what it may do in the agents' namespace,
and no more, must be enough.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvloop
import yaml

from tests.kube.operator.audit_log import entries
from zonequake_chaos.load.installation import installation
from zonequake_chaos.node_access.agent_links import break_links
from zonequake_chaos.node_access.agent_pods import shell_for
from zonequake_chaos.node_access.leftovers import left_behind
from zonequake_chaos.node_access.own_machine import OwnMachine
from zonequake_chaos.node_access.shell import NodeShell, PodOnNode
from zonequake_chaos.scenario import manifest
from zonequake_kube.client import Kube
from zonequake_kube.objects import STORE_LABELS, pod_view

if TYPE_CHECKING:
    from tests.cluster.scenarios.conftest import Release

pytestmark = pytest.mark.cluster

SHORT = "times={beforeSeconds: 4, afterSeconds: 2}"
HOLD_S = 4
"""Longer than an election, and than the proof of a slow link takes."""

CHAOS = "system:serviceaccount:zonequake:zq-chaos"
FORGOTTEN = {"name": "ZQ-0123abcd", "seconds": 120.0, "ports": [1], "lost_percent": 100.0}
"""A fault that meets no packet of the store's."""


async def shell_and_pods(release: Release, kube: Kube) -> tuple[NodeShell, list[PodOnNode]]:
    """Those that a run would have now, and the data nodes' pods."""
    node = OwnMachine.of(release.place.kubeconfig, release.place.context)
    shell = shell_for(kube, await installation(kube, release.place.release), node)
    assert shell is not None
    views = [pod_view(pod) for pod in await kube.find("Pod", STORE_LABELS)]
    assert len(views) >= 3
    return shell, [PodOnNode(name=pod.name, uid=pod.uid, node=pod.host) for pod in views]


async def left_on(release: Release) -> list[str]:
    """What is there of link faults in any data node's network namespace."""
    async with await release.place.connect() as kube:
        return await left_behind(*await shell_and_pods(release, kube))


async def forget_a_fault(release: Release) -> None:
    """Breaks a link of one data node as a harness does that is gone the moment after."""
    async with await release.place.connect() as kube:
        shell, pods = await shell_and_pods(release, kube)
        await break_links(shell, pods[0], dict(FORGOTTEN))


def driven(release: Release) -> int:
    """How often the chaos account had an agent do something, by the API server's audit log."""
    return sum(
        entry["user"].get("username") == CHAOS
        and (entry.get("objectRef") or {}).get("subresource") == "exec"
        and (entry.get("objectRef") or {}).get("namespace") == "zonequake-faults"
        for entry in entries(release.logs)
    )


@pytest.mark.long
def test_one_way_cuts_and_slow_links_take_effect_lose_nothing_and_leave_nothing(
    run_scenario: Any, release: Release, tmp_path: Path
) -> None:
    """The faults of two scenarios in one run, to save a set-up."""
    one_way, slow = (
        yaml.safe_load(manifest.shipped()[name]) for name in ("one-way-partition", "slow-links")
    )
    one_way["spec"]["faults"].append(slow["spec"]["faults"][0])
    for fault in one_way["spec"]["faults"]:
        fault["holdSeconds"] = HOLD_S
    file = tmp_path / "links.yaml"
    file.write_text(yaml.safe_dump(one_way))
    judged = run_scenario(str(file), SHORT, agent=True)
    assert judged.exit_code == 0, judged.output
    shown = {e["data"]["fault"]: e["data"]["proof"] for e in judged.events("fault.effective")}
    for name, direction in (("deaf-leader", "inbound"), ("mute-leader", "outbound")):
        assert shown[name]["direction"] == direction
        assert sum(shown[name]["dropped"].values()) > 0
    trips = shown["far-leader"]["round_trip_ms"]
    for node, before_ms in trips["before"].items():
        assert trips["during"][node] - before_ms > 50
    assert driven(release) >= 3 * len(shown), "made, seen and undone by the agent's pod"
    assert uvloop.run(left_on(release)) == []


def test_an_agent_that_is_taken_away_takes_what_it_did_along(release: Release) -> None:
    release.plant("", agent=True)
    uvloop.run(forget_a_fault(release))
    (found,) = uvloop.run(left_on(release))
    assert "ZQ-0123abcd" in found
    release.plant("")
    assert uvloop.run(left_on(release)) == [], "by the machine itself, as the agent is gone"
