"""What orders of the operator are answered."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.unit.store.one_node import GROUP, OneNode, until
from zonequake_protocol.admin import (
    Bootstrap,
    CancelChangePeers,
    ChangePeers,
    Order,
    OrderStatus,
    PeerName,
    ReconfigurationStatus,
    ReplicaRole,
    ResetPeers,
    Stage,
    StartReplica,
)
from zonequake_protocol.client import ReplyStatus
from zonequake_protocol.terms import term_of
from zonequake_store.replica.replica import Replica
from zonequake_store.replica.status import replica_status


async def answer(node: OneNode, order: Order) -> OrderStatus:
    return (await node.orders.execute([order]))[0].status


async def change(node: OneNode, replica: Replica, token: int, added: str) -> OrderStatus:
    """Ask the leader for itself and a node that doesn't run."""
    peers = [PeerName("n0", replica.me.incarnation), PeerName(added, "b")]
    term = replica.core_now().status().term
    return await answer(node, ChangePeers(group=GROUP, term=term, token=token, peers=peers))


async def cancel(node: OneNode, replica: Replica, token: int) -> OrderStatus:
    term = replica.core_now().status().term
    return await answer(node, CancelChangePeers(group=GROUP, term=term, token=token))


async def test_a_change_that_still_moves_data_gives_way_to_a_higher_token(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        assert await change(node, replica, 2, "n1") is OrderStatus.RECEIVED
        assert await change(node, replica, 3, "n2") is OrderStatus.RECEIVED
        status = replica.core_now().status()
        assert (status.stage_token, [each.peer.node for each in status.progress]) == (3, ["n2"])
        assert await change(node, replica, 2, "n1") is OrderStatus.STALE


async def test_a_cancelled_change_is_reported_with_its_status(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        assert await change(node, replica, 3, "n1") is OrderStatus.RECEIVED
        assert await cancel(node, replica, 2) is OrderStatus.STALE
        assert await cancel(node, replica, 3) is OrderStatus.RECEIVED
        report = replica_status(replica)
        assert (report.stage, report.reconfiguration_status, report.reconfiguration_error) == (
            Stage.NONE,
            ReconfigurationStatus.CANCELLED,
            "the change was cancelled",
        )
        assert await cancel(node, replica, 3) is OrderStatus.RECEIVED, "nothing runs"
        why = b'"reason":"the change was cancelled","status":"CANCELLED"'
        await until(lambda: why in b"".join(node.journal.after(0)))


async def test_a_lone_survivor_of_its_group_goes_on_in_a_new_lineage(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        me, gone = PeerName("n0", replica.me.incarnation), PeerName("n1", "b")
        await answer(node, Bootstrap(group=GROUP, token=1, peers=[me, gone]))
        reset = ResetPeers(group=GROUP, term=1, token=4, peers=[me])
        assert await answer(node, msgspec.structs.replace(reset, token=1)) is OrderStatus.STALE
        assert await answer(node, msgspec.structs.replace(reset, peers=[gone])) is (
            OrderStatus.FAILED
        )
        assert await answer(node, reset) is OrderStatus.RECEIVED
        await until(lambda: replica.partition.lineage == 4)
        report = replica_status(replica)
        assert (report.term, report.lineage, report.enforced_lineage) == (term_of(4, 2), 4, 4)
        assert report.configuration is not None
        assert (report.configuration.peers, report.configuration.lineage) == ([me], 4)
        written = await node.offer(replica, "k", 7)
        assert written.position == (4, 2, 3)
        assert await answer(node, reset) is OrderStatus.RECEIVED
        assert await answer(node, msgspec.structs.replace(reset, token=3)) is OrderStatus.STALE


async def test_a_start_order_with_a_later_forced_token_ends_a_leadership_and_its_writes(
    tmp_path: Path,
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        offered = node.offer(replica, "k", 7)
        start = StartReplica(
            group=GROUP, zone="z", partition=0, partitions=1, token=5, enforced_token=5
        )
        assert await answer(node, start) is OrderStatus.RECEIVED
        assert (await offered).status in (ReplyStatus.UNKNOWN, ReplyStatus.NOT_LEADER)
        report = replica_status(replica)
        assert (report.role, report.abstains, report.enforced_lineage) == (
            ReplicaRole.FOLLOWER,
            True,
            5,
        )
        assert (await node.offer(replica, "k", 8)).status is ReplyStatus.NOT_LEADER
        assert await answer(node, msgspec.structs.replace(start, token=4)) is OrderStatus.STALE


async def test_a_leader_reports_the_catch_up_rate_of_its_newest_start_order_and_leads_on(
    tmp_path: Path,
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        assert replica_status(replica).catch_up_bytes_per_second == 0
        start = StartReplica(
            group=GROUP,
            zone="z",
            partition=0,
            partitions=1,
            token=1,
            catch_up_bytes_per_second=500,
        )
        assert await answer(node, start) is OrderStatus.RECEIVED
        report = replica_status(replica)
        assert (report.role, report.catch_up_bytes_per_second) == (ReplicaRole.LEADER, 500)


async def test_a_replica_that_was_told_of_a_reset_still_abstains_after_a_restart(
    tmp_path: Path,
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        replica.core_now().enforce(5)
        node.host.wake(replica)
        await until(lambda: not replica.core_now().has_ready() and not replica.leads)
    async with OneNode(tmp_path) as node:
        replica = await node.start(token=1)
        assert replica.core_now().abstains
