"""A replica that needs a Lease acknowledges only while its node's holds, and it was permitted."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.unit.store.one_node import GROUP, OneNode, until
from zonequake_protocol.admin import OrderStatus, StartReplica
from zonequake_protocol.client import Read, Reply, ReplyStatus, Write
from zonequake_store.lease.clock import boottime_s
from zonequake_store.lease.rules.handover import FIRST_HANDOVER_S, LeaseWatch
from zonequake_store.lease.rules.node_lease import NOT_PERMITTED, LeaseRecord, PutLease
from zonequake_store.network.peer_protocol import TransactionLetter
from zonequake_store.network.transaction_messages import Finish, Letter
from zonequake_store.replica.replica import Replica
from zonequake_store.replica.status import replica_status
from zonequake_store.state.transactions import TransactionId

START = StartReplica(
    group=GROUP, zone="z", partition=0, partitions=1, token=1, needs_lease=True, volatile=True
)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[OneNode]:
    async with OneNode(tmp_path) as node:
        yield node


async def order(node: OneNode, session: int = 0) -> Replica:
    (reply,) = await node.orders.execute(
        [replace(START, lease_session=session, lease_holder=node.host.lease.holder)]
    )
    assert reply.status is OrderStatus.RECEIVED
    return node.host.replicas[GROUP]


async def leading(node: OneNode) -> Replica:
    return await node.let_lead(await order(node))


def renew(node: OneNode, session: int = 1) -> None:
    """What the API server would let it do."""
    lease = node.host.lease
    lease.next_call(boottime_s())
    lease.found(LeaseRecord(holder="another", session=session - 1), "1")
    assert isinstance(lease.next_call(boottime_s()), PutLease)
    lease.stored("2")
    assert lease.session == session


async def ask(node: OneNode, replica: Replica, read: Read) -> Reply:
    told: list[Reply] = []
    if replica.offer(2, read, told.append):
        node.host.wake(replica)
    await until(lambda: bool(told))
    return told[0]


async def test_a_leader_without_permission_refuses_and_with_it_serves(node: OneNode) -> None:
    replica = await leading(node)
    assert node.host.lease.is_wanted
    assert (await node.offer(replica, "k", 1)).status is ReplyStatus.NOT_LEADER
    renew(node)
    assert (await node.offer(replica, "k", 1)).status is ReplyStatus.NOT_LEADER, "not permitted"
    await order(node, session=1)
    assert replica_status(replica).permitted_session == 1
    assert (await node.offer(replica, "k", 1)).status is ReplyStatus.OK
    assert (await ask(node, replica, Read(GROUP, "k"))).value == 1


async def test_what_was_taken_before_the_session_ended_is_not_acknowledged_after_it(
    node: OneNode,
) -> None:
    replica = await leading(node)
    renew(node)
    await order(node, session=1)
    told: list[Reply] = []
    assert replica.offer(2, Write(GROUP, "k", 1), told.append)
    lease = node.host.lease
    lease.next_call(boottime_s() + 5.0)
    lease.refused()
    lease.next_call(boottime_s())
    lease.found(LeaseRecord(holder="p0", session=1, fenced="left"), "3")
    node.host.wake(replica)
    await until(lambda: bool(told))
    assert told[0].status is ReplyStatus.UNKNOWN


async def test_only_bounded_reads_without_a_bound_are_answered_without_permission(
    node: OneNode,
) -> None:
    replica = await leading(node)
    any_age = Read(GROUP, "k", bounded=True)
    bounded = Read(GROUP, "k", bounded=True, max_staleness_ms=60_000)
    assert (await ask(node, replica, any_age)).status is ReplyStatus.OK
    refused = await ask(node, replica, bounded)
    assert (refused.status, refused.error) == (ReplyStatus.STALE, NOT_PERMITTED)
    assert (await ask(node, replica, Read(GROUP, "k"))).status is ReplyStatus.NOT_LEADER


async def test_letters_of_transactions_wait_for_permission(node: OneNode) -> None:
    """A leader of an old lineage must not tell that its part is prepared, or done."""
    replica = await leading(node)
    letter = Letter("other", Finish(TransactionId(GROUP, 1, 1), True), ("n1",))

    async def sent() -> int:
        replica.transactions._output.letters.append(letter)
        node.host.wake(replica)
        await until(lambda: not replica.transactions.has_work)
        return sum(isinstance(frame, TransactionLetter) for frame in node.line.sent)

    assert await sent() == 0
    renew(node)
    await order(node, session=1)
    assert await sent() == 1


async def test_an_order_of_another_session_permits_nothing(node: OneNode) -> None:
    replica = await leading(node)
    renew(node, session=4)
    for session in (0, 3, 5):
        await order(node, session=session)
        assert not replica.may_acknowledge
    await order(node, session=4)
    assert replica.may_acknowledge


async def test_the_lease_is_wanted_as_long_as_a_replica_needs_it(node: OneNode) -> None:
    replica = await order(node)
    assert node.host.lease.is_wanted
    node.host.remove(replica)
    assert not node.host.lease.is_wanted
    assert not (await node.start()).permission


class Led:
    """A replica that leads without permission, and counts its handovers."""

    def __init__(self) -> None:
        self.leads, self.may_acknowledge = True, False
        self.handovers = 0

    def core_now(self) -> Led:
        return self

    def transfer_leadership(self) -> bool:
        self.handovers += 1
        return True


class LedHost:
    def __init__(self, replica: Led) -> None:
        self.replicas = {"g": replica}

    def wake(self, _replica: object) -> None:
        """It has no turns."""


def test_a_leader_without_permission_hands_over_after_a_while_and_ever_more_rarely() -> None:
    led = Led()
    watch = LeaseWatch(LedHost(led))  # type: ignore[arg-type]
    at_s = []
    for second in range(60):
        before = led.handovers
        watch.look(float(second))
        if led.handovers > before:
            at_s.append(second)
    assert at_s[:1] == [int(FIRST_HANDOVER_S)]
    assert [b - a for a, b in itertools.pairwise(at_s)] == [4, 8, 16]
    led.may_acknowledge = True
    watch.look(60.0)
    led.may_acknowledge = False
    watch.look(61.0)
    watch.look(63.0)
    assert led.handovers == len(at_s) + 1, "the pause starts over"
