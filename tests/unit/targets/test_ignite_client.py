"""The load's client of Ignite, against a node that is pretended: what it says of an outcome."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from unittest.mock import Mock

import pytest

from tests.unit.targets.pretended_ignite import CMN_65535, TX_4, ZONE, PretendedNode
from zonequake_load.errors import NotSent, TargetError
from zonequake_load.operation import Function, Limits, Operation, Outcome, Type
from zonequake_load.pod.control import ReadsAt
from zonequake_load.targets.context import ClientContext
from zonequake_target_ignite.client import connect
from zonequake_target_ignite.client.protocol.messages import TX_ROLLBACK
from zonequake_target_ignite.client.target import IgniteTarget, MisplacedKey
from zonequake_target_ignite.client.wire import NodeConnection

PATIENCE_MS = 60_000


@pytest.fixture(autouse=True)
def _patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zonequake_target_ignite.client.wire.CONNECT_TIMEOUT_S", 30.0)
    monkeypatch.setattr("zonequake_load.targets.member_client.OPEN_TIMEOUT_S", 60.0)
    monkeypatch.setattr("zonequake_load.targets.member_client.CHECK_TIMEOUT_S", 30.0)


@pytest.fixture
async def node() -> AsyncIterator[PretendedNode]:
    node = PretendedNode()
    await node.start()
    yield node
    await node.stop()


@pytest.fixture
async def target(node: PretendedNode) -> AsyncIterator[IgniteTarget]:
    target = made(node)
    node.rows["placed"] = "0"  # so that the placement is checked at once
    await target.open()
    node.rows.clear()
    node.asked.clear()
    yield target
    await target.close()


def made(*nodes: PretendedNode) -> IgniteTarget:
    context = ClientContext(
        zone=ZONE,
        seeds=[node.address for node in nodes],
        reads_at=ReadsAt.LEADER,
        rng=random.Random(7),
    )
    return connect(context)


async def ask(
    target: IgniteTarget,
    f: Function,
    key: str = "k",
    *,
    value: int | None = None,
    expected: int | None = None,
    bounded: bool = False,
    filler: bytes = b"",
    attempt_ms: int = PATIENCE_MS,
    retry: bool = True,
) -> Outcome:
    deadline_ns = time.monotonic_ns() + PATIENCE_MS * 1_000_000
    limits = Limits(deadline_ns=deadline_ns, attempt_ns=attempt_ms * 1_000_000, retry=retry)
    operation = Operation(
        f=f, key=key, value=value, expected=expected, bounded=bounded, filler=filler
    )
    return await target.execute(operation, limits)


async def test_operations_do_what_they_say(target: IgniteTarget, node: PretendedNode) -> None:
    written = await ask(target, Function.WRITE, value=1)
    assert (written.type, written.node, written.index) == (Type.OK, "n1", None)
    assert (await ask(target, Function.READ)).value == 1
    refused = await ask(target, Function.CAS, value=3, expected=2)
    assert (refused.type, refused.applied, refused.value) == (Type.OK, False, 1)
    assert (await ask(target, Function.CAS, value=3, expected=1)).applied is True
    assert (await ask(target, Function.CAS, "new", value=4)).applied is True
    there = await ask(target, Function.CAS, "new", value=5)
    assert (there.applied, there.value) == (False, 4)
    for value in (7, 8):
        await ask(target, Function.APPEND, "list", value=value)
    assert (await ask(target, Function.READ, "list")).value == [7, 8]
    assert (await ask(target, Function.READ, "absent")).value is None
    await ask(target, Function.WRITE, "filled", value=9, filler=b"\x80" * 100)
    assert (await ask(target, Function.CAS, "filled", value=10, expected=9)).applied is True
    assert (node.rows["filled"], node.fillers["filled"]) == ("10", b"\x80" * 100)
    assert node.open_transactions == set()


async def test_an_operation_asks_for_one_row_at_a_time_and_begins_no_transaction(
    target: IgniteTarget, node: PretendedNode
) -> None:
    """A statement of SQL is planned, may lock a whole partition, and goes on when given up."""
    assert (await ask(target, Function.WRITE, value=1)).attempts == 1
    assert (await ask(target, Function.READ)).attempts == 1
    assert node.asked == ["UPSERT", "GET"]
    node.asked.clear()
    assert (await ask(target, Function.APPEND, "list", value=1)).attempts == 2
    assert (await ask(target, Function.APPEND, "list", value=2)).attempts == 2
    assert (await ask(target, Function.CAS, value=2, expected=1)).attempts == 2
    assert node.asked == ["GET", "INSERT", "GET", "REPLACE", "GET", "REPLACE"]
    assert node.begun == 0


async def test_a_key_that_another_creates_meanwhile_is_changed(
    target: IgniteTarget, node: PretendedNode
) -> None:
    node.meanwhile = [("k", "1,")]
    assert (await ask(target, Function.APPEND, value=2)).type is Type.OK
    assert node.rows["k"] == "1,2,"
    assert node.asked == ["GET", "INSERT", "GET", "REPLACE"]


async def test_a_row_that_another_changes_meanwhile_is_read_again(
    target: IgniteTarget, node: PretendedNode
) -> None:
    node.rows["k"] = "2"
    node.meanwhile = [("k", "1"), ("k", "2")]
    refused = await ask(target, Function.CAS, value=3, expected=2)
    assert (refused.applied, refused.value) == (False, 1)
    node.rows["k"] = "2"
    once = await ask(target, Function.CAS, value=3, expected=2, retry=False)
    assert (once.type, once.applied) == (Type.OK, True)
    node.meanwhile = [("k", "4")]
    between = await ask(target, Function.CAS, value=5, expected=3, retry=False)
    assert (between.type, "another write came between" in str(between.error)) == (Type.FAIL, True)


async def test_a_certain_error_is_tried_again_and_an_unknown_one_is_not(
    target: IgniteTarget, node: PretendedNode
) -> None:
    node.fails = TX_4
    failed = await ask(target, Function.WRITE, value=1, retry=False)
    assert (failed.type, "IGN-TX-4" in str(failed.error)) == (Type.FAIL, True)
    node.fails, node.asked = CMN_65535, []
    unknown = await ask(target, Function.WRITE, value=1)
    assert (unknown.type, node.asked) == (Type.INFO, ["UPSERT"])


async def test_a_lost_answer_is_unknown_and_a_read_is_asked_for_again(
    target: IgniteTarget, node: PretendedNode
) -> None:
    node.rows["k"] = "1"
    node.loses = True
    lost = await ask(target, Function.WRITE, value=2, attempt_ms=200)
    assert (lost.type, node.rows["k"], node.asked) == (Type.INFO, "2", ["UPSERT"])
    reading = asyncio.create_task(ask(target, Function.READ, attempt_ms=500))
    await asyncio.sleep(0.6)
    node.loses = False
    assert (await reading).value == 2


async def test_a_request_that_waits_takes_no_other_with_it(node: PretendedNode) -> None:
    """One partition without a primary replica must not end the requests of the others."""
    target = made(node)
    await target.open()
    node.loses = True
    waiting = asyncio.create_task(ask(target, Function.WRITE, "a", value=1, attempt_ms=500))
    await node.changing.wait()
    node.loses = False
    assert (await ask(target, Function.WRITE, "b", value=2)).type is Type.OK
    slow = asyncio.create_task(ask(target, Function.READ, "b"))
    assert (await waiting).type is Type.INFO
    assert (await slow).attempts == 1
    await target.close()


async def test_a_silent_connection_is_closed_when_its_last_request_ends(
    node: PretendedNode,
) -> None:
    target = made(node)
    await target.open()
    node.loses = True
    long = asyncio.create_task(ask(target, Function.WRITE, "a", value=1))
    await node.changing.wait()
    short = asyncio.create_task(ask(target, Function.WRITE, "b", value=1, attempt_ms=300))
    assert (await short).type is Type.INFO
    wire = target._wire
    assert wire is not None
    (retired,) = wire._retired
    assert (retired.lost, retired.idle) == ("", False)
    long.cancel()
    await asyncio.gather(long, return_exceptions=True)
    assert (retired.lost, retired.idle) == ("it was silent", True)
    await target.close()


async def test_a_connection_that_breaks_leaves_a_write_unknown(
    target: IgniteTarget, node: PretendedNode
) -> None:
    node.loses = True
    writing = asyncio.create_task(ask(target, Function.WRITE, value=2))
    await node.changing.wait()
    node.cut()
    broken = await writing
    assert (broken.type, "no answer from" in str(broken.error)) == (Type.INFO, True)


async def test_a_dead_node_fails_nothing(node: PretendedNode) -> None:
    dead = PretendedNode("n2")
    await dead.start()
    target = made(node, dead)
    await target.open()
    await dead.stop()
    for _ in range(2):  # at one endpoint after the other: the loss of a connection is noticed
        await ask(target, Function.READ)
    outcomes = [await ask(target, Function.APPEND, value=value) for value in (1, 2, 3)]
    assert [(one.type, one.node) for one in outcomes] == [(Type.OK, "n1")] * 3
    assert node.rows["k"] == "1,2,3,"
    await target.close()


async def test_bounded_reads_are_of_read_only_transactions(
    target: IgniteTarget, node: PretendedNode
) -> None:
    node.rows["k"] = "1"
    assert (await ask(target, Function.READ, bounded=True)).value == 1
    assert (node.begun, node.open_transactions) == (1, set())


async def test_nothing_is_written_on_a_transport_that_is_closed() -> None:
    """One that broke is closed before its reader hears of it, and uvloop's raises then."""
    writer = Mock()
    writer.is_closing.return_value = True
    writer.write.side_effect = RuntimeError("the handler is closed")
    connection = NodeConnection(asyncio.StreamReader(), writer, node="n1", address="n1:1")
    connection.tell(TX_ROLLBACK, b"")
    with pytest.raises(NotSent, match="is lost"):
        await connection.ask(TX_ROLLBACK, b"")
    connection.end("the test is over")


async def test_keys_are_placed_as_the_node_places_them(
    target: IgniteTarget, node: PretendedNode
) -> None:
    assert target.partitions == 8
    assert target.partition_of(target.key_for_partition("probe", 5)) == 5
    node.rows["k"] = "1"
    node.shift = 1
    other = made(node)
    with pytest.raises(MisplacedKey, match="places keys otherwise") as raised:
        await other.open()
    assert isinstance(raised.value, TargetError)
    await other.close()


async def test_the_placement_is_checked_at_the_first_row_of_a_table_that_was_empty(
    node: PretendedNode,
) -> None:
    """Each run makes its table, which is empty when the load opens it: no row says anything."""
    node.shift = 1
    target = made(node)
    await target.open()
    with pytest.raises(MisplacedKey, match="places keys otherwise"):
        await ask(target, Function.WRITE, value=1)
    await target.close()
    node.shift = 0
    node.rows.clear()
    sound = made(node)
    await sound.open()
    node.asked.clear()
    done = [await ask(sound, Function.WRITE, value=n) for n in (1, 2)]
    assert [each.attempts for each in done] == [1, 1], "the check is no attempt of the operation"
    assert node.asked == ["UPSERT", "SELECT", "UPSERT"], "once"
    await sound.close()
