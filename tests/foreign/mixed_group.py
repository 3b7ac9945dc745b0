"""A Raft group of two replicas with our core and one with tikv's, in virtual time.

Messages are delayed, lost, doubled, reordered and cut off by partitions; replicas crash, ours with
a write half done; leaderships are handed over in both directions. One seed decides all of it.
Whatever is committed must be the same everywhere, and after a quiet time all logs.
"""

from __future__ import annotations

import functools
import heapq
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from tests.foreign.translation import (
    TheirEntry,
    TheirMessage,
    Translation,
    entry_to_ours,
    entry_to_theirs,
)
from tests.unit.raft.memory_log import MemoryLogStore
from zonequake_store.raft.api import RaftRole, RaftSettings, Ready
from zonequake_store.raft.core import Raft
from zonequake_store.raft.errors import LogCorrupted, NotLeader
from zonequake_store.raft.messages import (
    Configuration,
    Entry,
    EntryKind,
    Message,
    MessageKind,
    Peer,
    encode_configuration,
)

TICK_MS = 100
TOKEN = 1
PEERS = tuple(Peer(name, "1") for name in ("ours-1", "ours-2", "theirs"))
FIRST = Configuration(peers=PEERS, token=TOKEN)
SETTINGS = RaftSettings(
    max_append_bytes=64, max_in_flight_appends=4, max_apply_bytes=256, cached_bytes=128
)


class Disagreement(AssertionError):
    """The replicas contradict each other; the message says where."""


class Replica(Protocol):
    """What the group needs of either kind of replica."""

    alive: bool

    @property
    def leads(self) -> bool: ...
    @property
    def term(self) -> int: ...
    @property
    def commit(self) -> int: ...
    def tick(self) -> None: ...
    def step(self, message: Message) -> None: ...
    def propose(self, command: bytes) -> bool: ...
    def hand_over(self) -> None: ...
    def crash(self) -> None: ...
    def restart(self) -> None: ...
    def turn(self) -> None: ...
    def log(self) -> list[Entry]: ...


class Ours:
    """A replica with our core and what its host does: writes take time, a crash may undo one."""

    def __init__(self, group: MixedGroup, me: Peer) -> None:
        self._group = group
        self._me = me
        self._store = MemoryLogStore()
        self._storing: Ready | None = None
        self._reads: dict[int, int] = {}
        self.alive = True
        self._life = 0
        self._raft = self._started()
        assert self._raft.bootstrap(FIRST)

    def _started(self) -> Raft:
        return Raft(
            me=self._me,
            settings=SETTINGS,
            log=self._store,
            hard_state=self._store.hard_state,
            random=self._group.random.randrange,
        )

    @property
    def leads(self) -> bool:
        return self.alive and self._raft.status().role is RaftRole.LEADER

    @property
    def term(self) -> int:
        return self._raft.status().term

    @property
    def commit(self) -> int:
        return self._raft.status().commit

    def tick(self) -> None:
        self._raft.tick()

    def step(self, message: Message) -> None:
        self._raft.step(message)

    def propose(self, command: bytes) -> bool:
        try:
            self._raft.propose([command])
            self._reads[self._raft.read()] = self._group.committed_to
        except NotLeader:
            return False
        return True

    def hand_over(self) -> None:
        self._raft.transfer_leadership()

    def crash(self) -> None:
        if self._storing is not None and self._group.random.random() < 0.5:
            self._store.store(self._storing)  # the write was done, nobody heard of it
        self._storing = None
        self._reads = {}
        self._life += 1
        self.alive = False

    def restart(self) -> None:
        self.alive = True
        self._raft = self._started()

    def turn(self) -> None:
        while self.alive and self._raft.has_ready():
            ready = self._raft.ready()
            self._group.send(ready.messages)
            if ready.committed:
                self._group.committed(self._me, ready.committed)
                self._raft.applied(ready.committed[-1].index)
            for read in ready.reads:
                self._group.read(read.index, began=self._reads.pop(read.request))
            if not ready.must_store:
                self._stored(ready)
                continue
            self._storing = ready
            written = functools.partial(self._written, ready, self._life)
            self._group.later(self._group.random.randrange(8), written)

    def _written(self, ready: Ready, life: int) -> None:
        if self._life == life:
            self._storing = None
            self._store.store(ready)
            self._stored(ready)
            self.turn()

    def _stored(self, ready: Ready) -> None:
        self._raft.stored(ready)
        self._group.send(ready.messages_after_store)

    def log(self) -> list[Entry]:
        return self._store.entries(1, self._store.last_index + 1, 1 << 30)


