"""Whether nodes stood still, by their own word: then a sound group may have lost its leader too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.processes.store.local_nodes import LocalNodes

STALL_S = 0.3
"""Less than half of what a leader may be silent, and far more than a tick is late by itself."""
TRIES = 3
_LOOK_S = 0.05
_METRIC = "zonequake_store_loop_lag_longest_seconds "


async def longest_lag_s(nodes: LocalNodes) -> float:
    """How late a tick of a node that runs came at most, since that was started."""
    texts = [await nodes.metrics(name) for name, node in nodes.nodes.items() if node.is_alive]
    lines = [line for text in texts for line in text.splitlines() if line.startswith(_METRIC)]
    assert len(lines) == len(texts)
    return max(float(line.removeprefix(_METRIC)) for line in lines)


async def stood_still(nodes: LocalNodes) -> bool:
    """Whether one of them did."""
    return await longest_lag_s(nodes) > STALL_S


async def again_after_a_stall(
    nodes: LocalNodes, attempt: Callable[[LocalNodes, str], Awaitable[None]]
) -> None:
    """Let `attempt` be made with a zone of the name that it is given, which must last under one
    leader; again, but not without end, if a node or this process stood still meanwhile."""
    for number in range(1, TRIES + 1):
        lags_s = [0.0]
        watching = asyncio.create_task(_note_own_lags(lags_s))
        try:
            await attempt(nodes, f"z{number}")
        except AssertionError:
            lasted = max(lags_s) <= STALL_S and not await stood_still(nodes)
            if lasted or number == TRIES:
                raise
        else:
            return
        finally:
            watching.cancel()


async def _note_own_lags(lags_s: list[float]) -> None:
    """How late this process's own loop comes back to a task."""
    now_s = asyncio.get_running_loop().time
    while True:
        due_s = now_s() + _LOOK_S
        await asyncio.sleep(_LOOK_S)
        lags_s.append(now_s() - due_s)
