"""Messages on their way out: collected during a turn, one frame to each peer at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from zonequake_store.peer_protocol import Messages, encode_frame
from zonequake_store.raft.messages import Kind, Message, Peer
from zonequake_store.transport import Transport


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

    def flush(self) -> None:
        """Send one frame to each peer that has messages."""
        outgoing, self._messages = self._messages, {}
        for node, groups in outgoing.items():
            if self._transport.send(node, encode_frame(Messages(list(groups.items())))):
                continue
            for group, messages in groups.items():
                for message in messages:
                    if message.kind is Kind.APPEND:
                        self._unreachable(group, message.to)

    def _add(self, group: str, message: Message) -> None:
        groups = self._messages.setdefault(message.to.node, {})
        groups.setdefault(group, []).append(message)

    def _add_late(self, group: str, message: Message) -> None:
        self._add(group, message)
        self.flush()
