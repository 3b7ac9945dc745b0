"""The suite's kills of leaders: successors, operations that were met, reads that are old."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.targets.made_up_store import (
    Cluster,
    Package,
    Steps,
    Store,
    changed,
    clean,
)
from zonequake_chaos.conformance import leader_kill, steps
from zonequake_chaos.conformance.client import AskingClient
from zonequake_chaos.conformance.judgement import AskedOperation, StepResult
from zonequake_chaos.conformance.steps import ConformanceSteps
from zonequake_chaos.conformance.under_way import (
    AT_ONCE,
    TimedOperation,
    stale_reads,
    was_under_way,
)
from zonequake_load.operation import Function, Operation, Outcome, TransactionOperation, Type
from zonequake_load.pod.control import OperationRequest


class KillingSteps(Steps):
    """The suite without a cluster: a kill gives the partition another leader, if that is seen.

    The store answers nothing from before the kill until its successor leads; `idle`: it does.
    """

    idle = False
    comes_back = False
    """The killed member answers next."""

    @asynccontextmanager
    async def _inflicted(
        self, fault: Any, victims: Callable[[Any], list[str]], *, proven: bool = True
    ) -> AsyncIterator[Any]:
        cluster, store = cast("Cluster", self.world), cast("Store", self.client._load)
        if not self.idle:
            store.free.clear()
            await store.until_asked(AT_ONCE)
        (victim,) = victims(cluster.view())
        successor = "m0" if victim == "m1" else "m1"
        store.member = victim if self.comes_back else successor
        if cluster.sees_successors:
            cluster.leader = successor
        asyncio.get_running_loop().call_later(0.01, store.free.set)
        yield SimpleNamespace(
            victims=[SimpleNamespace(node=victim, process_incarnation=f"{victim}/0")]
        )


class IdleSteps(KillingSteps):
    """No operation is under way when the kill is ordered and reported."""

    idle = True


async def killed(
    cluster: Cluster,
    kind: type[KillingSteps] = KillingSteps,
    *,
    claims: bool = False,
    store: Store | None = None,
) -> StepResult:
    suite = kind(
        package=cast("Any", Package(repeats=claims)),
        deployment=cast("Any", cluster),
        world=cast("Any", cluster),
        client=AskingClient(cast("Any", store or Store())),
        dumps=Path("unused"),
        cuts_links=True,
    )
    return await suite.killed_connections()


async def test_a_successor_that_is_seen_in_time_is_as_it_must_be() -> None:
    result = await killed(changed())
    assert clean(result)
    assert f"the kill met {AT_ONCE} of them" in result.note


class WithoutTransactions(Store):
    """Acknowledges transactions, and forgets them."""

    def _transaction(self, asked: TransactionOperation) -> Outcome:
        return Outcome(type=Type.OK, attempts=1, applied=True, results=[None] * len(asked.steps))


async def test_transactions_are_under_way_too_if_they_are_claimed() -> None:
    assert clean(await killed(changed(), claims=True))
    result = await killed(changed(), claims=True, store=WithoutTransactions())
    assert result.problems
    assert all("was acknowledged, and nothing of it" in problem for problem in result.problems)
    assert clean(await killed(changed(), store=WithoutTransactions()))


async def test_a_successor_that_is_not_seen_is_said_after_a_second_of_looks() -> None:
    cluster = changed()
    cluster.sees_successors = False
    result = await killed(cluster)
    assert cluster.looks >= leader_kill.LOOKS
    (problem,) = result.problems
    assert "was not seen to lead 1 s later" in problem


class ComesBack(KillingSteps):
    comes_back = True


@pytest.mark.parametrize("term", [1, 2])
async def test_a_process_that_leads_again_is_seen(term: int) -> None:
    cluster = changed()
    cluster.sees_successors = False
    soon = asyncio.get_running_loop().call_later
    soon(0.005, setattr, cluster, "term", term)
    soon(0.005, cluster.processes.update, {"m0": 1})
    assert clean(await killed(cluster, ComesBack))


async def test_answers_of_a_killed_members_children_are_no_successors() -> None:
    """As those of Patroni's PostgreSQL, which lives a moment longer."""
    cluster = changed()
    cluster.sees_successors = False
    soon = asyncio.get_running_loop().call_later
    soon(1.5, setattr, cluster, "leader", "m1")
    store = Store()
    soon(1.5, setattr, store, "member", "m1")
    assert clean(await killed(cluster, ComesBack, store=store))


class SeenBeforeItAnswers(KillingSteps):
    """The successor is seen to lead before the kill is reported, and no more then."""

    @asynccontextmanager
    async def _inflicted(
        self, fault: Any, victims: Callable[[Any], list[str]], *, proven: bool = True
    ) -> AsyncIterator[Any]:
        cluster = cast("Cluster", self.world)
        async with super()._inflicted(fault, victims, proven=proven) as injection:
            await asyncio.sleep(0.005)
            cluster.leader = None
            yield injection


async def test_a_successor_that_is_seen_before_it_answers_is_seen() -> None:
    cluster = changed()
    assert clean(await killed(cluster, SeenBeforeItAnswers))
    assert cluster.leader is None


