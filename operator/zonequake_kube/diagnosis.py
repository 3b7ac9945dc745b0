"""Looks at pods, nodes and Leases for the words of an error: why a wait has expired."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, WaitExpired, in_words
from zonequake_kube.objects import OPERATOR_LABELS, Json
from zonequake_kube.unready import lease_words, pod_trouble, trouble_lines, well_words

T = TypeVar("T")

LOOK_S = 15.0
"""A look that lasts longer is given up: it explains an error, and must not hide it."""


async def look_at_pods(kube: Kube, selectors: Sequence[str]) -> list[str]:
    """Returns the lines on the pods with these label selectors, and on the nodes. Never raises a
    HarnessError.
    """
    pods: list[Json] = []
    try:
        async with asyncio.timeout(LOOK_S):
            for selector in selectors:
                pods += await kube.find("Pod", selector)
            lines = trouble_lines(pods, await _if_permitted(kube.nodes()))
    except (ClusterError, TimeoutError) as error:
        return [f"the pods could not be read: {str(error) or 'no answer in time'}"]
    return lines if pods else [f"found no pod of {' or '.join(selectors)}", *lines]


async def look_at_operator(kube: Kube, *, now: datetime | None = None) -> str:
    """Returns the state of the namespace's operator as one sentence: of its pods, of the nodes and
    of the Lease. Never raises a HarnessError.
    """
    try:
        async with asyncio.timeout(LOOK_S):
            pods = await kube.find("Pod", OPERATOR_LABELS)
            leases = await _if_permitted(kube.find("Lease", OPERATOR_LABELS))
            nodes = await _if_permitted(kube.nodes())
    except (ClusterError, TimeoutError) as error:
        return f"the operator's state could not be read: {str(error) or 'no answer in time'}"
    ready = [well_words(pod) for pod in pods if pod_trouble(pod) is None]
    lines = [*ready, *trouble_lines(pods, nodes)] if pods else ["there is no pod of the operator"]
    now = now or datetime.now(UTC)
    return "; ".join([*lines, *(lease_words(lease, now) for lease in leases)])


async def explained(kube: Kube, selectors: Sequence[str], work: Callable[[], Awaitable[T]]) -> T:
    """Awaits `work`; adds to a WaitExpired, or a group of them alone, what `look_at_pods` sees."""
    try:
        return await work()
    except (WaitExpired, ExceptionGroup) as error:
        if isinstance(error, ExceptionGroup) and error.split(WaitExpired)[1] is not None:
            raise
        lines = await look_at_pods(kube, selectors)
        raise WaitExpired("; ".join([in_words(error), *lines])) from error


async def _if_permitted(read: Awaitable[list[Json]]) -> list[Json]:
    """Returns nothing where it can't be read: an account for one namespace may read no nodes."""
    try:
        return await read
    except ClusterError:
        return []
