"""The steps of a conformance suite, each on members that serve. A step returns what was wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from zonequake_chaos.conformance.alteration import alter_value
from zonequake_chaos.conformance.client import AskingClient
from zonequake_chaos.conformance.judgement import (
    AskedOperation,
    DumpedState,
    StepResult,
    contradictions,
    counted,
    differing,
    effects_of_lost,
    out_of_order,
    unaltered,
    undecided,
    unheld,
    without_member,
    without_place,
)
from zonequake_chaos.conformance.leader_kill import LeaderKill, leader_of
from zonequake_chaos.conformance.lost_answers import AnswerLoss
from zonequake_chaos.conformance.under_way import ATTEMPT_MS, LONG_S, SHORT_MS
from zonequake_chaos.faults.life import FaultWorld, Injection, Victim
from zonequake_chaos.faults.registry import life_of
from zonequake_chaos.kit.deployment import Deployment
from zonequake_chaos.kit.target import TargetPackage
from zonequake_chaos.observe.view import ClusterView
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
from zonequake_load.operation import Function, OnceId, Operation, Type
from zonequake_protocol.admin import DumpEntry

NO_CUTS = "links can't be cut here: install the release with --set faultAgent.enabled=true"


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
        """Asks for each operation: it does what it says, at a place in the claimed order, and its
        answer names the member.
        """
        client, register, words = self.client, self.client.key("r"), self.client.key("l")
        await client.find([register])  # a group that has just begun may wait for its followers
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
        old = await client.ask(Operation(f=Function.READ, key=register, bounded=True))
        problems = [
            f"{one.operation.f.value} ended {one.outcome.type.value}: {one.outcome.error}"
            for one in [*all_asked, old]
            if one.outcome.type is not Type.OK
        ]
        if (refused.outcome.applied, refused.outcome.value) != (False, value):
            problems.append(f"a cas that expects another value came to {refused.outcome}")
        if not done.outcome.applied or not created.outcome.applied:
            problems.append(f"a cas that expects what is there came to {done.outcome}")
        if found != expected:
            problems.append(f"reads found {found}, expected {expected}")
        if old.outcome.type is Type.OK and old.outcome.value not in (None, value, 3):
            problems.append(f"a bounded read found {old.outcome.value!r}, which was never written")
        if self.package.claims.order:
            problems += without_place(all_asked) + out_of_order(all_asked)
        problems += without_member(all_asked, self.world.observer.view().nodes)
        return StepResult(problems=problems, note=f"{len(all_asked) + 1} operations")

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
        """Drops all answers while requests arrive: what may have happened is not called certain,
        and the same client is found once it does that.
        """
        if not self.cuts_links:
            return StepResult(unknown=[NO_CUTS])
        loss = AnswerLoss(cut=self._answers_lost, transactions=self.package.claims.transactions)
        return await loss.judged(self.client)

    async def replayed_request(self) -> StepResult:
        """Asks for an operation again under its id: it is applied once."""
        if not self.package.claims.repeats:
            return StepResult(note="not claimed: nothing that may have happened is sent twice")
        once, operation = self.client.once(), self.client.append(self.client.key("l"))
        asked = [await self.client.ask(operation, once=once) for _ in range(2)]
        found = await self.client.find([operation.key])
        result = StepResult(problems=contradictions(asked, found), note=counted(asked))
        await self._replay_of_a_lost_answer(result)
        return result

    async def _replay_of_a_lost_answer(self, result: StepResult) -> None:
        if not self.cuts_links:
            result.unknown.append(f"no request whose answer was lost was sent again: {NO_CUTS}")
            return
        once, operation = self.client.once(), self.client.append(self.client.key("l"))
        async with self._answers_lost():
            lost = await self._ask_once_shortly(operation, once)
        before = await self.client.find([operation.key])
        again = await self.client.ask(operation, once=once)
        after = await self.client.find([operation.key])
        result.problems += contradictions([lost, again], after)
        if not effects_of_lost([lost], before):
            result.unknown.append(
                f"a request without an answer came to {lost.outcome}, expected an effect and an "
                "unknown outcome: its repetition says nothing"
            )
        elif again.outcome.type is not Type.OK:
            result.unknown.append(f"a lost request, sent again, came to {again.outcome}")
        else:
            result.note += "; a request whose answer was lost was sent again"

    async def killed_connections(self) -> StepResult:
        """Kills a leader's process under operations: its successor is seen in time."""
        kill = ProcessKillSpec(name="kill", target=FaultTarget(role=TargetRole.LEADER))
        leader_kill = LeaderKill(
            world=self.world,
            client=self.client,
            killed=lambda name: self._inflicted(kill, lambda _: [name]),
            transactions=self.package.claims.transactions,
        )
        return await leader_kill.judged()

    async def dumps_of_members(self) -> StepResult:
        """Compares members that hold the same, and then alters one, which must differ."""
        if not self.package.claims.dumps:
            return StepResult(note="not claimed")
        operation, result = self.client.write(self.client.key("r")), StepResult()
        written = await self.client.ask(operation)
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
        if written.outcome.type is Type.OK:
            for name in before:
                result.problems += unheld(operation, name, self._keys("before", name))
        if len(before) < 2:
            result.unknown.append(
                f"whether members dump the same: compared the dump of {len(before)} member, "
                "expected at least 2"
            )
        if self.package.alters is None:
            result.unknown.append(
                "whether a dump shows what its member holds: no member was altered, since the "
                "target's package does not say how (`alters`)"
            )
            return result
        view = self.world.observer.view()
        victim = min(set(before) - {leader_of(view)} or set(before), default="")
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
        dumped = await self._dumped("after", result)
        after = dumped.get(victim)
        result.problems += unaltered(before[victim], after)
        result.unknown += undecided(before[victim], dumped)
        result.note += f"; {victim}, altered, dumps {after.digest if after else 'nothing'}"
        return result

    # ---------------------------------------------------------------------------------------------

    async def _ask_once_shortly(
        self, operation: Operation, once: OnceId | None = None
    ) -> AskedOperation:
        return await self.client.ask(
            operation, once=once, deadline_ms=SHORT_MS, attempt_ms=ATTEMPT_MS
        )

    @asynccontextmanager
    async def _answers_lost(self) -> AsyncIterator[None]:
        """Cuts answers off, not requests, as long as the block lasts."""
        cut = NetworkPartitionSpec(
            name="lost-answers",
            target=FaultTarget(role=TargetRole.ALL),
            cut=Traffic.CLIENTS,
            direction=Direction.OUTBOUND,
        )
        await self.client.warm_up(transactions=self.package.claims.transactions)
        # No packet is dropped before one is sent, so that only the operations show the effect.
        async with self._inflicted(cut, lambda view: sorted(view.nodes), proven=False):
            yield

    @asynccontextmanager
    async def _inflicted(
        self,
        fault: AnyFault,
        victims: Callable[[ClusterView], list[str]],
        *,
        proven: bool = True,
    ) -> AsyncIterator[Injection]:
        """Injects a fault, which lasts as long as the block; at its end raises WaitExpired if it
        had no effect or its victims don't come back.
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
            yield injection
            if proven:
                await life.wait_until_effective(injection)
        finally:
            await life.recover(injection)
            await life.wait_until_recovered(injection)
            await life.clean_up(injection)

    def _keys(self, folder: str, node: str) -> Iterator[DumpEntry]:
        """Yields what a member's dump holds."""
        (file,) = (self.dumps / folder).glob(f"*-{node}.jsonl")
        _, *lines = file.read_bytes().splitlines()
        return (msgspec.json.decode(line, type=DumpEntry) for line in lines)

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
