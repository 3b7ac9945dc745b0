"""Holds requests that come while a group's leadership goes from one replica to another. Pure.

From the moment a leader hands over it proposes nothing, and no other replica does before its
successor is elected, a few commits later. A client that is refused meanwhile, with the successor's
name, comes there too early, is refused again, and pauses for longer than all of it takes. So the
old leader keeps the requests, and answers with the new leader as soon as it knows it:

    hands over ─► held ─┬─ another leader is heard ──► not_leader, with its name
                        ├─ nothing came of it: it leads on ──► taken
                        └─ HOLD_TICKS ──► not_leader, as if it had not waited

A follower does the same from the moment in which it knows that its leader's process has ended: the
next leader is elected within a few commits too, and any member can name it to a client.
"""

from __future__ import annotations

from dataclasses import dataclass

from zonequake_protocol.client import Transaction
from zonequake_store.replica.reads import SendReply
from zonequake_store.replica.requests import KeyOperation

HOLD_TICKS = 3
"""Ticks of 100 ms that a request is held: longer than a hand-over takes on a busy machine, shorter
than a client waits for an answer. A successor that was not heard by then may be dead, and the next
election takes long.
"""


@dataclass(frozen=True, slots=True)
class HeldRequest:
    """One request and its client."""

    id: int
    operation: KeyOperation | Transaction
    answer: SendReply


class WaitingForSuccessor:
    """Requests of one replica that wait for a new leader; at most `most`. The caller that ends the
    wait, or lets a tick pass, answers the held requests.
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._held: list[HeldRequest] = []
        self._ticks: int | None = None

    def __len__(self) -> int:
        return len(self._held)

    @property
    def is_under_way(self) -> bool:
        """Returns whether a hand-over began whose end is not known yet, however long ago."""
        return self._ticks is not None

    @property
    def is_worth_waiting(self) -> bool:
        """Returns whether its end can be expected soon."""
        return self._ticks is not None and self._ticks < HOLD_TICKS

    def begin(self) -> None:
        """Records that the leadership is being handed over; may be repeated."""
        if self._ticks is None:
            self._ticks = 0

    def hold(self, held: HeldRequest) -> bool:
        """Keep a request, if that is of use."""
        if not self.is_worth_waiting or len(self._held) >= self._most:
            return False
        self._held.append(held)
        return True

    def tick(self) -> list[HeldRequest]:
        """Counts a tick; returns the requests that need not wait any longer."""
        if self._ticks is None:
            return []
        self._ticks += 1
        return [] if self.is_worth_waiting else self._taken()

    def end(self) -> list[HeldRequest]:
        """Ends the hand-over, as the leader is known; returns the requests that waited."""
        self._ticks = None
        return self._taken()

    def _taken(self) -> list[HeldRequest]:
        held, self._held = self._held, []
        return held
