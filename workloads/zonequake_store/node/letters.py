"""Carries letters between the leaders of different groups to the nodes where those may be.

A node need not have a replica of a group that it writes to. It knows the leader from its own
replica of that group, or from the last sender for the group. Otherwise, and if there was no answer,
the letter goes to all nodes that may have it: only the leader reads it, and every letter may come
twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from zonequake_store.network.peer_protocol import TransactionLetter
from zonequake_store.network.transaction_messages import (
    AskOutcome,
    Done,
    Finish,
    Letter,
    Prepare,
    Vote,
)
from zonequake_store.replica.replica import Replica


class LetterRouter:
    """The letters of node `name`'s `replicas`; the real host and the simulation have one each.

    `wake`: let a replica take a turn, later than now. `send`: a letter to other nodes, where
    `received` takes it. `nodes`: all that are known.
    """

    def __init__(
        self,
        name: str,
        replicas: Mapping[str, Replica],
        *,
        wake: Callable[[Replica], None],
        send: Callable[[Sequence[str], TransactionLetter], None],
        nodes: Callable[[], Collection[str]],
    ) -> None:
        self._name = name
        self._replicas = replicas
        self._wake = wake
        self._send = send
        self._nodes = nodes
        self._leaders: dict[str, str] = {}  # by group, as they wrote last

    def carry(self, letters: Iterable[Letter]) -> None:
        """Send letters on, those to leaders on this node too."""
        for letter in letters:
            replica = self._replicas.get(letter.group)
            if replica is not None and replica.leads:
                replica.transactions.receive(letter.message, self._name)
                self._wake(replica)
            else:
                self._send(self._way(letter), TransactionLetter(letter.group, letter.message))

    def _way(self, letter: Letter) -> Sequence[str]:
        replica = self._replicas.get(letter.group)
        known = self._leaders.get(letter.group)
        if replica is not None and replica.leader is not None:
            known = replica.leader.node
        if known is not None and not letter.again:
            return (known,)
        self._leaders.pop(letter.group, None)
        nodes = set(letter.nodes)
        if letter.again or not nodes:
            nodes.update(self._nodes())
        return sorted(nodes - {self._name})

    def received(self, node: str, letter: TransactionLetter) -> None:
        """Handles a letter from a node."""
        message = letter.message
        match message:
            case Vote() | AskOutcome():
                self._leaders[message.member.group] = node
            case Done():
                self._leaders[message.group] = node
            case Prepare() | Finish():
                self._leaders[message.transaction.group] = node
        replica = self._replicas.get(letter.group)
        if replica is not None and replica.leads:
            replica.transactions.receive(message, node)
            self._wake(replica)
