"""A volatile zone on real data nodes (document `in-memory-reconfiguration`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from zonequake_store.admin_protocol import Role

from .addresses import address
from .api_server import wait_until
from .background_load import BackgroundLoad
from .machine import Machine
from .outcome import replicas_at
from .relay import Relay

pytestmark = [pytest.mark.kube, pytest.mark.timeout(240)]

WITHHOLDING = str(Path(__file__).with_name("forgetful_operator.py"))
A, B, C, D = (f"zq-default-{n}" for n in range(4))


def keys(machine: Machine) -> dict[str, Any]:
    return (machine.api.get("zp", "z-0") or {}).get("status", {})  # type: ignore[no-any-return]


def nodes(status: dict[str, Any], key: str) -> list[str]:
    return (status.get(key) or {}).get("nodes", [])  # type: ignore[no-any-return]


def leads(ordinal: int) -> bool:
    return any(replica.role is Role.LEADER for replica in replicas_at(address(ordinal)))


def test_the_documents_example_and_the_ends_of_a_volatile_partition(
    machine: Machine, loop: Relay
) -> None:
    api = machine.api
    machine.want(4)
    for ordinal in range(3):
        machine.start(ordinal)
    machine.start_operator()
    zone = {
        "apiVersion": "zonequake.io/v1alpha1",
        "kind": "DistributionZone",
        "metadata": {"name": "z"},
        "spec": {"partitions": 1, "replicas": 4, "storage": "Volatile"},
    }
    assert api.apply(zone).returncode == 0
    wait_until(lambda: nodes(keys(machine), "stable") == [A, B, C] and "state" in keys(machine))
    seeds = [f"{address(n)}:7002" for n in range(3)]
    load = BackgroundLoad.begin(loop, zone="z", seeds=seeds, partitions=1)

    # [A, B, C] -> [A, B, C, D] is locked, so that nothing may replace it; the document's C fails
    # and comes back. Not the leader: with it the change would end, and the lock.
    machine.kill_operator()
    machine.start_operator(WITHHOLDING, "grants")
    machine.start(3)
    wait_until(lambda: "pendingLock" in keys(machine))
    failed = next(n for n in (2, 1) if not leads(n))
    machine.kill(failed)
    machine.start(failed)
    wait_until(lambda: keys(machine).get("switchReduce") == [f"zq-default-{failed}"])
    wait_until(lambda: "pendingLock" in keys(machine))  # again, if the group has another leader
    held = keys(machine)
    assert nodes(held, "pending") == [A, B, C, D], "the reduction waits, and isn't overwritten"
    assert held["switchReduce"] == [f"zq-default-{failed}"]
    machine.kill_operator()
    machine.start_operator()
    wait_until(lambda: nodes(keys(machine), "stable") == [A, B, C, D] and machine.is_whole(4))
    ended = keys(machine)
    assert not ended.get("switchReduce")
    assert not ended.get("switchAppend")
    assert machine.told("ReplicasLost") == 1
    assert loop.run(load.unreadable()) == ()
    loop.run(load.close())

    # Two at once: nobody is left to remove them, and they don't start with nothing.
    for ordinal in (2, 3):
        machine.kill(ordinal)
    for ordinal in (2, 3):
        machine.start(ordinal)
    waits = f"Partition 0 can only be reset by hand: {C}, {D} came back with nothing."
    wait_until(lambda: any(waits in c["message"] for c in machine.status().get("conditions", [])))
    assert "switchReduce" not in keys(machine)

    # The other two as well: a full partition restart. The data is lost, and that is said.
    for ordinal in (0, 1):
        machine.kill(ordinal)
    for ordinal in (0, 1):
        machine.start(ordinal)
    wait_until(lambda: machine.is_whole(4))
    assert keys(machine)["bootstrapLineage"] == keys(machine)["bootstrap"]["token"]
    assert machine.told("DataLost") == 1
    again = BackgroundLoad.begin(loop, zone="z", seeds=seeds, partitions=1)
    assert loop.run(again.unreadable()) == ()
