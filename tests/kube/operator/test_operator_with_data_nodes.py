"""The operator's process, real data node processes on loopback and a real API server.

There is no kubelet: the test plays it, and writes pods' statuses by hand.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import free_port, wait_until

if TYPE_CHECKING:
    from .conftest import ApiServer

pytestmark = [pytest.mark.kube, pytest.mark.timeout(240)]
LABELS = {
    "app.kubernetes.io/component": "store",
    "app.kubernetes.io/instance": "zq",
    "app.kubernetes.io/name": "zonequake",
}


class Machine:
    """Pods whose containers are plain processes, each on a loopback address of its own."""

    def __init__(self, api: ApiServer, folder: Path) -> None:
        self.api, self.folder = api, folder
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.restarts: dict[int, int] = {}
        self.operator: subprocess.Popen[bytes] | None = None

    def address(self, ordinal: int) -> str:
        return f"127.0.77.{10 + ordinal}"

    def want(self, replicas: int) -> None:
        template = {
            "metadata": {"labels": LABELS},
            "spec": {"containers": [{"name": "store", "image": "none"}]},
        }
        done = self.api.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": {"name": "zq-default", "labels": LABELS},
                "spec": {
                    "replicas": replicas,
                    "serviceName": "zq-store",
                    "selector": {"matchLabels": LABELS},
                    "template": template,
                },
            }
        )
        assert done.returncode == 0, done.stderr

    def start(self, ordinal: int) -> None:
        name = f"zq-default-{ordinal}"
        done = self.api.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": LABELS},
                "spec": {
                    "readinessGates": [{"conditionType": "zonequake.io/caught-up"}],
                    "containers": [{"name": "store", "image": "none"}],
                },
            }
        )
        assert done.returncode == 0, done.stderr
        self._tell(ordinal, running=True)
        environment = {
            **os.environ,
            "ZQ_NODE": name,
            "ZQ_NAMESPACE": "default",
            "ZQ_POD_UID": self.api.get("pod", name)["metadata"]["uid"],
            "ZQ_POD_IP": self.address(ordinal),
            "ZQ_PEER_DOMAIN": "",
            "ZQ_DATA_DIR": str(self.data(ordinal)),
            "ZQ_ATTRIBUTES": json.dumps({"tags": "SSD"}),
            "ZQ_BIND": self.address(ordinal),
            "ZQ_LOG_MAP_BYTES": str(1 << 30),
            "ZQ_DATA_MAP_BYTES": str(1 << 30),
        }
        self.data(ordinal).mkdir(parents=True, exist_ok=True)
        self.processes[ordinal] = self._run("zonequake_store", environment, f"{ordinal}.log")

    def data(self, ordinal: int) -> Path:
        return self.folder / str(ordinal)

    def kill(self, ordinal: int) -> None:
        self.kill_unseen(ordinal)
        self._tell(ordinal, running=False)
        self.restarts[ordinal] = self.restarts.get(ordinal, 0) + 1

    def kill_unseen(self, ordinal: int) -> None:
        """Without the kubelet's word."""
        self.processes[ordinal].kill()
        self.processes.pop(ordinal).wait()

    def start_operator(self) -> None:
        environment = {
            **os.environ,
            "ZQ_NAMESPACE": "default",
            "ZQ_RELEASE": "zq",
            "ZQ_HTTP_PORT": str(free_port()),
            "KUBECONFIG": str(self.api.kubeconfig),
        }
        self.operator = self._run("zonequake_operator", environment, "operator.log")

    def kill_operator(self) -> None:
        assert self.operator is not None
        self.operator.kill()
        self.operator.wait()

    def end(self) -> None:
        for process in (*self.processes.values(), self.operator):
            if process is not None:
                process.kill()
                process.wait()

    def _run(self, module: str, environment: dict[str, str], log: str) -> subprocess.Popen[bytes]:
        with (self.folder / log).open("ab") as out:
            return subprocess.Popen(
                [sys.executable, "-m", module], env=environment, stdout=out, stderr=out
            )

    def _tell(self, ordinal: int, *, running: bool) -> None:
        status = {
            "phase": "Running",
            "podIP": self.address(ordinal),
            "podIPs": [{"ip": self.address(ordinal)}],
            "containerStatuses": [
                {
                    "name": "store",
                    "image": "none",
                    "imageID": "none",
                    "ready": running,
                    "restartCount": self.restarts.get(ordinal, 0),
                    "state": {"running": {}} if running else {"terminated": {"exitCode": 137}},
                }
            ],
        }
        name = f"zq-default-{ordinal}"
        self.api.patch("pod", name, {"status": status}, "--subresource=status")

    # what the operator says

    def status(self) -> dict[str, Any]:
        return (self.api.get("dz", "z") or {}).get("status", {})  # type: ignore[no-any-return]

    def conditions(self) -> dict[str, bool]:
        return conditions(self.status())

    def is_whole(self, nodes: int) -> bool:
        status = self.status()  # read once: conditions of before don't speak for these nodes
        found = conditions(status)
        return (
            status.get("dataNodeCount") == nodes
            and found.get("Ready", False)
            and found.get("Synced", False)
            and not found.get("Progressing", True)
            and not found.get("Degraded", True)
        )

    def event_reasons(self) -> list[str]:
        return [e["reason"] for e in self.api.get("events")["items"]]

    def versions(self) -> list[str]:
        items = self.api.get("dz,zp,topo")["items"]
        return [item["metadata"]["resourceVersion"] for item in items]


