"""A stop order leaves nothing under way that could meet the replica's successor."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.unit.store.one_node import GROUP, OneNode, until
from tests.unit.store.snapshot_pieces import demands, invite, snapshot, supply
from zonequake_protocol.admin import OrderStatus, StartReplica, StopReplica
from zonequake_store.node.flushing import Flushing
from zonequake_store.raft.core import Raft
from zonequake_store.raft.messages import Message, MessageKind
from zonequake_store.replica.replica import Replica
from zonequake_store.state.client_table import ClientTable
from zonequake_store.state.partition import AppliedState, StateMachine
from zonequake_store.state.transactions import TransactionTable
from zonequake_store.storage.cells import Overlay
from zonequake_store.storage.data_store import DataStore, Flush


def stop(replica: Replica, *, token: int = 1, erase: bool = False) -> StopReplica:
    return StopReplica(group=GROUP, token=token, incarnation=replica.me.incarnation, erase=erase)


async def test_a_stop_waits_for_the_flush_that_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A successor that read the state before the flush came would apply its entries once more.
    flush, allowed = DataStore.flush, threading.Semaphore(0)

    def slow(store: DataStore, flushes: Iterable[Flush], *, pause: Callable[[], object]) -> None:
        assert allowed.acquire(timeout=60)
        flush(store, flushes, pause=pause)

    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        await node.offer(replica, "k", 1)
        monkeypatch.setattr(DataStore, "flush", slow)
        stopping = asyncio.create_task(node.orders.execute([stop(replica)]))
        await until(lambda: replica.flushing)
        await node.offer(replica, "k", 2)
        first = replica.durable_index

        def flush_again(cells: Overlay) -> None:
            """What the timer does, or a large write."""
            monkeypatch.undo()
            monkeypatch.setattr(DataStore, "flush", slow)
            cells.end_flush()
            asyncio.get_running_loop().call_soon(node.host.flushing.flush, [replica])

        monkeypatch.setattr(Overlay, "end_flush", flush_again)
        allowed.release()
        await until(lambda: replica.durable_index > first)
        await asyncio.sleep(0.05)
        assert not stopping.done()
        allowed.release()
        (reply,) = await stopping
        assert reply.status is OrderStatus.RECEIVED
        stored = node.storage.data.state(replica.record.data_number)
        assert stored.index == replica.partition.index


async def test_a_stop_does_not_wait_for_a_state_that_a_shorter_lineage_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise every order to the node would wait behind it, until that lineage has grown.
    flush, allowed = DataStore.flush, threading.Semaphore(0)

    def slow(store: DataStore, flushes: Iterable[Flush], *, pause: Callable[[], object]) -> None:
        assert allowed.acquire(timeout=60)
        flush(store, flushes, pause=pause)

    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        await node.offer(replica, "k", 1)
        monkeypatch.setattr(DataStore, "flush", slow)
        stopping = asyncio.create_task(node.orders.execute([stop(replica)]))
        await until(lambda: replica.flushing)
        cells = Overlay(node.storage.data, node.storage.new_number())
        shorter = StateMachine(
            cells,
            clients=ClientTable(),
            transactions=TransactionTable(),
            state=AppliedState(index=1, term=1),
        )
        assert shorter.index < replica.partition.index
        replica.replace_state(cells, shorter)
        monkeypatch.undo()
        allowed.release()
        async with asyncio.timeout(10):
            (reply,) = await stopping
        assert reply.status is OrderStatus.RECEIVED


async def test_a_stop_raises_the_token_that_a_start_must_have(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start(token=3)
        await node.orders.execute([stop(replica, token=5)])
        late = StartReplica(group=GROUP, zone="z", partition=0, partitions=1, token=4)
        (reply,) = await node.orders.execute([late])
        assert reply.status is OrderStatus.STALE


async def test_nothing_is_left_of_a_replica_that_is_erased_while_a_snapshot_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        invite(node, replica)
        supply(node, snapshot(replica, index=7, stream=1))
        await until(lambda: replica.partition.index == 7)
        installed = replica.record.data_number
        stopping: list[asyncio.Task[object]] = []

        def stop_in_the_commit() -> None:
            stopping.append(asyncio.create_task(node.orders.execute([stop(replica, erase=True)])))

        step = Raft.step

        def taken(raft: Raft, message: Message) -> None:
            step(raft, message)
            if message.kind is MessageKind.SNAPSHOT:
                asyncio.get_running_loop().call_soon(stop_in_the_commit)

        monkeypatch.setattr(Raft, "step", taken)
        await until(lambda: demands(node)[-1].index == 7)
        supply(node, snapshot(replica, index=9, stream=2))
        await until(lambda: bool(stopping))
        await stopping[0]
        assert replica.record.data_number != installed, "an installation had begun"
        await until(lambda: node.storage.data.numbers() == set())


async def test_a_replica_that_breaks_while_it_is_stopped_stays_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()

        async def rot(_: Flushing, broken: Replica) -> None:
            node.host.break_down(broken, "rot")

        monkeypatch.setattr(Flushing, "flushed", rot)
        await node.orders.execute([stop(replica)])
        assert (set(node.host.broken), set(node.host.waiting)) == ({GROUP}, set())
