"""The load's own client against local nodes, and what it recorded before the real checkers.

load = await RecordedLoad.begin(nodes, zone, processes=4)
...faults...
history = await load.end()
assert verdicts(history, {0: {}, 5: terms_on_disk(nodes.nodes["n2"], group)}, folder) == {}
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.patience import PATIENCE_S
from tests.processes.store.local_node import Node
from tests.processes.store.local_nodes import LocalNodes, Zone, until
from zonequake_load.client.client import Client
from zonequake_load.operation import Function, Limits, OnceId, Operation, Outcome, Type
from zonequake_load.pod.history import (
    HistoryEvent,
    OperationRole,
    RecordedCall,
    event_of,
    machine_clock,
)
from zonequake_simulation.judge import judged
from zonequake_simulation.lineages import seen_from
from zonequake_simulation.violation import Violation
from zonequake_store.storage.log_store import LogStore

KEYS = ("r0", "r1", "l0", "l1")
"""Registers and append-lists: few, so that operations meet."""


class RecordedLoad:
    """Processes that read and write a zone's first partition, and their history."""

    def __init__(self, zone: Zone, client: Client, *, attempt_s: float, deadline_s: float) -> None:
        self.history: list[HistoryEvent] = []
        self._attempt_s = attempt_s
        self._deadline_s = deadline_s
        self._zone = zone
        self._client = client
        self._clock = machine_clock()
        self._processes = itertools.count(1)
        self._values = itertools.count(1)
        self._random = random.Random(7)
        self._tasks: list[asyncio.Task[None]] = []
        self._ending = False

    @classmethod
    async def begin(
        cls,
        nodes: LocalNodes,
        zone: Zone,
        *,
        processes: int,
        attempt_s: float = 0.3,
        deadline_s: float = 1.0,
    ) -> RecordedLoad:
        """Let so many processes begin."""
        seeds = [f"127.0.0.1:{node.client_port}" for node in nodes.nodes.values()]
        client = Client(zone.name, seeds, rng=random.Random(8))
        await client.open(PATIENCE_S)
        load = cls(zone, client, attempt_s=attempt_s, deadline_s=deadline_s)
        load._tasks = [asyncio.create_task(load._run()) for _ in range(processes)]
        return load

    async def end(self) -> list[HistoryEvent]:
        """Let operations end, read every key once more, and return the history."""
        self._ending = True
        await asyncio.gather(*self._tasks)
        for key in KEYS:
            outcome = await self._operate(next(self._processes), 1, _read(key), OperationRole.FINAL)
            assert outcome.type is Type.OK, outcome
        await self._client.close()
        return self.history

    async def abandon(self) -> None:
        """End at once; the history is of no use."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()

    def acknowledged(self, lineage: int) -> int:
        """How many operations were answered in this lineage."""
        return sum(event.lineage == lineage for event in self.history if event.type is Type.OK)

    async def goes_on(self, lineage: int, more: int) -> None:
        """Wait for so many more answers in this lineage."""
        wanted = self.acknowledged(lineage) + more

        async def has_gone_on() -> bool:
            return self.acknowledged(lineage) >= wanted

        await until(has_gone_on, f"{more} more answers in lineage {lineage}")

    async def _run(self) -> None:
        process, sequence = next(self._processes), 0
        while not self._ending:
            sequence += 1
            outcome = await self._operate(process, sequence, self._draw(), OperationRole.LOAD)
            if outcome.type is Type.INFO:
                process, sequence = next(self._processes), 0
            await asyncio.sleep(0.01)

    def _draw(self) -> Operation:
        key = self._random.choice(KEYS)
        if self._random.random() < 0.4:
            return _read(key)
        function = Function.APPEND if key.startswith("l") else Function.WRITE
        return Operation(f=function, key=key, value=next(self._values))

    async def _operate(
        self, process: int, sequence: int, operation: Operation, role: OperationRole
    ) -> Outcome:
        now_ns = self._clock.monotonic_ns()
        call = RecordedCall(
            operation=operation,
            process=process,
            op=f"{process}-{sequence}",
            role=role,
            partition=0,
            sched_ns=now_ns,
            inv_ns=now_ns,
        )
        self._note(call, Type.INVOKE, None)
        deadline_s = PATIENCE_S if role is OperationRole.FINAL else self._deadline_s
        limits = Limits(
            deadline_ns=now_ns + int(deadline_s * 1e9),
            attempt_ns=int(self._attempt_s * 1e9),
            retry=True,
        )
        once = None if operation.f is Function.READ else OnceId(f"p{process}", sequence)
        outcome = await self._client.execute(operation, limits, once)
        self._note(call, outcome.type, outcome)
        return outcome

    def _note(self, call: RecordedCall, type_: Type, outcome: Outcome | None) -> None:
        event = event_of(call, type_, outcome, zone=self._zone.name, clock=self._clock)
        self.history.append(event)


def _read(key: str) -> Operation:
    return Operation(f=Function.READ, key=key)


def terms_on_disk(node: Node, group: str) -> dict[int, int]:
    """Index → whole term of every entry in a dead node's log, from the first one on."""
    store = LogStore(node.directory / "log", map_bytes=1 << 30, sync=True)
    try:
        number = store.records()[group].number
        last = store.recover(number).last_index
        return {each.index: each.term for each in store.entries(number, 1, last + 1, 1 << 30)}
    finally:
        store.close()


def verdicts(
    history: Sequence[HistoryEvent], lineages: Mapping[int, Mapping[int, int]], folder: Path
) -> dict[str, Violation]:
    """What the checkers find in the history as each lineage must explain it.

    `lineages`: the terms of the entries that a lineage consists of; the oldest one, without any,
    consists of all that was acknowledged in it.
    """
    oldest = min(lineages)

    def seen(lineage: int) -> list[HistoryEvent]:
        terms = lineages[lineage]
        return list(
            seen_from(
                lineage,
                history,
                lambda _, index, term: lineage == oldest or terms.get(index) == term,
            )
        )

    return judged({f"lineage-{number}": seen(number) for number in lineages}, folder)