class Theirs:
    """A replica with tikv's core, whose host stores at once."""

    def __init__(self, group: MixedGroup, raft_rs: Any, me: Peer) -> None:
        self._group = group
        self._me = me
        self._translation = Translation(PEERS, token=TOKEN)
        first = Entry(1, 1, EntryKind.CONFIGURATION, encode_configuration(FIRST))
        ticks = SETTINGS.election_ticks
        self._raft = raft_rs.Replica(
            self._translation.number(me),
            [self._translation.number(peer) for peer in PEERS],
            entry_to_theirs(first)[2],
            ticks,
            ticks + group.random.randrange(ticks),
            SETTINGS.heartbeat_ticks,
        )
        self.alive = True

    @property
    def leads(self) -> bool:
        return self.alive and bool(self._raft.leads)

    @property
    def term(self) -> int:
        return int(self._raft.term)

    @property
    def commit(self) -> int:
        return int(self._raft.commit)

    def tick(self) -> None:
        self._raft.tick()

    def step(self, message: Message) -> None:
        try:
            self._raft.step(self._translation.to_theirs(message))
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # PyO3's, which can't be imported
                raise
            raise Disagreement(f"theirs gives up at {message}: {error}") from error

    def propose(self, command: bytes) -> bool:
        return bool(self._raft.propose(bytes((EntryKind.COMMAND,)) + command))

    def hand_over(self) -> None:
        if self.leads:
            self._raft.transfer_leadership(self._group.random.choice((1, 2)))

    def crash(self) -> None:
        self.alive = False

    def restart(self) -> None:
        self.alive = True
        self._raft.restart()

    def turn(self) -> None:
        while self.alive and self._raft.has_ready():
            messages: list[TheirMessage]
            committed: list[TheirEntry]
            messages, committed = self._raft.turn()
            if committed:
                self._group.committed(self._me, [entry_to_ours(entry) for entry in committed])
            self._group.send([self._translation.to_ours(message) for message in messages])

    def log(self) -> list[Entry]:
        return [entry_to_ours(entry) for entry in self._raft.log()]


