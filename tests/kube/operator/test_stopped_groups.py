"""Groups that stopped as a whole, and survivors that died uncopied, on real data nodes (document
`high-availability`, use case steps 4 to 6): what was acknowledged, and what a person gives up."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from tests.kube.operator.addresses import client_addresses
from tests.kube.operator.api_server import wait_until
from tests.kube.operator.machine import Machine
from tests.kube.operator.plugin_screens import StraightKube, connected, status
from tests.kube.operator.registers import Registers
from tests.kube.operator.relay import Relay
from tests.kube.operator.test_high_availability import create, reset_after
from tests.patience import PATIENCE_S
from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.faults.life import Injection, Proof
from zonequake_chaos.faults.registry import life_of
from zonequake_chaos.scenario.faults import ResetByHandSpec
from zonequake_ctl import reset
from zonequake_kube.client import Kube

pytestmark = pytest.mark.kube

B, C, D = NAMES = [f"zq-default-{n}" for n in range(3)]
FIRST, SECOND, LAGGARD = range(3)
TIMEOUT_S = 3


def begin(machine: Machine, loop: Relay) -> Registers:
    """B and C have acknowledged what D, which is down, lacks."""
    machine.begin(3)
    create(machine, 3)
    reset_after(machine, TIMEOUT_S)
    wait_until(lambda: machine.is_whole(3) and machine.chain() == [NAMES])
    registers = Registers(loop, "z", client_addresses(3))
    registers.write("all", 1)
    machine.kill(LAGGARD)
    registers.write("two", 2)
    return registers


async def fault_by_hand(machine: Machine) -> Proof:
    """What a scenario's fault proves of a reset of partition 0; it chooses the newest data."""
    async with connected(machine) as kube:
        injury = Injection(
            world=cast("Any", SimpleNamespace(kube=kube, zones=["z"])),
            name="by-hand",
            victims=(),
            sighting=cast("Any", None),
            timeout_s=PATIENCE_S,
            hold_s=0,
        )
        life = life_of(ResetByHandSpec(name="by-hand", partitions=[0]))
        await life.prepare(injury)
        await life.inject(injury)
        return await life.wait_until_effective(injury)


def test_the_first_node_back_of_a_stopped_group_waits_for_the_majority(
    machine: Machine, loop: Relay
) -> None:
    registers = begin(machine, loop)
    machine.kill(FIRST, SECOND)
    wait_until(lambda: machine.partition().get("stoppedToken"))
    machine.start(LAGGARD)
    wait_until(lambda: machine.present() == [D])
    assert not registers.is_writable(within_s=2.0 * TIMEOUT_S)
    assert machine.chain() == [NAMES]
    assert "resetRevision" not in machine.partition()
    waits = f"waits for 1 more of {B}, {C} to come back with its data: all its nodes had stopped"
    wait_until(lambda: waits in str(machine.status()))
    wait_until(lambda: waits in asyncio.run(status(machine)))

    machine.start(SECOND)
    wait_until(
        lambda: "leader" in machine.partition() and "stoppedToken" not in machine.partition()
    )
    assert (registers.read("all"), registers.read("two")) == (1, 2)
    registers.write("again", 3)
    machine.start(FIRST)
    wait_until(lambda: machine.is_whole(3) and machine.is_stable(*NAMES))
    assert machine.chain() == [NAMES], "nothing was ever given up"

    # A loss that leaves a member alive is reset as before.
    machine.kill(FIRST, SECOND)
    wait_until(lambda: machine.is_stable(D))
    assert [registers.read(key) for key in ("all", "two", "again")] == [1, 2, 3]


def test_a_survivor_that_died_uncopied_is_given_up_by_hand(
    machine: Machine, loop: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    registers = begin(machine, loop)
    machine.kill(SECOND)
    wait_until(lambda: machine.is_stable(B))
    registers.write("alone", 3)
    with pytest.raises(FaultFailed, match=rf"partition 0: .* not reset: {B} leads it"):
        asyncio.run(fault_by_hand(machine))
    machine.kill(FIRST)
    machine.start(SECOND, LAGGARD)
    wait_until(lambda: machine.present() == [C, D])
    assert not registers.is_writable(within_s=2.0 * TIMEOUT_S)

    monkeypatch.setattr(Kube, "pod_proxy", StraightKube.pod_proxy)
    place = ["--kubeconfig", str(machine.api.kubeconfig), "--namespace", machine.api.namespace]
    shown = CliRunner().invoke(reset.app, ["z", "--dry-run", *place])
    assert shown.exit_code == 0, shown.output
    assert "no node that is there has its newest data" in shown.output
    assert f"gives up all that was written since the reset to {B}" in shown.output
    assert f"held by {C}" in shown.output, "D lacks the second write"
    assert f"goes on from {C}" in shown.output
    gone = CliRunner().invoke(reset.app, ["z", "--yes", "--survivor", B, *place])
    assert gone.exit_code == reset.REFUSED, gone.output
    assert f"{B} holds nothing of it, or can't be asked" in gone.output

    (done,) = cast("Any", asyncio.run(fault_by_hand(machine))["partitions"])
    assert (done["partition"], done["survivor"]) == (0, C)
    (given_up,) = done["given_up"]
    assert f"all that was written since the reset to {B}" in given_up
    wait_until(lambda: machine.is_stable(C, D))
    assert [registers.read(key) for key in ("all", "two", "alone")] == [1, 2, None]
    registers.write("since", 4)

    # Who died comes back: it was shut out, and follows.
    machine.start(FIRST)
    wait_until(lambda: machine.is_whole(3) and machine.is_stable(*NAMES))
    assert {link["token"] for link in machine.partition()["chain"]} == {done["token"]}
    found = [registers.read(key) for key in ("all", "two", "alone", "since")]
    assert found == [1, 2, None, 4]
