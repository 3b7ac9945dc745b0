"""A store that is made up, and a cluster that shows its members, for tests of the suite."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from zonequake_chaos.conformance.client import AskingClient
from zonequake_chaos.conformance.judgement import StepResult
from zonequake_chaos.conformance.steps import ConformanceSteps
from zonequake_chaos.kit.alteration import Alteration
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


def changed(**state: Any) -> Cluster:
    """Three members, whose second one is special."""
    cluster = Cluster(Member(), Member(), Member())
    for name, value in state.items():
        setattr(cluster.members["m1"], name, value)
    return cluster