class MixedGroup:
    """The group, its network and its troubles. `raft_rs` is the extension module."""

    def __init__(self, seed: int, raft_rs: Any) -> None:
        self.random = random.Random(seed)
        self.now_ms = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._lost = self.random.choice((0.0, 0.02, 0.15))
        self._doubled = self.random.choice((0.0, 0.05, 0.2))
        self._slow_ms = self.random.choice((10, 40, 300))
        self._sides: dict[Peer, int] = {}
        self._faults = True
        self._chosen: dict[int, Entry] = {}
        self._leaders: dict[int, Peer] = {}
        self._before: dict[tuple[int, int], tuple[int, Entry]] = {}
        self.committed_to = 0
        self.tally: Counter[str] = Counter()
        """How often something happened that the schedules are for."""
        self.replicas: dict[Peer, Replica] = {}
        for peer in PEERS:
            self.replicas[peer] = (
                Theirs(self, raft_rs, peer) if peer.node == "theirs" else Ours(self, peer)
            )
        for peer in PEERS:
            self.later(self.random.randrange(TICK_MS), functools.partial(self._tick, peer))
            self.replicas[peer].turn()
        self.later(50, self._client)
        self.later(300, self._trouble)

    # virtual time

    def later(self, delay_ms: int, event: Callable[[], None]) -> None:
        """Have `event` happen in `delay_ms`."""
        self._order += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._order, event))

    def run(self, steps: int) -> None:
        """`steps` events. Raises Disagreement."""
        for _ in range(steps):
            self.now_ms, _, event = heapq.heappop(self._events)
            event()

    def _tick(self, peer: Peer) -> None:
        self.later(TICK_MS + self.random.randrange(-3, 4), lambda: self._tick(peer))
        replica = self.replicas[peer]
        if replica.alive:
            replica.tick()
            self._after(peer)

    def _after(self, peer: Peer) -> None:
        replica = self.replicas[peer]
        replica.turn()
        if replica.leads and self._leaders.setdefault(replica.term, peer) != peer:
            raise Disagreement(
                f"{peer.node} and {self._leaders[replica.term].node} both lead term {replica.term}"
            )

    # network

    def send(self, messages: tuple[Message, ...] | list[Message]) -> None:
        """Give messages to the network. Raises Disagreement on logs that can't both be."""
        for message in messages:
            if message.kind is MessageKind.APPEND:
                self._match(message)
            self.tally[message.kind.name] += 1
            for _ in range(1 + (self._faults and self.random.random() < self._doubled)):
                if not self._faults or self.random.random() >= self._lost:
                    delay_ms = self.random.randrange(1, self._slow_ms if self._faults else 10)
                    self.later(delay_ms, functools.partial(self._deliver, message))

    def _deliver(self, message: Message) -> None:
        replica = self.replicas[message.to]
        cut = self._sides.get(message.to, 0) != self._sides.get(message.sender, 0)
        if replica.alive and not cut:
            try:
                replica.step(message)
            except LogCorrupted as error:
                raise Disagreement(f"{message.to.node} can't take {message}: {error}") from error
            self._after(message.to)

    # what must hold

    def _match(self, append: Message) -> None:
        """Log matching: index and term name the entry, and the entry before it (paper, §5.3)."""
        before = append.log_term
        for entry in append.entries:
            known = self._before.setdefault((entry.index, entry.term), (before, entry))
            if known != (before, entry):
                raise Disagreement(f"two entries {entry.index} of term {entry.term}: {known}")
            before = entry.term

    def committed(self, peer: Peer, entries: tuple[Entry, ...] | list[Entry]) -> None:
        """A replica applies these entries. Raises Disagreement if another applied others."""
        for entry in entries:
            if self._chosen.setdefault(entry.index, entry) != entry:
                raise Disagreement(
                    f"{peer.node} applies {entry}, another {self._chosen[entry.index]}"
                )
        self.committed_to = max(self.committed_to, entries[-1].index)

    def read(self, index: int, *, began: int) -> None:
        """A read at one of ours is answered at `index`; `began`: what was committed before it."""
        if index < began:
            raise Disagreement(f"a read shows {index}, {began} was committed before it")
        self.tally["reads"] += 1

    # clients and trouble

    def _client(self) -> None:
        self.later(self.random.randrange(5, 120) if self._faults else 1000, self._client)
        peer = self.random.choice(PEERS)
        leading = [each for each in PEERS if self.replicas[each].leads]
        if leading and self.random.random() < 0.9:
            peer = self.random.choice(leading)
        replica = self.replicas[peer]
        if replica.alive and replica.propose(b"%x" % self.random.getrandbits(40)):
            self.tally[f"proposed at {peer.node}"] += 1
            self._after(peer)

    def _trouble(self) -> None:
        self.later(self.random.randrange(50, 2000), self._trouble)
        if not self._faults:
            return
        peer = self.random.choice(PEERS)
        replica = self.replicas[peer]
        match self.random.randrange(7):
            case 0 | 1 if replica.alive:
                replica.crash()
                self.later(self.random.randrange(50, 4000), lambda: self._restart(peer))
            case 2:
                self._sides = {each: self.random.randrange(2) for each in PEERS}
            case 3 | 4:
                self._sides = {}
            case 5:
                self._sides = {peer: 1}
            case 6 if replica.alive:
                replica.hand_over()
                self._after(peer)

    def _restart(self, peer: Peer) -> None:
        if not self.replicas[peer].alive:
            self.tally["restarts"] += 1
            self.replicas[peer].restart()
            self._after(peer)

    # quiet

    def settle(self, *, within_s: int = 60) -> None:
        """End all faults; in `within_s` of virtual time there is a leader and all logs are equal.

        Raises Disagreement otherwise.
        """
        self._faults = False
        self._sides = {}
        for peer in PEERS:
            self._restart(peer)
        end_ms = self.now_ms + within_s * 1000
        while not self._is_settled():
            if self.now_ms >= end_ms:
                raise Disagreement(f"after {within_s} s without a fault: {self._where()}")
            self.run(20)
        self.tally["entries agreed"] = self.committed_to
        self.tally["led by theirs"] = sum(p.node == "theirs" for p in self._leaders.values())
        self.tally["led by ours"] = len(self._leaders) - self.tally["led by theirs"]

    def _is_settled(self) -> bool:
        logs = [replica.log() for replica in self.replicas.values()]
        if any(log != logs[0] for log in logs):
            return False
        end = len(logs[0])
        led = any(replica.leads for replica in self.replicas.values())
        return led and all(replica.commit == end for replica in self.replicas.values())

    def _where(self) -> dict[str, object]:
        return {
            peer.node: {
                "leads": replica.leads,
                "term": replica.term,
                "commit": replica.commit,
                "entries": len(replica.log()),
            }
            for peer, replica in self.replicas.items()
        }
