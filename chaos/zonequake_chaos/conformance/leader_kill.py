"""Kills the leader's process under operations: their outcomes, and when its successor is seen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass

from zonequake_chaos.conformance.client import AskingClient
from zonequake_chaos.conformance.judgement import (
    AskedOperation,
    StepResult,
    contradictions,
    counted,
)
from zonequake_chaos.conformance.under_way import (
    LONG_S,
    OperationsUnderWay,
    stale_reads,
    was_under_way,
)
from zonequake_chaos.faults.life import FaultWorld
from zonequake_chaos.observe.view import ClusterView, NodeView, PartitionView
from zonequake_kube.errors import WaitExpired
from zonequake_load.operation import Outcome

LOOK_S = 0.1
LOOKS = 10
"""Looks within which a new leader must have been seen to lead, from its first answer: a second, in
pieces, so that a harness that stood still meanwhile has looked as often.
"""

KILLS = 3
"""A kill that meets no operation says nothing; so many are made at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderKill:
    """`killed` kills the process of the member of that name, which has come back at the end of the
    block. `transactions`: some are asked for, too.
    """

    world: FaultWorld
    client: AskingClient
    killed: Callable[[str], AbstractAsyncContextManager[object]]
    transactions: bool

    async def judged(self) -> StepResult:
        """Kills until a kill meets an operation: the successor may lead before the kill is
        reported.
        """
        result = StepResult()
        asked: list[AskedOperation] = []
        for _ in range(KILLS):
            operations, met = await self._once(result)
            asked += operations
            if met:
                break
        else:
            result.unknown.append(
                f"each of {KILLS} kills met no operation: none was interrupted, or unanswered at "
                "its report"
            )
        found = await self.client.find(one.operation.key for one in asked)
        result.problems += contradictions(asked, found)
        result.note = f"{counted(asked)}; the kill met {met} of them"
        return result

    async def _once(self, result: StepResult) -> tuple[list[AskedOperation], int]:
        """Returns what was asked for, and how many operations the kill met."""
        view = self.world.observer.view()
        old = view.nodes[leader_of(view)]
        requests = self.client.requests(transactions=self.transactions)
        operations = OperationsUnderWay(self.client, requests, now_ns=self._now_ns)
        looking = asyncio.create_task(self._look_for_successor(old, partition_of(view).term))
        try:
            with self.world.observer.armed():
                async with operations.going_on():
                    ordered_ns = self._now_ns()
                    async with self.killed(old.name):
                        reported_ns = self._now_ns()
                        problem = await self._unseen(operations, old, reported_ns, looking)
        finally:
            looking.cancel()
        result.problems += [problem] if problem else []
        result.problems += stale_reads(operations.reads, operations.ended)
        met = sum(
            was_under_way(one, ordered_ns=ordered_ns, reported_ns=reported_ns)
            for one in operations.ended
        )
        return operations.asked, met

    async def _unseen(
        self,
        operations: OperationsUnderWay,
        old: NodeView,
        killed_ns: int,
        looking: asyncio.Task[None],
    ) -> str:
        """Returns that no successor answers, or that it is not seen to lead; empty if it is."""

        def of_successor(outcome: Outcome) -> bool:
            """Says whether the killed process can't have answered by its children: a server that
            it supervised may live on for a while.
            """
            return outcome.node != old.name or _is_another_process(self.world.observer.view(), old)

        try:
            async with asyncio.timeout(LONG_S):
                await operations.answered(since_ns=killed_ns, counts=of_successor)
        except TimeoutError:
            return f"nothing was answered within {LONG_S:g} s after {old.name} was killed"
        for _ in range(LOOKS):
            await asyncio.wait({looking}, timeout=LOOK_S)
            if looking.done():
                await looking
                return ""
        seen = partition_of(self.world.observer.view()).leader
        return (
            f"a new leader answered, and was not seen to lead {LOOKS * LOOK_S:g} s later: seen as "
            f"leader is {seen}"
        )

    async def _look_for_successor(self, old: NodeView, old_term: int) -> None:
        """Waits until a new leader is seen, from before the kill on: one whose first writes wait
        for a standby leads long before it answers, and need not be seen at each instant.
        """
        while True:
            with suppress(WaitExpired):
                await self.world.observer.wait(
                    lambda view: _leads_newly(view, old, old_term),
                    timeout_s=LONG_S,
                    waiting_for=lambda _: "a new leader",
                )
                return

    def _now_ns(self) -> int:
        return self.world.clock.now().time_ns


def _leads_newly(view: ClusterView, old: NodeView, old_term: int) -> bool:
    """Returns whether another member is seen to lead, or the old one as another process or in a
    later term; the kubelet may tell of a process later than that answers.
    """
    partition = partition_of(view)
    if partition.leader is None:
        return False
    others = partition.leader != old.name or partition.term > old_term
    return others or _is_another_process(view, old)


def _is_another_process(view: ClusterView, old: NodeView) -> bool:
    """Returns whether a member answers as another process than the one it was."""
    now = view.nodes.get(old.name)
    return now is not None and now.process_incarnation not in (None, old.process_incarnation)


def partition_of(view: ClusterView) -> PartitionView:
    """Returns the only partition."""
    (partition,) = view.partitions.values()
    return partition


def leader_of(view: ClusterView) -> str:
    """Returns the leader's name. Raises WaitExpired if none is seen."""
    leader = partition_of(view).leader
    if leader is None:
        raise WaitExpired("no leader is seen")
    return leader
