"""A HighAvailability zone on real data nodes (document `high-availability`): resets after real
kills, and both examples of its restart of all nodes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.kube.operator.addresses import address, client_addresses
from tests.kube.operator.api_server import wait_until
from tests.kube.operator.machine import Machine
from tests.kube.operator.outcome import are_even
from tests.kube.operator.registers import Registers
from tests.kube.operator.relay import Relay
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.kube

RESET_AFTER_S = 1
A, B, C, D, E, F, G = NAMES = [f"zq-default-{n}" for n in range(7)]


def create(machine: Machine, replicas: int, *, mode: str = "HighAvailability") -> None:
    machine.api.create_zone(
        partitions=1,
        replicas=replicas,
        consistencyMode=mode,
        partitionDistributionResetTimeout=RESET_AFTER_S,
    )


def reset_after(machine: Machine, seconds: int) -> None:
    machine.set_spec(partitionDistributionResetTimeout=seconds)


def test_a_partition_without_its_majority_is_writable_again_after_the_reset_time_out(
    machine: Machine, loop: Relay
) -> None:
    machine.begin(3)
    create(machine, 3)
    wait_until(lambda: machine.is_whole(3) and machine.chain() == [[A, B, C]])
    registers = Registers(loop, "z", client_addresses(3))
    registers.write("before", 1)

    # Back within the time-out: no reset.
    reset_after(machine, 600)
    machine.kill(1, 2)
    wait_until(lambda: machine.conditions()["Degraded"])
    machine.start(1, 2)
    wait_until(lambda: machine.is_whole(3))
    assert machine.chain() == [[A, B, C]]
    assert machine.partition().get("resetRevision", 0) == 0
    reset_after(machine, RESET_AFTER_S)

    # Beyond it: who is left goes on alone.
    machine.kill(1, 2)
    wait_until(lambda: machine.is_stable(A))
    assert machine.chain() == [[A, B, C], [A]]
    registers.write("alone", 2)
    assert registers.read("before") == 1

    # B and C come back by a rebalance: they follow A, whatever they had.
    machine.start(1)
    wait_until(lambda: machine.is_stable(A, B))
    machine.start(2)
    wait_until(lambda: machine.is_whole(3) and machine.is_stable(A, B, C))
    assert machine.chain() == [[A, B, C]]
    assert (registers.read("before"), registers.read("alone")) == (1, 2)


def down_to_the_last(machine: Machine, loop: Relay, *, insert: bool) -> Registers:
    """Steps 1 to 12 of both examples; A(10) to D(10), E(5) to G(5), and with `insert` E(7) to
    G(7)."""
    machine.begin(1, want=7)
    create(machine, 7)
    wait_until(lambda: machine.is_stable(A) and "leader" in machine.partition())
    registers = Registers(loop, "z", client_addresses(7))
    machine.start(*range(1, 7))
    wait_until(lambda: machine.is_whole(7) and machine.is_stable(*NAMES))
    registers.write("five", 5)
    # A majority without E, F and G may have acknowledged it; and one without G the other.
    wait_until(lambda: are_even(map(address, range(7))))
    machine.kill(4, 5, 6)  # [E, F, G] are lagged
    registers.write("ten", 10)
    reset_after(machine, 600)  # until E, F and G are all there
    machine.kill(0, 1, 2, 3)
    machine.start(4, 5, 6)
    wait_until(lambda: machine.present() == [E, F, G])
    reset_after(machine, RESET_AFTER_S)
    # E, F and G have not led since: the group has stopped as a whole, and a person decides.
    wait_until(lambda: machine.partition().get("stoppedToken"))
    done = reset_by_hand(machine, "--yes")
    assert done.returncode == 0, done
    wait_until(lambda: machine.is_stable(E, F, G))
    assert machine.chain() == [NAMES, [E, F, G]]
    if insert:
        registers.write("seven", 7)
        wait_until(lambda: are_even(map(address, (4, 5, 6))))
    machine.kill(4, 5)
    wait_until(lambda: machine.is_stable(G))
    assert machine.chain() == [NAMES, [E, F, G], [G]]
    machine.kill(6)
    return registers


def restart_all(machine: Machine, registers: Registers) -> None:
    """G first: it may not go on alone."""
    machine.start(6)
    wait_until(lambda: machine.present() == [G])
    assert not registers.is_writable(within_s=3.0)
    assert machine.chain() == [NAMES, [E, F, G], [G]]
    machine.start(*range(6))
    wait_until(lambda: machine.is_whole(7) and machine.is_stable(*NAMES))


@pytest.mark.long
def test_example_1_the_data_of_the_first_link_comes_back(machine: Machine, loop: Relay) -> None:
    registers = down_to_the_last(machine, loop, insert=False)
    restart_all(machine, registers)
    assert (registers.read("five"), registers.read("ten")) == (5, 10)


def test_example_2_the_data_that_was_put_on_the_second_link_comes_back(
    machine: Machine, loop: Relay
) -> None:
    registers = down_to_the_last(machine, loop, insert=True)
    restart_all(machine, registers)
    assert (registers.read("five"), registers.read("seven")) == (5, 7)
    assert registers.read("ten") is None, "what only A to D had is given up"


def reset_by_hand(machine: Machine, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-c",
        "from zonequake_chaos.commands.cli import main; main()",
        "reset",
        "z",
    ]
    place = [f"--kubeconfig={machine.api.kubeconfig}", f"--namespace={machine.api.namespace}"]
    return subprocess.run(
        [*command, *place, *options],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )


def test_a_strongly_consistent_zone_is_reset_by_hand_alone(machine: Machine, loop: Relay) -> None:
    machine.begin(3)
    create(machine, 3, mode="StrongConsistency")
    wait_until(lambda: machine.is_whole(3))
    registers = Registers(loop, "z", client_addresses(3))
    registers.write("before", 1)
    refused = reset_by_hand(machine, "--yes")
    assert refused.returncode == 1
    assert "no partition of zone z has lost its majority" in refused.stdout

    machine.kill(1, 2)
    wait_until(lambda: "leader" not in machine.partition())
    assert not registers.is_writable(within_s=RESET_AFTER_S + 3.0)
    assert "resetRevision" not in machine.partition()
    done = reset_by_hand(machine, "--yes")
    assert done.returncode == 0, done
    assert f"{B} has left with version" in done.stdout
    registers.write("alone", 2)
    machine.start(1, 2)
    wait_until(lambda: machine.is_whole(3) and machine.is_stable(A, B, C))
    assert (registers.read("before"), registers.read("alone")) == (1, 2)
