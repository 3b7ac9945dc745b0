"""Messages on their way out: collected during a turn, one frame to each peer at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

from zonequake_store.network.peer_protocol import Messages
from zonequake_store.network.transport import Transport
from zonequake_store.raft.messages import Message, MessageKind, Peer

FRAME_BYTES = 4 * 1024 * 1024
"""A frame is closed when its entries reach this, so that it stays far below what a peer accepts."""
_MESSAGE_BYTES = 256
"""About what a message takes besides its entries."""


class Outbox:
    """`unreachable(group, peer)` is called for each APPEND that was dropped.

    `append_delay_s` > 0 holds entries back: the second half of the planted fault
    `ack-before-commit`, which shows only if a leader dies between its answer and its replication.
    """

    def __init__(
        self,
        transport: Transport,
        unreachable: Callable[[str, Peer], None],
        *,
        append_delay_s: float,
    ) -> None:
        self._transport = transport
        self._unreachable = unreachable
        self._append_delay_s = append_delay_s
        self._messages: dict[str, dict[str, list[Message]]] = {}

    def add(self, group: str, messages: Iterable[Message]) -> None:
        """Send messages with the next flush."""
        for message in messages:
            if self._append_delay_s and message.entries:
                asyncio.get_running_loop().call_later(
                    self._append_delay_s, self._add_late, group, message
                )
            else:
                self._add(group, message)

    @property
    def is_empty(self) -> bool:
        """Returns whether a flush would send nothing."""
        return not self._messages

    def flush(self) -> None:
        """Send one frame to each peer that has messages, more if they are large."""
        outgoing, self._messages = self._messages, {}
        for node, groups in outgoing.items():
            for frame in _frames(groups):
                if self._transport.send_messages(node, frame):
                    continue
                for group, messages in frame.groups:
                    for message in messages:
                        if message.kind is MessageKind.APPEND:
                            self._unreachable(group, message.to)

    def _add(self, group: str, message: Message) -> None:
        groups = self._messages.setdefault(message.to.node, {})
        groups.setdefault(group, []).append(message)

    def _add_late(self, group: str, message: Message) -> None:
        self._add(group, message)
        self.flush()


def _frames(groups: dict[str, list[Message]]) -> Iterator[Messages]:
    """All messages in order, parted where a frame's bytes reach FRAME_BYTES."""
    parts: list[tuple[str, list[Message]]] = []
    size_bytes = 0
    for group, messages in groups.items():
        part: list[Message] = []
        for message in messages:
            part.append(message)
            size_bytes += _MESSAGE_BYTES
            if message.entries:
                size_bytes += sum(len(entry.data) for entry in message.entries)
            if size_bytes >= FRAME_BYTES:
                parts.append((group, part))
                yield Messages(parts)
                parts, part, size_bytes = [], [], 0
        if part:
            parts.append((group, part))
    if parts:
        yield Messages(parts)
