"""Transactions over the partitions of three real nodes: coordinators that die, dead locks, kv."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.processes.store.dying_coordinator import BEFORE
from tests.processes.store.local_nodes import LocalNodes, Zone, key_of, until
from tests.processes.store.store_client import Client
from zonequake_protocol.client import Append, Read, Reply, ReplyStatus, RequestId, Transaction

pytestmark = pytest.mark.processes

THREE = ["n0", "n1", "n2"]
DYING = (str(Path(__file__).with_name("dying_coordinator.py")),)
A, B = key_of(0, 2, 0), key_of(1, 2, 0)


@dataclass
class Place:
    """A zone with two partitions on three nodes, and a list in each: A in the first, B."""

    nodes: LocalNodes
    zone: Zone
    client: Client

    def appending(self, element: int, keys: str, request_id: RequestId) -> Transaction:
        """Reads and appends to these lists: `AB` begins in the first partition, `BA` not."""
        steps: list[Read | Append] = []
        for each in keys:
            number = "AB".index(each)
            group, key = self.zone.groups[number], (A, B)[number]
            steps += [Read(group, key), Append(group, key, element)]
        nodes = dict.fromkeys(self.zone.groups, THREE)
        return Transaction(steps[0].group, list(steps), request_id, nodes)

    async def lists(self) -> tuple[list[int], list[int]]:
        """What both hold."""
        found = [
            (await self.client.read(group, key)).value
            for group, key in zip(self.zone.groups, (A, B), strict=True)
        ]
        assert all(value is None or isinstance(value, list) for value in found)
        first, second = (value if isinstance(value, list) else [] for value in found)
        return first, second

    async def until_resolved(self, names: list[str]) -> None:
        """Wait until no transaction is prepared any more, and every number is accounted for."""

        async def is_resolved() -> bool:
            for name in names:
                for group in self.zone.groups:
                    status = await self.nodes.status(name, group)
                    if status is None or status.prepared or status.lwm != status.hwm:
                        return False
            return True

        await until(is_resolved, "every transaction is resolved")


async def placed(nodes: LocalNodes, *, dying: Path | None = None) -> Place:
    await nodes.start(*THREE)
    if dying is not None:
        for node in nodes.nodes.values():
            node.kill()
            node.program, node.environment["ZQ_DIE"] = DYING, str(dying)
        await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE, partitions=2)
    return Place(nodes, zone, nodes.client())


async def killed(place: Place, transaction: Transaction, dying: Path, moment: str) -> str:
    """Send the transaction until a node dies of it; that node."""
    await asyncio.to_thread(dying.write_text, moment)

    async def has_come() -> bool:
        """Who leads no more, or waits for too long for the other part, has done nothing: then it is
        sent again."""
        if await asyncio.to_thread(dying.exists):
            leader = await place.nodes.leader(transaction.group)
            with contextlib.suppress(OSError, TimeoutError):
                await place.client.once(leader, transaction)
        return not await asyncio.to_thread(dying.exists)

    await until(has_come, f"a coordinator comes to where it is {moment}")
    dead: list[str] = []

    async def is_dead() -> bool:
        dead[:] = [name for name, node in place.nodes.nodes.items() if not node.is_alive]
        return bool(dead)

    await until(is_dead, f"one dies when it is {moment}")
    (name,) = dead
    return name


@pytest.mark.parametrize("retried", [True, False], ids=["retried", "given up"])
async def test_a_coordinator_that_dies_at_any_moment_leaves_nothing_half_done(
    nodes: LocalNodes, tmp_path: Path, retried: bool
) -> None:
    dying = tmp_path / "die"
    place = await placed(nodes, dying=dying)
    elements = itertools.count(1)
    for moment, keys in zip(BEFORE, itertools.cycle(("AB", "BA")), strict=False):
        element = next(elements)
        transaction = place.appending(element, keys, place.client.request_id())
        dead = await killed(place, transaction, dying, moment)
        alive = [name for name in THREE if name != dead]
        if retried:
            reply = await place.client.at_leader(transaction)
            assert reply.applied, reply
        await place.until_resolved(alive)
        first, second = await place.lists()
        count = first.count(element)
        assert second.count(element) == count, f"half done by a node that died {moment}"
        assert count == 1 if retried else count <= 1
        if moment in ("decided", "told"):
            assert count == 1, "what is decided is done"
        elif moment in ("voted", "deciding") and not retried:
            assert count == 0, "what was not decided is not done"

        for group, key in zip(place.zone.groups, (A, B), strict=True):
            plain = await place.client.append(group, key, 1_000 + next(elements))
            assert plain.status is ReplyStatus.OK, "plain writes on the keys go on"
        await nodes.restart(place.zone, dead)
        await place.until_resolved(THREE)
    for group in place.zone.groups:
        await nodes.until_equal(group, THREE)


@pytest.mark.parametrize(("moment", "count"), [("deciding", 0), ("decided", 1)])
async def test_what_was_prepared_when_all_nodes_died_is_resolved_after_their_start(
    nodes: LocalNodes, tmp_path: Path, moment: str, count: int
) -> None:
    place = await placed(nodes, dying=tmp_path / "die")
    transaction = place.appending(1, "AB", place.client.request_id())
    dead = await killed(place, transaction, tmp_path / "die", moment)
    for name in THREE:
        if name != dead:
            nodes.nodes[name].kill()
    await nodes.restart(place.zone, *THREE)
    await place.until_resolved(THREE)
    assert await place.lists() == ([1] * count, [1] * count)
    assert (await place.client.at_leader(transaction)).applied, "the retry is done once"
    assert await place.lists() == ([1], [1])


async def test_what_a_coordinator_forgets_is_no_user_entry_on_any_replica(
    nodes: LocalNodes,
) -> None:
    """Decide is the client's, the Forget that follows once all parts are committed is not."""
    place = await placed(nodes)
    reply = await place.client.at_leader(place.appending(1, "AB", place.client.request_id()))
    assert reply.status is ReplyStatus.OK

    async def has_forgotten() -> bool:
        found = [await nodes.status(name, place.zone.groups[0]) for name in THREE]
        return all(each and each.last_index == each.applied > reply.index for each in found)

    await until(has_forgotten, "the decision is forgotten everywhere")
    for name in THREE:
        status = await nodes.status(name, place.zone.groups[0])
        assert status is not None
        assert (status.last_user_term, status.last_user_index) == (reply.term, reply.index)
        assert not status.has_user_inputs(reply.term, reply.index)


