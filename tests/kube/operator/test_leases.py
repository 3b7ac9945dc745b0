"""Node Leases on a real API server: fences, sessions, and an API server that is away."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import time
import urllib.request
from datetime import datetime
from typing import Any

import msgspec
import pytest

from tests.kube.operator.addresses import address
from tests.kube.operator.api_server import wait_until
from tests.kube.operator.machine import Machine
from tests.kube.operator.severed import Line
from tests.patience import PATIENCE_S
from zonequake_protocol.client import Body, Read, Reply, ReplyStatus, Request, Write

pytestmark = pytest.mark.kube

LEASE_S = 8
"""Three quarters of it are longer than a node stands still on most busy machines: it renews after
one."""


@pytest.fixture
def machine(machine: Machine) -> Machine:
    """Whose nodes have Leases that run out soon."""
    machine.node_environment["ZQ_LEASE_SECONDS"] = str(LEASE_S)
    return machine


def begin(machine: Machine, mode: str = "HighAvailability", name: str = "z") -> None:
    machine.api.create_zone(
        name, partitions=1, consistencyMode=mode, partitionDistributionResetTimeout=1
    )
    wait_until(lambda: machine.is_whole(3, name))


def replicas(ordinal: int) -> dict[str, Any]:
    url = f"http://{address(ordinal)}:8080/admin/v1/replicas"
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
        return json.load(response)  # type: ignore[no-any-return]


def ask(ordinal: int, body: Body) -> Reply | None:
    """One request to one node; None: no answer."""
    try:
        with socket.create_connection((address(ordinal), 7002), timeout=ANSWER_S) as connection:
            frame = msgspec.msgpack.encode(Request(1, body))
            connection.sendall(struct.pack(">I", len(frame)) + frame)
            size = struct.unpack(">I", connection.recv(4, socket.MSG_WAITALL))[0]
            return msgspec.msgpack.decode(connection.recv(size, socket.MSG_WAITALL), type=Reply)
    except (OSError, struct.error):
        return None


ANSWER_S = 20.0
"""Within it every node that runs answers, or refuses."""


def group(ordinal: int = 0, zone: str = "z") -> str:
    found = [r["group"] for r in replicas(ordinal)["replicas"] if r["zone"] == zone]
    return str(found[0])


def writes(ordinals: Any, name: str, value: int) -> list[int]:
    """Who of these acknowledges a write now."""
    found = []
    for ordinal in ordinals:
        reply = ask(ordinal, Write(name, "k", value))
        if reply is not None and reply.status is ReplyStatus.OK:
            found.append(ordinal)
    return found


def lease(machine: Machine, ordinal: int) -> dict[str, Any]:
    return machine.api.get("lease", f"zq-default-{ordinal}") or {}


def renewed(machine: Machine, ordinal: int) -> float:
    """When this node renewed its Lease last, in unix seconds."""
    return datetime.fromisoformat(lease(machine, ordinal)["spec"]["renewTime"]).timestamp()


def trouble(machine: Machine) -> dict[str, Any]:
    """The condition that tells of it."""
    status = (machine.api.get("dz", "z") or {})["status"]
    return next(c for c in status["conditions"] if c["type"] == "LeaseTrouble")


def test_an_old_majority_that_comes_back_acknowledges_nothing_beside_the_survivor(
    machine: Machine,
) -> None:
    machine.begin(3)
    begin(machine)
    name = group()
    wait_until(lambda: writes(range(3), name, 1))
    assert [lease(machine, n)["spec"]["leaseTransitions"] for n in range(3)] == [1, 1, 1]

    for ordinal in (0, 1):
        machine.processes[ordinal].send_signal(signal.SIGSTOP)
    renewed_s = max(renewed(machine, ordinal) for ordinal in (0, 1))
    wait_until(lambda: machine.present() == ["zq-default-2"])
    assert time.time() - renewed_s > LEASE_S, "not before the Leases ran out"
    assert "zonequake.io/fenced" in lease(machine, 0)["metadata"]["annotations"]
    wait_until(lambda: writes([2], name, 2))

    for ordinal in (0, 1):
        machine.processes[ordinal].send_signal(signal.SIGCONT)
    back_s = time.monotonic()
    while time.monotonic() - back_s < 3:
        for ordinal in (0, 1):
            reply = ask(ordinal, Write(name, "k", 3))
            assert reply is None or reply.status is not ReplyStatus.OK or reply.lineage > 0
    wait_until(lambda: machine.present() == [f"zq-default-{n}" for n in range(3)])
    assert [lease(machine, n)["spec"]["leaseTransitions"] for n in range(3)] == [2, 2, 1]
    wait_until(lambda: machine.is_whole(3))
    wait_until(lambda: writes(range(3), name, 4))


def test_without_the_api_server_high_availability_stops_and_strong_consistency_goes_on(
    machine: Machine, line: Line
) -> None:
    machine.node_environment["ZQ_API_SERVER"] = line.url
    machine.begin(3)
    begin(machine)
    begin(machine, "StrongConsistency", "s")
    available, strong = group(), group(zone="s")
    wait_until(lambda: writes(range(3), available, 1) and writes(range(3), strong, 1))

    assert machine.operator is not None
    os.kill(machine.operator.pid, signal.SIGSTOP)  # it sees no more of the API server than nodes
    line.sever()
    time.sleep(LEASE_S + 0.5)
    for _ in range(3):
        assert not writes(range(3), available, 2)
        wait_until(lambda: writes(range(3), strong, 2))
    wait_until(lambda: "Cannot connect" in replicas(0)["node"]["lease_problem"])
    assert ask(0, Read(available, "k", bounded=True)).status is ReplyStatus.OK  # type: ignore[union-attr]

    line.mend()
    wait_until(lambda: writes(range(3), available, 3))  # the operator stands still
    os.kill(machine.operator.pid, signal.SIGCONT)
    time.sleep(2 * LEASE_S)
    assert "departed" not in machine.api.get("topo", "topology")["status"], "no node has left"


def test_a_node_that_alone_cannot_renew_hands_over_leaves_and_comes_back(
    machine: Machine, line: Line
) -> None:
    machine.want(3)
    machine.node_environment["ZQ_API_SERVER"] = line.url
    machine.start(0)
    del machine.node_environment["ZQ_API_SERVER"]
    machine.start(1, 2)
    machine.start_operator()
    begin(machine)
    name = group()
    wait_until(lambda: writes(range(3), name, 1))

    line.sever()
    wait_until(lambda: machine.present() == ["zq-default-1", "zq-default-2"])
    assert not writes([0], name, 2)
    wait_until(lambda: trouble(machine)["reason"] == "LeaseFenced")
    told = trouble(machine)["message"]
    assert told.startswith("zq-default-0 acknowledges nothing of HighAvailability zones")
    wait_until(lambda: "Cannot connect" in trouble(machine)["message"])
    wait_until(lambda: writes([1, 2], name, 3))
    found = ask(0, Write(name, "k", 4))
    assert found is not None
    assert found.status is ReplyStatus.NOT_LEADER

    line.mend()
    wait_until(lambda: len(machine.present()) == 3)
    wait_until(lambda: machine.is_whole(3))
    assert lease(machine, 0)["spec"]["leaseTransitions"] == 2
    wait_until(lambda: trouble(machine)["reason"] == "LeasesRenewed")
    wait_until(lambda: {"LeaseTrouble", "LeasesRenewed"} <= {*machine.event_reasons()})
    wait_until(lambda: writes(range(3), name, 5))
    assert all(r["lineage"] == 0 for n in range(3) for r in replicas(n)["replicas"])


def test_a_majority_whose_pods_are_deleted_by_force_lives_on_while_it_renews(
    machine: Machine,
) -> None:
    machine.begin(3)
    begin(machine)
    name = group()
    wait_until(lambda: writes(range(3), name, 1))
    for ordinal in (0, 1):
        machine.api.kubectl("delete", "pod", f"zq-default-{ordinal}", "--force", "--grace-period=0")
    since_s = time.monotonic()

    def is_served() -> bool:
        found = [ask(n, Write(name, "k", 2)) for n in range(3)]
        assert all(reply is None or reply.lineage == 0 for reply in found)
        return any(reply is not None and reply.status is ReplyStatus.OK for reply in found)

    while time.monotonic() - since_s < 2 * LEASE_S:
        assert len(machine.present()) == 3
        wait_until(is_served)
        time.sleep(0.3)

    # One of them does end, and only its Lease tells.
    machine.kill_unseen(0)
    wait_until(lambda: machine.present() == ["zq-default-1", "zq-default-2"])
    wait_until(lambda: writes([1, 2], name, 3))


def test_the_lease_of_a_node_that_was_scaled_down_goes_and_the_node_may_come_back(
    machine: Machine,
) -> None:
    machine.begin(3)
    begin(machine)
    name = group()
    wait_until(lambda: writes(range(3), name, 1))
    uid = lease(machine, 2)["metadata"]["uid"]

    machine.want(2)
    machine.kill_unseen(2)
    machine.api.kubectl("delete", "pod", "zq-default-2", "--force", "--grace-period=0")
    wait_until(lambda: machine.present() == ["zq-default-0", "zq-default-1"])
    wait_until(lambda: not lease(machine, 2))
    assert lease(machine, 0)
    assert lease(machine, 1)
    wait_until(lambda: writes([0, 1], name, 2))

    machine.want(3)
    machine.start(2)
    wait_until(lambda: machine.is_whole(3))
    assert lease(machine, 2)["metadata"]["uid"] != uid
    assert lease(machine, 2)["spec"]["leaseTransitions"] == 1, "sessions are counted again"
    wait_until(lambda: [r["permitted_session"] for r in replicas(2)["replicas"]] == [1])
    wait_until(lambda: writes(range(3), name, 3))
