"""Two operators: one acts; one that stands still, or whose API server hangs, does no harm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ...processes.store.ports import free_ports
from .api_server import wait_until
from .machine import Machine
from .severed import Line

if TYPE_CHECKING:
    from .api_server import ApiServer

pytestmark = [pytest.mark.kube, pytest.mark.timeout(240)]

ELECTION_S = 3
ZONE = {
    "apiVersion": "zonequake.io/v1alpha1",
    "kind": "DistributionZone",
    "metadata": {"name": "z"},
    "spec": {"partitions": 4},
}


class Operators:
    """Operator processes beside a machine's nodes."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, kubeconfig: Path | None = None) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "ZQ_NAMESPACE": self.machine.api.namespace,
            "ZQ_RELEASE": "zq",
            "ZQ_HTTP_PORT": str(free_ports(1)[0]),
            "ZQ_ELECTION_S": str(ELECTION_S),
            "KUBECONFIG": str(kubeconfig or self.machine.api.kubeconfig),
        }
        number = len(self.running)
        process = self.machine._run(
            ("-m", "zonequake_operator"), environment, f"operator-{number}.log"
        )
        self.running.append(process)
        return process

    def leads(self, number: int) -> bool:
        """Whether this one has led."""
        log = (self.machine.folder / f"operator-{number}.log").read_text()
        return " leads\n" in log

    def lease(self) -> dict[str, object]:
        found = self.machine.api.get("lease", "zq-operator") or {"spec": {}}
        return found["spec"]  # type: ignore[no-any-return]

    def end(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()


@pytest.fixture
def operators(
    api_server: ApiServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Operators]:
    name = request.node.name.replace("_", "-")[:60].strip("-")
    machine = Machine(api_server.in_namespace(name), tmp_path)
    found = Operators(machine)
    try:
        yield found
    finally:
        found.end()
        machine.end()


def begin(operators: Operators, kubeconfig: Path | None = None) -> None:
    """Three nodes, a zone, and two operators of which the first leads."""
    machine = operators.machine
    machine.want(4)
    for ordinal in range(3):
        machine.start(ordinal)
    operators.start(kubeconfig)
    wait_until(lambda: operators.leads(0))
    operators.start()
    assert machine.api.apply(ZONE).returncode == 0
    wait_until(lambda: machine.is_whole(3))
    assert not operators.leads(1)
    assert operators.lease()["leaseTransitions"] == 1


def test_an_operator_that_stands_still_is_followed_by_the_other_and_ends_when_it_wakes(
    operators: Operators,
) -> None:
    machine = operators.machine
    begin(operators)
    first = operators.running[0]
    first.send_signal(signal.SIGSTOP)
    machine.start(3)
    wait_until(lambda: operators.leads(1), 30)
    wait_until(lambda: machine.is_whole(4))
    assert operators.lease()["leaseTransitions"] == 2

    wait_until(lambda: all(p["status"]["state"] == "Available" for p in partitions(machine)))
    before = [p["status"] for p in partitions(machine)]
    first.send_signal(signal.SIGCONT)
    assert first.wait(10) == 1
    assert [p["status"] for p in partitions(machine)] == before
    assert "leads no more" in (machine.folder / "operator-0.log").read_text()


def partitions(machine: Machine) -> list[dict[str, dict[str, object]]]:
    return machine.api.get("zp")["items"]  # type: ignore[no-any-return]


def test_an_operator_whose_api_server_hangs_ends_before_the_other_leads(
    operators: Operators,
) -> None:
    machine = operators.machine
    line = Line(machine.api.url)
    config = json.loads(machine.api.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = line.url
    kubeconfig = machine.folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    begin(operators, kubeconfig)
    line.hang()
    assert operators.running[0].wait(2 * ELECTION_S) == 1
    assert not operators.leads(1), "the other one waits for the whole duration"
    wait_until(lambda: operators.leads(1), 30)
    machine.start(3)
    wait_until(lambda: machine.is_whole(4))
    line.close()


def test_an_operator_that_ends_in_peace_is_followed_at_once(operators: Operators) -> None:
    begin(operators)
    operators.running[0].terminate()
    operators.running[0].wait(20)
    wait_until(lambda: operators.leads(1), ELECTION_S)
