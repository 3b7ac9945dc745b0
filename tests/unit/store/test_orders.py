"""What orders of the operator are answered."""

from __future__ import annotations

from pathlib import Path

from one_node import GROUP, OneNode, until

from zonequake_store.admin_protocol import (
    CancelChangePeers,
    ChangePeers,
    Order,
    OrderStatus,
    PeerName,
    ReconfigurationStatus,
    Stage,
)
from zonequake_store.replica import Replica
from zonequake_store.reports import replica_status


async def answer(node: OneNode, order: Order) -> OrderStatus:
    return (await node.orders.execute([order]))[0].status


async def change(node: OneNode, replica: Replica, token: int, added: str) -> OrderStatus:
    """Ask the leader for itself and a node that doesn't run."""
    peers = [PeerName("n0", replica.me.incarnation), PeerName(added, "b")]
    term = replica.raft.status().term
    return await answer(node, ChangePeers(group=GROUP, term=term, token=token, peers=peers))


async def cancel(node: OneNode, replica: Replica, token: int) -> OrderStatus:
    term = replica.raft.status().term
    return await answer(node, CancelChangePeers(group=GROUP, term=term, token=token))


async def test_a_change_that_still_moves_data_gives_way_to_a_higher_token(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        assert await change(node, replica, 2, "n1") is OrderStatus.RECEIVED
        assert await change(node, replica, 3, "n2") is OrderStatus.RECEIVED
        status = replica.raft.status()
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
