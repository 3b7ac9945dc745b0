"""The real core with an observer: the checks see every input and output."""

from __future__ import annotations

from typing import Protocol

from zonequake_simulation.checks.steps import Steps
from zonequake_store.raft.api import Ready
from zonequake_store.raft.core import Raft
from zonequake_store.raft.messages import Message


class StepObserver(Protocol):
    """The interface of an observer; one for each life of a replica."""

    steps: Steps
    """Gets each message and tick."""

    def after_step(self) -> None:
        """Takes note that the core took an input, or a Ready was stored."""

    def took(self, ready: Ready) -> None:
        """Takes note that the host was given a Ready."""

    def enforces(self, lineage: int) -> None:
        """Takes the lineage below which no replica takes part, before the core gets it."""

    def storing_in_memory(self, ready: Ready) -> None:
        """Takes note that a volatile replica's Ready counts as stored from now on."""


class WatchedRaft(Raft):
    """A core that reports to its observer and is otherwise unchanged."""

    __slots__ = ("is_volatile", "observer")

    observer: StepObserver
    is_volatile: bool

    def tick(self, now_ms: int | None = None, *, count: int = 1) -> None:
        self.observer.steps.ticked(count)
        super().tick(now_ms, count=count)

    def step(self, message: Message) -> None:
        steps = self.observer.steps
        before = steps.before()
        super().step(message)
        steps.after(message, before)

    def node_ended(self, node: str, *, lot: int = 0) -> None:
        self.observer.steps.node_ended(node)
        super().node_ended(node, lot=lot)

    def ready(self) -> Ready:
        self.observer.after_step()
        ready = super().ready()
        self.observer.took(ready)
        return ready

    def enforce(self, lineage: int) -> None:
        self.observer.enforces(lineage)
        super().enforce(lineage)

    def stored(self, ready: Ready) -> None:
        if self.is_volatile:
            self.observer.storing_in_memory(ready)
        super().stored(ready)
        self.observer.after_step()
