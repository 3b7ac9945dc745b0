"""The pace of repeating one order: at once, then more and more slowly, without end.

The document's failover thread retries a bounded number of times and then calls for help
(`rebalance`, "Failover"); ours goes on forever, backed off. How often a change was asked for is
counted, so that the zone's conditions can call for help (design §3). A reset isn't slowed down: its
survivor refuses it until it has noticed that its leader is gone, and no client is served meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec

from zonequake_operator.planning.zone_orders import SendOrder
from zonequake_operator.resources.model import ChangeAttempts
from zonequake_protocol.admin import ChangePeers, Order, ResetPeers, StopReplica

FIRST_DELAY_S = 0.3
RESET_DELAY_S = 0.1
"""Less than a round's period: a survivor is asked in each of them."""
MAX_DELAY_S = 5.0
MAX_RETRY_DELAY_S = 30.0
"""The longest pause before a change is asked for again: each attempt may cost its leader a catch-up
time-out, and data sent again.
"""
KEEP_S = 600.0
"""How long a change is remembered after it was asked for last: attempts take minutes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    token: int
    term: int
    count: int
    last_s: float
    delay_s: float


class Pacer:
    """Remembers when each wanted order was sent; what is no longer wanted is forgotten.

    Not so a change of peers: while its leader tries, it isn't wanted, and when it failed, it is
    the next attempt of the same change.
    """

    def __init__(self) -> None:
        self._sent: dict[tuple[str, bytes], tuple[float, float]] = {}
        self._changes: dict[str, _Change] = {}
        self._awaited: dict[tuple[str, str, str], float] = {}
        """Since when an erasure that has patience has been called for."""

    @property
    def attempts(self) -> Mapping[str, ChangeAttempts]:
        """The number of requests for each group's newest change."""
        return {
            group: ChangeAttempts(token=change.token, count=change.count)
            for group, change in self._changes.items()
        }

    def change_due_s(self, order: ChangePeers) -> float:
        """Returns when this change may be asked for again (monotonic seconds), after `due` left it
        out.
        """
        change = self._changes[order.group]
        return change.last_s + change.delay_s

    def due(self, wanted: Iterable[SendOrder], now_s: float) -> list[SendOrder]:
        """Returns those of `wanted` that are due at `now_s` (monotonic seconds)."""
        sent: dict[tuple[str, bytes], tuple[float, float]] = {}
        due: list[SendOrder] = []
        awaited: dict[tuple[str, str, str], float] = {}
        for send in wanted:
            if isinstance(send.order, StopReplica) and send.patience_s:
                # Not by the whole order: its token rises with each wish.
                about = (send.node, send.order.group, send.order.incarnation)
                awaited[about] = self._awaited.get(about, now_s)
                if now_s - awaited[about] < send.patience_s:
                    continue
            if isinstance(send.order, ChangePeers):
                if self._is_change_due(send.order, now_s):
                    due.append(send)
                continue
            key = (send.node, _identity(send.order))
            last_s, delay_s = self._sent.get(key, (float("-inf"), 0.0))
            if now_s - last_s >= delay_s:
                due.append(send)
                if isinstance(send.order, ResetPeers):
                    delay_s = RESET_DELAY_S
                else:
                    delay_s = min(max(delay_s * 2, FIRST_DELAY_S), MAX_DELAY_S)
                last_s = now_s
            sent[key] = (last_s, delay_s)
        self._sent, self._awaited = sent, awaited
        self._changes = {g: c for g, c in self._changes.items() if now_s - c.last_s < KEEP_S}
        return due

    def _is_change_due(self, order: ChangePeers, now_s: float) -> bool:
        change = self._changes.get(order.group)
        if change is None or change.token != order.token:
            change = _Change(
                token=order.token, term=order.term, count=0, last_s=float("-inf"), delay_s=0.0
            )
        elif change.term != order.term:
            # onLeaderElected: a new leader is asked at once.
            change = replace(change, term=order.term, last_s=float("-inf"), delay_s=0.0)
        if now_s - change.last_s < change.delay_s:
            return False
        self._changes[order.group] = replace(
            change,
            count=change.count + 1,
            last_s=now_s,
            delay_s=min(max(change.delay_s * 2, FIRST_DELAY_S), MAX_RETRY_DELAY_S),
        )
        return True


def _identity(order: Order) -> bytes:
    return msgspec.msgpack.encode(order)
