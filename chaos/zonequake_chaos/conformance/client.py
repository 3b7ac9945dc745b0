"""Asks a target's client, in a load pod, for single operations."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from zonequake_chaos.conformance.judgement import AskedOperation
from zonequake_chaos.load.pods import LoadPods
from zonequake_kube.errors import WaitExpired
from zonequake_load.operation import Function, OnceId, Operation, Outcome, Type
from zonequake_load.pod.control import OperationRequest
from zonequake_protocol.client import Value

FIRST_VALUE = 100_000_000_000_001
"""Values have 15 digits, so that one can be found in a file."""

_WARM_UP = {"deadline_ms": 1_500, "attempt_ms": 1_500}

READ_TRIES = 20
_PAUSE_S = 0.5


class AskingClient:
    """The client of one target; keys and values are given once."""

    def __init__(self, load: LoadPods) -> None:
        self._load = load
        self._numbers = itertools.count(FIRST_VALUE)
        self._lies = False

    def lying(self) -> AskingClient:
        """Returns the same client with a planted lie: what it does not know it tells as certainly
        failed. Keys and values of both are given once.
        """
        other = copy.copy(self)
        other._lies = True
        return other

    def key(self, stem: str) -> str:
        return f"{stem}-{next(self._numbers) - FIRST_VALUE}"

    def write(self, key: str) -> Operation:
        return Operation(f=Function.WRITE, key=key, value=next(self._numbers))

    def create(self, key: str) -> Operation:
        """Returns a cas that expects the key to be absent."""
        return Operation(f=Function.CAS, key=key, value=next(self._numbers))

    def append(self, key: str) -> Operation:
        return Operation(f=Function.APPEND, key=key, value=next(self._numbers))

    def operations(self) -> Iterator[Operation]:
        """Yields writes, creations and appends in turn, without end."""
        words = self.key("l")
        while True:
            yield self.write(self.key("r"))
            yield self.create(self.key("c"))
            yield self.append(words)

    def two_writes(self) -> Sequence[Operation]:
        """Returns the steps of a transaction."""
        return [self.write(self.key("t")) for _ in range(2)]

    def requests(self, *, transactions: bool) -> Iterator[Sequence[Operation]]:
        """Yields single operations and, if asked for, transactions, without end."""
        for operation in self.operations():
            yield (operation,)
            if operation.f is Function.APPEND and transactions:
                yield self.two_writes()

    def each_kind(self, *, transactions: bool) -> list[Sequence[Operation]]:
        """Returns a write, a creation, an append and, if asked for, a transaction."""
        return list(
            itertools.islice(self.requests(transactions=transactions), 4 if transactions else 3)
        )

    def once(self) -> OnceId:
        """Returns an id that no operation has had."""
        return OnceId(f"check-{next(self._numbers)}", 1)

    async def ask(
        self,
        operation: Operation,
        *,
        once: OnceId | None = None,
        deadline_ms: int = 5_000,
        attempt_ms: int = 1_000,
    ) -> AskedOperation:
        """Has it carried out once; raises ClusterError if the load pod does not answer."""
        request = OperationRequest(
            steps=(operation,),
            once=once if once is not None else self.once(),
            deadline_ms=deadline_ms,
            attempt_ms=attempt_ms,
            planted_lie=self._lies,
        )
        return AskedOperation(operation=operation, outcome=await self._load.execute(request))

    async def transact(
        self, *steps: Operation, deadline_ms: int = 5_000, attempt_ms: int = 1_000
    ) -> Outcome:
        """Has a transaction carried out once. Raises ClusterError if the load pod is silent."""
        request = OperationRequest(
            steps=steps,
            once=self.once(),
            deadline_ms=deadline_ms,
            attempt_ms=attempt_ms,
            planted_lie=self._lies,
        )
        return await self._load.execute(request)

    async def ask_together(
        self, steps: Sequence[Operation], *, deadline_ms: int, attempt_ms: int
    ) -> list[AskedOperation]:
        """Has some carried out in a transaction, or a single one; each has the outcome of all."""
        outcome = await self.transact(*steps, deadline_ms=deadline_ms, attempt_ms=attempt_ms)
        number = next(self._numbers) if len(steps) > 1 else None
        return [
            AskedOperation(operation=step, outcome=outcome, transaction=number) for step in steps
        ]

    async def ask_at_once(
        self, asked: Iterable[Sequence[Operation]], *, deadline_ms: int, attempt_ms: int
    ) -> list[AskedOperation]:
        """Has all carried out at the same time, each as `ask_together` does."""
        limits = {"deadline_ms": deadline_ms, "attempt_ms": attempt_ms}
        ended = await asyncio.gather(*(self.ask_together(each, **limits) for each in asked))
        return [one for together in ended for one in together]

    async def warm_up(self, *, transactions: bool) -> None:
        """Has a client connect to all members, and do each kind of operation on each connection, in
        whatever order it takes them: without an answer it may not connect, nor prepare a statement.
        """
        kinds = self.each_kind(transactions=transactions)
        for first in range(len(kinds)):
            for _ in range(2):  # the first connection, kept last, may be the next one taken
                await self.ask_at_once(kinds[first:] + kinds[:first], **_WARM_UP)

    async def find(self, keys: Iterable[str]) -> Mapping[str, Value]:
        """Reads each key, for as long as it takes within limits. Raises WaitExpired."""
        return {key: await self._read(key) for key in sorted(set(keys))}

    async def _read(self, key: str) -> Value:
        why = None
        for _ in range(READ_TRIES):
            outcome = (await self.ask(Operation(f=Function.READ, key=key))).outcome
            if outcome.type is Type.OK:
                return outcome.value
            why = outcome.error
            await asyncio.sleep(_PAUSE_S)
        raise WaitExpired(f"{key} can't be read after {READ_TRIES} tries: {why}")
