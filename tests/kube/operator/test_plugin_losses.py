"""`kubectl zq` and `zonequake reset` where the operator's decision rests on what replicas hold."""

from __future__ import annotations

import asyncio

import pytest
from typer.testing import CliRunner

from tests.kube.operator.addresses import client_addresses
from tests.kube.operator.api_server import wait_until
from tests.kube.operator.machine import Machine
from tests.kube.operator.plugin_screens import StraightKube, plan, status
from tests.kube.operator.registers import Registers
from tests.kube.operator.relay import Relay
from zonequake_ctl import reset
from zonequake_kube.client import Kube

pytestmark = pytest.mark.kube

A, B, C = (f"zq-default-{n}" for n in range(3))


def seen(machine: Machine) -> str:
    return asyncio.run(status(machine))


def foretold(machine: Machine, *settings: str) -> str:
    return asyncio.run(plan(machine, *settings))


def test_a_chain_that_is_unwound_is_seen_and_foretold_as_the_operator_then_does_it(
    machine: Machine, loop: Relay
) -> None:
    machine.begin_zone(
        3, partitions=1, consistencyMode="HighAvailability", partitionDistributionResetTimeout=600
    )
    registers = Registers(loop, "z", client_addresses(3))
    registers.write("before", 1)
    machine.kill(1, 2)
    wait_until(lambda: machine.present() == [A])
    reset = f"RESET partition 0 of {A}, {B}, {C}: goes on from {A} alone"
    wait_until(lambda: reset in foretold(machine))
    assert "give up replicas" not in foretold(machine)
    machine.set_spec(partitionDistributionResetTimeout=3)
    wait_until(lambda: machine.is_stable(A))
    registers.write("alone", 2)

    machine.kill(0)
    machine.start(1, 2)
    wait_until(lambda: machine.present() == [B, C])
    waits = f"The partition waits for 1 more of {A} to report: all its nodes had stopped"
    wait_until(lambda: waits in seen(machine))
    assert "is served again once" not in seen(machine), "two of them are back, and it isn't"
    wait_until(lambda: waits.replace("The partition", "Partition 0") in foretold(machine))

    machine.set_spec(paused=True)
    machine.start(0)
    wait_until(lambda: machine.present() == [A, B, C])
    wait_until(lambda: f"it goes on from {A} as soon as the operator acts" in seen(machine))
    unwound = f"RESET partition 0 of {A}: goes on from {A} alone"
    wait_until(lambda: unwound in foretold(machine))
    machine.api.patch("dz", "z", {"spec": {"paused": False}})
    wait_until(lambda: machine.is_whole(3) and machine.is_stable(A, B, C))
    registers = Registers(loop, "z", client_addresses(3))
    assert (registers.read("before"), registers.read("alone")) == (1, 2)


def test_members_that_came_back_with_nothing_can_be_given_up_by_hand(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.begin_zone(3, partitions=1, storage="Volatile")
    machine.kill(1, 2)
    machine.start(1, 2)
    wait_until(lambda: machine.present() == [A, B, C] and "leader" not in machine.partition())
    lost = f"Partition 0 can only be reset by hand: {B}, {C} came back with nothing."
    wait_until(lambda: lost in str(machine.status()))
    wait_until(lambda: "only 1 of 3 members can still have its data" in seen(machine))

    monkeypatch.setattr(Kube, "pod_proxy", StraightKube.pod_proxy)
    place = ["--kubeconfig", str(machine.api.kubeconfig), "--namespace", machine.api.namespace]
    done = CliRunner().invoke(reset.app, ["z", "--yes", *place])
    assert done.exit_code == 0, done.output
    assert f"{B} is in the topology since" in done.output
    assert "came back with nothing" in done.output
    assert "partition 0 was reset" in done.output
    wait_until(lambda: machine.is_whole(3) and machine.is_stable(A, B, C))
