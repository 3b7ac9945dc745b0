"""A group of three of which node "n0" runs, in this process, and "n1" and "n2" are played."""

from __future__ import annotations

from tests.unit.store.one_node import OneNode, until
from zonequake_protocol.admin import PeerName
from zonequake_store.raft.messages import Entry, Message, MessageKind, Peer
from zonequake_store.replica.replica import Replica

N1, N2 = Peer("n1", "1"), Peer("n2", "1")


class PlayedGroup:
    """`replica` is n0's. What the others say is `say`'s."""

    def __init__(self, node: OneNode, replica: Replica) -> None:
        self.node = node
        self.replica = replica

    @classmethod
    async def led_by_n0(cls, node: OneNode) -> PlayedGroup:
        """Let it be elected, and have its first entry committed."""
        replica = await node.start()
        me = PeerName("n0", replica.me.incarnation)
        await node.bootstrap([me, *(PeerName(each.node, each.incarnation) for each in (N1, N2))])
        group = cls(node, replica)
        await group.elect(N1)
        await until(
            lambda: replica.leads and replica.core_now().status().commit == replica.log.last_index
        )
        return group

    async def elect(self, voter: Peer) -> None:
        """Let n0 be asked to campaign, by the leader that handed over to it, and be voted for."""
        raft = self.replica.core_now()
        self.say(MessageKind.TIMEOUT_NOW, voter, term=raft.term)
        term = raft.term
        await self._stored()
        self.say(MessageKind.VOTE_REPLY, voter, term=term)
        await until(lambda: self.replica.leads)
        self.acknowledge(voter)

    def acknowledge(self, peer: Peer) -> None:
        """A follower has stored all of the leader's log."""
        status = self.replica.core_now().status()
        self.say(MessageKind.APPEND_REPLY, peer, term=status.term, index=status.last_index)

    async def hand_over(self) -> None:
        """To n1, whose vote for itself is yet to come."""
        assert self.replica.core_now().transfer_leadership(N1)
        self.node.host.wake(self.replica)
        await until(lambda: self.replica.awaits_successor)

    async def candidate(self, peer: Peer) -> None:
        """n0 hears a peer that was asked to lead, and votes for it."""
        status = self.replica.core_now().status()
        self.say(
            MessageKind.VOTE,
            peer,
            term=status.term + 1,
            index=status.last_index,
            log_term=status.last_term,
            context=1,
        )
        await until(lambda: not self.replica.leads)
        await self._stored()

    def leader(self, peer: Peer) -> None:
        """n0 hears the one that it voted for."""
        self.say(MessageKind.HEARTBEAT, peer, term=self.replica.core_now().term)

    def say(
        self,
        kind: MessageKind,
        sender: Peer,
        *,
        term: int,
        index: int = 0,
        log_term: int = 0,
        context: int = 0,
        entries: tuple[Entry, ...] = (),
    ) -> None:
        """A message came."""
        self.replica.core_now().step(
            Message(
                kind=kind,
                to=self.replica.me,
                sender=sender,
                term=term,
                index=index,
                log_term=log_term,
                context=context,
                entries=entries,
            )
        )
        self.node.host.wake(self.replica)

    async def _stored(self) -> None:
        raft = self.replica.core_now()
        await until(lambda: not raft.is_storing and not raft.has_ready())