async def test_a_kill_that_meets_no_operation_decides_nothing() -> None:
    result = await killed(changed(), IdleSteps)
    assert not result.problems
    (unknown,) = result.unknown
    assert f"each of {leader_kill.KILLS} kills met no operation" in unknown


class IdleAtFirst(KillingSteps):
    """The first kill meets no operation."""

    kills = 0

    @asynccontextmanager
    async def _inflicted(
        self, fault: Any, victims: Callable[[Any], list[str]], *, proven: bool = True
    ) -> AsyncIterator[Any]:
        kind = type(self)
        kind.idle, kind.kills = kind.kills == 0, kind.kills + 1
        async with super()._inflicted(fault, victims, proven=proven) as injection:
            yield injection


async def test_a_kill_that_meets_no_operation_is_repeated() -> None:
    result = await killed(changed(), IdleAtFirst)
    assert clean(result)
    assert IdleAtFirst.kills == 2
    assert f"the kill met {AT_ONCE} of them" in result.note


class SlowProof:
    """A kill whose proof comes late: the successor is seen with it, long after it answered."""

    def __init__(self, cluster: Cluster, store: Store) -> None:
        self._cluster, self._store = cluster, store

    async def inject(self, injection: Any) -> None:
        self._store.member = "m1" if self._cluster.leader == "m0" else "m0"

    async def wait_until_effective(self, injection: Any) -> None:
        self._cluster.leader = self._store.member

    async def _nothing(self, injection: Any) -> None:
        """Does nothing."""

    prepare = recover = wait_until_recovered = clean_up = _nothing


async def test_a_leader_that_answers_long_before_it_is_seen_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = changed()
    store = Store()
    monkeypatch.setattr(steps, "life_of", lambda _: SlowProof(cluster, store))
    monkeypatch.setattr(steps, "Injection", SimpleNamespace)
    victim = SimpleNamespace(of=lambda _: SimpleNamespace(node="m0", process_incarnation="m0/0"))
    monkeypatch.setattr(steps, "Victim", victim)
    suite = ConformanceSteps(
        package=cast("Any", Package(repeats=False)),
        deployment=cast("Any", cluster),
        world=cast("Any", cluster),
        client=AskingClient(cast("Any", store)),
        dumps=Path("unused"),
        cuts_links=True,
    )
    result = await suite.killed_connections()
    assert any("was not seen to lead 1 s later" in problem for problem in result.problems), result


def timed(type_: Type, began_ns: int, ended_ns: int, attempts: int) -> TimedOperation:
    asked = AskedOperation(
        operation=Operation(f=Function.WRITE, key="k", value=1),
        outcome=Outcome(type=type_, attempts=attempts),
    )
    return TimedOperation(asked=asked, began_ns=began_ns, ended_ns=ended_ns)


@pytest.mark.parametrize(
    ("type_", "began_ns", "ended_ns", "attempts", "met"),
    [
        (Type.OK, 5, 25, 1, True),
        (Type.OK, 15, 25, 1, True),
        (Type.OK, 5, 15, 1, False),  # perhaps answered before the kill
        (Type.OK, 5, 15, 2, True),
        (Type.OK, 5, 9, 2, False),
        (Type.OK, 21, 25, 1, False),
        (Type.INFO, 5, 15, 1, True),
        (Type.INFO, 5, 9, 1, False),
        (Type.FAIL, 5, 25, 1, False),
    ],
)
def test_an_operation_is_met_that_a_kill_leaves_unanswered_or_interrupts(
    type_: Type, began_ns: int, ended_ns: int, attempts: int, met: bool
) -> None:
    one = timed(type_, began_ns, ended_ns, attempts)
    assert was_under_way(one, ordered_ns=10, reported_ns=20) is met


def read_of(value: Any, began_ns: int, type_: Type = Type.OK, key: str = "k") -> TimedOperation:
    asked = AskedOperation(
        operation=Operation(f=Function.READ, key=key),
        outcome=Outcome(type=type_, attempts=1, value=value),
    )
    return TimedOperation(asked=asked, began_ns=began_ns, ended_ns=began_ns + 1)


def test_a_read_must_find_what_was_acknowledged_before_it_was_asked_for() -> None:
    ended = [timed(Type.OK, 0, 10_000_000, 1)]
    late_ns = 14_000_000
    assert stale_reads([read_of(None, late_ns), read_of([2], late_ns)], ended) == [
        "a read of k found None, 4 ms after 1 was acknowledged (2 such reads)"
    ]
    for read in (
        read_of(1, late_ns),
        read_of([2, 1], late_ns),
        read_of(None, 9_000_000),
        read_of(None, late_ns, Type.INFO),
        read_of(None, late_ns, key="other"),
    ):
        assert stale_reads([read], ended) == []
    assert stale_reads([read_of(None, late_ns)], [timed(Type.INFO, 0, 10, 1)]) == []


class OldReads(Store):
    """Answers the short reads, which go on beside writes, as if nothing had been written."""

    async def _execute(self, asked: OperationRequest) -> Outcome:
        answer = await super()._execute(asked)
        if asked.deadline_ms < 5_000 and asked.steps[0].f is Function.READ:
            return self._ok(asked.steps[0], value=None)
        return answer


async def test_reads_that_are_old_while_others_write_are_said() -> None:
    result = await killed(changed(), store=OldReads())
    assert any("such reads" in problem for problem in result.problems), result
