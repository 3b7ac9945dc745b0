"""Snapshots that arrive: staged, checked, and installed whole or not at all."""

from __future__ import annotations

import asyncio
import threading
import zlib
from pathlib import Path

import msgspec
import pytest
from one_node import GROUP, OneNode, until
from snapshot_pieces import LEADER, snapshot

from zonequake_store import snapshots
from zonequake_store.data_store import DataView, View
from zonequake_store.errors import ProtocolError
from zonequake_store.peer_protocol import Frame, SnapshotAck
from zonequake_store.raft.api import SendSnapshot
from zonequake_store.raft.core import Raft
from zonequake_store.raft.errors import LogCorrupted
from zonequake_store.raft.messages import Message
from zonequake_store.replica import Replica


def value_of(replica: Replica) -> object:
    cell = replica.partition.read("k")
    return None if cell is None else cell.value


@pytest.mark.parametrize("volatile", [False, True])
async def test_a_snapshot_that_arrived_whole_is_installed(tmp_path: Path, volatile: bool) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start(volatile=volatile)
        for piece in snapshot(replica, index=7, stream=1):
            node.host.snapshots.received(piece)
        await until(lambda: value_of(replica) == 7)
        assert [ack.following for ack in node.line.acks()] == [1, 2]


@pytest.mark.parametrize("volatile", [False, True])
async def test_a_snapshot_whose_state_is_not_that_of_its_index_is_refused(
    tmp_path: Path, volatile: bool
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start(volatile=volatile)
        for piece in snapshot(replica, index=7, stream=1, state_index=6):
            node.host.snapshots.received(piece)
        await until(lambda: any(ack.refused for ack in node.line.acks()))
        assert "index 6" in (node.line.acks()[-1].refused or "")
        assert value_of(replica) is None
        assert replica.staging is None


@pytest.mark.parametrize("committing", [False, True])
async def test_a_new_stream_waits_for_the_installation_of_the_one_before(
    tmp_path: Path, committing: bool
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        newer = snapshot(replica, index=9, stream=2)

        def send_newer() -> None:
            node.line.on_sent = None
            for piece in newer:
                node.host.snapshots.received(piece)

        def staged_whole(frame: Frame) -> None:
            if isinstance(frame, SnapshotAck) and frame.following == 2:
                # The core took it: its turn is due, and then its commit.
                if committing:
                    asyncio.get_running_loop().call_soon(send_newer)
                else:
                    send_newer()

        node.line.on_sent = staged_whole
        for piece in snapshot(replica, index=7, stream=1):
            node.host.snapshots.received(piece)
        await until(lambda: value_of(replica) == 7 or GROUP in node.host.broken)
        assert node.host.broken == {}
        assert [ack.refused for ack in node.line.acks()] == [None, None]
        for piece in newer:  # the sender repeats what nobody acknowledged
            node.host.snapshots.received(piece)
        await until(lambda: value_of(replica) == 9)
        assert node.storage.data.state(replica.record.data_number).index == 9


async def test_a_piece_whose_content_is_no_pairs_is_an_error_of_the_protocol(
    tmp_path: Path,
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        piece = snapshot(replica, index=7, stream=1)[0]
        odd = msgspec.structs.replace(piece, content=b"\x91\x01", crc=zlib.crc32(b"\x91\x01"))
        with pytest.raises(ProtocolError):
            node.host.snapshots.received(odd)
        for whole in snapshot(replica, index=7, stream=2):
            node.host.snapshots.received(whole)
        await until(lambda: value_of(replica) == 7)


async def test_a_log_that_cannot_take_the_snapshot_breaks_the_replica_and_not_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()

        def fail(_: Raft, __: Message) -> None:
            raise LogCorrupted("the tail was lost")

        monkeypatch.setattr(Raft, "step", fail)
        for piece in snapshot(replica, index=7, stream=1):
            node.host.snapshots.received(piece)
        await until(lambda: GROUP in node.host.broken)
        assert node.host.broken[GROUP][1] == "the tail was lost"
        assert node.failures == []


async def test_a_stream_that_is_stopped_leaves_its_view_open_until_nobody_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    reading, allowed = threading.Event(), threading.Event()

    def read(_: View) -> int:
        reading.set()
        assert allowed.wait(5)
        steps.append("read")
        return 0

    close = DataView.close

    def noted(view: DataView) -> None:
        steps.append("closed")
        close(view)

    monkeypatch.setattr(snapshots, "_size_bytes", read)
    monkeypatch.setattr(DataView, "close", noted)
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        node.host.snapshots.send(replica, SendSnapshot(to=LEADER, term=1))
        await until(reading.is_set)
        node.host.snapshots.stop_sending(replica)
        await asyncio.sleep(0.02)
        assert steps == []
        allowed.set()
        await until(lambda: steps == ["read", "closed"])
