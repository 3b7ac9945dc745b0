"""The client, against real sockets: an outcome says no more than what is certain."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable

import pytest

from tests.unit.load.reference_store import ZONE, Fault, Node, ReferenceStore
from zonequake_load.client.client import Client
from zonequake_load.client.connection import Connection, dialer
from zonequake_load.errors import OutcomeUnknown, TargetError
from zonequake_load.operation import Function, Limits, OnceId, Operation, Outcome, Type
from zonequake_protocol.client import Body, Read, Write, partition_of
from zonequake_protocol.frames import MAX_FRAME_BYTES, header

KEY = "k"
WRITE = Operation(f=Function.WRITE, key=KEY, value=7)
READ = Operation(f=Function.READ, key=KEY)
ONCE = OnceId("c", 1)
PATIENCE_S = (0.3, 3.0, 30.0)
"""Deadlines of an operation that must fail: on a busy machine the first may be over at once."""
OPEN_S = 60.0


class Deadline:
    """A clock that stands still until a test lets an operation's time be over."""

    _at_ns = 1_000 * 10**9

    def __init__(self) -> None:
        self._now_ns = 10**9

    def now_ns(self) -> int:
        return self._now_ns

    def limits(self) -> Limits:
        return Limits(deadline_ns=self._at_ns, attempt_ns=30 * 10**9, retry=True)

    def come(self) -> None:
        self._now_ns = self._at_ns


@pytest.fixture(autouse=True)
def _patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or an attempt goes elsewhere because this process had no turn."""
    monkeypatch.setattr("zonequake_load.client.connection.CONNECT_TIMEOUT_S", 30.0)


@pytest.fixture
async def client(store: ReferenceStore) -> AsyncIterator[Client]:
    opened = Client(ZONE, store.addresses, rng=random.Random(1))
    await opened.open(OPEN_S)
    yield opened
    await opened.close()


@pytest.fixture
def deadline() -> Deadline:
    return Deadline()


@pytest.fixture
async def timed(store: ReferenceStore, deadline: Deadline) -> AsyncIterator[Client]:
    """A client whose operations have the time until `deadline` comes."""
    opened = Client(ZONE, store.addresses, rng=random.Random(1), now_ns=deadline.now_ns)
    await opened.open(OPEN_S)
    yield opened
    await opened.close()


def limits(*, deadline_s: float = 30.0, attempt_s: float = 10.0, retry: bool = True) -> Limits:
    """Returns limits that by themselves no busy machine reaches."""
    return Limits(
        deadline_ns=time.monotonic_ns() + int(deadline_s * 1e9),
        attempt_ns=int(attempt_s * 1e9),
        retry=retry,
    )


def let_a_pause_outlast_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes an operation fail that pauses between two attempts, whatever the news."""
    monkeypatch.setattr("zonequake_load.routing.attempts.PAUSE_MIN_S", 60.0)
    monkeypatch.setattr("zonequake_load.client.client.PAUSE_FLOOR", 1.0)


