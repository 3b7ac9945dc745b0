"""The suite on stores that are made up: a sound one keeps it, and each fault is said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zonequake_chaos.conformance import leader_kill, lost_answers, steps
from zonequake_chaos.conformance.alteration import altered
from zonequake_chaos.conformance.client import AskingClient
from zonequake_chaos.conformance.judgement import AskedOperation, StepResult
from zonequake_chaos.conformance.lost_answers import LOSSES
from zonequake_chaos.conformance.steps import ConformanceSteps
from zonequake_chaos.conformance.under_way import AT_ONCE, TimedOperation, was_under_way
from zonequake_chaos.kit.alteration import Alteration, in_texts
from zonequake_chaos.kit.target import TargetClaims
from zonequake_chaos.record.clock import SystemClock
from zonequake_kube.errors import WaitExpired
from zonequake_load.operation import Function, Operation, Outcome, TransactionOperation, Type
from zonequake_load.pod.control import OperationRequest
from zonequake_load.targets.planted_lie import told_as_certain


class Store:
    """Answers as a load pod does; `cut`: what is asked is done, and no answer comes."""

    lies = False
    resends = False
    knows_ids = True
    places = True
    same_place = False
    loses = False
    compares = True
    tears = False
    forgets_lost_ids = False
    ignores_lost = False
    lies_of_transactions = False
    plants_lies = True
    ignores_liars = False
    prepares = False
    """A kept connection carries out at once only what it did before, and a lost answer ends it."""
    member: str | None = "m0"

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.ids: set[object] = set()
        self.cut = False
        self.cuts = 0
        self.ignored_cuts = 0
        """Cuts that let no request through either, the first ones."""
        self.connections: list[set[Function]] = []
        self.index = 0
        self.free = asyncio.Event()
        self.free.set()
        self.asked = 0
        self._one_asked = asyncio.Event()

    async def until_asked(self, times: int) -> None:
        """Waits until so many operations more are asked for."""
        wanted = self.asked + times
        while self.asked < wanted:
            self._one_asked.clear()
            await self._one_asked.wait()

    async def execute(self, asked: OperationRequest) -> Outcome:
        outcome = await self._execute(asked)
        lies = asked.planted_lie and self.plants_lies
        return told_as_certain(outcome) if lies else outcome

    async def _execute(self, asked: OperationRequest) -> Outcome:
        self.asked += 1
        self._one_asked.set()
        await self.free.wait()
        operation = asked.operation
        ignored = self.prepares and not await self._prepared(asked)
        ignored = ignored or self.ignores_lost or (asked.planted_lie and self.ignores_liars)
        ignored = ignored or self.cuts <= self.ignored_cuts
        if self.cut and ignored:
            return self._lost(lies=self.lies)
        if isinstance(operation, TransactionOperation):
            answer = self._transaction(operation)
            return self._lost(lies=self.lies_of_transactions) if self.cut else answer
        if operation.f is Function.READ:
            return self._ok(operation, value=self.keys.get(operation.key))
        done = True
        for _ in range(2 if self.resends and self.cut else 1):
            done = self._apply(operation, asked.once)
        if self.cut and self.forgets_lost_ids:
            self.ids.discard(asked.once)
        if self.cut:
            return self._lost(lies=self.lies)
        if operation.f is Function.CAS:
            held = None if done else self.keys.get(operation.key)
            return self._ok(operation, value=held, applied=done)
        return self._ok(operation)

    async def _prepared(self, asked: OperationRequest) -> bool:
        """Whether the connection that was kept last has what is asked for prepared."""
        connection = self.connections.pop() if self.connections else set()
        kinds = {step.f for step in asked.steps}
        known = kinds <= connection
        if not self.cut:
            await asyncio.sleep(0)
            self.connections.append(connection | kinds)
        return known

    def _lost(self, *, lies: bool) -> Outcome:
        return Outcome(type=Type.FAIL if lies else Type.INFO, attempts=1, error="no answer")

    def _transaction(self, asked: TransactionOperation) -> Outcome:
        results: list[Any] = []
        before = dict(self.keys)
        for step in asked.steps:
            results.append(self.keys.get(step.key) if step.f is Function.READ else None)
            if step.f is not Function.READ and not self._apply(step, object()):
                self.keys = self.keys if self.tears else before
                return self._ok(step, value=self.keys.get(step.key), applied=False)
        return Outcome(type=Type.OK, attempts=1, applied=True, results=results)

    def _apply(self, operation: Operation, once: object) -> bool:
        if self.knows_ids and once in self.ids:
            return True
        self.ids.add(once)
        held = self.keys.get(operation.key)
        if operation.f is Function.CAS and self.compares and held != operation.expected:
            return False
        if not self.loses:
            value = operation.value
            appended = operation.f is Function.APPEND
            self.keys[operation.key] = [*(held or []), value] if appended else value
        self.index += 1
        return True

    def _ok(
        self, operation: Operation, *, value: Any = None, applied: bool | None = None
    ) -> Outcome:
        index = (1 if self.same_place else self.index) if self.places else None
        return Outcome(
            type=Type.OK,
            attempts=1,
            value=value,
            applied=applied,
            node=self.member,
            index=index,
        )


class Package:
    """The part of a target package that the steps read."""

    alters: Alteration | None = None

    def __init__(self, *, repeats: bool, order: str = "by number") -> None:
        self.claims = TargetClaims(order=order, repeats=repeats, transactions=repeats)


class Steps(ConformanceSteps):
    """The suite without a cluster: a fault cuts the store's answers off."""

    @asynccontextmanager
    async def _inflicted(
        self, fault: Any, victims: Callable[[Any], list[str]], *, proven: bool = True
    ) -> AsyncIterator[Any]:
        store = cast("Store", self.client._load)
        store.cut = True
        store.cuts += 1
        yield None
        store.cut = False


