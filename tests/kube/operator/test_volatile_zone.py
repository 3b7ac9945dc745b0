"""A volatile zone on real data nodes (document `in-memory-reconfiguration`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kube.operator.addresses import address, client_addresses
from tests.kube.operator.api_server import wait_until
from tests.kube.operator.background_load import BackgroundLoad
from tests.kube.operator.machine import Machine
from tests.kube.operator.outcome import replicas_at
from tests.kube.operator.relay import Relay
from zonequake_protocol.admin import ReplicaRole

pytestmark = pytest.mark.kube

WITHHOLDING = str(Path(__file__).with_name("forgetful_operator.py"))
A, B, C, D = (f"zq-default-{n}" for n in range(4))


def leads(ordinal: int) -> bool:
    return any(replica.role is ReplicaRole.LEADER for replica in replicas_at(address(ordinal)))


def test_the_documents_example_and_the_ends_of_a_volatile_partition(
    machine: Machine, loop: Relay
) -> None:
    machine.begin(3, want=4)
    machine.api.create_zone(partitions=1, replicas=4, storage="Volatile")
    wait_until(lambda: machine.is_stable(A, B, C) and "state" in machine.partition())
    seeds = client_addresses(3)
    load = BackgroundLoad.begin(loop, zone="z", seeds=seeds, partitions=1)

    # [A, B, C] -> [A, B, C, D] is locked, so that nothing may replace it; the document's C fails
    # and comes back. Not the leader: with it the change would end, and the lock.
    machine.kill_operator()
    machine.start_operator(WITHHOLDING, "grants")
    machine.start(3)
    wait_until(lambda: "pendingLock" in machine.partition())
    failed = next(n for n in (2, 1) if not leads(n))
    machine.kill(failed)
    machine.start(failed)
    wait_until(lambda: machine.partition().get("switchReduce") == [f"zq-default-{failed}"])
    # Again, if the group has another leader.
    wait_until(lambda: "pendingLock" in machine.partition())
    held = machine.partition()
    assert held["pending"]["nodes"] == [A, B, C, D], "the reduction waits, and isn't overwritten"
    assert held["switchReduce"] == [f"zq-default-{failed}"]
    machine.kill_operator()
    machine.start_operator()
    wait_until(lambda: machine.is_stable(A, B, C, D) and machine.is_whole(4))
    ended = machine.partition()
    assert not ended.get("switchReduce")
    assert not ended.get("switchAppend")
    assert machine.told("ReplicasLost") == 1
    assert loop.run(load.unreadable()) == ()
    loop.run(load.close())

    # Two at once: no leader is left to remove them, and they don't start with nothing.
    machine.kill(2, 3)
    machine.start(2, 3)
    waits = f"Partition 0 can only be reset by hand: {C}, {D} came back with nothing."
    wait_until(lambda: any(waits in c["message"] for c in machine.status().get("conditions", [])))
    assert "switchReduce" not in machine.partition()

    # The other two as well: a full partition restart. The data is lost, and that is said.
    machine.kill(0, 1)
    machine.start(0, 1)
    wait_until(lambda: machine.is_whole(4))
    assert machine.partition()["bootstrapLineage"] == machine.partition()["bootstrap"]["token"]
    assert machine.told("DataLost") == 1
    again = BackgroundLoad.begin(loop, zone="z", seeds=seeds, partitions=1)
    assert loop.run(again.unreadable()) == ()
