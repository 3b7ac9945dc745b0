"""The operator's process, real data node processes on loopback and a real API server.

There is no kubelet: the test plays it, and writes pods' statuses by hand.
"""

from __future__ import annotations

import shutil

import pytest

from tests.kube.operator.api_server import wait_until
from tests.kube.operator.machine import Machine

pytestmark = pytest.mark.kube


def test_a_zone_lives_through_all_that_happens_to_its_nodes(machine: Machine) -> None:
    api = machine.api
    machine.begin_zone(3, want=4, partitions=6)

    # Once every view is written, nothing is.
    wait_until(lambda: all(p["status"].get("state") == "Available" for p in api.get("zp")["items"]))
    machine.until_steady(machine.versions, 5)

    machine.start(3)
    wait_until(lambda: machine.is_whole(4))
    assert any("zq-default-3" in p["status"]["stable"]["nodes"] for p in api.get("zp")["items"])

    # A killed process comes back under the operator's start orders.
    machine.kill(1)
    wait_until(lambda: machine.conditions()["Degraded"])
    machine.start(1)
    wait_until(lambda: machine.is_whole(4))

    # So does one that lost its storage, as another incarnation.
    machine.kill(2)
    shutil.rmtree(machine.data(2))
    wait_until(lambda: machine.conditions()["Degraded"])
    machine.start(2)
    wait_until(lambda: machine.is_whole(4))

    # The operator is killed while a node's partitions move away.
    api.patch("dz", "z", {"spec": {"dataNodesAutoAdjustScaleDown": 1}})
    machine.want(3)
    machine.kill_unseen(3)
    api.kubectl("delete", "pod", "zq-default-3", "--force", "--grace-period=0")
    wait_until(lambda: machine.conditions()["Progressing"] or machine.is_whole(3))
    machine.kill_operator()
    machine.start_operator()
    wait_until(lambda: machine.is_whole(3))

    # All nodes at once.
    infinite = {"spec": {"dataNodesAutoAdjustScaleDown": "Infinite"}}
    api.patch("dz", "z", infinite)
    machine.kill(*range(3))
    wait_until(lambda: not machine.conditions()["Ready"])
    machine.start(*range(3))
    wait_until(lambda: machine.is_whole(3))

    # What happened is told, once for each transition: before the transition is stored, so that
    # nothing that shows in a status can be untold, but for what waited behind a slow API server.
    wait_until(
        lambda: {"RebalanceBegun", "PartitionsWithoutLeader"} <= set(machine.event_reasons())
    )
    wait_until(lambda: machine.told("RebalanceBegun") == machine.told("RebalanceEnded"))
    assert machine.told("DataNodesChanged") < 10
    described = api.kubectl("describe", "dz", "z").stdout
    assert "partitions have no leader" in described
    (machine.folder / "described.txt").write_text(described)

    assert api.kubectl("delete", "dz", "z", "--timeout=100s").returncode == 0
    assert api.get("zp")["items"] == []
