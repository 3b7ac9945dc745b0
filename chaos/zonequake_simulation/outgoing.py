"""The output of a simulated node to other nodes: messages, letters and frames, each separately.

Everything is encoded as by the real transport, and decoded by the receiver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from zonequake_simulation.connections import SimulatedConnections
from zonequake_simulation.network import Network
from zonequake_simulation.trace_events import told
from zonequake_simulation.world import World
from zonequake_store.network.peer_protocol import (
    CatchUpFrame,
    Messages,
    TransactionLetter,
    encode_frame,
)
from zonequake_store.raft.messages import Message


class Receiver(Protocol):
    """A node at the other end, or this one."""

    alive: bool
    process: int
    connections: SimulatedConnections
    """The connections of the process that runs, or ran last."""

    def deliver(self, group: str, frame: bytes) -> None:
        """Takes a peer's frame."""

    def take(self, frame: bytes, sender: str) -> None:
        """Takes a letter of another group's leader."""


class Outgoing:
    """The output of one node."""

    def __init__(
        self, name: str, *, world: World, network: Network, nodes: Mapping[str, Receiver]
    ) -> None:
        self._name = name
        self._world = world
        self._network = network
        self._nodes = nodes

    def message(self, group: str, message: Message) -> None:
        """Sends a message of a group."""
        frame = encode_frame(Messages([(group, [message])]))
        to = message.to.node
        self._send(to, lambda: told(message), lambda: self._nodes[to].deliver(group, frame))

    def letter(self, nodes: Sequence[str], letter: TransactionLetter) -> None:
        """Sends a letter to each of these nodes."""
        frame, message = encode_frame(letter), letter.message
        for to in nodes:
            self._world.tally[f"{type(message).__name__} letters"] += 1
            self._send(
                to,
                lambda: f"{type(message).__name__.upper()} {message.transaction}",
                partial(self._nodes[to].take, frame, self._name),
            )

    def frame(self, to: str, frame: CatchUpFrame) -> None:
        """Sends a frame of catch-up."""
        kind = type(frame).__name__
        self._world.tally[f"{kind} frames"] += 1
        encoded, node = encode_frame(frame), self._nodes[to]
        self._send(to, lambda: kind.upper(), lambda: node.deliver(frame.group, encoded))

    def _send(self, to: str, text: Callable[[], str], deliver: Callable[[], None]) -> None:
        """Sends over the process's connection; drops what arrives if the other node no longer reads
        this process.
        """
        me, other = self._nodes[self._name], self._nodes[to]
        process = me.process

        def arrive() -> None:
            if other.alive and other is not me:
                if not other.connections.takes(self._name, process):
                    return
                if me.alive and me.process == process:
                    me.connections.reached(to)
            deliver()

        self._network.send(self._name, to, text, arrive)
