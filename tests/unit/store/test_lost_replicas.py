"""A replica that can't be started from what is stored says that it is lost."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry

from tests.unit.made_up_nodes import node_identity
from tests.unit.store.one_node import GROUP, MAP_BYTES, OneNode
from zonequake_protocol.admin import (
    OrderStatus,
    ReplicaRole,
    ReplicaStatus,
    StartReplica,
    StopReplica,
)
from zonequake_store.serving.admin_api import AdminApi
from zonequake_store.storage.log_store import LogStore

START = StartReplica(group=GROUP, zone="z", partition=0, partitions=1, token=1, fsync=False)


def told(node: OneNode) -> ReplicaStatus:
    """What the node tells of its one replica."""
    identity = node_identity("n0", process_incarnation="0", storage_incarnation="0", pod_uid="")
    api = AdminApi(
        node.host, node.orders, identity=identity, registry=CollectorRegistry(), guarded=False
    )
    (status,) = api.statuses()
    return status


async def test_one_whose_log_lacks_what_its_state_has_is_lost_until_it_is_erased(
    tmp_path: Path,
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.let_lead(await node.start(fsync=False))
        for value in range(5):
            await node.offer(replica, "k", value)
        await node.host.flushing.flushed(replica)
    log = LogStore(tmp_path / "log-unsynced", map_bytes=MAP_BYTES, sync=False)
    log.drop_tail(replica.record.number, 2, keep_until=0)
    log.close()
    async with OneNode(tmp_path) as node:
        assert (told(node).role, told(node).lost) == (ReplicaRole.WAITING, False)
        assert (await node.orders.execute([START]))[0].status is OrderStatus.FAILED
        assert (told(node).role, told(node).lost) == (ReplicaRole.BROKEN, True)
        assert "the log holds 1 to" in (told(node).broken_reason or "")
        erase = StopReplica(group=GROUP, token=1, incarnation=told(node).incarnation, erase=True)
        await node.orders.execute([erase])
        await node.start(fsync=False)
        assert not told(node).lost
        node.host.break_down(node.host.replicas[GROUP], "rot")
        assert (told(node).role, told(node).lost) == (ReplicaRole.BROKEN, False)
