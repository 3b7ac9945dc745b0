"""Real Raft cores whose every message, tick and write a script decides, under rules of its own.

A message waits in `flying` until the script delivers or loses it; a write is done at once, unless
the script holds the node's disk. After every turn the rules are checked that no schedule may break;
they are written against what leaves a core and what it stores, not against how it works.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.unit.raft.memory_log import MemoryLogStore
from zonequake_protocol.terms import lineage_of
from zonequake_simulation.violation import Violation, require
from zonequake_store.raft.api import RaftRole, RaftSettings, Ready, ResetAnswer
from zonequake_store.raft.core import Raft
from zonequake_store.raft.errors import LogCorrupted
from zonequake_store.raft.messages import (
    Configuration,
    Message,
    MessageKind,
    Peer,
)

ELECTION = frozenset(
    {MessageKind.PRE_VOTE, MessageKind.PRE_VOTE_REPLY, MessageKind.VOTE, MessageKind.VOTE_REPLY}
)
ONE_ENTRY_PER_APPEND = RaftSettings(max_append_bytes=1)


class Unplayable(Exception):
    """The script can't go on: what it needs next didn't happen, but no rule was broken."""


class Stage:
    """Replicas a, b, c, …: `members` have the first configuration, `passive` are empty."""

    def __init__(
        self, members: str, *, passive: str = "", settings: RaftSettings = ONE_ENTRY_PER_APPEND
    ) -> None:
        self.settings = settings
        self.peers = {name: Peer(name, "1") for name in members + passive}
        self.stores = {name: MemoryLogStore() for name in self.peers}
        self.rafts: dict[str, Raft] = {}
        self.flying: list[Message] = []
        self.held: set[str] = set()
        """Nodes whose disk stores nothing until `finish`."""
        self._storing: dict[str, Ready] = {}
        self._lagging: list[tuple[str, Peer]] = []
        """(leader, peer) of each supply that a leader asked its host for."""
        self._read_began: dict[tuple[str, int], int] = {}
        self.answered: list[tuple[str, int]] = []
        """(node, number) of each read that may be answered."""
        self.lineages: dict[int, dict[int, tuple[int, bytes]]] = {}
        """Lineage → index → term and data of each entry that was committed in it."""
        self._votes: dict[tuple[Peer, int], Peer] = {}
        self._leaders: dict[int, Peer] = {}
        self._seen: dict[str, tuple[int, int]] = {}
        for name in self.peers:
            self.restart(name)
        for name in members:
            first = Configuration(peers=self.set_of(members), token=1)
            assert self.rafts[name].bootstrap(first)
            self.turn(name)

    @property
    def chosen(self) -> dict[int, tuple[int, bytes]]:
        """What was committed before any reset."""
        return self.lineages.setdefault(0, {})

    def set_of(self, names: str) -> tuple[Peer, ...]:
        """The peers of these names."""
        return tuple(self.peers[name] for name in names)

    # what a node does

    def turn(self, name: str) -> None:
        """All that a node can do by itself."""
        raft = self.rafts[name]
        self._check(name)
        while name not in self._storing and raft.has_ready():
            ready = raft.ready()
            self._leave(ready.messages)
            if ready.committed:
                raft.applied(ready.committed[-1].index)
            self._lagging += [(name, request.to) for request in ready.supplies]
            for read in ready.reads:
                began = self._read_began.pop((name, read.request))
                require(read.index >= began, "reads see what was committed", index=read.index)
                self.answered.append((name, read.request))
            if ready.must_store and name in self.held:
                self._storing[name] = ready
            else:
                self._store(name, ready)
            self._check(name)

    def _store(self, name: str, ready: Ready) -> None:
        self.stores[name].store(ready)
        if ready.hard_state is not None and ready.hard_state.vote is not None:
            self._voted(self.peers[name], ready.hard_state.term, ready.hard_state.vote)
        self.rafts[name].stored(ready)
        self._leave(ready.messages_after_store)

    def finish(self, name: str) -> None:
        """The held write is done, and the disk stores at once again."""
        self.held.discard(name)
        if name in self._storing:
            self._store(name, self._storing.pop(name))
        self.turn(name)

    def tick(self, name: str, count: int = 1) -> None:
        for _ in range(count):
            self.rafts[name].tick()
            self.turn(name)

    def propose(self, name: str, data: bytes) -> int:
        """The entry's index; its messages fly."""
        _, index = self.rafts[name].propose([data])
        self.turn(name)
        return index

    def read(self, name: str) -> int:
        """The number of a read that begins now."""
        number = self.rafts[name].read()
        lineage = self.rafts[name].status().lineage
        self._read_began[name, number] = max(self.lineages.get(lineage, {}), default=0)
        self.turn(name)
        return number

    def crash(self, name: str) -> None:
        """What is not stored is gone; what it sent still flies."""
        del self.rafts[name]
        self._storing.pop(name, None)
        self.held.discard(name)

    def restart(self, name: str) -> None:
        store = self.stores[name]
        self._seen.pop(name, None)
        self.rafts[name] = Raft(
            me=self.peers[name],
            settings=self.settings,
            log=store,
            hard_state=store.hard_state,
            random=lambda n: n - 1,  # the longest time-out: none campaigns unless told to
            applied=store.first_index - 1,
        )

    def wipe(self, name: str, incarnation: str) -> None:
        """A crashed node comes back with nothing, as another peer."""
        self.stores[name] = MemoryLogStore()
        self.peers[name] = Peer(name, incarnation)
        self.restart(name)

    # the network

    def _leave(self, messages: Iterable[Message]) -> None:
        for message in messages:
            if message.kind is MessageKind.VOTE_REPLY and not message.reject:
                self._voted(message.sender, message.term, message.to)
            self.flying.append(message)

    def take(self, sender: str, to: str, *kinds: MessageKind) -> list[Message]:
        """The flying messages of this link (and kinds), which no longer fly."""
        found = [
            message
            for message in self.flying
            if message.sender.node == sender
            and message.to.node == to
            and (not kinds or message.kind in kinds)
        ]
        self.flying = [message for message in self.flying if message not in found]
        return found

    def hand(self, message: Message) -> None:
        """Let a message arrive now, perhaps again."""
        name = message.to.node
        if name in self.rafts:
            try:
                self.rafts[name].step(message)
                self.turn(name)
            except LogCorrupted as error:
                raise Violation("a core finds its log broken", node=name, error=error) from error

    def deliver(self, sender: str, to: str, *kinds: MessageKind) -> int:
        """Let what flies on this link arrive; how many that were."""
        found = self.take(sender, to, *kinds)
        for message in found:
            self.hand(message)
        return len(found)

    def exchange(self, names: str, *kinds: MessageKind) -> None:
        """Deliver among these nodes until nothing more flies between them."""
        moved = True
        while moved:
            moved = False
            for sender in names:
                for to in names:
                    moved = bool(self.deliver(sender, to, *kinds)) or moved

    def supply(self) -> None:
        """Answer the demands of peers that catch up, from their leaders' logs, until they have all.

        The newest position of the peer decides what is supplied, as its own demands would.
        """
        for leader, peer in self._lagging:
            while leader in self.rafts and peer.node in self.rafts:
                raft = self.rafts[leader]
                if not raft.supply.is_open(peer):
                    break
                index, term = self.rafts[peer.node].stored_position
                message = raft.supply.next_append(peer, index=index, log_term=term)
                if message is None or not message.entries:
                    break
                raft.supply.append_left(message)
                self.hand(message)
                self.exchange(leader + peer.node)

    def lose(self) -> None:
        """All that flies is lost."""
        self.flying = []

    # resets

    def silence(self, name: str) -> None:
        """So long that the node hears no leader any more; what it says about it is lost."""
        self.tick(name, 2 * self.settings.election_ticks)
        self.flying = [each for each in self.flying if each.sender.node != name]

    def reset(self, name: str, token: int) -> ResetAnswer:
        """Ask a node to go on alone."""
        raft = self.rafts[name]
        answer = raft.reset_peers(term=raft.status().term, token=token, peers=(self.peers[name],))
        self.turn(name)
        return answer

    # elections

    def campaign(self, name: str, voters: str, *, rounds: int = 3) -> bool:
        """Let a node campaign among `voters`, who have not heard a leader for long; if it leads.

        Nothing but votes is delivered. A second round goes on with what the first one learnt.
        """
        for voter in voters:
            self.tick(voter, self.settings.election_ticks)
        for _ in range(rounds):
            for to in self.peers:
                self.take(name, to, *ELECTION)  # of an earlier round
            for _ in range(2 * self.settings.election_ticks):
                self.tick(name)
                if any(each.sender.node == name and each.kind in ELECTION for each in self.flying):
                    break
            self.exchange(name + voters, *ELECTION)
            if self.leads(name):
                return True
        return False

    def elect(self, name: str, voters: str) -> None:
        """As campaign, which must succeed."""
        if not self.campaign(name, voters):
            raise Unplayable(f"{name} isn't elected by {voters}: {self.rafts[name].status()}")

    def leads(self, name: str) -> bool:
        return self.rafts[name].status().role is RaftRole.LEADER

    # rules

    def _voted(self, voter: Peer, term: int, candidate: Peer) -> None:
        known = self._votes.setdefault((voter, term), candidate)
        require(known == candidate, "one vote per term", voter=voter, a=known, b=candidate)

    def _check(self, name: str) -> None:
        status = self.rafts[name].status()
        replica = self.rafts[name]._replica
        term, commit = self._seen.get(name, (0, 0))
        require(status.term >= term, "terms never fall", node=name, term=status.term)
        if lineage_of(status.term) == lineage_of(term):
            require(status.commit >= commit, "commit never falls", node=name, commit=status.commit)
        else:
            commit = 0  # all that it has committed is judged by the lineage it is in now
        # Who waits for a lineage's log has committed nothing in it yet.
        chosen = self.lineages.setdefault(status.lineage, {}) if not status.abstains else {}
        for index in range(max(commit + 1, status.first_index), status.commit + 1):
            (entry,) = replica.log.entries(index, 1, index + 1)
            found = (entry.term, entry.data)
            known = chosen.setdefault(index, found)
            require(known == found, "commits agree", node=name, index=index, a=known, b=found)
        self._seen[name] = (status.term, status.commit)
        if status.role is not RaftRole.LEADER:
            return
        require(
            not status.abstains,
            "a replica that abstains does not lead",
            node=name,
            term=status.term,
        )
        me = self.peers[name]
        known_leader = self._leaders.get(status.term)
        if known_leader is not None:
            require(
                known_leader == me, "one leader per term", term=status.term, a=known_leader, b=me
            )
            return
        self._leaders[status.term] = me
        for index, (term, _) in chosen.items():
            require(
                index < status.first_index or replica.log.matches(index, term),
                "a leader has every committed entry",
                leader=name,
                term=status.term,
                index=index,
            )

    def settle(self, names: str, *, leader: str) -> None:
        """Let these hear each other under a leader, until their logs are equal and committed."""
        for name in names:
            if name not in self.rafts:
                self.restart(name)
        self.lose()
        if not self.leads(leader):
            self.elect(leader, names.replace(leader, ""))
        for _ in range(5 * self.settings.election_ticks):
            self.tick(leader)
            self.exchange(names)
        statuses = [self.rafts[name].status() for name in names]
        ends = {(each.commit, each.applied, each.last_index) for each in statuses}
        require(
            len(ends) == 1 and all(each.commit == each.last_index for each in statuses),
            "everything settles in quiet",
            ends=sorted(ends),
        )
