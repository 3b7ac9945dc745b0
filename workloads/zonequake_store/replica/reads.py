"""Linearizable reads of one replica's clients, from their request to their answer.

    ask ─► asked ─begin─► begun[number] ─confirm─► confirmed (index) ─serve─► answered
                                                        key about to be written ─► blocked

A read of a key that a prepared transaction is about to write waits for the transaction's end,
because the commit may be decided and acknowledged, or be visible in another partition already: a
client that reads the old value now could have read the new one of another key before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zonequake_protocol.client import Reply
from zonequake_store.state.partition import StateMachine
from zonequake_store.state.replies import locked_reply, value_reply

READ_WAIT_TICKS = 10
"""Ticks of 100 ms for which a read waits for the transaction that is about to write its key."""

SendReply = Callable[[Reply], None]


@dataclass(frozen=True, slots=True)
class PendingRead:
    """One read and its client."""

    id: int
    answer: SendReply
    key: str


@dataclass(slots=True)
class _Blocked:
    reading: PendingRead
    ticks: int = 0


class WaitingReads:
    """The reads that wait for an answer. A caller of an `end_…` method must answer the reads that
    it returns.
    """

    def __init__(self) -> None:
        self._asked: list[PendingRead] = []
        self._begun: dict[int, list[PendingRead]] = {}
        self._confirmed: list[tuple[int, list[PendingRead]]] = []
        self._blocked: list[_Blocked] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def are_asked(self) -> bool:
        """Some wait for `begin`."""
        return bool(self._asked)

    @property
    def need_ticks(self) -> bool:
        """Returns whether `tick` has anything to do."""
        return bool(self._blocked)

    def ask(self, reading: PendingRead) -> None:
        """Queues a client's read."""
        self._count += 1
        self._asked.append(reading)

    def begin(self, number: int) -> None:
        """Starts the requested read as read `number` of the core."""
        self._begun[number], self._asked = self._asked, []

    def confirm(self, number: int, index: int) -> None:
        """Records that the reads of `number` may be answered from a state that has applied
        `index`.
        """
        readings = self._begun.pop(number, None)
        if readings is not None:
            self._confirmed.append((index, readings))

    def serve(self, partition: StateMachine) -> None:
        """Answers the confirmed reads whose state is here."""
        if self._blocked:
            blocked, self._blocked = self._blocked, []
            for each in blocked:
                self._serve(each, partition)
        if not self._confirmed:
            return
        later: list[tuple[int, list[PendingRead]]] = []
        for index, readings in self._confirmed:
            if index > partition.index:
                later.append((index, readings))
                continue
            for reading in readings:
                self._serve(_Blocked(reading), partition)
        self._confirmed = later

    def _serve(self, blocked: _Blocked, partition: StateMachine) -> None:
        reading = blocked.reading
        if not partition.is_written(reading.key):
            reply = value_reply(reading.id, partition, reading.key)
        elif blocked.ticks >= READ_WAIT_TICKS:
            reply = locked_reply(reading.id, partition, reading.key)
        else:
            self._blocked.append(blocked)
            return
        self._count -= 1
        reading.answer(reply)

    def tick(self, partition: StateMachine) -> None:
        """Handles a tick for the reads that wait for a transaction."""
        for each in self._blocked:
            each.ticks += 1
        self.serve(partition)

    def end_asked(self) -> list[PendingRead]:
        """Ends and returns the reads that the core was not asked for yet."""
        asked, self._asked = self._asked, []
        return self._ended(asked)

    def end_begun(self, number: int) -> list[PendingRead]:
        """Ends and returns the reads that the core gave up as `number`."""
        return self._ended(self._begun.pop(number, []))

    def end_confirmed(self) -> list[PendingRead]:
        """Ends and returns the confirmed reads: their index may mean another state from now on."""
        confirmed, self._confirmed = self._confirmed, []
        blocked, self._blocked = self._blocked, []
        waiting = [reading for _, readings in confirmed for reading in readings]
        return self._ended(waiting + [each.reading for each in blocked])

    def end_all(self) -> list[PendingRead]:
        """All that wait here."""
        begun, self._begun = self._begun, {}
        waiting = self._ended([reading for readings in begun.values() for reading in readings])
        return waiting + self.end_confirmed() + self.end_asked()

    def _ended(self, readings: list[PendingRead]) -> list[PendingRead]:
        self._count -= len(readings)
        return readings
