"""What a replica says of itself: alive, user inputs, and by a fake start."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from tests.unit.store.one_node import GROUP, OneNode, until
from zonequake_operator.high_availability.chain import UnjudgedLink, UnwoundChain, unwind
from zonequake_operator.resources.model import AssignmentsLink
from zonequake_protocol.admin import (
    InspectReplica,
    OrderReply,
    OrderStatus,
    PeerName,
    ReplicaRole,
    ReplicaStatus,
    ResetPeers,
)
from zonequake_protocol.client import Read, Reply, ReplyStatus, RequestId
from zonequake_protocol.terms import term_of
from zonequake_store.raft.messages import Configuration, Message, MessageKind, Peer, SnapshotMeta
from zonequake_store.replica.replica import Replica
from zonequake_store.replica.status import replica_status
from zonequake_store.state.commands import AppendCommand, CasCommand, Command, SetCommand
from zonequake_store.state.transactions import (
    CommitCommand,
    DecideCommand,
    ForgetCommand,
    PrepareCommand,
    RefuseCommand,
    RollbackCommand,
    StepKind,
    TransactionId,
    TransactionStep,
)


async def inspect(node: OneNode) -> OrderReply:
    return (await node.orders.execute([InspectReplica(group=GROUP)]))[0]


def facts(status: ReplicaStatus) -> tuple[int, ...]:
    return (
        status.term,
        status.commit,
        status.applied,
        status.last_index,
        status.last_user_term,
        status.last_user_index,
        status.last_configuration_term,
        status.last_configuration_index,
        status.lwm,
    )


async def write(node: OneNode, replica: Replica, count: int) -> None:
    for value in range(count):
        assert (await node.offer(replica, "k", value)).status is ReplyStatus.OK


async def test_a_replica_is_alive_once_its_group_had_a_leader_since_it_started(
    tmp_path: Path,
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        assert not replica_status(replica).is_alive
        replica = await node.lead()
        assert replica_status(replica).is_alive
    async with OneNode(tmp_path) as node:
        assert not replica_status(await node.start()).is_alive, "not since this start"


async def test_user_inputs_are_told_from_configurations_by_term_and_index(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        status = replica_status(replica)
        assert (status.last_user_term, status.last_user_index) == (0, 0)
        assert (status.last_configuration_term, status.last_configuration_index) == (1, 1), (
            "the leader's first entry only repeats the configuration"
        )
        assert not status.has_user_inputs(1, 1)
        term = status.term  # on a busy machine not the first election's
        await write(node, replica, 2)
        status = replica_status(replica)
        assert (status.last_user_term, status.last_user_index) == (term, 4)
        assert status.has_user_inputs(1, 1)
        assert status.has_user_inputs(term, 3)
        assert not status.has_user_inputs(term, 4)
        assert not status.has_user_inputs(term_of(5, 1), 1), "a later lineage is above all of it"


async def test_a_reset_is_a_change_of_configuration_though_its_member_stays(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        me = PeerName("n0", replica.me.incarnation)
        await node.bootstrap([me, PeerName("n1", "b")])
        reset = ResetPeers(group=GROUP, term=1, token=4, peers=[me])
        assert (await node.orders.execute([reset]))[0].status is OrderStatus.RECEIVED
        await until(lambda: replica.partition.lineage == 4)
        status = replica_status(replica)
        at = (status.last_configuration_term, status.last_configuration_index)
        assert at == (term_of(4, 2), 2)


async def test_a_fake_start_replays_what_is_committed_and_changes_nothing(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        await write(node, replica, 5)
        ran = facts(replica_status(replica))
    async with OneNode(tmp_path) as node:
        before = node.storage.log_used_bytes
        first, second = await inspect(node), await inspect(node)
        assert first == second
        found = first.replica
        assert found is not None
        assert found.role is ReplicaRole.WAITING
        assert not found.is_alive
        # The commit index is stored with the next other write: the replay may stop before the end.
        assert (found.term, found.last_index, found.last_user_index) == (ran[0], ran[3], ran[5])
        assert found.commit == found.applied <= ran[1]
        assert node.line.sent == []
        assert node.storage.log_used_bytes == before
        assert GROUP in node.host.waiting
        assert GROUP not in node.host.replicas
        await asyncio.sleep(0.25)
        assert node.line.sent == [], "it gets no ticks"
        replica = await node.start()
        assert replica.core_now().status().term == found.term, "no election, no vote"


async def test_the_last_user_entry_is_that_of_the_log_committed_or_not(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        me = PeerName("n0", replica.me.incarnation)
        await node.bootstrap([me, PeerName("n1", "b")])
        # A leader of the group, played by the test, has sent entries that were not committed.
        await node.append_from("n1", commands=3)
        status = replica_status(replica)
        assert (status.applied, status.last_user_index) == (0, 4)
        assert status.has_user_inputs(1, 1)
    async with OneNode(tmp_path) as node:
        found = (await inspect(node)).replica
        assert found is not None
        assert (found.last_user_term, found.last_user_index) == (3, 4)


TRANSACTION = TransactionId("z.00000000.1", 1, 1)
STEPS = (TransactionStep(StepKind.WRITE, "k", 1),)
REQUEST = RequestId("c", 1)
CLIENTS: dict[str, Command] = {
    "set": SetCommand("k", 1),
    "a cas that finds another value": CasCommand("k", 9, 1),
    "append": AppendCommand("list", 1),
    "prepare": PrepareCommand(TRANSACTION, 0, (), STEPS),
    "decide": DecideCommand(TRANSACTION, REQUEST, (), ()),
    "refuse": RefuseCommand(TRANSACTION, REQUEST, 1),
    "commit": CommitCommand(TRANSACTION),
}
LEADERS: dict[str, Command] = {
    "rollback": RollbackCommand(TRANSACTION),
    "forget": ForgetCommand((TRANSACTION,)),
}


def test_each_command_of_the_log_is_a_clients_or_a_leaders_own() -> None:
    known = {type(command) for command in (*CLIENTS.values(), *LEADERS.values())}
    assert known == set(get_args(Command))


@pytest.mark.parametrize("name", [*CLIENTS, *LEADERS])
async def test_a_leaders_bookkeeping_is_no_user_input_and_what_a_client_was_promised_is(
    tmp_path: Path, name: str
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        await write(node, replica, 1)
        before = replica_status(replica)
        await node.propose((CLIENTS | LEADERS)[name])
        after = replica_status(replica)
        assert after.applied == before.applied + 1
        assert after.has_user_inputs(before.last_term, before.last_index) is (name in CLIENTS)
    async with OneNode(tmp_path) as node:
        found = (await inspect(node)).replica
        assert found is not None
        last = after.last_index if name in CLIENTS else before.last_user_index
        assert found.last_index == after.last_index
        assert found.last_user_index == last


async def test_uncommitted_bookkeeping_is_no_user_input_either(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        me = PeerName("n0", replica.me.incarnation)
        await node.bootstrap([me, PeerName("n1", "b")])
        await node.append_from("n1", commands=2, bookkeeping=list(LEADERS.values()) * 20)
        status = replica_status(replica)
        assert (status.applied, status.last_index, status.last_user_index) == (0, 43, 3)


async def test_an_unwind_passes_a_link_under_which_only_bookkeeping_was_written(
    tmp_path: Path,
) -> None:
    """n0 was reset alone and told its participants of decisions; then all nodes were stopped."""
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        await write(node, replica, 1)
        alone = replica_status(replica)
        chain = (
            AssignmentsLink(nodes=("n0", "n1", "n2"), term=1, index=1),
            AssignmentsLink(nodes=("n0",), term=alone.last_term, index=alone.last_index),
        )

        def target() -> UnwoundChain | UnjudgedLink:
            held = msgspec.structs.replace(alone, last_user_index=alone.last_user_index + 1)
            return unwind(chain, {"n0": replica_status(replica), "n1": held, "n2": None})

        await node.propose(*LEADERS.values())
        assert target() == UnwoundChain(link=0, source="n1")
        await write(node, replica, 1)
        assert target() == UnwoundChain(link=1, source="n0")


async def test_a_running_replica_is_inspected_as_it_is_and_a_missing_one_is_not_here(
    tmp_path: Path,
) -> None:
    async with OneNode(tmp_path) as node:
        assert (await inspect(node)).status is OrderStatus.NOT_HERE
        replica = await node.lead()
        reply = await inspect(node)
        assert reply.replica == replica_status(replica)


# bounded reads


def read(replica: Replica, max_staleness_ms: int) -> Reply:
    replies: list[Reply] = []
    order = Read(GROUP, "k", bounded=True, max_staleness_ms=max_staleness_ms)
    assert not replica.offer(1, order, replies.append)
    return replies[0]


async def test_a_bounded_read_is_answered_only_within_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        await write(node, replica, 1)
        await until(lambda: replica.core_now().fresh_since_ms() is not None)
        assert read(replica, 10_000).value == 0
        now = replica._clock_ms()
        monkeypatch.setattr(replica, "_clock_ms", lambda: now + 20_000)
        late = read(replica, 10_000)
        assert late.status is ReplyStatus.STALE
        assert "the read allows 10000 ms" in (late.error or "")
        assert read(replica, 0).value == 0, "no bound: whatever is here"
        assert read(replica, -1).status is ReplyStatus.INVALID


async def test_a_state_ages_while_the_machine_is_suspended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        await write(node, replica, 1)
        await until(lambda: replica.core_now().fresh_since_ms() is not None)
        assert read(replica, 10_000).value == 0
        clock = time.clock_gettime

        def after_sleep(which: int) -> float:
            return clock(which) + (20.0 if which == time.CLOCK_BOOTTIME else 0.0)

        monkeypatch.setattr(time, "clock_gettime", after_sleep)
        assert read(replica, 10_000).status is ReplyStatus.STALE


async def test_a_replica_that_no_leader_vouches_for_answers_no_bounded_read(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        assert read(replica, 60_000).status is ReplyStatus.STALE
        assert read(replica, 0).status is ReplyStatus.OK


async def test_a_state_of_an_older_lineage_answers_no_read_at_all(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        replica.core_now().enforce(5)
        assert read(replica, 0).status is ReplyStatus.STALE


async def test_a_log_of_the_new_lineage_makes_no_state_of_it(tmp_path: Path) -> None:
    """The snapshot that brings the state is staged, and being stored."""
    async with OneNode(tmp_path) as node:
        replica = await node.lead()
        await write(node, replica, 3)
        assert read(replica, 0).value == 2
        alone = Configuration(peers=(Peer("n1", "b"),), token=5, lineage=5)
        replica.core_now().step(
            Message(
                kind=MessageKind.SNAPSHOT,
                to=replica.me,
                sender=Peer("n1", "b"),
                term=term_of(5, 9),
                snapshot=SnapshotMeta(4, term_of(5, 9), alone, 4),
            )
        )
        assert not replica.core_now().abstains
        assert read(replica, 0).status is ReplyStatus.STALE
