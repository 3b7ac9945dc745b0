"""What a node tells Prometheus of the writes that it answered, each once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.unit.store.one_node import GROUP, OneNode
from zonequake_protocol.client import Append, Cas, Reply, ReplyStatus, RequestId, Write
from zonequake_store.replica.replica import Replica
from zonequake_store.serving.metrics import NodeCollector
from zonequake_store.state.commands import SetCommand


def told(node: OneNode) -> dict[tuple[str, str], float]:
    """Answered writes by zone and kind of request."""
    return {
        (sample.labels["zone"], sample.labels["request"]): sample.value
        for metric in NodeCollector(node.host, list).collect()
        for sample in metric.samples
        if sample.name == "zonequake_store_writes_answered_total"
    }


async def answered(node: OneNode, replica: Replica, request: Write | Append | Cas) -> Reply:
    done: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    if replica.offer(1, request, done.set_result):
        node.host.wake(replica)
    async with asyncio.timeout(60):
        return await done


async def test_each_write_that_is_answered_counts_once_and_its_repetition_apart(
    tmp_path: Path,
) -> None:
    async with OneNode(tmp_path) as node:
        assert told(node) == {}
        replica = await node.lead()
        assert told(node) == {("z", "first"): 0, ("z", "repeated"): 0}
        request_id = RequestId("c", 1)
        for request in (
            Write(GROUP, "k", 1, b"", request_id),
            Write(GROUP, "k", 1, b"", request_id),
            Append(GROUP, "l", 1),
            Cas(GROUP, "k", 7, 8),
        ):
            assert (await answered(node, replica, request)).status is ReplyStatus.OK
        assert told(node) == {("z", "first"): 3, ("z", "repeated"): 1}


async def test_writes_that_are_refused_or_that_no_client_asked_for_do_not_count(
    tmp_path: Path,
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        await answered(node, replica, Append(GROUP, "l", 1))
        refused = await answered(node, replica, Write(GROUP, "l", 1))
        assert refused.status is ReplyStatus.INVALID
        await node.propose(SetCommand("k", 1))
        assert told(node)["z", "first"] == 1


async def test_the_count_stays_when_the_replica_goes_and_another_one_comes(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        await answered(node, replica, Append(GROUP, "l", 1))
        node.host.remove(replica)
        assert told(node)["z", "first"] == 1
        node.host.add(replica)
        assert told(node)["z", "first"] == 1
