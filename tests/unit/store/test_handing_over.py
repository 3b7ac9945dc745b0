"""A client of a leader that hands over is told the new leader once there is one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.store.one_node import GROUP, OneNode, until
from tests.unit.store.played_group import N1, N2, PlayedGroup
from zonequake_protocol.client import (
    Append,
    Cas,
    Read,
    Reply,
    ReplyStatus,
    RequestId,
    Transaction,
    Write,
)
from zonequake_store.raft.messages import MessageKind
from zonequake_store.replica.handover import HOLD_TICKS
from zonequake_store.replica.replica import MAX_WAITING_PER_REPLICA

OPERATIONS = [
    Write(GROUP, "k", 1),
    Append(GROUP, "k", 1),
    Cas(GROUP, "k", None, 1),
    Read(GROUP, "k"),
    Transaction(GROUP, [Write(GROUP, "k", 1)], RequestId("c", 1)),
]


@pytest.fixture
async def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PlayedGroup]:
    """Its time passes only when a test says so."""
    monkeypatch.setattr("zonequake_store.node.heartbeats.TICK_S", 3600.0)
    async with OneNode(tmp_path) as node:
        yield await PlayedGroup.led_by_n0(node)


def ask(group: PlayedGroup, operation: Read | Write | Append | Cas | Transaction) -> list[Reply]:
    """The list gets the answer."""
    told: list[Reply] = []
    if group.replica.offer(7, operation, told.append):
        group.node.host.wake(group.replica)
    return told


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: type(each).__name__)
async def test_what_comes_during_a_hand_over_is_answered_when_the_successor_is_heard(
    group: PlayedGroup, operation: Read | Write | Append | Cas | Transaction
) -> None:
    await group.hand_over()
    early = ask(group, operation)
    await asyncio.sleep(0.02)
    await group.candidate(N1)
    late = ask(group, operation)
    await asyncio.sleep(0.02)
    assert (early, late) == ([], [])
    group.leader(N1)
    await until(lambda: bool(early and late))
    for reply in (*early, *late):
        assert (reply.id, reply.status, reply.leader) == (7, ReplyStatus.NOT_LEADER, "n1")
    assert [each.status for each in ask(group, operation)] == [ReplyStatus.NOT_LEADER]


async def test_a_read_whose_round_the_hand_over_cuts_off_is_answered_with_the_successor(
    group: PlayedGroup,
) -> None:
    told = ask(group, Read(GROUP, "k"))
    await asyncio.sleep(0.02)
    await group.hand_over()
    await group.candidate(N1)
    assert told == []
    group.leader(N1)
    await until(lambda: bool(told))
    assert (told[0].status, told[0].leader) == (ReplyStatus.NOT_LEADER, "n1")


async def test_who_was_to_be_succeeded_and_is_elected_again_serves_those_who_wait(
    group: PlayedGroup,
) -> None:
    await group.hand_over()
    await group.candidate(N1)
    told = ask(group, Write(GROUP, "k", 1))
    await group.elect(N2)

    def is_answered() -> bool:
        group.acknowledge(N2)
        return bool(told)

    await until(is_answered)
    assert told[0].status is ReplyStatus.OK


@pytest.mark.parametrize("voted", [False, True])
async def test_no_leader_waits_long_for_a_successor_that_is_not_heard(
    group: PlayedGroup, voted: bool
) -> None:
    await group.hand_over()
    if voted:
        await group.candidate(N1)
    told = ask(group, Write(GROUP, "k", 1))
    await asyncio.sleep(0.02)
    assert told == []
    for _ in range(HOLD_TICKS):
        group.replica.tick()
    assert [each.status for each in told] == [ReplyStatus.NOT_LEADER]
    assert not group.replica.awaits_successor


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: type(each).__name__)
async def test_a_follower_whose_leader_has_ended_answers_when_it_hears_the_next(
    group: PlayedGroup, operation: Read | Write | Append | Cas | Transaction
) -> None:
    await group.hand_over()
    await group.candidate(N1)
    group.leader(N1)
    await until(lambda: group.replica.leader == N1)
    group.node.host.node_ended("n1", "a process")
    await until(lambda: group.replica.leader is None)
    told = ask(group, operation)
    await asyncio.sleep(0)
    assert told == []
    term = group.replica.core_now().term
    group.say(MessageKind.HEARTBEAT, N2, term=term + 1)
    await until(lambda: bool(told))
    assert [(each.status, each.leader) for each in told] == [(ReplyStatus.NOT_LEADER, "n2")]


async def test_a_hand_over_holds_no_more_than_a_leader_does(group: PlayedGroup) -> None:
    await group.hand_over()
    await group.candidate(N1)
    write = Write(GROUP, "k", 1)
    waiting = [ask(group, write) for _ in range(MAX_WAITING_PER_REPLICA)]
    assert not any(waiting)
    assert [each.status for each in ask(group, write)] == [ReplyStatus.NOT_LEADER]


async def test_who_waits_for_a_successor_is_answered_when_the_replica_is_stopped(
    group: PlayedGroup,
) -> None:
    await group.hand_over()
    await group.candidate(N1)
    told = ask(group, Write(GROUP, "k", 1))
    group.node.host.remove(group.replica)
    assert [each.status for each in told] == [ReplyStatus.NOT_HERE]


async def test_a_drain_ends_when_the_successor_is_heard(group: PlayedGroup) -> None:
    draining = asyncio.create_task(group.node.host.drain(60))
    await until(lambda: group.replica.awaits_successor)
    await group.candidate(N1)
    await asyncio.sleep(0.05)
    assert not draining.done()
    group.leader(N1)
    assert await draining
