"""Asks for operations, some at once, and for reads beside them; says which were under way at an
instant, and which reads were old.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from zonequake_chaos.conformance.client import AskingClient
from zonequake_chaos.conformance.judgement import AskedOperation
from zonequake_load.operation import Function, Operation, Outcome, Type

AT_ONCE = 6
"""Operations that are under way at any time while a process is killed."""

READERS = 2
"""Reads that are under way beside them, each of what was acknowledged last."""

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


def stale_reads(reads: Iterable[TimedOperation], ended: Iterable[TimedOperation]) -> list[str]:
    """Returns, as a sentence, the first read that lacks what was acknowledged before it was asked
    for, and how many there are. Nothing of what is asked for takes the place of a value.
    """
    acknowledged = defaultdict[str, list[TimedOperation]](list)
    for one in ended:
        if _is_acknowledged(one.asked):
            acknowledged[one.asked.operation.key].append(one)
    stale = []
    for read in reads:
        if read.asked.outcome.type is not Type.OK:
            continue
        found = read.asked.outcome.value
        held = found if isinstance(found, list) else [found]
        stale += [
            f"a read of {one.asked.operation.key} found {found!r}, "
            f"{(read.began_ns - one.ended_ns) / 1e6:.0f} ms after "
            f"{one.asked.operation.value!r} was acknowledged"
            for one in acknowledged[read.asked.operation.key]
            if one.ended_ns < read.began_ns and one.asked.operation.value not in held
        ][:1]
    return [f"{stale[0]} ({len(stale)} such reads)"] if stale else []


def _is_acknowledged(one: AskedOperation) -> bool:
    outcome = one.outcome
    return outcome.type is Type.OK and outcome.applied is not False


class OperationsUnderWay:
    """Operations out of `ahead`, which has no end, and what they came to; several are one
    transaction. `reads` went on beside those that `ended`.
    """

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
        self.reads: list[TimedOperation] = []

    @property
    def asked(self) -> list[AskedOperation]:
        return [one.asked for one in self.ended]

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Asks as long as the block lasts; `ended` has all when it is over."""
        over = asyncio.Event()
        asking = [asyncio.create_task(self._ask_on(over)) for _ in range(AT_ONCE)]
        asking += [asyncio.create_task(self._read_on(over)) for _ in range(READERS)]
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
            self.ended += await self._timed(next(self._ahead))
            self._one_ended.set()
            await self._pause(over)

    async def _read_on(self, over: asyncio.Event) -> None:
        while not over.is_set():
            acknowledged = (
                one.asked for one in reversed(self.ended) if _is_acknowledged(one.asked)
            )
            if (newest := next(acknowledged, None)) is not None:
                read = Operation(f=Function.READ, key=newest.operation.key)
                self.reads += await self._timed([read])
            await self._pause(over)

    async def _timed(self, steps: Sequence[Operation]) -> list[TimedOperation]:
        began_ns = self._now_ns()
        together = await self._client.ask_together(
            steps, deadline_ms=3 * SHORT_MS, attempt_ms=ATTEMPT_MS
        )
        ended_ns = self._now_ns()
        return [
            TimedOperation(asked=asked, began_ns=began_ns, ended_ns=ended_ns) for asked in together
        ]

    async def _pause(self, over: asyncio.Event) -> None:
        pause_s = ASK_EVERY_S if len(self.ended) < MOST_AT_FULL_RATE else ASK_SLOWLY_S
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await over.wait()