def suite_of(
    store: Store, *, repeats: bool = True, cuts_links: bool = True, order: str = "by number"
) -> ConformanceSteps:
    return Steps(
        package=cast("Any", Package(repeats=repeats, order=order)),
        deployment=cast("Any", None),
        world=cast("Any", Cluster(Member(), Member())),
        client=AskingClient(cast("Any", store)),
        dumps=Path("unused"),
        cuts_links=cuts_links,
    )


def with_fault(**fault: bool) -> Store:
    store = Store()
    for name, value in fault.items():
        assert hasattr(store, name)
        setattr(store, name, value)
    return store


def clean(result: StepResult) -> bool:
    return not result.problems and not result.unknown


async def test_a_sound_store_keeps_every_step() -> None:
    suite = suite_of(Store())
    assert clean(await suite.answers())
    assert clean(await suite.transactions())
    lost = await suite.lost_answers()
    assert clean(lost)
    assert lost.note == "5 unknown; a planted lie about 5 more was noticed"
    assert clean(await suite.replayed_request())


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("places", "without a place in the claimed order"),
        ("loses", "reads found"),
        ("compares", "a cas that expects another value came to"),
    ],
)
async def test_answers_that_are_wrong_are_said(fault: str, words: str) -> None:
    result = await suite_of(with_fault(**{fault: not getattr(Store, fault)})).answers()
    assert any(words in problem for problem in result.problems), result


@pytest.mark.parametrize("member", [None, "192.0.2.7:2379"])
async def test_answers_that_name_no_member_are_said(member: str | None) -> None:
    store = Store()
    store.member = member
    problems = (await suite_of(store).answers()).problems
    assert len(problems) == 6, "each answer"
    assert all(f"by {member!r}, expected the name of a member: m0, m1" in one for one in problems)


async def test_one_place_for_all_answers_is_no_order() -> None:
    result = await suite_of(with_fault(same_place=True)).answers()
    assert len(result.problems) == 4
    assert all("has the place (0, 0, 1) in the claimed" in problem for problem in result.problems)


