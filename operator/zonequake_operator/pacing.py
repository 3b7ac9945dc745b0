"""How often one order is repeated: at once, then ever more slowly, without end.

The document's failover thread retries a bounded number of times and then calls for help; ours
goes on for ever, backed off, and the zone's conditions show what doesn't move (design §3).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from zonequake_store.admin_protocol import Order

from .plan import SendOrder

FIRST_DELAY_S = 0.3
MAX_DELAY_S = 5.0


class Pacer:
    """Remembers when each wanted order was sent; what is no longer wanted is forgotten."""

    def __init__(self) -> None:
        self._sent: dict[tuple[str, bytes], tuple[float, float]] = {}

    def due(self, wanted: Iterable[SendOrder], now_s: float) -> list[SendOrder]:
        """Those of `wanted` that are to be sent at `now_s` (monotonic seconds)."""
        sent: dict[tuple[str, bytes], tuple[float, float]] = {}
        due: list[SendOrder] = []
        for send in wanted:
            key = (send.node, _identity(send.order))
            last_s, delay_s = self._sent.get(key, (float("-inf"), 0.0))
            if now_s - last_s >= delay_s:
                due.append(send)
                delay_s = min(max(delay_s * 2, FIRST_DELAY_S), MAX_DELAY_S)
                last_s = now_s
            sent[key] = (last_s, delay_s)
        self._sent = sent
        return due


def _identity(order: Order) -> bytes:
    return msgspec.msgpack.encode(order)
