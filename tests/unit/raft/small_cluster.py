"""A few replicas whose network and disks do exactly what a test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tests.unit.raft.memory_log import MemoryLogStore
from zonequake_store.raft.api import (
    RaftEvent,
    RaftRole,
    RaftSettings,
    RaftStatus,
    Ready,
    SupplyPeer,
)
from zonequake_store.raft.core import Raft
from zonequake_store.raft.messages import (
    Configuration,
    Entry,
    EntryKind,
    HardState,
    Message,
    MessageKind,
    Peer,
)

Some = TypeVar("Some")


def peer(name: str, incarnation: str = "1") -> Peer:
    return Peer(name, incarnation)


def peers(names: str) -> tuple[Peer, ...]:
    return tuple(peer(name) for name in names)


class SmallCluster:
    """Replicas a, b, c, …; `members` are bootstrapped, the others passive.

    run() delivers and stores until nothing moves. `lose` says which messages never arrive.
    """

    def __init__(
        self, members: str = "abc", *, passive: str = "", settings: RaftSettings | None = None
    ) -> None:
        self.settings = settings or RaftSettings()
        self.stores: dict[str, MemoryLogStore] = {}
        self.rafts: dict[str, Raft] = {}
        self.applied: dict[str, list[Entry]] = {}
        self.events: dict[str, list[RaftEvent]] = {}
        self.reads: dict[str, dict[int, int]] = {}
        self.aborted: dict[str, list[int]] = {}
        self.supplies: list[tuple[Peer, SupplyPeer]] = []
        self.sent: list[Message] = []
        self.lose: Callable[[Message], bool] = lambda message: False
        self.down: set[str] = set()
        for name in members + passive:
            self.stores[name] = MemoryLogStore()
            self.start(name)
        for name in members:
            assert self.rafts[name].bootstrap(Configuration(peers=peers(members), token=1))
        self.run()

    def start(self, name: str) -> Raft:
        """(Re)start from what is stored; nothing applied survives but the snapshot."""
        store = self.stores[name]
        self.applied[name], self.events[name] = [], []
        self.reads[name], self.aborted[name] = {}, []
        self.down.discard(name)
        self.rafts[name] = Raft(
            me=peer(name),
            settings=self.settings,
            log=store,
            hard_state=store.hard_state,
            random=lambda n: (1 + "abcdefgh".index(name)) % n,
            applied=store.first_index - 1,
        )
        return self.rafts[name]

    def isolate(self, *names: str) -> None:
        """These hear each other, the rest hear each other, nothing crosses."""
        self.lose = lambda message: (message.to.node in names) != (message.sender.node in names)

    def heal(self) -> None:
        self.lose = lambda message: False

    def run(self) -> None:
        moved = True
        while moved:
            moved = False
            for name in sorted(self.rafts):
                while name not in self.down and self.rafts[name].has_ready():
                    self.store(name, self.rafts[name].ready())
                    moved = True
            moved = moved or self.supply()

    def lagging(self) -> list[tuple[Peer, SupplyPeer]]:
        """Who waits for a supply that the logs did not give."""
        return [
            (sender, request)
            for sender, request in self.supplies
            if self.rafts[sender.node].supply.is_open(request.to)
            and self.rafts[sender.node].stored_position
            != self.rafts[request.to.node].stored_position
        ]

    def supply(self) -> bool:
        """Supplies from the logs each replica that waits; returns whether one got something."""
        moved = False
        for sender, request in self.supplies:
            raft, to = self.rafts[sender.node], self.rafts[request.to.node]
            if {sender.node, request.to.node} & self.down or not raft.supply.is_open(request.to):
                continue
            index, log_term = to.stored_position
            message = raft.supply.next_append(request.to, index=index, log_term=log_term)
            if message is not None and message.entries and not self.lose(message):
                raft.supply.append_left(message)
                to.step(message)
                last = message.entries[-1]
                moved = moved or to.holds(last.index, last.term)
        return moved

    def store(self, name: str, ready: Ready) -> None:
        """What a host does with a Ready."""
        raft = self.rafts[name]
        self.deliver(ready.messages)
        self.stores[name].store(ready)
        raft.stored(ready)
        self.applied[name] += ready.committed
        if ready.committed:
            raft.applied(ready.committed[-1].index)
        self.events[name] += ready.events
        self.reads[name].update((read.request, read.index) for read in ready.reads)
        self.aborted[name] += ready.aborted_reads
        self.supplies += [(peer(name), each) for each in ready.supplies]
        self.deliver(ready.messages_after_store)

    def deliver(self, messages: tuple[Message, ...]) -> None:
        for message in messages:
            self.sent.append(message)
            if not self.lose(message) and message.to.node not in self.down:
                self.rafts[message.to.node].step(message)

    def tick(self, count: int = 1, *names: str) -> None:
        for _ in range(count):
            for name in names or sorted(self.rafts):
                if name not in self.down:
                    self.rafts[name].tick()
            self.run()

    def elect(self, name: str) -> Raft:
        """Let `name` win an election that it can win."""
        for other in sorted(set(self.rafts) - {name} - self.down):
            for _ in range(self.settings.election_ticks):
                if self.rafts[other].status().role is not RaftRole.LEADER:
                    self.rafts[other].tick()
        raft = self.rafts[name]
        for _ in range(5 * self.settings.election_ticks):
            if raft.status().role is RaftRole.LEADER:
                return raft
            self.tick(1, name)
        raise AssertionError(f"{name} was not elected: {raft.status()}")

    def status(self, name: str) -> RaftStatus:
        return self.rafts[name].status()

    def configuration(self, name: str) -> Configuration:
        """The one that a replica uses; it must have one."""
        found = self.status(name).configuration
        assert found is not None, f"{name} is passive"
        return found

    def leader(self) -> str:
        leading = [name for name in sorted(self.rafts) if self.status(name).role is RaftRole.LEADER]
        assert len(leading) == 1, leading
        return leading[0]

    def commands(self, name: str) -> list[bytes]:
        return [entry.data for entry in self.applied[name] if entry.kind is EntryKind.COMMAND]

    def of_type(self, name: str, kind: type[Some]) -> list[Some]:
        return [event for event in self.events[name] if isinstance(event, kind)]

    def write_log(self, name: str, *terms: int, term: int | None = None) -> None:
        """Put commands of these terms behind the first entry, and restart."""
        store = self.stores[name]
        entries = tuple(
            Entry(each, 2 + position, EntryKind.COMMAND, b"%d" % each)
            for position, each in enumerate(terms)
        )
        store.store(Ready(entries=entries, hard_state=HardState(term or max(terms), None, 1)))
        self.start(name)


def append(leader: str, to: str, term: int, index: int, log_term: int, *terms: int) -> Message:
    """An APPEND with commands of these terms."""
    return Message(
        kind=MessageKind.APPEND,
        to=peer(to),
        sender=peer(leader),
        term=term,
        index=index,
        log_term=log_term,
        entries=tuple(
            Entry(each, index + 1 + position, EntryKind.COMMAND, b"%d" % each)
            for position, each in enumerate(terms)
        ),
    )
