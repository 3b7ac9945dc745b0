"""Whether nodes stood still, by their own word: then a sound group may have lost its leader too."""

from __future__ import annotations

from tests.processes.store.local_nodes import LocalNodes

STALL_S = 0.3
"""Less than half of what a leader may be silent, and far more than a tick is late by itself."""
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
