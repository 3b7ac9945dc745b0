"""A HighAvailability zone on real data nodes (document `high-availability`): resets after real
kills, and both examples of its restart of all nodes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from .addresses import address
from .api_server import wait_until
from .machine import Machine
from .registers import Registers
from .relay import Relay

pytestmark = [pytest.mark.kube, pytest.mark.timeout(300)]

RESET_AFTER_S = 1
A, B, C, D, E, F, G = NAMES = [f"zq-default-{n}" for n in range(7)]


def create(machine: Machine, replicas: int, *, mode: str = "HighAvailability") -> None:
    zone = {
        "apiVersion": "zonequake.io/v1alpha1",
        "kind": "DistributionZone",
        "metadata": {"name": "z"},
        "spec": {
            "partitions": 1,
            "replicas": replicas,
            "consistencyMode": mode,
            "partitionDistributionResetTimeout": RESET_AFTER_S,
        },
    }
    assert machine.api.apply(zone).returncode == 0


def reset_after(machine: Machine, seconds: int) -> None:
    timeout = {"spec": {"partitionDistributionResetTimeout": seconds}}
    machine.api.patch("dz", "z", timeout)


def keys(machine: Machine) -> dict[str, Any]:
    return (machine.api.get("zp", "z-0") or {}).get("status", {})  # type: ignore[no-any-return]


def nodes(status: dict[str, Any], key: str) -> list[str]:
    return (status.get(key) or {}).get("nodes", [])  # type: ignore[no-any-return]


def chain(machine: Machine) -> list[list[str]]:
    return [link["nodes"] for link in keys(machine).get("chain", [])]


def is_stable(machine: Machine, *names: str) -> bool:
    found = keys(machine)
    return nodes(found, "stable") == list(names) and not nodes(found, "pending")


def test_a_partition_without_its_majority_is_writable_again_after_the_reset_time_out(
    machine: Machine, loop: Relay
) -> None:
    machine.want(3)
    for ordinal in range(3):
        machine.start(ordinal)
    machine.start_operator()
    create(machine, 3)
    wait_until(lambda: machine.is_whole(3) and chain(machine) == [[A, B, C]])
    registers = Registers(loop, "z", [f"{address(n)}:7002" for n in range(3)])
    registers.write("before", 1)

    # Back within the time-out: no reset.
    reset_after(machine, 30)
    machine.kill(1)
    machine.kill(2)
    machine.start(1)
    machine.start(2)
    wait_until(lambda: machine.is_whole(3))
    assert chain(machine) == [[A, B, C]]
    assert keys(machine).get("resetRevision", 0) == 0
    reset_after(machine, RESET_AFTER_S)

    # Beyond it: who is left goes on alone.
    machine.kill(1)
    machine.kill(2)
    wait_until(lambda: is_stable(machine, A))
    assert chain(machine) == [[A, B, C], [A]]
    registers.write("alone", 2)
    assert registers.read("before") == 1

    # B and C come back by a rebalance: they follow A, whatever they had.
    machine.start(1)
    wait_until(lambda: is_stable(machine, A, B))
    machine.start(2)
    wait_until(lambda: machine.is_whole(3) and is_stable(machine, A, B, C))
    assert chain(machine) == [[A, B, C]]
    assert (registers.read("before"), registers.read("alone")) == (1, 2)


def present(machine: Machine) -> list[str]:
    return (machine.api.get("topo", "topology") or {}).get("status", {}).get("nodeNames", [])  # type: ignore[no-any-return]


def down_to_the_last(machine: Machine, loop: Relay, *, insert: bool) -> Registers:
    """Steps 1 to 12 of both examples; A(10) to D(10), E(5) to G(5), and with `insert` E(7) to
    G(7)."""
    machine.want(7)
    machine.start(0)
    machine.start_operator()
    create(machine, 7)
    wait_until(lambda: is_stable(machine, A) and "leader" in keys(machine))
    registers = Registers(loop, "z", [f"{address(n)}:7002" for n in range(7)])
    for ordinal in range(1, 7):
        machine.start(ordinal)
    wait_until(lambda: machine.is_whole(7) and is_stable(machine, *NAMES))
    registers.write("five", 5)
    for ordinal in (4, 5, 6):
        machine.kill(ordinal)  # [E, F, G] are lagged
    registers.write("ten", 10)
    reset_after(machine, 600)  # until E, F and G are all there
    for ordinal in (0, 1, 2, 3):
        machine.kill(ordinal)
    for ordinal in (4, 5, 6):
        machine.start(ordinal)
    wait_until(lambda: present(machine) == [E, F, G])
    reset_after(machine, RESET_AFTER_S)
    # E, F and G have not led since: the group has stopped as a whole, and a person decides.
    wait_until(lambda: keys(machine).get("stoppedToken"))
    done = reset_by_hand(machine, "--yes")
    assert done.returncode == 0, done
    wait_until(lambda: is_stable(machine, E, F, G))
    assert chain(machine) == [NAMES, [E, F, G]]
    if insert:
        registers.write("seven", 7)
    machine.kill(4)
    machine.kill(5)
    wait_until(lambda: is_stable(machine, G))
    assert chain(machine) == [NAMES, [E, F, G], [G]]
    machine.kill(6)
    return registers


def restart_all(machine: Machine, registers: Registers) -> None:
    """G first: it may not go on alone."""
    machine.start(6)
    wait_until(lambda: present(machine) == [G])
    assert not registers.is_writable(within_s=3.0)
    assert chain(machine) == [NAMES, [E, F, G], [G]]
    for ordinal in range(6):
        machine.start(ordinal)
    wait_until(lambda: machine.is_whole(7) and is_stable(machine, *NAMES))


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
    command = [sys.executable, "-c", "from zonequake_chaos.cli import main; main()", "reset", "z"]
    place = [f"--kubeconfig={machine.api.kubeconfig}", f"--namespace={machine.api.namespace}"]
    return subprocess.run(
        [*command, *place, *options], capture_output=True, text=True, timeout=90, check=False
    )


def test_a_strongly_consistent_zone_is_reset_by_hand_alone(machine: Machine, loop: Relay) -> None:
    machine.want(3)
    for ordinal in range(3):
        machine.start(ordinal)
    machine.start_operator()
    create(machine, 3, mode="StrongConsistency")
    wait_until(lambda: machine.is_whole(3))
    registers = Registers(loop, "z", [f"{address(n)}:7002" for n in range(3)])
    registers.write("before", 1)
    refused = reset_by_hand(machine, "--yes")
    assert refused.returncode == 1
    assert "no partition of zone z has lost its majority" in refused.stdout

    machine.kill(1)
    machine.kill(2)
    wait_until(lambda: "leader" not in keys(machine))
    assert not registers.is_writable(within_s=RESET_AFTER_S + 3.0)
    assert "resetRevision" not in keys(machine)
    done = reset_by_hand(machine, "--yes")
    assert done.returncode == 0, done
    assert f"{B} has left with version" in done.stdout
    registers.write("alone", 2)
    machine.start(1)
    machine.start(2)
    wait_until(lambda: machine.is_whole(3) and is_stable(machine, A, B, C))
    assert (registers.read("before"), registers.read("alone")) == (1, 2)
