"""Calls of a cluster that are repeated: a node may be restarting, or an answer be cut short."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_fixed

from zonequake_kube.errors import ClusterError

_T = TypeVar("_T")


async def retried(
    call: Callable[[], Awaitable[_T]],
    *,
    attempts: int,
    pause_s: float,
    is_final: Callable[[ClusterError], bool],
) -> _T:
    """Returns the call's answer, after at most so many `attempts`. Only for calls that may be
    repeated.

    Raises the last ClusterError, one that `is_final` at once, and any other error at once.
    """

    def may_pass(error: BaseException) -> bool:
        return isinstance(error, ClusterError) and not is_final(error)

    retrying = AsyncRetrying(
        stop=stop_after_attempt(attempts),
        wait=wait_fixed(pause_s),
        retry=retry_if_exception(may_pass),
        reraise=True,
    )
    async for attempt in retrying:
        with attempt:
            return await call()
    raise AssertionError("tenacity either returns or raises")
