"""Letters between the leaders of different groups, carried to the nodes where those may be.

A node need not have a replica of a group that it writes to. Where the leader is it knows from its
own replica of that group, or from who wrote in the group's name last. Else, and if there was no
answer, the letter goes to all nodes that may have it: only the leader reads it, and every letter
may come twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from zonequake_store.peer_protocol import TransactionLetter, encode_frame
from zonequake_store.transaction_messages import Ask, Done, Finish, Letter, Prepare, Vote

if TYPE_CHECKING:
    from zonequake_store.host import Host


class PostOffice:
    """The letters of a node's replicas."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._leaders: dict[str, str] = {}  # by group, as they wrote last

    def carry(self, letters: Iterable[Letter]) -> None:
        """Send letters on, those to leaders on this node too."""
        host = self._host
        for letter in letters:
            replica = host.replicas.get(letter.group)
            if replica is not None and replica.leads:
                replica.transactions.receive(letter.message, host.name)
                host.wake(replica)
                continue
            frame = encode_frame(TransactionLetter(letter.group, letter.message))
            for node in self._nodes(letter):
                host.transport.send(node, frame)

    def _nodes(self, letter: Letter) -> Iterable[str]:
        host = self._host
        replica = host.replicas.get(letter.group)
        known = self._leaders.get(letter.group)
        if replica is not None and replica.leader is not None:
            known = replica.leader.node
        if known is not None and not letter.again:
            return (known,)
        self._leaders.pop(letter.group, None)
        nodes = set(letter.nodes)
        if letter.again or not nodes:
            nodes |= host.transport.client_addresses().keys()
        return sorted(nodes - {host.name})

    def received(self, node: str, letter: TransactionLetter) -> None:
        """A letter came from a node."""
        message = letter.message
        match message:
            case Vote() | Ask():
                self._leaders[message.member.group] = node
            case Done():
                self._leaders[message.group] = node
            case Prepare() | Finish():
                self._leaders[message.transaction.group] = node
        replica = self._host.replicas.get(letter.group)
        if replica is not None and replica.leads:
            replica.transactions.receive(message, node)
            self._host.wake(replica)
