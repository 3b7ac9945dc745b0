"""The client library of the store: finds leaders, retries, says honestly how operations ended.

`attempts.py` says how an operation is pursued over its attempts.

A pause ends as soon as the table learns of another leader; while an operation pauses, all nodes are
asked for their routes every `ROUTES_PAUSE_S`, so that an operation is on its way within that time
and a round trip of the new leader's election. Nothing is ever hedged.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

from zonequake_load.client.connection import Connections, addresses_of
from zonequake_load.errors import AttemptError, NotSent, TargetError
from zonequake_load.operation import Limits, OnceId, Operation, Outcome, TransactionOperation
from zonequake_load.routing.attempts import PAUSE_FLOOR, Attempts, ClientState, Pause, SendRequest
from zonequake_load.routing.routing_table import RoutingTable
from zonequake_protocol.client import Route, RouteReply

ROUTES_PAUSE_S = 0.04
"""The pause between two rounds of asking for routes, while an operation needs them."""

ROUTES_IDLE_S = 1.0
"""Between two rounds when all is well: learns of new nodes and moved leaders."""

ROUTES_TIMEOUT_S = 0.3

SILENCE_NS = 500_000_000
"""If no known node has answered for so long, the seeds are asked again: all may have moved."""


class Client:
    """Operations on one zone. `open` before the first, `close` after the last.

    `seeds` are `host:port`; every address of a host is asked. With `reads_anywhere` reads that may
    be retried go to the replicas in turn, and not to the leader first. `now_ns` is the monotonic
    clock that `Limits.deadline_ns` belongs to.
    """

    def __init__(
        self,
        zone: str,
        seeds: list[str],
        *,
        rng: random.Random,
        reads_anywhere: bool = False,
        connections: Connections | None = None,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.table = RoutingTable(zone)
        self._zone = zone
        self._seeds = seeds
        self._rng = rng
        self._reads_anywhere = reads_anywhere
        self._now_ns = now_ns
        self._connections = connections or Connections()
        self._changed = asyncio.Event()
        self._wanted = asyncio.Event()
        self._refresher: asyncio.Task[None] | None = None
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._pausing = 0
        self._answered_ns = 0
        self._last_problem = "no node has answered yet"
        self._client_state = ClientState(routes_wanted=self._wanted.set, way_changed=self._notify)

    async def open(self, timeout_s: float = 5.0) -> None:
        """Connect and learn the zone's routes.

        Raises:
            TargetError: no node knew the zone within `timeout_s`.
        """
        self._wanted.set()
        self._refresher = asyncio.create_task(self._refresh_for_ever())
        try:
            async with asyncio.timeout(timeout_s):
                while not self.table.partitions:
                    await self._changed.wait()
        except TimeoutError:
            await self.close()
            raise TargetError(
                f"found no node that knows zone {self._zone!r} within {timeout_s:.0f} s at "
                f"{', '.join(self._seeds)}: {self._last_problem}; check that the zone exists and "
                "that its partitions have started"
            ) from None

    async def close(self) -> None:
        """Stop; what is outstanding ends as unanswered."""
        tasks = [*self._asking.values(), *([self._refresher] if self._refresher else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._refresher = None
        await self._connections.close()

    async def execute(
        self,
        operation: Operation | TransactionOperation,
        limits: Limits,
        once: OnceId | None = None,
    ) -> Outcome:
        """Carry `operation` out within `limits`; never raises for what the network or a node does.

        A transaction needs `once`. A write without it must not be retried: the store could apply
        it twice.
        """
        attempts = Attempts(
            operation,
            limits,
            once=once,
            table=self.table,
            client_state=self._client_state,
            rng=self._rng,
            reads_anywhere=self._reads_anywhere,
        )
        while True:
            match attempts.next(self._now_ns()):
                case Outcome() as outcome:
                    return outcome
                case Pause() as pause:
                    await self._pause(attempts.partition, pause)
                case SendRequest() as ask:
                    await self._ask_store(attempts, ask)

    async def _ask_store(self, attempts: Attempts, ask: SendRequest) -> None:
        try:
            reply = await self._connections.request(ask.address, ask.body, ask.timeout_s)
        except NotSent as error:
            attempts.not_sent(str(error), self._now_ns())
        except AttemptError as error:
            attempts.unanswered(str(error), self._now_ns())
        else:
            attempts.answered(reply, self._now_ns())

    def partition_of(self, key: str) -> int:
        return self.table.partition_of(key)

    # --- waiting ---------------------------------------------------------------------------------

    async def _pause(self, partition: int, pause: Pause) -> None:
        """Wait, at most until another leader than the one that was tried is known."""
        self._pausing += 1
        try:
            await asyncio.sleep(pause.pause_s * PAUSE_FLOOR)
            async with asyncio.timeout(pause.pause_s * (1 - PAUSE_FLOOR)):
                while self.table.leader(partition) in (pause.tried, None):
                    await self._changed.wait()
        except TimeoutError:
            pass
        finally:
            self._pausing -= 1

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # --- routes ----------------------------------------------------------------------------------

    async def _refresh_for_ever(self) -> None:
        while True:
            try:
                async with asyncio.timeout(ROUTES_IDLE_S * (0.75 + 0.5 * self._rng.random())):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()
            for address in self.table.nodes.values():
                self._ask(address)
            if self._now_ns() - self._answered_ns > SILENCE_NS:
                for address in await self._resolve_seeds():
                    self._ask(address)
            await asyncio.sleep(ROUTES_PAUSE_S)
            if self._pausing or not self.table.partitions:
                self._wanted.set()

    def _ask(self, address: str) -> None:
        """Ask one node in the background, unless it still owes an answer: a silent node must not
        keep the others' news away."""
        if address not in self._asking:
            task = asyncio.create_task(self._ask_once(address))
            self._asking[address] = task
            task.add_done_callback(lambda _: self._asking.pop(address, None))

    async def _ask_once(self, address: str) -> None:
        try:
            reply = await self._connections.request(address, Route(self._zone), ROUTES_TIMEOUT_S)
        except AttemptError as error:
            self._last_problem = str(error)
            return
        if not isinstance(reply.route, RouteReply):
            self._last_problem = f"{address}: {reply.status} {reply.error or ''}".rstrip()
            return
        self._answered_ns = self._now_ns()
        first = not self.table.partitions
        changed = self.table.merge(reply.route, address, self._now_ns())
        if changed or (first and self.table.partitions):
            self._notify()

    async def _resolve_seeds(self) -> list[str]:
        found: dict[str, None] = {}
        for seed in self._seeds:
            try:
                found |= dict.fromkeys(await addresses_of(seed))
            except (OSError, ValueError) as error:
                self._last_problem = f"cannot resolve {seed}: {error}"
        return list(found)