def let_news_alone_end_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes an operation fail that pauses until its pause is over."""
    monkeypatch.setattr("zonequake_load.routing.attempts.PAUSE_MIN_S", 60.0)
    monkeypatch.setattr("zonequake_load.client.client.PAUSE_FLOOR", 0.0)


def first(fault: Fault, times: int = 1) -> Callable[[Node, Body], Fault | None]:
    """`fault` for the first requests, then none."""
    left = iter([fault] * times)
    return lambda node, body: next(left, None)


def applied(store: ReferenceStore) -> list[int | str]:
    return [value for partition in store.partitions for _, value in partition.applied]


def sinces(store: ReferenceStore) -> list[int]:
    """What the clients had seen by their own word, write by write."""
    bodies = [body for node in store.nodes for body in node.requests if isinstance(body, Write)]
    return [body.request_id.since for body in bodies if body.request_id is not None]


async def test_a_write_that_is_answered_is_ok_and_carries_its_place_in_the_order(
    store: ReferenceStore, client: Client
) -> None:
    outcome = await client.execute(WRITE, limits(), ONCE)
    leader = store.leader_of(KEY)
    assert outcome == Outcome(
        type=Type.OK, attempts=1, node=leader.name, lineage=0, term=1, index=1
    )
    read = await client.execute(READ, limits())
    assert (read.type, read.value, read.index) == (Type.OK, 7, 1)


@pytest.mark.parametrize(
    "fault",
    [
        Fault.RESET_BEFORE_APPLY,
        Fault.RESET_AFTER_APPLY,
        Fault.SILENT_BEFORE_APPLY,
        Fault.SILENT_AFTER_APPLY,
        Fault.UNKNOWN,
        Fault.GARBAGE,
    ],
)
@pytest.mark.parametrize("operation", [WRITE, READ])
async def test_a_single_attempt_that_may_have_happened_is_info(
    store: ReferenceStore, client: Client, fault: Fault, operation: Operation
) -> None:
    # Or connecting might take the whole attempt.
    await client.execute(READ, limits(deadline_s=30, attempt_s=30))
    store.script = first(fault)
    outcome = await client.execute(operation, limits(retry=False, attempt_s=0.1))
    assert outcome.type is Type.INFO
    assert outcome.attempts == 1
    assert outcome.error


@pytest.mark.parametrize("fault", [Fault.OVERLOADED, Fault.INVALID, Fault.NOT_LEADER_WITHOUT_HINT])
async def test_a_single_attempt_that_was_refused_is_fail(
    store: ReferenceStore, client: Client, fault: Fault
) -> None:
    store.script = first(fault)
    outcome = await client.execute(WRITE, limits(retry=False))
    assert outcome.type is Type.FAIL
    assert applied(store) == []


@pytest.mark.parametrize(
    "fault",
    [
        Fault.RESET_BEFORE_APPLY,
        Fault.RESET_AFTER_APPLY,
        Fault.SILENT_AFTER_APPLY,
        Fault.UNKNOWN,
        Fault.OVERLOADED,
        Fault.NOT_LEADER_WITHOUT_HINT,
        Fault.GARBAGE,
    ],
)
async def test_a_named_write_is_retried_until_ok_and_applied_once(
    store: ReferenceStore, client: Client, fault: Fault
) -> None:
    silent = fault is Fault.SILENT_AFTER_APPLY
    store.script = first(fault, times=2)
    outcome = await client.execute(WRITE, limits(attempt_s=0.1 if silent else 10.0), ONCE)
    assert outcome.type is Type.OK
    assert outcome.attempts >= 3
    # After each loss another member may be asked, who names the leader. Silence ends after 0.1 s,
    # which a busy machine's answers exceed, too.
    assert silent or outcome.attempts <= 5
    assert applied(store) == [7]


async def test_a_write_without_a_name_is_sent_once_only(
    store: ReferenceStore, client: Client
) -> None:
    store.script = first(Fault.OVERLOADED)
    await client.execute(WRITE, limits(retry=False))
    assert sum(len(node.requests) for node in store.nodes) == 1


def refused_until(deadline: Deadline, *faults: Fault) -> Callable[[Node, Body], Fault | None]:
    """Returns a script of these faults, and then refusals; the third request is the last in time:
    none is under way when the deadline comes."""
    left = iter(faults)
    asked: list[Node] = []

    def script(node: Node, _: Body) -> Fault | None:
        asked.append(node)
        if len(asked) == 3:
            deadline.come()
        return next(left, Fault.OVERLOADED)

    return script


async def test_one_unsure_attempt_makes_the_whole_operation_info(
    store: ReferenceStore, timed: Client, deadline: Deadline
) -> None:
    store.script = refused_until(deadline, Fault.RESET_AFTER_APPLY)
    outcome = await timed.execute(WRITE, deadline.limits(), ONCE)
    assert (outcome.type, outcome.attempts) == (Type.INFO, 3)
    assert "lost" in (outcome.error or "")
    assert "overloaded" in (outcome.error or "")


async def test_attempts_that_were_all_refused_make_the_operation_fail(
    store: ReferenceStore, timed: Client, deadline: Deadline
) -> None:
    store.script = refused_until(deadline)
    outcome = await timed.execute(WRITE, deadline.limits(), ONCE)
    assert (outcome.type, outcome.attempts) == (Type.FAIL, 3)


async def test_a_forgotten_client_begins_again_behind_what_the_store_has_forgotten(
    store: ReferenceStore, client: Client
) -> None:
    store.script = first(Fault.FORGOTTEN)
    outcome = await client.execute(WRITE, limits(), ONCE)
    assert (outcome.type, outcome.attempts) == (Type.OK, 2)
    assert sinces(store) == [0, 40]


async def test_what_was_seen_of_a_lineage_that_was_given_up_says_nothing_of_the_next(
    store: ReferenceStore, client: Client
) -> None:
    left = iter((Fault.FORGOTTEN, Fault.FORGOTTEN_BEHIND_A_RESET, Fault.FORGOTTEN))
    store.script = lambda node, body: next(left, None)
    outcome = await client.execute(WRITE, limits(), ONCE)
    assert (outcome.type, outcome.attempts) == (Type.OK, 4)
    assert sinces(store) == [0, 40, 7, 7]


async def test_a_retry_keeps_what_its_client_had_seen_at_first_and_ends_when_it_is_forgotten(
    store: ReferenceStore, client: Client
) -> None:
    arrived = asyncio.Event()
    answers = iter([Fault.UNKNOWN])
    later = Fault.OVERLOADED

    def script(node: Node, body: Body) -> Fault | None:
        if node is not store.leader_of(KEY):
            return None  # it refuses: on a busy machine the client may not know its routes yet
        arrived.set()
        return None if isinstance(body, Read) else next(answers, later)

    store.script = script
    unsure = asyncio.create_task(client.execute(WRITE, limits(), ONCE))
    await arrived.wait()
    assert (await client.execute(READ, limits())).index == 1
    later = Fault.FORGOTTEN
    outcome = await unsure
    assert outcome.type is Type.INFO
    assert "forgotten" in (outcome.error or "")
    assert set(sinces(store)) == {0}


async def test_an_invalid_request_is_not_repeated(store: ReferenceStore, client: Client) -> None:
    store.script = lambda node, body: Fault.INVALID
    outcome = await client.execute(WRITE, limits(), ONCE)
    assert (outcome.type, outcome.attempts) == (Type.FAIL, 1)
    assert "not a register" in (outcome.error or "")


async def test_a_refused_connection_is_certainly_not_sent(
    store: ReferenceStore, client: Client
) -> None:
    for node in store.nodes:
        await node.kill()
    # Until the client has heard of it: what is sent before may have arrived.
    connections = client._connections._open.values()
    while any(connection.usable for connection in connections):  # noqa: ASYNC110 - none tells
        await asyncio.sleep(0.01)
    for deadline_s in PATIENCE_S:
        outcome = await client.execute(WRITE, limits(deadline_s=deadline_s), ONCE)
        if outcome.attempts == 0:
            break
    assert (outcome.type, outcome.attempts) == (Type.FAIL, 0)
    probe = await client.execute(WRITE, limits(deadline_s=0.3, retry=False))
    assert (probe.type, probe.attempts) == (Type.FAIL, 0)


async def test_a_hint_is_followed_at_once(
    store: ReferenceStore, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_a_pause_outlast_the_operation(monkeypatch)
    store.routes_follow_leader = False
    partition = partition_of(KEY, 4)
    store.elect(partition, (store.partitions[partition].leader + 1) % 3)
    outcome = await client.execute(WRITE, limits(), ONCE)
    assert (outcome.type, outcome.attempts, outcome.term) == (Type.OK, 2, 2)
    again = await client.execute(READ, limits())
    assert again.attempts == 1


async def test_an_operation_moves_to_the_new_leader_when_it_is_known(
    store: ReferenceStore, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_news_alone_end_a_pause(monkeypatch)
    await client.execute(WRITE, limits(), ONCE)
    partition = partition_of(KEY, 4)
    old = store.partitions[partition].leader
    await store.nodes[old].kill()
    waiting = asyncio.create_task(client.execute(WRITE, limits(), OnceId("c", 2)))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    store.elect(partition, (old + 1) % 3)
    outcome = await waiting
    assert outcome.type is Type.OK


async def test_a_silent_leader_is_left_for_the_new_one(
    store: ReferenceStore, client: Client
) -> None:
    await client.execute(WRITE, limits(), ONCE)
    partition = partition_of(KEY, 4)
    old = store.partitions[partition].leader
    store.nodes[old].paused = True
    waiting = asyncio.create_task(client.execute(WRITE, limits(attempt_s=0.2), OnceId("c", 2)))
    await asyncio.sleep(0.05)
    store.elect(partition, (old + 1) % 3)
    outcome = await waiting
    assert outcome.type is Type.OK
    assert outcome.attempts >= 2, "a busy machine's answer may come late, too"
    assert outcome.node == store.nodes[(old + 1) % 3].name


async def test_after_a_lost_connection_another_member_is_asked_at_once(
    store: ReferenceStore, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_a_pause_outlast_the_operation(monkeypatch)
    await client.execute(WRITE, limits(), ONCE)
    partition = partition_of(KEY, 4)
    old = store.partitions[partition].leader
    asked: list[Node] = []
    store.script = lambda node, body: asked.append(node)
    await store.nodes[old].kill()
    store.elect(partition, (old + 1) % 3)
    outcome = await client.execute(WRITE, limits(), OnceId("c", 2))
    assert outcome.type is Type.OK
    assert store.nodes[old] not in asked
    assert len(asked) <= 2, "the new leader, or one who names it and then the new leader"


async def test_a_probe_finds_the_new_leader_through_the_background_refresh(
    store: ReferenceStore, client: Client
) -> None:
    partition = partition_of(KEY, 4)
    old = store.partitions[partition].leader
    await store.nodes[old].kill()
    store.elect(partition, (old + 1) % 3)
    await client.execute(READ, limits(retry=False, deadline_s=0.5))
    async with asyncio.timeout(60):
        while client.table.leader(partition) != store.leader_of(KEY).address:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    outcome = await client.execute(READ, limits(retry=False))
    assert (outcome.type, outcome.attempts) == (Type.OK, 1)


async def test_a_probe_after_a_lost_connection_asks_the_same_leader_at_once(
    store: ReferenceStore, client: Client
) -> None:
    store.script = first(Fault.RESET_BEFORE_APPLY)
    lost = await client.execute(READ, limits(retry=False))
    assert lost.type is Type.INFO
    outcome = await client.execute(READ, limits(retry=False))
    assert (outcome.type, outcome.attempts) == (Type.OK, 1)


async def test_two_nodes_that_name_each_other_are_not_asked_without_pause(
    store: ReferenceStore, client: Client
) -> None:
    partition = store.partitions[partition_of(KEY, 4)]

    def swap(node: Node, body: Body) -> Fault | None:
        partition.leader = (node.number + 1) % 2
        return None

    store.script = swap
    outcome = await client.execute(WRITE, limits(deadline_s=0.5), ONCE)
    assert outcome.type is not Type.OK
    assert outcome.attempts < 100  # without the pause: thousands


async def test_many_operations_share_one_connection_and_all_end(
    store: ReferenceStore, client: Client
) -> None:
    keys = [f"key-{n}" for n in range(500)]
    outcomes = await asyncio.gather(
        *(
            client.execute(
                Operation(f=Function.WRITE, key=key, value=n + 1),
                limits(deadline_s=30, attempt_s=30),
                OnceId("c", n + 1),
            )
            for n, key in enumerate(keys)
        )
    )
    assert {outcome.type for outcome in outcomes} == {Type.OK}
    assert sorted(applied(store)) == list(range(1, 501))


async def test_a_node_that_comes_back_under_the_same_address_is_used_again(
    store: ReferenceStore, client: Client
) -> None:
    await client.execute(WRITE, limits(), ONCE)
    leader = store.leader_of(KEY)
    await leader.kill()
    outcome = await client.execute(WRITE, limits(deadline_s=0.2), OnceId("c", 2))
    assert outcome.type is not Type.OK
    await leader.start()
    outcome = await client.execute(WRITE, limits(), OnceId("c", 3))
    assert outcome.type is Type.OK


async def test_an_unknown_zone_is_named_with_what_to_check(store: ReferenceStore) -> None:
    lost = Client("nowhere", store.addresses, rng=random.Random(1))
    with pytest.raises(TargetError, match="zone 'nowhere'"):
        await lost.open(timeout_s=0.3)


async def test_reads_asked_of_any_replica_reach_followers_and_end_at_the_leader(
    store: ReferenceStore,
) -> None:
    anywhere = Client(ZONE, store.addresses, rng=random.Random(1), reads_anywhere=True)
    await anywhere.open(OPEN_S)
    await anywhere.execute(WRITE, limits(), ONCE)
    outcomes = [await anywhere.execute(READ, limits()) for _ in range(12)]
    await anywhere.close()
    leader = store.leader_of(KEY)
    assert {(outcome.type, outcome.value, outcome.node) for outcome in outcomes} == {
        (Type.OK, 7, leader.name)
    }
    for node in store.nodes:
        assert [body for body in node.requests if isinstance(body, Read)]


async def test_a_reply_that_is_too_long_leaves_it_open_what_became_of_the_request() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(header(MAX_FRAME_BYTES + 1))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    address = f"{host}:{port}"
    connection = await dialer(None)(address, lambda: Connection(address))
    with pytest.raises(
        OutcomeUnknown, match=f"^{address} sent a frame of {MAX_FRAME_BYTES + 1} bytes$"
    ):
        await connection.request(Read("g", "k"), 30)
    server.close()