def conditions(status: dict[str, Any]) -> dict[str, bool]:
    return {c["type"]: c["status"] == "True" for c in status.get("conditions", [])}


@pytest.fixture
def machine(api_server: ApiServer, tmp_path: Path) -> Iterator[Machine]:
    found = Machine(api_server, tmp_path)
    try:
        yield found
    finally:
        found.end()


def test_a_zone_lives_through_all_that_happens_to_its_nodes(machine: Machine) -> None:
    api = machine.api
    machine.want(4)
    for ordinal in range(3):
        machine.start(ordinal)
    machine.start_operator()
    zone = {
        "apiVersion": "zonequake.io/v1alpha1",
        "kind": "DistributionZone",
        "metadata": {"name": "z"},
        "spec": {"partitions": 6},
    }
    assert api.apply(zone).returncode == 0
    wait_until(lambda: machine.is_whole(3))

    # Every view is written by now, and from then on nothing.
    wait_until(lambda: all(p["status"]["state"] == "Available" for p in api.get("zp")["items"]))
    before = machine.versions()
    with pytest.raises(AssertionError, match="not within"):
        wait_until(lambda: machine.versions() != before, 5)

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
    machine.start(2)
    wait_until(lambda: machine.is_whole(4))

    # The operator is killed while a node's partitions move away.
    api.patch("dz", "z", {"spec": {"dataNodesAutoAdjustScaleDown": 1}}, "--type=merge")
    machine.want(3)
    machine.kill_unseen(3)
    api.kubectl("delete", "pod", "zq-default-3", "--force", "--grace-period=0")
    wait_until(lambda: machine.conditions()["Progressing"] or machine.is_whole(3))
    machine.kill_operator()
    machine.start_operator()
    wait_until(lambda: machine.is_whole(3))

    # All nodes at once.
    infinite = {"spec": {"dataNodesAutoAdjustScaleDown": "Infinite"}}
    api.patch("dz", "z", infinite, "--type=merge")
    for ordinal in range(3):
        machine.kill(ordinal)
    wait_until(lambda: not machine.conditions()["Ready"])
    for ordinal in range(3):
        machine.start(ordinal)
    wait_until(lambda: machine.is_whole(3))

    # What happened is told, once for each transition.
    wait_until(lambda: "PartitionsWithoutLeader" in machine.event_reasons())
    reasons = machine.event_reasons()
    assert reasons.count("RebalanceBegun") == reasons.count("RebalanceEnded") > 0
    assert reasons.count("DataNodesChanged") < 10
    described = api.kubectl("describe", "dz", "z").stdout
    assert "partitions have no leader" in described
    (machine.folder / "described.txt").write_text(described)

    assert api.kubectl("delete", "dz", "z", "--timeout=60s").returncode == 0
    assert api.get("zp")["items"] == []