async def test_places_are_not_asked_for_of_a_target_that_claims_no_order() -> None:
    suite = suite_of(with_fault(places=False), order="")
    assert clean(await suite.answers())


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("tears", "after two transactions reads found"),
        ("loses", "a transaction that reads"),
        ("compares", "a transaction whose cas expects another value came to"),
    ],
)
async def test_transactions_that_are_done_in_part_are_said(fault: str, words: str) -> None:
    store = with_fault(**{fault: not getattr(Store, fault)})
    result = await suite_of(store).transactions()
    assert any(words in problem for problem in result.problems), result


async def test_transactions_that_are_not_claimed_are_not_asked_for() -> None:
    result = await suite_of(with_fault(tears=True), repeats=False).transactions()
    assert clean(result)
    assert result.note == "not claimed"


async def test_a_client_that_takes_errors_for_certain_is_noticed() -> None:
    result = await suite_of(with_fault(lies=True)).lost_answers()
    assert any("certainly failed, as the client says" in problem for problem in result.problems)


async def test_a_client_that_takes_errors_of_transactions_for_certain_is_noticed() -> None:
    lying = with_fault(lies_of_transactions=True)
    problems = (await suite_of(lying).lost_answers()).problems
    assert len(problems) == 2, "each of its writes"
    assert all("certainly failed, as the client says" in problem for problem in problems)
    assert clean(await suite_of(lying, repeats=False).lost_answers()), "they are not claimed"


async def test_a_client_that_sends_again_what_may_have_happened_is_noticed() -> None:
    result = await suite_of(with_fault(resends=True, knows_ids=False)).lost_answers()
    assert any("was carried out 2 times" in problem for problem in result.problems)


@pytest.mark.parametrize("fault", ["loses", "ignores_lost"])
async def test_cuts_that_let_nothing_through_decide_nothing(fault: str) -> None:
    store = with_fault(**{fault: True})
    result = await suite_of(store).lost_answers()
    assert not result.problems
    (unknown,) = result.unknown
    assert "had an effect, in 3 losses, so that neither a wrong outcome nor a planted" in unknown
    assert store.cuts == LOSSES


async def test_a_cut_that_lets_nothing_through_is_repeated() -> None:
    store = Store()
    store.ignored_cuts = LOSSES - 1
    result = await suite_of(store).lost_answers()
    assert clean(result)
    assert result.note == "15 unknown; a planted lie about 5 more was noticed"
    assert store.cuts == LOSSES + 1


async def test_a_client_that_prepares_its_statements_is_warm_before_a_loss() -> None:
    store = with_fault(prepares=True)
    result = await suite_of(store).lost_answers()
    assert clean(result)
    assert "more was noticed" in result.note
    assert store.cuts == 2


async def test_a_lie_that_can_not_show_is_undecided() -> None:
    store = with_fault(ignores_liars=True)
    result = await suite_of(store).lost_answers()
    assert not result.problems
    (unknown,) = result.unknown
    assert unknown.startswith("a planted lie could not show")
    assert store.cuts == 1 + LOSSES


async def test_a_lie_that_is_not_told_is_a_problem() -> None:
    result = await suite_of(with_fault(plants_lies=False)).lost_answers()
    (problem,) = result.problems
    assert problem.startswith("a planted lie was not noticed: 5 lost operations had an effect")
    assert "told 5 unknown, expected that each of them failed" in problem


async def test_a_judge_that_takes_failures_as_they_are_told_is_found_by_the_lie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lost_answers, "contradictions", lambda asked, found: [])
    (problem,) = (await suite_of(Store()).lost_answers()).problems
    assert problem.startswith("a planted lie was not noticed")
    assert "told 5 failed" in problem


async def test_a_store_that_applies_a_repeated_request_twice_is_noticed_if_it_claims_not_to() -> (
    None
):
    claimed = await suite_of(with_fault(knows_ids=False)).replayed_request()
    assert any("was carried out 2 times" in problem for problem in claimed.problems)
    other = await suite_of(with_fault(knows_ids=False), repeats=False).replayed_request()
    assert clean(other)
    assert other.note.startswith("not claimed")


