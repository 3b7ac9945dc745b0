"""The client library of the store: finds leaders, retries, says honestly how operations ended.

One attempt goes to the leader by the routing table. What happens next:

    reply ok                  → ok
    reply not_leader + hint   → to the hinted node at once (once in a row, then after a pause)
    reply not_leader, not_here, overloaded; not sent
                              → certainly not applied; after a pause, again
    reply unknown, no reply   → may be applied; after a pause, again under the same `Once`
    reply forgotten           → not applied by this attempt; after a pause, again, now since a later
                                index; given up if an earlier attempt may be the forgotten one
    reply invalid, wrong_partition → certainly not applied; given up
    deadline                  → given up: `fail` if every attempt certainly never happened,
                                else `info`

A pause ends as soon as the table learns of another leader; while anyone is pausing, all nodes are
asked for their routes every `ROUTES_PAUSE_S`, so that an operation is on its way within that time
and a round trip of the new leader's election. Nothing is ever hedged.
"""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Callable

from zonequake_load.connection import Connections, split_address
from zonequake_load.errors import AttemptError, NotSent, TargetError
from zonequake_load.operation import Attempts, Function, Limits, Once, Operation, Outcome, Type
from zonequake_load.routing import RoutingTable
from zonequake_store.client_protocol import (
    Append,
    Body,
    Cas,
    Read,
    Reply,
    RequestId,
    Route,
    RouteReply,
    Status,
    Write,
)

PAUSE_MIN_S = 0.02
PAUSE_MAX_S = 0.2
"""Pauses between attempts double from the one to the other, with full jitter above the first."""

LAST_ATTEMPT_NS = 10_000_000
"""With less time left no further attempt is made: it would rarely be answered, and an unanswered
attempt makes an operation `info` that was `fail`."""

PAUSE_FLOOR = 0.25
"""The part of a pause that no news shortens: two nodes that name each other as leader must not be
asked at the speed of the network."""

ROUTES_PAUSE_S = 0.04
"""Between two rounds of asking for routes while somebody needs them."""

ROUTES_IDLE_S = 1.0
"""Between two rounds when all is well: learns of new nodes and moved leaders."""

ROUTES_TIMEOUT_S = 0.3

SILENCE_NS = 500_000_000
"""If no known node has answered for so long the seeds are asked again: all may have moved."""

