"""The load's own client, entered for a while; what it saw is judged as a run's history is."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType

from tests.patience import PATIENCE_S
from tests.processes.store.local_nodes import LocalNodes, Zone
from tests.processes.store.recorded_load import RecordedLoad, verdicts
from tests.processes.store.store_client import Client
from zonequake_load.operation import Function, Type

PROCESSES = 4


class Load:
    """Runs while it is entered.

    `attempt_s`: after so long without an answer another node is asked.
    """

    def __init__(self, nodes: LocalNodes, zone: Zone, *, attempt_s: float = 0.3) -> None:
        self.group = zone.groups[0]
        self.client: Client = nodes.client()
        """Another one, for requests of the test itself."""
        self._attempt_s = attempt_s
        self._nodes = nodes
        self._zone = zone
        self._recorded: RecordedLoad
        self._seen = 0
        self._written = 0

    async def __aenter__(self) -> Load:
        self._recorded = await RecordedLoad.begin(
            self._nodes,
            self._zone,
            processes=PROCESSES,
            attempt_s=self._attempt_s,
            deadline_s=3 * self._attempt_s,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            await self._recorded.end()
        else:
            await self._recorded.abandon()

    @property
    def count(self) -> int:
        """How many writes and appends were acknowledged."""
        history = self._recorded.history
        self._written += sum(
            event.type is Type.OK and event.f is not Function.READ
            for event in history[self._seen :]
        )
        self._seen = len(history)
        return self._written

    async def goes_on(self, more: int = 100) -> None:
        """Wait for so many more acknowledgements."""
        wanted, end_s = self.count + more, time.monotonic() + PATIENCE_S
        while self.count < wanted:
            assert time.monotonic() < end_s, (
                f"{wanted - self.count} of {more} were not acknowledged"
            )
            await asyncio.sleep(0.02)

    def nothing_is_lost(self) -> None:
        """Judge it, once it was left."""
        assert self.count
        assert verdicts(self._recorded.history, {0: {}}, self._nodes.directory) == {}
