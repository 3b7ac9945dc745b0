"""What orders of the operator are answered."""

from __future__ import annotations

from pathlib import Path

from one_node import GROUP, OneNode

from zonequake_store.admin_protocol import ChangePeers, OrderStatus, PeerName


async def test_a_change_that_still_moves_data_gives_way_to_a_higher_token(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        me = PeerName("n0", replica.me.incarnation)

        async def change(token: int, added: str) -> OrderStatus:
            peers = [me, PeerName(added, "b")]
            term = replica.raft.status().term
            order = ChangePeers(group=GROUP, term=term, token=token, peers=peers)
            return (await node.orders.execute([order]))[0].status

        assert await change(2, "n1") is OrderStatus.RECEIVED
        assert await change(3, "n2") is OrderStatus.RECEIVED
        status = replica.raft.status()
        assert (status.stage_token, [each.peer.node for each in status.progress]) == (3, ["n2"])
        assert await change(2, "n1") is OrderStatus.STALE
