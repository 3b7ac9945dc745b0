"""Snapshots that arrive: staged, checked, and installed whole or not at all."""

from __future__ import annotations

import asyncio
import threading
import zlib
from pathlib import Path

import msgspec
import pytest

from tests.unit.store.one_node import GROUP, OneNode, until
from tests.unit.store.snapshot_pieces import LEADER, demands, invite, snapshot, supply
from zonequake_store.catch_up import supplied_state
from zonequake_store.catch_up.checkpoints import checkpoint_of
from zonequake_store.catch_up.messages import Demand
from zonequake_store.errors import ProtocolError
from zonequake_store.raft.api import SupplyPeer
from zonequake_store.raft.core import Raft
from zonequake_store.raft.errors import LogCorrupted
from zonequake_store.raft.messages import Message, MessageKind
from zonequake_store.raft.peer_supply import PeerSupply
from zonequake_store.replica.replica import Replica
from zonequake_store.storage.cells import View
from zonequake_store.storage.data_store import DataView
from zonequake_store.storage.directory import begun_stagings


def value_of(replica: Replica) -> object:
    cell = replica.partition.read("k")
    return None if cell is None else cell.value


@pytest.mark.parametrize("volatile", [False, True])
async def test_a_snapshot_that_arrived_whole_is_installed(tmp_path: Path, volatile: bool) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start(volatile=volatile)
        invite(node, replica)
        supply(node, snapshot(replica, index=7, stream=1))
        await until(lambda: value_of(replica) == 7)
        await until(lambda: demands(node)[-1].index == 7)
        staged = [each.staged.sequence for each in demands(node) if each.staged is not None]
        assert staged == sorted(staged)
        assert demands(node)[-1].checkpoint.index == 7, "it says what it holds now"
        await until(lambda: node.storage.data.stagings() == {})


