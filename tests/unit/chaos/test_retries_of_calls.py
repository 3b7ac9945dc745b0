"""Calls of a cluster that are repeated, as long as they may yet succeed."""

from __future__ import annotations

import asyncio

import pytest

from zonequake_kube.errors import ClusterError, HarnessError, NotFound
from zonequake_kube.retries import retried


class Call:
    """Fails with one error after the other, then answers; `began_s` says when it was called."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)
        self.began_s: list[float] = []

    async def __call__(self) -> str:
        self.began_s.append(asyncio.get_running_loop().time())
        if self.failures:
            raise self.failures.pop(0)
        return "answer"


async def ask(call: Call, *, attempts: int = 3, pause_s: float = 0) -> str:
    # A lambda, as most callers have: no coroutine function, though it returns an awaitable.
    return await retried(
        lambda: call(),
        attempts=attempts,
        pause_s=pause_s,
        is_final=lambda error: isinstance(error, NotFound),
    )


async def test_a_call_that_fails_is_repeated_until_it_succeeds() -> None:
    call = Call(ClusterError("first"), ClusterError("second"))
    assert await ask(call, pause_s=0.01) == "answer"
    first, second, third = call.began_s
    assert min(second - first, third - second) >= 0.009, "it pauses before each repetition"


async def test_a_call_that_fails_each_time_ends_with_its_last_error() -> None:
    call = Call(*(ClusterError(f"number {number}") for number in range(1, 5)))
    with pytest.raises(ClusterError, match=r"^number 3$"):
        await ask(call)
    assert len(call.began_s) == 3


@pytest.mark.parametrize(
    "error", [NotFound("no pod"), HarnessError("none of the cluster's"), asyncio.CancelledError()]
)
async def test_what_repeating_does_not_change_is_raised_at_once(error: BaseException) -> None:
    call = Call(error)
    with pytest.raises(type(error)):
        await ask(call, pause_s=60)
    assert len(call.began_s) == 1
