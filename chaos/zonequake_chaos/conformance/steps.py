"""The steps of a conformance suite, each on members that serve. A step returns what was wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from zonequake_chaos.conformance.alteration import alter_value
from zonequake_chaos.conformance.client import AskingClient
from zonequake_chaos.conformance.judgement import (
    AskedOperation,
    DumpedState,
    as_if_certain,
    contradictions,
    differing,
    effects_of_unknown,
    without_place,
)
from zonequake_chaos.faults.life import FaultWorld, Injection, Victim
from zonequake_chaos.faults.registry import life_of
from zonequake_chaos.kit.deployment import Deployment
from zonequake_chaos.kit.target import TargetPackage
from zonequake_chaos.observe.view import ClusterView, PartitionView
from zonequake_chaos.scenario.faults import (
    AnyFault,
    Direction,
    FaultTarget,
    NetworkPartitionSpec,
    ProcessKillSpec,
    TargetRole,
    Traffic,
)
from zonequake_chaos.targeting.triggers import Sighting, unsettled
from zonequake_kube.errors import WaitExpired
from zonequake_load.operation import Function, Operation, Type

LOOK_S = 0.1
LOOKS = 10
"""Looks within which a new leader must be seen to lead, from the first write that it answered: a
second, in pieces, so that a harness that stood still meanwhile has looked as often.
"""

AT_ONCE = 6
"""Operations that are under way at any time while a process is killed."""

MOST_OPERATIONS = 600
"""Each is read afterwards."""

ASK_EVERY_S = 0.05
"""Pause of each of those that ask at once, so that the operations last."""

LONG_S = 60.0
SHORT_MS = 1_500
_ATTEMPT_MS = 400


@dataclass(slots=True, kw_only=True)
class StepResult:
    """`problems`: what the target does not keep; `unknown`: what could not be decided; `note`: what
    was seen.
    """

    problems: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceSteps:
    """One target, deployed, and its client; `cuts_links`: a shell on the nodes can cut links."""

    package: TargetPackage
    deployment: Deployment
    world: FaultWorld
    client: AskingClient
    dumps: Path
    cuts_links: bool

    async def answers(self) -> StepResult:
        """Asks for each operation: it does what it says, at a place in the claimed order."""
        client, register, words = self.client, self.client.key("r"), self.client.key("l")
        written = await client.ask(client.write(register))
        value = written.operation.value
        wrong = Operation(f=Function.CAS, key=register, value=1, expected=2)
        right = Operation(f=Function.CAS, key=register, value=3, expected=value)
        refused, done = await client.ask(wrong), await client.ask(right)
        created = await client.ask(client.create(client.key("c")))
        appended = [await client.ask(client.append(words)) for _ in range(2)]
        all_asked = [written, refused, done, created, *appended]
        found = await client.find([register, words])
        expected = {register: 3, words: [one.operation.value for one in appended]}
        problems = [
            f"{one.operation.f.value} ended {one.outcome.type.value}: {one.outcome.error}"
            for one in all_asked
            if one.outcome.type is not Type.OK
        ]
        if (refused.outcome.applied, refused.outcome.value) != (False, value):
            problems.append(f"a cas that expects another value came to {refused.outcome}")
        if not done.outcome.applied or not created.outcome.applied:
            problems.append(f"a cas that expects what is there came to {done.outcome}")
        if found != expected:
            problems.append(f"reads found {found}, expected {expected}")
        if self.package.claims.order:
            problems += without_place(all_asked)
        return StepResult(problems=problems, note=f"{len(all_asked)} operations")

    async def transactions(self) -> StepResult:
        """Asks for two transactions: one is done as a whole, and nothing of the other."""
        if not self.package.claims.transactions:
            return StepResult(note="not claimed")
        client, words = self.client, self.client.key("l")
        held = (await client.ask(client.write(client.key("r")))).operation
        write, append, other = (
            client.write(client.key("r")),
            client.append(words),
            client.write(client.key("r")),
        )
        read = Operation(f=Function.READ, key=held.key)
        wrong = Operation(f=Function.CAS, key=held.key, value=1, expected=2)
        done = await client.transact(read, write, append)
        refused = await client.transact(other, wrong)
        found = await client.find([held.key, write.key, words, other.key])
        expected = {
            held.key: held.value,
            write.key: write.value,
            words: [append.value],
            other.key: None,
        }
        problems = []
        if (done.type, done.applied, (done.results or [None])[0]) != (Type.OK, True, held.value):
            problems.append(f"a transaction that reads {held.value} came to {done}")
        if (refused.type, refused.applied, refused.value) != (Type.OK, False, held.value):
            problems.append(f"a transaction whose cas expects another value came to {refused}")
        if found != expected:
            problems.append(f"after two transactions reads found {found}, expected {expected}")
        return StepResult(problems=problems, note="2 transactions")

    async def lost_answers(self) -> StepResult:
        """Drops all answers while requests arrive: what may have happened is not called certain.

        The same outcomes are judged again as a client would tell them that takes every error for
        certain, and that must be noticed.
        """
        cut = NetworkPartitionSpec(
            name="lost-answers",
            target=FaultTarget(role=TargetRole.ALL),
            cut=Traffic.CLIENTS,
            direction=Direction.OUTBOUND,
        )
        if not self.cuts_links:
            why = "links can't be cut here: install the release with --set faultAgent.enabled=true"
            return StepResult(unknown=[why])
        operations = self._operations(1)
        for _ in range(3):  # connections to all members
            await self.client.find(["connections"])
        # No packet is dropped before one is sent, so that only the operations show the effect.
        async with self._inflicted(cut, lambda view: sorted(view.nodes), proven=False):
            asked = [
                await self.client.ask(one, deadline_ms=SHORT_MS, attempt_ms=_ATTEMPT_MS)
                for one in operations
            ]
        found = await self.client.find(one.key for one in operations)
        effects = effects_of_unknown(asked, found)
        result = StepResult(problems=contradictions(asked, found), note=_counted(asked))
        if not effects:
            result.unknown.append(
                "no operation whose answer was lost had an effect, so that a wrong outcome could "
                "not show: " + "; ".join(str(one.outcome.error) for one in asked)
            )
        elif not contradictions(as_if_certain(asked), found):
            result.problems.append("an error that is taken for certain was not noticed")
        else:
            result.note += f"; a planted lie about {effects} of them was noticed"
        return result

    async def replayed_request(self) -> StepResult:
        """Asks for an operation again under its id: it is applied once."""
        if not self.package.claims.repeats:
            return StepResult(note="not claimed: nothing that may have happened is sent twice")
        once, operation = self.client.once(), self.client.append(self.client.key("l"))
        asked = [await self.client.ask(operation, once=once) for _ in range(2)]
        found = await self.client.find([operation.key])
        return StepResult(problems=contradictions(asked, found), note=_counted(asked))

    async def killed_connections(self) -> StepResult:
        """Kills a leader's process under operations: its successor is seen in time."""
        kill = ProcessKillSpec(name="kill", target=FaultTarget(role=TargetRole.LEADER))
        old = self._leader(self.world.observer.view())
        result = StepResult()
        with self.world.observer.armed():
            async with (
                self._under_operations() as asked,
                self._inflicted(kill, lambda _: [old]) as injection,
            ):
                result.problems += await self._seen_in_time(injection)
        if len(asked) >= MOST_OPERATIONS:
            result.unknown.append(
                f"all {MOST_OPERATIONS} operations were over before the kill was: it may have met "
                "none"
            )
        found = await self.client.find(one.operation.key for one in asked)
        result.problems += contradictions(asked, found)
        result.note = _counted(asked)
        return result

    async def dumps_of_members(self) -> StepResult:
        """Compares members that hold the same, and then alters one, which must differ."""
        operation, result = self.client.write(self.client.key("r")), StepResult()
        await self.client.ask(operation)
        await self.world.observer.wait(
            lambda view: not unsettled(view),
            timeout_s=LONG_S,
            waiting_for=lambda view: "; ".join(unsettled(view)[:5]),
        )
        try:
            await self.deployment.wait_alike(self.world.observer, timeout_s=LONG_S)
        except WaitExpired as error:  # the dumps may say more
            result.unknown.append(str(error))
        before = await self._dumped("before", result)
        result.note = f"{len(before)} members"
        result.problems += differing(before)
        if self.package.alters is None:
            result.note += "; none was altered: the target says not how (`alters`)"
            return result
        view = self.world.observer.view()
        victim = min(set(before) - {self._leader(view)} or set(before), default="")
        if not victim:
            return result
        assert isinstance(operation.value, int)
        node = view.nodes[victim]
        await alter_value(
            self.world, node.pod, alteration=self.package.alters, value=operation.value
        )
        await self.world.observer.wait(
            lambda now: now.nodes[victim].pod.restarts > node.pod.restarts and not unsettled(now),
            timeout_s=LONG_S,
            waiting_for=lambda now: f"{victim} starts again; {'; '.join(unsettled(now)[:3])}",
        )
        after = (await self._dumped("after", result)).get(victim)
        if after == before[victim]:
            result.problems.append(f"{victim} was altered, and dumps as before: {after.digest}")
        elif after is not None and after.applied != before[victim].applied:
            result.unknown.append(
                f"{victim} was altered at {before[victim].applied}, and dumps at {after.applied}"
            )
        result.note += f"; {victim}, altered, dumps {after.digest if after else 'nothing'}"
        return result

    # ---------------------------------------------------------------------------------------------

    def _operations(self, times: int) -> list[Operation]:
        client, words = self.client, self.client.key("l")
        return [
            operation
            for _ in range(times)
            for operation in (
                client.write(client.key("r")),
                client.create(client.key("c")),
                client.append(words),
            )
        ]

    @asynccontextmanager
    async def _under_operations(self) -> AsyncIterator[list[AskedOperation]]:
        """Asks for operations, some at once, as long as the block lasts; what they came to is
        complete when it has ended.
        """
        asked: list[AskedOperation] = []
        ahead = iter(self._operations(MOST_OPERATIONS // 3))
        ended = asyncio.Event()

        async def ask_on() -> None:
            for operation in ahead:
                asked.append(await self._ask_within_limits(operation))
                with suppress(TimeoutError):
                    async with asyncio.timeout(ASK_EVERY_S):
                        await ended.wait()
                        return

        asking = [asyncio.create_task(ask_on()) for _ in range(AT_ONCE)]
        try:
            yield asked
        finally:
            ended.set()
            await asyncio.gather(*asking)

    async def _ask_within_limits(self, operation: Operation) -> AskedOperation:
        return await self.client.ask(operation, deadline_ms=3 * SHORT_MS, attempt_ms=_ATTEMPT_MS)

    @asynccontextmanager
    async def _inflicted(
        self,
        fault: AnyFault,
        victims: Callable[[ClusterView], list[str]],
        *,
        proven: bool = True,
    ) -> AsyncIterator[Injection]:
        """Injects a fault, which lasts as long as the block; raises WaitExpired if it has no effect
        or its victims don't come back.
        """
        view = self.world.observer.view()
        injection = Injection(
            world=self.world,
            name=fault.name,
            victims=tuple(Victim.of(view.nodes[name]) for name in victims(view)),
            sighting=Sighting(at_ns=view.at_ns, what="the suite"),
            timeout_s=fault.timeout_s,
            hold_s=fault.hold_s,
        )
        life = life_of(fault)
        await life.prepare(injection)
        try:
            await life.inject(injection)
            if proven:
                await life.wait_until_effective(injection)
            yield injection
        finally:
            await life.recover(injection)
            await life.wait_until_recovered(injection)
            await life.clean_up(injection)

    async def _seen_in_time(self, injection: Injection) -> list[str]:
        (victim,) = injection.victims

        async def first_write() -> None:
            while True:
                asked = await self._ask_within_limits(self.client.write(self.client.key("r")))
                if asked.outcome.type is Type.OK:
                    return

        try:
            async with asyncio.timeout(LONG_S):
                await first_write()
        except TimeoutError:
            return [f"nothing was written within {LONG_S:g} s after {victim.node} was killed"]
        for _ in range(LOOKS):
            try:
                await self.world.observer.wait(
                    lambda view: _leads_anew(self._partition(view), view, victim),
                    timeout_s=LOOK_S,
                    waiting_for=lambda view: f"seen as leader is {self._partition(view).leader}",
                )
            except WaitExpired as error:
                last = str(error)
            else:
                return []
        return [
            f"a new leader answered a write, and was not seen to lead {LOOKS * LOOK_S:g} s later: "
            f"{last}"
        ]

    def _partition(self, view: ClusterView) -> PartitionView:
        (partition,) = view.partitions.values()
        return partition

    def _leader(self, view: ClusterView) -> str:
        leader = self._partition(view).leader
        if leader is None:
            raise WaitExpired("no leader is seen")
        return leader

    async def _dumped(self, folder: str, result: StepResult) -> Mapping[str, DumpedState]:
        """Returns the state that each member dumps, by its name; a dump that is missing is unknown
        in `result`.
        """
        place = self.dumps / folder
        place.mkdir(parents=True, exist_ok=True)
        observer = self.world.observer
        result.unknown += await self.deployment.dump(observer.view(), place, self.world.events)
        headers = [
            msgspec.json.decode(file.read_bytes().partition(b"\n")[0], type=DumpedState)
            for file in sorted(place.glob("*.jsonl"))
        ]
        return {header.node: header for header in headers}


def _leads_anew(partition: PartitionView, view: ClusterView, victim: Victim) -> bool:
    leader = partition.leader
    if leader is None:
        return False
    return leader != victim.node or (
        view.nodes[leader].process_incarnation != victim.process_incarnation
    )


def _counted(asked: list[AskedOperation]) -> str:
    types = [one.outcome.type for one in asked]
    return ", ".join(
        f"{types.count(each)} {word}"
        for each, word in ((Type.OK, "done"), (Type.FAIL, "failed"), (Type.INFO, "unknown"))
        if each in types
    )
