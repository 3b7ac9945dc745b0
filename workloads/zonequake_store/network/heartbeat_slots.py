"""Replaces a heartbeat that equals the previous one by the number of its slot.

Between two nodes an idle group says the same over and over: this term, this commit index, this
round. Each side of a connection keeps the last heartbeat and the last answer of every group in a
numbered slot; one that equals what its slot holds leaves as the slot's number, and the receiver
takes the message out of its own slot again:

    first    kept=[(7, group, message)]        the receiver takes it and keeps it in slot 7
    again    again=[7]                         the receiver takes what it keeps in slot 7

The cores step the same `Message` as without this. A connection delivers in order and begins with
empty slots, so both sides always hold the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from zonequake_store.errors import ProtocolError
from zonequake_store.network.peer_protocol import Messages
from zonequake_store.raft.messages import Message, MessageKind

MAX_SLOTS = 1 << 16

GroupMessages = tuple[str, list[Message]]


class SentSlots:
    """The slots given by the sending side of a connection."""

    def __init__(self) -> None:
        self._slots: dict[MessageKind, dict[str, tuple[int, Message]]] = {
            MessageKind.HEARTBEAT: {},
            MessageKind.HEARTBEAT_REPLY: {},
        }
        self._used = 0

    def shortened(self, frame: Messages) -> Messages:
        """Returns a shorter frame with the same meaning for a peer that received everything before;
        it must be sent.
        """
        groups: list[GroupMessages] = []
        kept: list[tuple[int, str, Message]] = []
        again: list[int] = []
        for group, messages in frame.groups:
            others: list[Message] = []
            for message in messages:
                slots = self._slots.get(message.kind)
                if slots is None:
                    others.append(message)
                    continue
                known = slots.get(group)
                if known is None:
                    number = self._new_number()
                elif known[1] == message:
                    again.append(known[0])
                    continue
                else:
                    number = known[0]
                slots[group] = (number, message)
                kept.append((number, group, message))
            if others:
                groups.append((group, others))
        return Messages(groups, kept, again)

    def _new_number(self) -> int:
        if self._used == MAX_SLOTS:  # of groups that left, most likely: start over
            for slots in self._slots.values():
                slots.clear()
            self._used = 0
        self._used += 1
        return self._used - 1


class ReceivedSlots:
    """The slots known to the receiving side of a connection."""

    def __init__(self) -> None:
        self._slots: dict[int, GroupMessages] = {}

    def in_full(self, frame: Messages) -> Messages:
        """Restores the frame as it was before it was shortened. Raises ProtocolError for a number
        never given.
        """
        return Messages([*frame.groups, *self._slots_of(frame)])

    def _slots_of(self, frame: Messages) -> Iterator[GroupMessages]:
        for number, group, message in frame.kept:
            if not 0 <= number < MAX_SLOTS:
                raise ProtocolError(f"slot {number} was given; expected 0 to {MAX_SLOTS - 1}")
            if message.entries or message.snapshot is not None:
                raise ProtocolError(f"slot {number} was given {message.kind.name}: no heartbeat")
            slot = self._slots[number] = (group, [message])
            yield slot
        for number in frame.again:
            known = self._slots.get(number)
            if known is None:
                raise ProtocolError(f"slot {number} was repeated, but it was never given")
            yield known