_GIVE_UP = frozenset({Status.INVALID, Status.WRONG_PARTITION})


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
        self._seen: dict[str, int] = {}
        """The highest index that a reply of a group carried, for `RequestId.since`."""

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
        self, operation: Operation, limits: Limits, once: Once | None = None
    ) -> Outcome:
        """Carry `operation` out within `limits`; never raises for what the network or a node does.

        A write without `once` must not be retried: the store could apply it twice.
        """
        assert once or not limits.retry or operation.f is Function.READ, "retry needs a name"
        partition = self.table.partition_of(operation.key)
        attempts = Attempts()
        hinted: str | None = None
        pause_s = PAUSE_MIN_S
        turn = self._rng.randrange(64)
        since = 0
        while True:
            left_ns = limits.deadline_ns - self._now_ns()
            if left_ns <= (LAST_ATTEMPT_NS if attempts.sent else 0):
                return attempts.conclude()
            group = self.table.group(partition)
            address = hinted or self.table.leader(partition)
            anywhere = self._reads_anywhere and operation.f is Function.READ and hinted is None
            if (address is None or anywhere) and limits.retry:
                turn += 1
                address = self.table.member(partition, turn)
            elif address is None:
                # One attempt only: the suspect may have lost no more than a connection.
                address = self.table.suspected(partition)
            follow: str | None = None
            if group is None or address is None:
                attempts.refused(f"no leader of partition {partition} is known")
                self._wanted.set()
            else:
                timeout_s = min(left_ns, limits.attempt_ns) / 1e9
                if attempts.never_happened:
                    since = self._seen.get(group, 0)
                body = _body(operation, group, once, since)
                reply = await self._attempt(address, body, timeout_s, attempts)
                if reply is not None:
                    self._seen[group] = max(reply.index, self._seen.get(group, 0))
                if reply is None:
                    self.table.suspect(partition, address, self._now_ns())
                    self._wanted.set()
                elif reply.status is Status.OK:
                    self._confirm(partition, address, operation, reply)
                    return self._ok(address, reply, attempts)
                elif reply.status in _GIVE_UP:
                    return attempts.conclude()
                elif reply.status is Status.FORGOTTEN:
                    if not attempts.never_happened:
                        return attempts.conclude()
                else:
                    follow = self._learn(partition, group, address, reply)
            if not limits.retry:
                return attempts.conclude()
            if follow is not None and hinted is None:
                hinted = follow
                continue
            hinted = None
            await self._pause(partition, address, pause_s, limits.deadline_ns)
            pause_s = min(PAUSE_MAX_S, pause_s * 2)

    def partition_of(self, key: str) -> int:
        return self.table.partition_of(key)

    # --- one attempt -----------------------------------------------------------------------------

    async def _attempt(
        self, address: str, body: Body, timeout_s: float, attempts: Attempts
    ) -> Reply | None:
        """Send once; notes in `attempts` what it means unless the reply is `ok`."""
        try:
            reply = await self._connections.request(address, body, timeout_s)
        except NotSent as error:
            attempts.refused(str(error))
            return None
        except AttemptError as error:
            attempts.sent += 1
            attempts.unsure(str(error))
            return None
        attempts.sent += 1
        if reply.status is Status.UNKNOWN:
            attempts.unsure(f"{self.table.name_of(address)}: {reply.error or reply.status}")
        elif reply.status is not Status.OK:
            text = f"{reply.status}: {reply.error}" if reply.error else str(reply.status)
            attempts.refused(f"{self.table.name_of(address)}: {text}")
        return reply

    def _confirm(self, partition: int, address: str, operation: Operation, reply: Reply) -> None:
        # A bounded read is served by any replica and says nothing about the leader; nor does a read
        # that was asked of any replica, if the store is one that answers it there.
        local = operation.bounded or (self._reads_anywhere and operation.f is Function.READ)
        if not local and self.table.confirm(partition, address, reply.term):
            self._notify()

    def _ok(self, address: str, reply: Reply, attempts: Attempts) -> Outcome:
        return Outcome(
            type=Type.OK,
            attempts=attempts.sent,
            value=reply.value,
            applied=reply.applied,
            node=self.table.name_of(address),
            lineage=reply.lineage,
            term=reply.term,
            index=reply.index,
        )

    def _learn(self, partition: int, group: str, address: str, reply: Reply) -> str | None:
        """What a refusal says about the way; the node to go to at once, if it names one."""
        now_ns = self._now_ns()
        if reply.status is Status.OVERLOADED:
            return None
        if reply.status is Status.NOT_HERE:
            if self.table.leader(partition) == address:
                self.table.forget(partition, group)
            self._wanted.set()
            return None
        self.table.suspect(partition, address, now_ns)
        hint = reply.leader_address
        if reply.status is Status.NOT_LEADER and hint is not None and hint != address:
            if self.table.hint(partition, hint, reply.leader, reply.term, now_ns):
                self._notify()
            return hint
        self._wanted.set()
        return None

    # --- waiting ---------------------------------------------------------------------------------

    async def _pause(
        self, partition: int, tried: str | None, pause_s: float, deadline_ns: int
    ) -> None:
        """Wait, at most until another leader than `tried` is known."""
        pause_s = PAUSE_MIN_S + self._rng.random() * (pause_s - PAUSE_MIN_S)
        pause_s = min(pause_s, max(0.0, (deadline_ns - self._now_ns()) / 1e9))
        self._pausing += 1
        self._wanted.set()
        try:
            await asyncio.sleep(pause_s * PAUSE_FLOOR)
            async with asyncio.timeout(pause_s * (1 - PAUSE_FLOOR)):
                while self.table.leader(partition) in (tried, None):
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
                host, port = split_address(seed)
                async with asyncio.timeout(1.0):
                    infos = await asyncio.get_running_loop().getaddrinfo(
                        host, port, type=socket.SOCK_STREAM
                    )
            except (OSError, ValueError) as error:
                self._last_problem = f"cannot resolve {seed}: {error or type(error).__name__}"
                continue
            for _, _, _, _, name in infos:
                found[f"[{name[0]}]:{port}" if ":" in str(name[0]) else f"{name[0]}:{port}"] = None
        return list(found)


def _body(operation: Operation, group: str, once: Once | None, since: int) -> Body:
    request_id = RequestId(once.client, once.sequence, since) if once else None
    match operation.f:
        case Function.READ:
            return Read(group, operation.key, operation.bounded)
        case Function.WRITE:
            assert operation.value is not None
            return Write(group, operation.key, operation.value, operation.filler, request_id)
        case Function.CAS:
            assert operation.value is not None
            return Cas(group, operation.key, operation.expected, operation.value, request_id)
        case Function.APPEND:
            assert isinstance(operation.value, int)
            return Append(group, operation.key, operation.value, request_id)
