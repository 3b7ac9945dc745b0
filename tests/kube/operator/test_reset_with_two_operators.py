"""One loss is one reset, though the operator that decides it stands still in the middle.

first   decides ─ stopped at a write ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄ wakes, and ends
second  stands by ────────────────── takes over, and resets
"""

from __future__ import annotations

import json
import signal
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kube.operator.addresses import client_addresses
from tests.kube.operator.api_server import wait_until
from tests.kube.operator.machine import Machine, relayed
from tests.kube.operator.operators import Operators
from tests.kube.operator.registers import Registers
from tests.kube.operator.relay import Moment, Way
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer

pytestmark = pytest.mark.kube

PARTITIONS = 2
A, B, C = EVERYONE = [f"zq-default-{n}" for n in range(3)]


def keys(machine: Machine) -> list[dict[str, Any]]:
    return [partition["status"] for partition in machine.api.get("zp")["items"]]


def chains(machine: Machine) -> list[list[list[str]]]:
    return [[link["nodes"] for link in found.get("chain", [])] for found in keys(machine)]


def resets(machine: Machine) -> list[tuple[int, int]]:
    """What the survivor has in its journal: partition and lineage of each reset, each once."""
    lines = (machine.data(0) / "events.jsonl").read_text().splitlines()
    events = [event for event in map(json.loads, lines) if event["kind"] == "group.reset"]
    return sorted({(event["partition"], event["data"]["lineage"]) for event in events})


@pytest.mark.parametrize(
    ("write", "way"),
    [
        pytest.param(
            "partitions: pending", Way.AFTER, id="decided-and-not-heard", marks=pytest.mark.long
        ),
        pytest.param("partitions: pending", Way.LATE, id="decided-as-the-other-takes-over"),
        pytest.param(
            "order reset_peers",
            Way.LAST,
            id="ordered-again-when-all-has-ended",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_loss_is_one_reset_though_its_operator_stands_still_in_the_middle(
    api_server: ApiServer, tmp_path: Path, write: str, way: Way
) -> None:
    with (
        relayed(api_server, tmp_path, nodes=3) as (machine, relay),
        closing(Operators(machine)) as operators,
    ):
        machine.want(3)
        machine.start(*range(3))
        first = operators.start()
        wait_until(lambda: operators.leads(0))
        operators.start()
        machine.api.create_zone(
            partitions=PARTITIONS,
            consistencyMode="HighAvailability",
            partitionDistributionResetTimeout=1,
        )
        wait_until(lambda: machine.is_whole(3))
        registers = Registers(relay, "z", client_addresses(3))
        registers.write("before", 1)

        moment = Moment(number=1, way=way, of=write)
        relay.arm(moment, lambda: first.send_signal(signal.SIGSTOP))
        machine.kill(1, 2)
        wait_until(lambda: relay.hit is not None)
        relay.revive()
        wait_until(lambda: operators.leads(1))
        wait_until(lambda: chains(machine) == [[EVERYONE, [A]]] * PARTITIONS)
        first.send_signal(signal.SIGCONT)
        assert first.wait(PATIENCE_S) == 1
        registers.write("alone", 2)

        machine.start(1, 2)
        wait_until(lambda: machine.is_whole(3) and chains(machine) == [[EVERYONE]] * PARTITIONS)
        assert relay.release() == (way is Way.LAST)
        registers.write("after", 3)
        assert [registers.read(key) for key in ("before", "alone", "after")] == [1, 2, 3]
        assert chains(machine) == [[EVERYONE]] * PARTITIONS
        assert [partition for partition, _ in resets(machine)] == list(range(PARTITIONS))