async def test_a_store_that_forgets_requests_whose_answer_was_lost_is_noticed() -> None:
    sound = await suite_of(Store()).replayed_request()
    assert "a request whose answer was lost was sent again" in sound.note
    result = await suite_of(with_fault(forgets_lost_ids=True)).replayed_request()
    assert any("was carried out 2 times" in problem for problem in result.problems), result


async def test_without_a_lost_answer_a_replay_decides_nothing_of_it() -> None:
    result = await suite_of(with_fault(ignores_lost=True)).replayed_request()
    assert not result.problems
    (unknown,) = result.unknown
    assert "expected an effect and an unknown outcome" in unknown
    result = await suite_of(Store(), cuts_links=False).replayed_request()
    assert not result.problems
    assert "faultAgent.enabled=true" in result.unknown[0]


class Member:
    """A member that is made up: the state that it dumps; None dumps nothing."""

    def __init__(self, digest: str | None = "a", applied: int = 7) -> None:
        self.state = (applied, digest)
        self.after = (applied, "b")
        """The state once a value of it was altered."""


class Cluster:
    """The parts of a deployment and of an observer that the steps use; `m0` leads."""

    def __init__(self, *members: Member) -> None:
        self.members = {f"m{number}": member for number, member in enumerate(members)}
        self.alike = True
        self.elected: tuple[int, str] | None = None
        """The state of all members that nothing altered, behind an election."""
        self.sees_successors = True
        self.events = None
        self.keys: dict[str, Any] = {}
        self.observer = self
        self.leader: str | None = "m0"
        self.restarts, self.looks, self.term = 0, 0, 1
        self.processes = dict.fromkeys(self.members, 0)
        self.clock = SystemClock()

    def view(self) -> Any:
        nodes = {
            name: SimpleNamespace(
                name=name,
                pod=SimpleNamespace(name=name, restarts=self.restarts),
                process_incarnation=f"{name}/{self.processes[name]}",
            )
            for name in self.members
        }
        return SimpleNamespace(
            nodes=nodes,
            at_ns=0,
            partitions={
                ("z", 0): SimpleNamespace(
                    leader=self.leader,
                    term=self.term,
                    members=(),
                    replicas={},
                    progress={},
                    zone="z",
                    partition=0,
                )
            },
        )

    @contextmanager
    def armed(self) -> Iterator[None]:
        yield

    async def wait(self, seen: Any, *, timeout_s: float, waiting_for: Any) -> None:
        self.looks += 1
        if not seen(self.view()):
            await asyncio.sleep(0.001)
            raise WaitExpired(f"not within {timeout_s:g} s: {waiting_for(self.view())}")

    async def wait_alike(self, observer: Any, *, timeout_s: float) -> None:
        if not self.alike:
            raise WaitExpired("members differ")

    async def dump(self, view: Any, folder: Path, events: Any) -> list[str]:
        problems = []
        for name, member in self.members.items():
            applied, digest = member.state
            if digest is None:
                problems.append(f"no dump of {name}")
                continue
            header = {"node": name, "applied": applied, "digest": digest, "keys": 0}
            lines = [
                header,
                *({"key": key, "value": held, "index": 1} for key, held in self.keys.items()),
            ]
            (folder / f"0-{name}.jsonl").write_text("".join(f"{json.dumps(x)}\n" for x in lines))
        return problems

    async def alter(self, world: Any, pod: Any, *, alteration: Alteration, value: int) -> None:
        self.restarts += 1
        for member in self.members.values():
            member.state = self.elected or member.state
        member = self.members[pod.name]
        member.state = member.after


@pytest.fixture
def seen_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "unsettled", lambda _: [])


TEXTS = in_texts("values.txt")


async def dumped(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    alters: Alteration | None = TEXTS,
    *,
    claimed: bool = True,
    empty: bool = False,
) -> StepResult:
    monkeypatch.setattr(steps, "alter_value", cluster.alter)
    store = Store()
    cluster.keys = {} if empty else store.keys
    package = Package(repeats=False)
    package.claims = replace(package.claims, dumps=claimed)
    package.alters = alters
    suite = Steps(
        package=cast("Any", package),
        deployment=cast("Any", cluster),
        world=cast("Any", cluster),
        client=AskingClient(cast("Any", store)),
        dumps=folder,
        cuts_links=True,
    )
    return await suite.dumps_of_members()


