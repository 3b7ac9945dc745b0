"""How long a loss and a restart of all nodes take, with real data nodes and a real API server.

    pytest -s tests/kube/operator/test_times.py

prints the table of docs/performance.md, "Resets and restarts"; the limits here are wider than its
targets, because other tests run beside this one.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.kube.operator.addresses import client_addresses
from tests.kube.operator.api_server import UNVERIFIED
from tests.kube.operator.machine import Machine
from tests.kube.operator.registers import Registers
from tests.kube.operator.relay import Relay
from tests.patience import PATIENCE_S
from zonequake_load.targets.keys import key_for_partition
from zonequake_store.settings import DEFAULT_LEASE_S

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer

pytestmark = pytest.mark.kube

PARTITIONS = 8
POLL_S = 0.005
BY_A_LEASE_S = float(DEFAULT_LEASE_S)
"""After so long the loss would be proven without the pod's status."""


class Eye:
    """Looks at resources as quickly as one connection can."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        host = api.url.removeprefix("https://")
        self._connection = http.client.HTTPSConnection(host, context=UNVERIFIED)

    def close(self) -> None:
        self._connection.close()

    def status(self, plural: str, name: str = "") -> Any:
        path = f"/apis/zonequake.io/v1alpha1/namespaces/{self._api.namespace}/{plural}/{name}"
        return self._ask("GET", path.rstrip("/"), None)

    def tell(self, pod: str, status: dict[str, Any]) -> float:
        """Write a pod's status; returns the monotonic time at which that was asked for."""
        path = f"/api/v1/namespaces/{self._api.namespace}/pods/{pod}/status"
        asked_s = time.monotonic()
        self._ask("PATCH", path, {"status": status})
        return asked_s

    def _ask(self, method: str, path: str, body: object) -> Any:
        headers = {
            "Authorization": f"Bearer {self._api.token}",
            "Content-Type": "application/merge-patch+json",
        }
        text = None if body is None else json.dumps(body)
        self._connection.request(method, path, body=text, headers=headers)
        answer = self._connection.getresponse()
        found = json.loads(answer.read())
        assert answer.status == 200, found
        return found

    def partitions(self) -> list[dict[str, Any]]:
        return [p.get("status", {}) for p in self.status("partitions")["items"]]

    def until(self, condition: Callable[[], bool], limit_s: float = PATIENCE_S) -> float:
        """The monotonic time at which it held."""
        give_up_s = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < give_up_s
            time.sleep(POLL_S)
        return time.monotonic()


@pytest.fixture
def eye(machine: Machine) -> Iterator[Eye]:
    with closing(Eye(machine.api)) as found:
        yield found


def is_writable(registers: Registers) -> float:
    """The monotonic time at which every partition has acknowledged a write."""
    for number in range(PARTITIONS):
        registers.write(key_for_partition("probe", number, PARTITIONS), number, within_s=PATIENCE_S)
    return time.monotonic()


def test_the_times_of_resets_and_restarts(machine: Machine, loop: Relay, eye: Eye) -> None:
    machine.begin_zone(
        3,
        partitions=PARTITIONS,
        replicas=3,
        consistencyMode="HighAvailability",
        partitionDistributionResetTimeout=0,
        dataNodesAutoAdjustScaleUp=3600,
    )
    registers = Registers(loop, "z", client_addresses(3))
    is_writable(registers)

    # The second of two losses takes the majority; its proof is the pod's status.
    machine.kill(2)
    eye.until(lambda: len(eye.status("logicaltopologies", "topology")["status"]["nodes"]) == 2)
    machine.kill_unseen(1)
    proven_s = eye.tell("zq-default-1", machine.pod_status(1, running=False))
    pending_s = eye.until(lambda: all(_is_forced(keys) for keys in eye.partitions()))
    writable_s = is_writable(registers)

    # All nodes end, and come back: the chain has two links.
    eye.until(lambda: all(len(keys["chain"]) == 2 for keys in eye.partitions()))
    machine.kill(0)
    eye.until(lambda: not eye.status("logicaltopologies", "topology")["status"].get("nodes"))
    machine.start(1, 2, 0)  # the last one is who has the newest data
    identified_s = eye.until(
        lambda: len(eye.status("logicaltopologies", "topology")["status"].get("nodes", [])) == 3
    )
    again_s = is_writable(registers)

    rows = {
        "proof of the loss → pending written": (pending_s - proven_s, 0.2, BY_A_LEASE_S - 2.0),
        "majority lost → writable, beyond the time-out": (writable_s - proven_s, 2.0, 40.0),
        "last store identified → writable": (again_s - identified_s, 10.0, 200.0),
    }
    for what, (seconds, target, _) in rows.items():
        print(f"| {what} | {seconds * 1000:.0f} ms | ≤ {target * 1000:.0f} ms |")
    for what, (seconds, _, limit) in rows.items():
        assert seconds <= limit, what


def _is_forced(keys: dict[str, Any]) -> bool:
    return bool((keys.get("pending") or {}).get("force")) or len(keys.get("chain", [])) > 1
