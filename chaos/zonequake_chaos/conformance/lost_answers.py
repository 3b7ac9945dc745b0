"""Loses answers while requests arrive: to a target's client, and to the same client with a planted
lie, which must be found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from zonequake_chaos.conformance.client import AskingClient
from zonequake_chaos.conformance.judgement import (
    AskedOperation,
    StepResult,
    contradictions,
    counted,
    effects_of_lost,
)
from zonequake_chaos.conformance.under_way import ATTEMPT_MS, SHORT_MS
from zonequake_load.operation import Type
from zonequake_protocol.client import Value

LOSSES = 3
"""A loss in which no operation has an effect says nothing; so many are made at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLoss:
    """Operations whose answers are lost; `cut` drops answers, not requests, as long as its block
    lasts. `transactions`: one of two writes is asked for, too.
    """

    cut: Callable[[], AbstractAsyncContextManager[None]]
    transactions: bool

    async def judged(self, client: AskingClient) -> StepResult:
        """Judges a client, and then whether the same one is found while it lies."""
        asked, found = await self._lost_to(client)
        result = StepResult(problems=contradictions(asked, found), note=counted(asked))
        if not effects_of_lost(asked, found):
            result.unknown.append(
                f"no operation whose answer was lost had an effect, in {LOSSES} losses, so that "
                f"neither a wrong outcome nor a planted lie could show: {_told(asked)}"
            )
            return result
        await self._judge_a_lie(client.lying(), result)
        return result

    async def _judge_a_lie(self, lying: AskingClient, result: StepResult) -> None:
        asked, found = await self._lost_to(lying)
        lies = [one for one in asked if one.outcome.type is Type.FAIL]
        answered = [one for one in asked if one.outcome.type is Type.OK]
        result.problems += contradictions(answered, found)
        effects = effects_of_lost(asked, found)
        if not effects:
            result.unknown.append(
                f"a planted lie could not show: no operation whose answer was lost had an effect, "
                f"in {LOSSES} losses to the lying client: {_told(asked)}"
            )
        elif not contradictions(lies, found):
            result.problems.append(
                f"a planted lie was not noticed: {effects} lost operations had an effect, and the "
                f"lying client told {counted(asked)}, expected that each of them failed"
            )
        else:
            result.note += f"; a planted lie about {effects} more was noticed"

    async def _lost_to(
        self, client: AskingClient
    ) -> tuple[list[AskedOperation], Mapping[str, Value]]:
        """Returns what was asked for while answers were lost, and what was found afterwards; loses
        more until an operation without an answer had an effect.
        """
        asked: list[AskedOperation] = []
        found: Mapping[str, Value] = {}
        for _ in range(LOSSES):
            asked += await self._asked_without_answers(client)
            found = await client.find(one.operation.key for one in asked)
            if effects_of_lost(asked, found):
                break
        return asked, found

    async def _asked_without_answers(self, client: AskingClient) -> list[AskedOperation]:
        """Asks at once, since a client may keep no connection whose request was not answered."""
        async with self.cut():
            return await client.ask_at_once(
                client.each_kind(transactions=self.transactions),
                deadline_ms=SHORT_MS,
                attempt_ms=ATTEMPT_MS,
            )


def _told(asked: list[AskedOperation]) -> str:
    """Returns what the client said of each, as text."""
    return "; ".join(str(one.outcome.error) for one in asked)
