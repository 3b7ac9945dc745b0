"""The client of a system whose members all take requests: endpoints, attempts, outcomes.

A target extends `MemberClient` by one attempt at one endpoint. Nothing that may have happened is
repeated, since most systems know no request ids:

    read     again at the next endpoint, whatever went wrong
    others   again only if the attempt certainly never happened
"""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from zonequake_load.client.connection import addresses_of
from zonequake_load.errors import AnsweredError, AttemptError, NotSent, TargetError
from zonequake_load.operation import (
    AttemptOutcomes,
    Function,
    Limits,
    OnceId,
    Operation,
    Outcome,
    TransactionOperation,
    Type,
)
from zonequake_load.routing.attempts import LAST_ATTEMPT_NS, PAUSE_MAX_S, PAUSE_MIN_S
from zonequake_load.routing.endpoints import Endpoints
from zonequake_load.targets.keys import key_for_partition

OPEN_TIMEOUT_S = 5.0

WATCH_S = 1.0
"""Between two rounds of looking up the seeds when all is well: pods come back elsewhere."""

WATCH_SUSPECTS_S = 0.1
"""Between two rounds while an endpoint is suspect; it is examined then."""

CHECK_TIMEOUT_S = 0.5

_T = TypeVar("_T")


class Attempt:
    """The requests of one attempt at one endpoint, `address` as `host:port`.

    `sent` counts those that left. `writes`: what is asked next, or was last, may change a key; a
    target sets it to false while it only reads, and what goes wrong then is certain.
    """

    def __init__(
        self, address: str, limits: Limits, *, now_ns: Callable[[], int], writes: bool = False
    ) -> None:
        self.address = address
        self.limits = limits
        self.sent = 0
        self.writes = writes
        self._now_ns = now_ns

    async def send(self, request: Callable[[float], Awaitable[_T]]) -> _T:
        """Sends one request, which gets its time in seconds; a deadline that has come lets nothing
        leave. Raises AttemptError.
        """
        left_ns = self.limits.deadline_ns - self._now_ns()
        if left_ns <= (LAST_ATTEMPT_NS if self.sent else 0):
            raise _TooLate("the deadline came before another request was sent")
        self.sent += 1
        try:
            return await request(min(left_ns, self.limits.attempt_ns) / 1e9)
        except NotSent:
            self.sent -= 1
            raise


class _TooLate(NotSent):
    """No time was left."""

    blames_endpoint = False


class _NoTransactions(NotSent):
    """The target has none."""