async def test_of_transactions_that_wait_for_each_other_some_are_told_so_and_the_rest_go_on(
    nodes: LocalNodes,
) -> None:
    place = await placed(nodes)
    elements = itertools.count(1)
    acknowledged: set[int] = set()
    astray: set[int] = set()
    """Sent to who led no more, or not until it was decided: done or not."""
    refused: list[Reply] = []

    def met() -> bool:
        return any("wait for each other" in str(reply.error) for reply in refused)

    async def transact(client: Client, keys: str) -> None:
        done = 0
        while done < 12 or (not met() and asyncio.get_running_loop().time() < deadline_s):
            done, element = done + 1, next(elements)
            transaction = place.appending(element, keys, client.request_id())
            leader = await nodes.leader(transaction.group)
            reply = await client.once(leader, transaction)
            if reply.status is ReplyStatus.OK:
                acknowledged.add(element)
            elif reply.status in (ReplyStatus.NOT_LEADER, ReplyStatus.UNKNOWN):
                astray.add(element)
            else:
                refused.append(reply)

    deadline_s = asyncio.get_running_loop().time() + PATIENCE_S
    async with asyncio.TaskGroup() as group:
        for number, keys in enumerate(["AB", "BA", "AB", "BA"]):
            group.create_task(transact(nodes.client(f"c{number}"), keys))
    assert acknowledged, "a client must go on"
    assert met(), "no transactions met: the test is too tame"
    assert {reply.status for reply in refused} == {ReplyStatus.LOCKED}
    await place.until_resolved(THREE)
    first, second = await place.lists()
    assert set(first) == set(second)
    assert acknowledged <= set(first) <= acknowledged | astray
    assert len(first) == len(second) == len(set(first))


async def kv(place: Place, *words: str) -> tuple[int, str, str]:
    """`zonequake kv` on the nodes of `place`."""
    address = f"127.0.0.1:{place.nodes.nodes['n0'].client_port}"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from zonequake_chaos.commands.cli import main; main()",
        "kv",
        *words,
        "--zone",
        "z",
        "--address",
        address,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode().strip(), error.decode()


async def test_the_command_carries_steps_out_together_or_says_why_not(nodes: LocalNodes) -> None:
    place = await placed(nodes)
    code, out, error = await kv(
        place, "txn", f"get {A}", f"put {A} 5", f"put {B} 'two words'", "append log 7", f"get {A}"
    )
    assert (code, out.splitlines()) == (0, [f"{A}: absent", f"{A}: 5"]), error
    assert "carried out" in error
    assert (await kv(place, "get", B))[1] == "two words"

    code, out, error = await kv(place, "txn", "append log 8", f"cas {A} 4 6")
    assert (code, out) == (3, "")
    assert "a cas found 5" in error
    assert (await kv(place, "get", "log"))[1] == "7"
    code, out, _ = await kv(place, "txn", f"cas {A} 5 6", "cas new '' 1", "get log", f"get {A}")
    assert (code, out.splitlines()) == (0, ["log: [7]", f"{A}: 6"])

    code, _, error = await kv(place, "txn", f"get {A}", "append log many")
    assert code == 254
    assert "step 2" in error
    assert "append KEY NUMBER" in error
    code, _, error = await kv(place, "txn", f"append {A} 1")
    assert code == 255
    assert "certainly not done" in error
    assert "list" in error
