"""The life of a fault, in six verbs (after CockroachDB's roachtest).

    prepare → inject → wait_until_effective → recover → wait_until_recovered → clean_up

`prepare` records in the cleanup journal what must be undone; `inject` and `recover` change the
cluster; the two waits only observe, and the first returns the proof. `clean_up` may be called at
any time, and twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from zonequake_chaos.load.pods import LoadPods
from zonequake_chaos.node_access.own_machine import OwnMachine
from zonequake_chaos.node_access.shell import NodeShell, PodOnNode
from zonequake_chaos.observe.observer import Observer
from zonequake_chaos.observe.view import NodeView
from zonequake_chaos.record.cleanup_journal import CleanupJournal, Debt
from zonequake_chaos.record.clock import RunClock
from zonequake_chaos.record.event_log import EventLog
from zonequake_chaos.targeting.triggers import Sighting
from zonequake_kube.client import Kube
from zonequake_kube.errors import WaitExpired

_POLL_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultWorld:
    """The surroundings of a fault: what it acts on and observes; `release` is the Helm release.

    `node`: the node itself, if it is on this machine; `shell`: runs commands on a pod's node.
    `zones`: the run's own; `loads`: its load, one per zone. `tasks`: what faults do beside the run,
    which cancels them before it heals, whatever ended the run.
    """

    kube: Kube
    node: OwnMachine | None
    shell: NodeShell | None
    observer: Observer
    journal: CleanupJournal
    events: EventLog
    clock: RunClock
    release: str
    zones: Sequence[str] = ()
    loads: Sequence[LoadPods] = ()
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """One target as it was just before the fault; `runs` and `patience_s` as in `PodView`."""

    node: str
    pod_uid: str
    container: str
    restarts: int
    process_incarnation: str | None
    address: str
    host: str
    program: str = ""
    runs: bool = True
    patience_s: float | None = None

    @property
    def on_node(self) -> PodOnNode:
        return PodOnNode(name=self.node, uid=self.pod_uid, node=self.host)

    @classmethod
    def of(cls, node: NodeView) -> Victim:
        return cls(
            node=node.name,
            pod_uid=node.pod.uid,
            container=node.pod.container,
            restarts=node.pod.restarts,
            process_incarnation=node.process_incarnation,
            address=node.pod.address,
            host=node.pod.host,
            program=node.pod.program,
            runs=node.pod.runs,
            patience_s=node.pod.patience_s,
        )


Proof = dict[str, object]
"""Observed facts that prove the effect, for the event `fault.effective`."""


@dataclass(slots=True, kw_only=True)
class Injection:
    """One injection of one fault: the world, the victims, the trigger's sighting, the journal's
    entries.

    `opposite`: the other side of links that are broken between two sides. `held`: the fault lasts
    until another one, for a time that is not known yet.
    """

    world: FaultWorld
    name: str
    victims: tuple[Victim, ...]
    sighting: Sighting
    timeout_s: float
    hold_s: float
    opposite: tuple[Victim, ...] = ()
    held: bool = False
    debts: list[int] = field(default_factory=list)
    killed_ns: dict[str, int] = field(default_factory=dict)
    """Time by which each victim's process is known to have got SIGKILL (monotonic ns), by name."""
    signalled: dict[str, frozenset[int]] = field(default_factory=dict)
    """The processes in each victim's pod that got the last signal, as that pod numbers them."""
    back: Proof | None = None
    """Facts that prove the end of the fault, for the event `fault.recovered`, where there are any
    beside the members' own answers."""
    ended_early: str | None = None
    """The reason why the fault was over before its recovery began, as `recover` found it."""

    def owe(self, debt: Debt) -> None:
        """Records a state that this fault's undoing must reach."""
        self.debts.append(self.world.journal.owe(debt))

    def pay(self) -> None:
        """Records that all of this fault was undone."""
        for number in self.debts:
            self.world.journal.paid(number)
        self.debts.clear()

    async def until(
        self, condition: Callable[[], Awaitable[bool]], *, waiting_for: Callable[[], str]
    ) -> None:
        """Polls a condition that the observer doesn't see, until it holds. Raises WaitExpired."""
        deadline_ns = self.world.clock.now().time_ns + int(self.timeout_s * 1e9)
        while not await condition():
            if self.world.clock.now().time_ns >= deadline_ns:
                raise WaitExpired(f"not within {self.timeout_s:g} s: {waiting_for()}")
            await asyncio.sleep(_POLL_S)


async def end_tasks(tasks: set[asyncio.Task[None]]) -> None:
    """Cancels these tasks, and waits until none of them does anything any more."""
    while tasks:
        ending = list(tasks)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        tasks.difference_update(ending)


async def together(actions: Iterable[Coroutine[object, object, None]]) -> None:
    """Runs all actions concurrently, waits for every one, then raises the first error, if any."""
    results = await asyncio.gather(*actions, return_exceptions=True)
    for result in results:
        if result is not None:
            raise result


class FaultLife(Protocol):
    """One kind of fault. Each verb raises HarnessError if it fails."""

    async def prepare(self, injection: Injection) -> None: ...

    async def inject(self, injection: Injection) -> None: ...

    async def wait_until_effective(self, injection: Injection) -> Proof: ...

    async def recover(self, injection: Injection) -> None: ...

    async def wait_until_recovered(self, injection: Injection) -> None: ...

    async def clean_up(self, injection: Injection) -> None: ...