class MemberClient(ABC):
    """The keys of one run in such a system, which is one partition.

    `seeds` are `host:port` of client ports; each address of a host is an endpoint. `now_ns` is the
    monotonic clock that `Limits.deadline_ns` belongs to.
    """

    def __init__(
        self,
        seeds: Sequence[str],
        *,
        rng: random.Random,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._seeds = seeds
        self._rng = rng
        self._now_ns = now_ns
        self._endpoints = Endpoints(rng.randrange(64))
        self._addresses: dict[str, list[str]] = {}
        self._problem = "no endpoint has answered yet"
        """The last one of all."""
        self._problems: dict[str, str] = {}
        """The last one of each endpoint that didn't serve, and of each seed without an address."""
        self._watch: asyncio.Task[None] | None = None
        self._checks: dict[str, asyncio.Task[None]] = {}
        self._suspected = asyncio.Event()

    # --- the target's part -----------------------------------------------------------------------

    @abstractmethod
    def connect(self) -> None:
        """Makes what requests are sent by; called in a running event loop. Raises TargetError."""

    @abstractmethod
    async def disconnect(self) -> None:
        """Closes it; what is outstanding is `OutcomeUnknown`."""

    @abstractmethod
    async def attempt(self, operation: Operation, attempt: Attempt) -> Outcome:
        """Carries `operation` out in one attempt; `attempts` of the outcome is not yet known. Its
        `node` is the name of the member that answered, which is that of its pod.

        At most one of its requests may change a key: the error of the last one is that of all.
        Raises AttemptError: NotSent, OutcomeUnknown, AnsweredError.
        """

    async def transaction(self, transaction: TransactionOperation, attempt: Attempt) -> Outcome:
        """Carries all steps out in one attempt, together or not at all, as `attempt` does one.

        A target that claims no transactions has none of this.
        """
        raise _NoTransactions("the target has no transactions")

    @abstractmethod
    async def examine(self, attempt: Attempt) -> None:
        """Asks an endpoint whether it serves linearizable reads; returns if it does.

        Raises AttemptError.
        """

    # --- the load's part -------------------------------------------------------------------------

    @property
    def partitions(self) -> int:
        return 1

    def partition_of(self, key: str) -> int:
        return 0

    def key_for_partition(self, stem: str, partition: int) -> str:
        return key_for_partition(stem, partition, self.partitions)

    async def open(self) -> None:
        """Finds the members. Raises TargetError if none answers."""
        self.connect()
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                await self._until_one_serves()
        except TimeoutError:
            await self.close()
            raise TargetError(
                f"found no member that serves within {OPEN_TIMEOUT_S:.0f} s at "
                f"{', '.join(self._seeds)}: {'; '.join(self._problems.values()) or self._problem}; "
                "check that it runs and that these are its client ports"
            ) from None
        self._watch = asyncio.create_task(self._watch_for_ever())

    async def close(self) -> None:
        tasks = [*self._checks.values(), *([self._watch] if self._watch else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.disconnect()

    async def execute(
        self,
        operation: Operation | TransactionOperation,
        limits: Limits,
        once: OnceId | None = None,
    ) -> Outcome:
        """Attempts `operation` until it is answered, may have happened (if it changes anything) or
        its time is over.

        Endpoints are tried at once one after another, then there is a pause. Bounded reads also
        try those that can't serve others.
        """
        if isinstance(operation, TransactionOperation):
            changes, anyone = any(step.f is not Function.READ for step in operation.steps), False
        else:
            changes, anyone = operation.f is not Function.READ, operation.bounded
        attempts, tried, most_s = AttemptOutcomes(), set[str](), PAUSE_MIN_S
        while True:
            left_ns = limits.deadline_ns - self._now_ns()
            if left_ns <= (LAST_ATTEMPT_NS if attempts.sent else 0):
                return attempts.conclude()
            address = self._endpoints.choose(tried, anyone=anyone)
            if address is None:
                attempts.refused(self._problem)
                if not limits.retry:
                    return attempts.conclude()
            if address is None or address in tried:
                pause_s = PAUSE_MIN_S + self._rng.random() * (most_s - PAUSE_MIN_S)
                most_s = min(PAUSE_MAX_S, most_s * 2)
                tried.clear()
                await asyncio.sleep(min(pause_s, left_ns / 1e9))
                continue
            tried.add(address)
            attempt = Attempt(address, limits, now_ns=self._now_ns, writes=changes)
            try:
                outcome = await self._attempted(operation, attempt)
            except _NoTransactions as error:
                return Outcome(type=Type.FAIL, attempts=0, error=str(error))
            except AttemptError as error:
                attempts.sent += attempt.sent
                why = f"{address}: {error}" if isinstance(error, AnsweredError) else str(error)
                if error.certain or (changes and not attempt.writes):
                    attempts.refused(why)
                else:
                    attempts.unsure(why)
                if error.blames_endpoint:
                    self._endpoints.failed(address)
                    self._suspected.set()
            else:
                self._endpoints.answered(address)
                return msgspec.structs.replace(outcome, attempts=attempts.sent + attempt.sent)
            if not limits.retry or (changes and not attempts.never_happened):
                return attempts.conclude()

    async def _attempted(
        self, operation: Operation | TransactionOperation, attempt: Attempt
    ) -> Outcome:
        if isinstance(operation, TransactionOperation):
            return await self.transaction(operation, attempt)
        return await self.attempt(operation, attempt)

    def host_of(self, address: str) -> str:
        """Returns the host of the seed that has the address: the name that a certificate of the
        member there has. An address of no seed is its own.
        """
        seeds = (seed for seed, found in self._addresses.items() if address in found)
        return next(seeds, address).rpartition(":")[0].strip("[]")

    # --- endpoints -------------------------------------------------------------------------------

    async def _until_one_serves(self) -> None:
        while True:
            await self._look_up()
            if any([await self._serves(address) for address in self._endpoints.all]):
                return
            await asyncio.sleep(WATCH_SUSPECTS_S)

    async def _serves(self, address: str) -> bool:
        limits = Limits(
            deadline_ns=self._now_ns() + int(CHECK_TIMEOUT_S * 1e9),
            attempt_ns=int(CHECK_TIMEOUT_S * 1e9),
            retry=False,
        )
        try:
            await self.examine(Attempt(address, limits, now_ns=self._now_ns))
        except AttemptError as error:
            self._problem = self._problems[address] = f"{address}: {error}"
            return False
        return True

    async def _watch_for_ever(self) -> None:
        """Keeps addresses, and finds out which suspects serve again."""
        looked_up_ns = self._now_ns()
        while True:
            try:
                async with asyncio.timeout(WATCH_S):
                    await self._suspected.wait()
                await asyncio.sleep(WATCH_SUSPECTS_S)
            except TimeoutError:
                pass
            suspects = self._endpoints.suspects
            if not suspects:
                self._suspected.clear()
            if self._now_ns() - looked_up_ns >= WATCH_S * 1e9:
                await self._look_up()
                looked_up_ns = self._now_ns()
            for address in suspects:
                if address not in self._checks:
                    # Each in a task of its own: a silent one must not keep the others waiting.
                    self._checks[address] = asyncio.create_task(self._check(address))

    async def _look_up(self) -> None:
        """Looks up all seeds; one that can't be looked up now keeps its last addresses, and what
        was last said of them.
        """
        for seed in self._seeds:
            try:
                found = await addresses_of(seed)
            except (OSError, ValueError) as error:
                if seed not in self._addresses:
                    self._problem = self._problems[seed] = f"cannot resolve {seed}: {error}"
            else:
                if seed not in self._addresses:
                    self._problems.pop(seed, None)
                self._addresses[seed] = found
        self._endpoints.replace(one for some in self._addresses.values() for one in some)
        known = {*self._endpoints.all, *self._seeds}
        self._problems = {where: why for where, why in self._problems.items() if where in known}

    async def _check(self, address: str) -> None:
        try:
            if await self._serves(address):
                self._endpoints.answered(address)
        finally:
            del self._checks[address]
