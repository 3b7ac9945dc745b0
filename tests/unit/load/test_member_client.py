"""What a target's author leaves out makes no outcome certain."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from zonequake_load.client.connection import addresses_of
from zonequake_load.errors import (
    AnsweredError,
    AttemptError,
    NotSent,
    OutcomeUnknown,
    TargetError,
)
from zonequake_load.operation import (
    Function,
    Limits,
    Operation,
    Outcome,
    TransactionOperation,
    Type,
)
from zonequake_load.targets.member_client import Attempt, MemberClient


class Client(MemberClient):
    """Every attempt ends with the error."""

    def __init__(self, error: AttemptError, *, only_reads: bool = False) -> None:
        super().__init__(["127.0.0.1:1"], rng=random.Random(1))
        self._error = error
        self._only_reads = only_reads

    def connect(self) -> None: ...

    async def disconnect(self) -> None: ...

    async def examine(self, attempt: Attempt) -> None: ...

    async def attempt(self, operation: Operation, attempt: Attempt) -> Outcome:
        async def request(timeout_s: float) -> Outcome:
            raise self._error

        if self._only_reads:
            attempt.writes = False
        return await attempt.send(request)


async def outcome_of(client: Client, f: Function) -> Type:
    limits = Limits(
        deadline_ns=time.monotonic_ns() + 60 * 10**9, attempt_ns=60 * 10**9, retry=False
    )
    await client.open()
    try:
        return (await client.execute(Operation(f=f, key="k", value=1), limits)).type
    finally:
        await client.close()


@pytest.mark.parametrize("f", [Function.WRITE, Function.CAS, Function.APPEND])
async def test_an_error_is_only_certain_if_the_target_says_so(f: Function) -> None:
    assert await outcome_of(Client(OutcomeUnknown("no answer")), f) is Type.INFO
    assert await outcome_of(Client(AnsweredError("what?", certain=False)), f) is Type.INFO
    assert await outcome_of(Client(AnsweredError("full", certain=True)), f) is Type.FAIL
    assert await outcome_of(Client(NotSent("no way")), f) is Type.FAIL
    assert await outcome_of(Client(OutcomeUnknown("none"), only_reads=True), f) is Type.FAIL


async def test_a_transaction_of_a_target_without_any_has_failed_at_once() -> None:
    client = Client(OutcomeUnknown("no answer"))
    limits = Limits(
        deadline_ns=time.monotonic_ns() + 600 * 10**9, attempt_ns=60 * 10**9, retry=True
    )
    await client.open()
    step = Operation(f=Function.WRITE, key="k", value=1)
    outcome = await client.execute(TransactionOperation(steps=(step, step)), limits)
    await client.close()
    assert (outcome.type, outcome.error) == (Type.FAIL, "the target has no transactions")


async def never(*_: object, **__: object) -> Any:
    await asyncio.Event().wait()


class RefusesOnce(Client):
    """No endpoint serves: the first examination is refused, the later ones don't end."""

    refusals = 0

    async def examine(self, attempt: Attempt) -> None:
        self.refusals += 1
        await attempt.send(never if self.refusals > 1 else self._refuse)

    async def _refuse(self, timeout_s: float) -> None:
        raise self._error


async def test_a_name_that_takes_too_long_hides_no_reason_and_has_words_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("zonequake_load.targets.member_client.OPEN_TIMEOUT_S", 2.0)
    client = RefusesOnce(NotSent("not let in"))

    async def slow_after_the_first(seed: str) -> list[str]:
        if client.refusals:
            monkeypatch.setattr("zonequake_load.client.connection.LOOK_UP_TIMEOUT_S", 0.01)
            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", never)
        return await addresses_of(seed)

    monkeypatch.setattr("zonequake_load.targets.member_client.addresses_of", slow_after_the_first)
    with pytest.raises(TargetError, match=r"127.0.0.1:1: not let in"):
        await client.open()
    assert client.refusals == 2

    with pytest.raises(TargetError, match=r"cannot resolve 127.0.0.1:1: no answer within 0.01 s"):
        await RefusesOnce(NotSent("not let in")).open()


async def test_what_is_wrong_with_each_member_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last member's silence must not hide that another one refuses the client."""

    limits: list[asyncio.Timeout] = []
    of_asyncio = asyncio.timeout

    def first_endless(delay_s: float | None) -> asyncio.Timeout:
        limits.append(of_asyncio(delay_s if limits else None))
        return limits[-1]

    examined: set[str] = set()

    class Refused(Client):
        async def examine(self, attempt: Attempt) -> None:
            if len(examined) == 2:
                limits[0].reschedule(0.0)
            examined.add(attempt.address)
            raise NotSent("refused" if attempt.address.endswith(":1") else "silent")

    monkeypatch.setattr(asyncio, "timeout", first_endless)
    client = Refused(NotSent(""))
    client._seeds = ["127.0.0.1:1", "127.0.0.1:2"]
    with pytest.raises(TargetError, match=r":1: refused; 127\.0\.0\.1:2: silent; check"):
        await client.open()