@pytest.mark.parametrize("volatile", [False, True])
async def test_a_snapshot_whose_state_is_not_that_of_its_index_is_asked_for_anew(
    tmp_path: Path, volatile: bool
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start(volatile=volatile)
        invite(node, replica)
        supply(node, snapshot(replica, index=7, stream=1, state_index=6))
        await until(lambda: demands(node)[-1].round == 2)
        assert demands(node)[-1].staged is None
        assert value_of(replica) is None
        await until(lambda: node.storage.data.stagings() == {})


async def test_a_snapshot_that_lacks_pairs_is_asked_for_anew(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        invite(node, replica)
        first, last = snapshot(replica, index=7, stream=1)
        nothing = msgspec.structs.replace(last, content=b"\x90", crc=zlib.crc32(b"\x90"))
        supply(node, [first, nothing])
        await until(lambda: demands(node)[-1].round == 2)
        assert value_of(replica) is None


async def test_a_piece_that_does_not_follow_the_one_before_is_asked_for_again(
    tmp_path: Path,
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        invite(node, replica)
        first, last = snapshot(replica, index=7, stream=1)
        supply(node, [first, msgspec.structs.replace(last, after=b"kz")])
        await until(lambda: demands(node)[-1].round == 2)
        staged = demands(node)[-1].staged
        assert staged is not None
        assert (staged.snapshot, staged.sequence, staged.after) == (1, 1, last.after)
        supply(node, [last])
        await until(lambda: value_of(replica) == 7)


async def test_a_piece_that_was_damaged_on_its_way_is_asked_for_again(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        invite(node, replica)
        pieces = snapshot(replica, index=7, stream=1)
        supply(node, [msgspec.structs.replace(pieces[0], crc=pieces[0].crc ^ 1)])
        assert demands(node)[-1].round == 2
        supply(node, pieces)
        await until(lambda: value_of(replica) == 7)


async def test_pieces_of_two_snapshots_are_not_mixed(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        invite(node, replica)
        supply(node, snapshot(replica, index=7, stream=1)[:1])
        await until(lambda: demands(node)[-1].staged is not None)
        other = snapshot(replica, index=9, stream=2)
        supply(node, other[1:])
        await until(lambda: demands(node)[-1].round == 2)
        supply(node, other)
        await until(lambda: value_of(replica) == 9)


async def test_what_was_staged_goes_on_after_the_node_was_started_again(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        first, last = snapshot(replica, index=7, stream=1)
        invite(node, replica)
        supply(node, [first])
        await until(lambda: demands(node)[-1].staged is not None)
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        invite(node, replica)
        staged = demands(node)[-1].staged
        assert staged is not None
        assert (staged.snapshot, staged.sequence, staged.after) == (1, 1, last.after)
        supply(node, [msgspec.structs.replace(last, to=replica.me)])
        await until(lambda: value_of(replica) == 7)
        assert replica.partition.read("l") is not None


async def test_what_was_staged_for_a_replica_that_is_gone_is_erased_at_the_next_start(
    tmp_path: Path,
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        invite(node, replica)
        supply(node, snapshot(replica, index=7, stream=1)[:1])
        await until(lambda: demands(node)[-1].staged is not None)
        assert begun_stagings(node.storage.data, node.storage.records) == {}
        assert node.storage.data.stagings() == {}


@pytest.mark.parametrize("committing", [False, True])
async def test_a_newer_snapshot_waits_for_the_installation_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, committing: bool
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        invite(node, replica)
        newer = snapshot(replica, index=9, stream=2)
        sent: list[bool] = []
        step = Raft.step

        def send_newer() -> None:
            sent.append(replica.core_now().pending_snapshot is not None)
            supply(node, newer)

        def taken(raft: Raft, message: Message) -> None:
            step(raft, message)
            if message.kind is MessageKind.SNAPSHOT and not sent:
                # The core took it: its turn is due, and then its commit.
                if committing:
                    asyncio.get_running_loop().call_soon(send_newer)
                else:
                    send_newer()

        monkeypatch.setattr(Raft, "step", taken)
        supply(node, snapshot(replica, index=7, stream=1))
        await until(lambda: value_of(replica) == 7 or GROUP in node.host.broken)
        assert node.host.broken == {}
        assert sent == [True]
        await until(lambda: demands(node)[-1].index == 7)
        supply(node, newer)
        await until(lambda: value_of(replica) == 9)
        assert node.storage.data.state(replica.record.data_number).index == 9


async def test_a_piece_whose_content_is_no_pairs_is_an_error_of_the_protocol(
    tmp_path: Path,
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        invite(node, replica)
        piece = snapshot(replica, index=7, stream=1)[0]
        odd = msgspec.structs.replace(piece, content=b"\x91\x01", crc=zlib.crc32(b"\x91\x01"))
        with pytest.raises(ProtocolError):
            supply(node, [odd])
        supply(node, snapshot(replica, index=7, stream=2))
        await until(lambda: value_of(replica) == 7)


async def test_a_log_that_cannot_take_the_snapshot_breaks_the_replica_and_not_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        invite(node, replica)

        def fail(_: Raft, __: Message) -> None:
            raise LogCorrupted("the tail was lost")

        monkeypatch.setattr(Raft, "step", fail)
        supply(node, snapshot(replica, index=7, stream=1))
        await until(lambda: GROUP in node.host.broken)
        assert node.host.broken[GROUP][1] == "the tail was lost"
        assert node.failures == []


async def test_a_state_that_is_no_longer_supplied_stays_open_until_it_has_no_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    reading, allowed = threading.Event(), threading.Event()

    def read(_: View) -> tuple[int, int]:
        reading.set()
        assert allowed.wait(60)
        steps.append("read")
        return 0, 0

    close = DataView.close

    def noted(view: DataView) -> None:
        steps.append("closed")
        close(view)

    monkeypatch.setattr(supplied_state, "measure", read)
    monkeypatch.setattr(DataView, "close", noted)
    monkeypatch.setattr(PeerSupply, "is_open", lambda _, __: True)
    monkeypatch.setattr(PeerSupply, "next_append", lambda _, __, **___: None)
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        catch_up = node.host.catch_up
        catch_up.supply(replica, SupplyPeer(to=LEADER, term=1))
        term = replica.core_now().term
        ask = Demand(
            group=GROUP,
            to=replica.me,
            sender=LEADER,
            term=term,
            round=1,
            index=0,
            log_term=0,
            checkpoint=checkpoint_of(replica.partition),
        )
        catch_up.received(ask)
        await until(reading.is_set)
        catch_up.stop_supplying(replica)
        await asyncio.sleep(0.02)
        assert steps == []
        allowed.set()
        await until(lambda: steps == ["read", "closed"])