async def test_a_dump_without_what_was_written_is_a_problem(
    seen_settled: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result = await dumped(changed(), monkeypatch, tmp_path, empty=True)
    assert len(result.problems) == 3
    assert all("has None where write of" in problem for problem in result.problems)


async def test_dumps_that_are_not_claimed_are_not_compared(
    seen_settled: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    none = Cluster(Member(), Member())
    for member in none.members.values():
        member.state = (7, None)
    assert (await dumped(none, monkeypatch, tmp_path)).unknown
    result = await dumped(none, monkeypatch, tmp_path, claimed=False)
    assert clean(result)
    assert result.note == "not claimed"


def changed(**state: Any) -> Cluster:
    """Three members, whose second one is special."""
    cluster = Cluster(Member(), Member(), Member())
    for name, value in state.items():
        setattr(cluster.members["m1"], name, value)
    return cluster


@pytest.mark.usefixtures("seen_settled")
async def test_members_dump_the_same_and_one_that_was_altered_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = await dumped(changed(), monkeypatch, tmp_path)
    assert clean(result)
    assert result.note == "3 members; m1, altered, dumps b"


@pytest.mark.usefixtures("seen_settled")
@pytest.mark.parametrize(("digest", "is_decided"), [("b", True), ("a", False)])
async def test_an_election_behind_the_alteration_leaves_the_comparison_with_the_others(
    digest: str, is_decided: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = changed(after=(8, digest))
    cluster.elected = (8, "a")
    result = await dumped(cluster, monkeypatch, tmp_path)
    assert not result.problems
    assert bool(result.unknown) != is_decided


@pytest.mark.usefixtures("seen_settled")
async def test_one_member_alone_is_no_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = await dumped(Cluster(Member()), monkeypatch, tmp_path)
    assert not result.problems
    (unknown,) = result.unknown
    assert "compared the dump of 1 member, expected at least 2" in unknown
    assert result.note == "1 members; m0, altered, dumps b"


@pytest.mark.usefixtures("seen_settled")
async def test_a_target_that_says_not_how_to_alter_is_not_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = await dumped(changed(), monkeypatch, tmp_path, None)
    assert not result.problems
    (unknown,) = result.unknown
    assert "no member was altered, since the target's package does not say how" in unknown


@pytest.mark.usefixtures("seen_settled")
@pytest.mark.parametrize(
    ("state", "problem", "unknown"),
    [
        ({"state": (7, "c")}, "members that applied 7 have digests", ""),
        ({"after": (7, "a")}, "m1 was altered, and dumps as before", ""),
        ({"state": (7, None)}, "", "no dump of m1"),
        ({"after": (7, None)}, "", "no dump of m1"),
        ({"after": (8, "b")}, "", "m1 was altered at 7, and dumps at 8"),
    ],
)
async def test_dumps_that_say_too_little_or_are_missing_are_said(
    state: dict[str, Any],
    problem: str,
    unknown: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = await dumped(changed(**state), monkeypatch, tmp_path)
    for wanted, found in ((problem, result.problems), (unknown, result.unknown)):
        assert bool(found) == bool(wanted)
        assert all(wanted in one for one in found)


@pytest.mark.usefixtures("seen_settled")
async def test_members_that_differ_for_long_are_dumped_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = changed(state=(7, "c"))
    cluster.alike = False
    result = await dumped(cluster, monkeypatch, tmp_path)
    assert result.unknown == ["members differ"]
    assert len(result.problems) == 1


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


def test_an_altered_value_has_as_many_digits() -> None:
    values = [100_000_000_000_001, 100_000_000_000_010]
    assert [len(str(altered(value))) for value in values] == [15, 15]
    assert all(altered(value) != value for value in values)
