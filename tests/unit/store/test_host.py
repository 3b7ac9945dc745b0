"""What a node does for its replicas between the disk and the clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.unit.store.one_node import GROUP, OneNode, until
from tests.unit.store.snapshot_pieces import LEADER, configuration, invite, snapshot, supply
from zonequake_protocol.client import Read, Reply, ReplyStatus
from zonequake_store.errors import StorageError
from zonequake_store.raft.core import Raft
from zonequake_store.raft.errors import LogCompacted
from zonequake_store.raft.messages import (
    Entry,
    EntryKind,
    Message,
    MessageKind,
    SnapshotMeta,
    encode_configuration,
)
from zonequake_store.replica import log
from zonequake_store.storage.data_store import DataStore, Flush


@pytest.fixture
def _short_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "RETAINED_ENTRIES", 2)
    monkeypatch.setattr(log, "_STEP_ENTRIES", 1)


@pytest.mark.usefixtures("_short_logs")
async def test_a_log_that_cannot_be_compacted_breaks_its_replica_and_not_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Raft, index: int) -> SnapshotMeta:
        raise LogCompacted(f"entry {index} is gone")

    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        for value in range(5):
            await node.offer(replica, "k", value)
        monkeypatch.setattr(Raft, "snapshot_meta", fail)
        node.host.flushing.flush([replica])
        await until(lambda: GROUP in node.host.broken)
        assert "is gone" in node.host.broken[GROUP][1]


@pytest.mark.usefixtures("_short_logs")
async def test_a_flush_that_ends_while_a_snapshot_is_installed_leaves_the_log_alone(
    tmp_path: Path,
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        first = Entry(1, 1, EntryKind.CONFIGURATION, encode_configuration(configuration(replica)))
        more = tuple(Entry(1, index, EntryKind.NOOP, b"") for index in range(2, 9))
        replica.core_now().step(
            Message(
                kind=MessageKind.APPEND,
                to=replica.me,
                sender=LEADER,
                term=1,
                entries=(first, *more),
                commit=8,
            )
        )
        node.host.wake(replica)
        await until(lambda: replica.partition.index == 8)
        both_wait = threading.Event()
        node.storage.write_data(lambda: _wait_for(both_wait), lambda: None)
        invite(node, replica)
        supply(node, snapshot(replica, index=20, stream=1, parts=1))
        node.host.flushing.flush([replica])  # ends in the same commit as the last piece
        both_wait.set()
        await until(lambda: replica.partition.index == 20 or GROUP in node.host.broken)
        assert node.host.broken == {}
        assert node.failures == []
        assert (replica.log.first_index, replica.durable_index) == (21, 20)


def _wait_for(event: threading.Event) -> None:
    assert event.wait(60)


async def test_what_waits_for_the_disk_ends_when_nothing_is_stored_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: DataStore, __: Iterable[Flush], *, pause: object) -> None:
        raise StorageError("the disk is full")

    async with OneNode(tmp_path) as node:  # which closes the host in the end
        replica = await node.lead()
        monkeypatch.setattr(DataStore, "flush", fail)
        with pytest.raises(StorageError, match="the disk is full"):
            async with asyncio.timeout(60):
                await node.host.flushing.flushed(replica)
        assert node.host.watch.failure == "the disk is full"
        assert GROUP in node.host.broken


async def test_more_reads_than_a_partition_can_hold_are_refused_and_counted_off_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zonequake_store.replica.replica.MAX_WAITING_PER_REPLICA", 3)
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        for _ in range(2):
            replies: list[Reply] = []
            for number in range(5):
                replica.offer(number, Read(GROUP, "k"), replies.append)
            assert [reply.status for reply in replies] == [ReplyStatus.OVERLOADED] * 2
            node.host.wake(replica)
            await until(lambda: len(replies) == 5)  # noqa: B023  it is over within this round
            assert [reply.status for reply in replies[2:]] == [ReplyStatus.OK] * 3
