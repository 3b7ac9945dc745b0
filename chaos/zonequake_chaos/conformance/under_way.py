"""Asks for operations, some at once, and says which were under way at an instant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from zonequake_chaos.conformance.client import AskingClient
from zonequake_chaos.conformance.judgement import AskedOperation
from zonequake_load.operation import Operation, Outcome, Type

AT_ONCE = 6
"""Operations that are under way at any time while a process is killed."""

MOST_AT_FULL_RATE = 600
"""Each is read afterwards."""

ASK_EVERY_S = 0.02
"""Pause of each of those that ask at once; short, so that a kill meets some."""

ASK_SLOWLY_S = 1.0
"""Their pause once there are enough."""

SHORT_MS = 1_500
ATTEMPT_MS = 400

LONG_S = 60.0
"""A group that can serve again does so within it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOperation:
    """An operation, and when it was asked for and ended, monotonic."""

    asked: AskedOperation
    began_ns: int
    ended_ns: int


def was_under_way(one: TimedOperation, *, ordered_ns: int, reported_ns: int) -> bool:
    """Returns whether something that was ordered and reported at these instants met the operation.

    It was asked for before the report, and was not answered by then; or it ended between order and
    report, and is unknown, or took more than one attempt, as where a successor leads before the
    report comes. One that certainly did not happen was not met.
    """
    outcome = one.asked.outcome
    if outcome.type is Type.FAIL or one.began_ns > reported_ns:
        return False
    interrupted = outcome.type is Type.INFO or outcome.attempts > 1
    return one.ended_ns >= (ordered_ns if interrupted else reported_ns)


class OperationsUnderWay:
    """Operations out of `ahead`, which has no end, and what they came to. Several are one
    transaction."""

    def __init__(
        self,
        client: AskingClient,
        ahead: Iterator[Sequence[Operation]],
        *,
        now_ns: Callable[[], int],
    ) -> None:
        self._client = client
        self._ahead = ahead
        self._now_ns = now_ns
        self._one_ended = asyncio.Event()
        self.ended: list[TimedOperation] = []

    @property
    def asked(self) -> list[AskedOperation]:
        return [one.asked for one in self.ended]

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Asks as long as the block lasts; `ended` has all when it is over."""
        over = asyncio.Event()
        asking = [asyncio.create_task(self._ask_on(over)) for _ in range(AT_ONCE)]
        try:
            yield
        finally:
            over.set()
            await asyncio.gather(*asking)

    async def answered(self, *, since_ns: int, counts: Callable[[Outcome], bool]) -> None:
        """Waits for an answer that counts, to an operation that was asked for after `since_ns`."""
        while not any(
            one.began_ns > since_ns
            and one.asked.outcome.type is Type.OK
            and counts(one.asked.outcome)
            for one in self.ended
        ):
            self._one_ended.clear()
            await self._one_ended.wait()

    async def _ask_on(self, over: asyncio.Event) -> None:
        while not over.is_set():
            began_ns = self._now_ns()
            together = await self._client.ask_together(
                next(self._ahead), deadline_ms=3 * SHORT_MS, attempt_ms=ATTEMPT_MS
            )
            ended_ns = self._now_ns()
            self.ended += [
                TimedOperation(asked=asked, began_ns=began_ns, ended_ns=ended_ns)
                for asked in together
            ]
            self._one_ended.set()
            pause_s = ASK_EVERY_S if len(self.ended) < MOST_AT_FULL_RATE else ASK_SLOWLY_S
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await over.wait()
