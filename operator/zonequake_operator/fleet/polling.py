"""Asks all data nodes for their reports, and waits for none that hangs.

    round 1 ──► a: answers ──► b: answers ──► c: answers
    round 2 ──► a: answers ──► b: hangs ── PATIENCE_S ──► goes on with what b answered in round 1
    round 3 ──► a: answers ──► b: still asked, not waited for; fails after REPORT_TIMEOUT_S: silent
    round 4 ──► a: answers ──► b: asked again ── RETURN_PATIENCE_S ──► goes on without it

An answer stands until the next one comes, or the next question to that node has failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from zonequake_operator.errors import NodeUnreachable
from zonequake_operator.fleet.store_client import StoreClient
from zonequake_operator.nodes.topology import Pod
from zonequake_protocol.admin import ReplicasReport

logger = logging.getLogger(__name__)

PATIENCE_S = 0.2
"""How long a round waits for nodes that answered in the round before. Most answer in milliseconds.
"""
RETURN_PATIENCE_S = 0.02
"""And so long for nodes that were silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnswer:
    """A node's answer, and the round in which it was asked."""

    report: ReplicasReport
    asked_in: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    pod: Pod
    task: asyncio.Task[None]


class NodePolling:
    """The polling of all data nodes. `returned` is called when a silent one answers again."""

    def __init__(self, store: StoreClient, *, returned: Callable[[], None]) -> None:
        self._store = store
        self._returned = returned
        self.round = 0
        """The number of rounds begun."""
        self._answers: dict[str, NodeAnswer] = {}
        self._open: dict[str, _Question] = {}
        self._silent: set[str] = set()
        """Nodes whose last poll failed."""
        self._awaited: set[str] = set()
        """Nodes that this round still waits for."""
        self._enough = asyncio.Event()

    @property
    def answers(self) -> Mapping[str, NodeAnswer]:
        """The newest answers, by node."""
        return self._answers

    async def hear(self, pods: Iterable[Pod]) -> None:
        """Ask each of these that isn't being asked already."""
        self.round += 1
        asked = {pod.name: pod for pod in pods}
        for name in {*self._answers, *self._open, *self._silent} - asked.keys():
            self._forget(name)
        self._awaited, self._enough = set(), asyncio.Event()
        for name, pod in asked.items():
            before = self._open.get(name)
            if before is not None and (before.pod.uid, before.pod.ip) != (pod.uid, pod.ip):
                self._forget(name)
            if name not in self._open:
                task = asyncio.create_task(self._ask(pod, self.round), name=f"report of {name}")
                self._open[name] = _Question(pod=pod, task=task)
                self._awaited.add(name)
        await self._wait()

    async def _wait(self) -> None:
        await self._wait_for(RETURN_PATIENCE_S)
        self._awaited -= self._silent
        await self._wait_for(PATIENCE_S - RETURN_PATIENCE_S)
        # These have an older answer. A node without one would count as silent.
        self._awaited -= self._answers.keys()
        await self._wait_for(None)  # every question has its own time-out

    async def _wait_for(self, patience_s: float | None) -> None:
        if not self._awaited:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._enough.wait()

    def drop(self, names: Iterable[str]) -> None:
        """Drops the answers of nodes that have left; the round stops waiting."""
        for name in names:
            self._forget(name)
        self._awaited.clear()
        self._enough.set()

    def _forget(self, name: str) -> None:
        self._answers.pop(name, None)
        self._silent.discard(name)
        question = self._open.pop(name, None)
        if question is not None:
            question.task.cancel()
        self._awaited.discard(name)

    async def _ask(self, pod: Pod, in_round: int) -> None:
        assert pod.ip is not None, "only pods with an address are asked"
        report: ReplicasReport | None = None
        try:
            report = await self._store.replicas(pod.ip)
        except NodeUnreachable as error:
            logger.debug("%s is silent: %s", pod.name, error)
        except Exception:
            logger.exception("%s: unexpected error while reading its report", pod.name)
        if report is not None and not _is_of(report, pod):
            logger.warning("%s: %s answers at its address", pod.name, report.node.name)
            report = None  # an address that was given to another pod meanwhile
        del self._open[pod.name]
        if report is None:
            self._answers.pop(pod.name, None)
            self._silent.add(pod.name)
        else:
            self._answers[pod.name] = NodeAnswer(report=report, asked_in=in_round)
            if pod.name in self._silent:
                self._silent.discard(pod.name)
                self._returned()
        self._awaited.discard(pod.name)
        if not self._awaited:
            self._enough.set()


def _is_of(report: ReplicasReport, pod: Pod) -> bool:
    return report.node.name == pod.name and report.node.pod_uid in ("", pod.uid)
