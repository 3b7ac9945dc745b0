"""A Raft group in virtual time: the real core, memory logs, and everything that can go wrong.

Messages are delayed, lost, doubled, reordered and cut off by partitions; replicas crash with a
Ready half stored, and restart; removed ones are wiped and come back under a new incarnation; an
operator changes peers, level-triggered. One seed decides all of it.
"""

from __future__ import annotations

import functools
import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from raft_invariants import Invariants, require

from zonequake_store.admin_protocol import Stage
from zonequake_store.raft.api import (
    CancelAnswer,
    ChangePeersAnswer,
    GrantAnswer,
    Ready,
    Role,
    Settings,
    Status,
    SupplyPeer,
)
from zonequake_store.raft.core import Raft
from zonequake_store.raft.errors import NotLeader
from zonequake_store.raft.memory import MemoryLogStore
from zonequake_store.raft.messages import (
    Configuration,
    Kind,
    Message,
    Peer,
    SnapshotMeta,
)

TICK_MS = 100
SMALL = Settings(
    max_append_bytes=24,
    max_in_flight_appends=4,
    max_apply_bytes=64,
    cached_bytes=48,
    catch_up_margin_entries=6,
    catch_up_silence_ticks=40,
)
"""Limits so small that every one of them is met all the time."""


@dataclass(slots=True)
class Node:
    """One replica and its host. `applied`, `digest`: in memory; `durable_applied` survives."""

    peer: Peer
    raft: Raft
    store: MemoryLogStore
    life: int
    applied: int = 0
    digest: int = 0
    durable_applied: int = 0
    alive: bool = True
    was_leader: bool = False
    configuration: Configuration | None = None
    """The newest in its log, before the step that runs."""
    storing: Ready | None = None
    staged: dict[int, int] = field(default_factory=dict)
    reads: dict[int, int] = field(default_factory=dict)
    """Read → what was committed anywhere when it began."""


class SimulatedGroup:
    def __init__(self, seed: int, *, settings: Settings = SMALL, nodes: int = 6) -> None:
        self.random = random.Random(seed)
        self.settings = settings
        self.now = 0
        self.steps = 0
        self._events: list[tuple[int, int, Callable[[], Node | None]]] = []
        self._order = 0
        self.stores: dict[Peer, MemoryLogStore] = {}
        self.digests: dict[int, int] = {}
        self.nodes: dict[str, Node] = {}
        self.lost = self.random.choice([0.0, 0.02, 0.15])
        self.doubled = self.random.choice([0.0, 0.05])
        self.slow = self.random.choice([10, 40, 300])
        self.groups: dict[str, int] = {}
        """Nodes hear only those of the same number (absent: 0)."""
        self.faults = True
        self.check = Invariants(self)
        self.reached: Counter[str] = Counter()
        """How often something happened that a schedule is for."""
        for name in "abcdefgh"[:nodes]:
            self._create(name)
        first = self.random.choice([1, 3, 3, 3])
        members = tuple(node.peer for node in list(self.nodes.values())[:first])
        self.token = 1
        self.wanted = members
        for peer in members:
            node = self.nodes[peer.node]
            assert node.raft.bootstrap(Configuration(peers=members, token=1))
            self._turn(node)
        for name in self.nodes:
            self._tick(name)
        self._later(50, self._clients)
        self._later(200, self._operate)
        self._later(300, self._trouble)

    # virtual time

    def _later(self, delay_ms: int, event: Callable[[], Node | None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (self.now + delay_ms, self._order, event))

    def step(self) -> None:
        """One event, and all rules."""
        self.now, _, event = heapq.heappop(self._events)
        self.steps += 1
        node = event()
        if node is not None and node.alive:
            self._turn(node)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    # hosts

    def _create(self, name: str) -> None:
        self._start(Peer(name, f"{self.random.getrandbits(64):016x}"), MemoryLogStore(), 0, 0)

    def _start(self, peer: Peer, store: MemoryLogStore, applied: int, life: int) -> None:
        self.stores[peer] = store
        self.nodes[peer.node] = Node(
            peer=peer,
            raft=Raft(
                me=peer,
                settings=self.settings,
                log=store,
                hard_state=store.hard_state,
                random=self.random.randrange,
                applied=applied,
            ),
            store=store,
            life=life,
            applied=applied,
            digest=self.digests.get(applied, 0),
            durable_applied=applied,
        )
        self.check.restarted(self.nodes[peer.node])

    def _tick(self, name: str) -> Node | None:
        self._later(TICK_MS + self.random.randrange(-3, 4), lambda: self._tick(name))
        node = self.nodes[name]
        if node.alive:
            node.raft.tick()
        return node

    def _turn(self, node: Node) -> None:
        """What a host does after each input."""
        self.check.after_step(node)
        while node.raft.has_ready():
            ready = node.raft.ready()
            self.check.ready(node, ready)
            self._send(ready.messages)
            for entry in ready.committed:
                node.digest = hash((node.digest, entry.index, entry.term, entry.data))
                node.applied = entry.index
                self.check.applied_entry(entry, node.digest)
            if ready.committed:
                node.raft.applied(node.applied)
            for read in ready.reads:
                began = node.reads.pop(read.request)
                require(read.index >= began, "reads see what was committed", index=read.index)
                self.reached["reads"] += 1
            for request in ready.supplies:
                self._supply(node, node.life, request)
            self.reached.update(type(event).__name__ for event in ready.events)
            self.reached.update(message.kind.name for message in ready.messages)
            self.reached["aborted reads"] += len(ready.aborted_reads)
            if ready.must_store:
                node.storing = ready
                event = functools.partial(self._stored, node.peer.node, node.life, ready)
                stalled = self.faults and self.random.random() < 0.005
                self._later(self.random.randrange(3000 if stalled else 8), event)
            else:
                node.raft.stored(ready)
                self._send(ready.messages_after_store)
            self.check.after_step(node)
        node.was_leader = node.raft._replica.role is Role.LEADER

    def _stored(self, name: str, life: int, ready: Ready) -> Node | None:
        node = self.nodes[name]
        if node.storing is not ready or node.life != life:
            return None  # it crashed before
        self._write(node)
        node.raft.stored(ready)
        self._send(ready.messages_after_store)
        return node

    def _write(self, node: Node) -> None:
        ready, node.storing = node.storing, None
        assert ready is not None
        node.store.store(ready)
        if ready.snapshot is not None:
            self.reached["snapshots"] += 1
            node.digest = node.staged.pop(ready.snapshot.index)
            node.applied = node.durable_applied = ready.snapshot.index
        if ready.hard_state is not None:
            self.check.stored(node.peer, ready.hard_state)

    def _crash(self, node: Node) -> None:
        if node.storing is not None and self.random.random() < 0.5:
            self._write(node)  # the write was done, nobody heard of it
        node.storing = None
        node.alive = False
        node.life += 1
        self._later(self.random.randrange(50, 4000), lambda: self._restart(node))

    def _restart(self, node: Node) -> Node | None:
        if self.nodes[node.peer.node] is not node or node.alive:
            return None
        applied = self.random.randrange(
            max(node.durable_applied, node.store.first_index - 1), node.applied + 1
        )
        self._start(node.peer, node.store, min(applied, node.store.last_index), node.life)
        return self.nodes[node.peer.node]

    def _supply(self, node: Node, life: int, request: SupplyPeer) -> Node | None:
        """Give a supplied peer what it lacks, again and again until it follows."""
        if not node.alive or node.life != life or not node.raft.is_supplied(request.to):
            return None
        self._later(
            self.random.randrange(20, 200), functools.partial(self._supply, node, life, request)
        )
        to = self.nodes[request.to.node]
        if not to.alive or to.peer != request.to:
            return None
        index, log_term = to.raft.stored_position
        message = node.raft.supply(request.to, index=index, log_term=log_term)
        if message is not None:
            node.raft.supplied(message)
            self._send((message,))
            return None
        meta, digest = node.raft.snapshot_meta(node.applied), node.digest
        node.raft.supplied_piece(
            request.to, index=meta.index, piece_bytes=100, sent_bytes=100, total_bytes=100
        )
        self._later(
            self.random.randrange(5, 800),
            functools.partial(self._supplied, node, request, meta, digest),
        )
        return None

    def _supplied(
        self, node: Node, request: SupplyPeer, meta: SnapshotMeta, digest: int
    ) -> Node | None:
        to = self.nodes[request.to.node]
        if not to.alive or to.peer != request.to or self.random.random() < self.lost:
            return None
        to.staged[meta.index] = digest
        to.raft.step(
            Message(
                kind=Kind.SNAPSHOT,
                to=request.to,
                sender=node.peer,
                term=request.term,
                snapshot=meta,
            )
        )
        return to

    # network

    def _send(self, messages: tuple[Message, ...]) -> None:
        for message in messages:
            self.check.sent(message)
            copies = 1 + (self.faults and self.random.random() < self.doubled)
            for _ in range(copies):
                if not self.faults or self.random.random() >= self.lost:
                    delay = self.random.randrange(1, self.slow if self.faults else 10)
                    self._later(delay, lambda message=message: self._deliver(message))

    def _deliver(self, message: Message) -> Node | None:
        to, sender = message.to.node, message.sender.node
        node = self.nodes[to]
        if not node.alive or self.groups.get(to, 0) != self.groups.get(sender, 0):
            return None
        node.raft.step(message)
        return node

    # clients

    def _clients(self) -> Node | None:
        self._later(self.random.randrange(5, 120) if self.faults else 1000, self._clients)
        node = self._some_node()
        if not node.alive:
            return None
        try:
            count = self.random.choice([1, 1, 2, 7])
            node.raft.propose([b"%d" % self.random.getrandbits(40) for _ in range(count)])
            node.reads[node.raft.read()] = self.check.chosen_to
        except NotLeader:
            return None
        return node

    def _some_node(self) -> Node:
        """Any; mostly one that thinks it leads, perhaps of an old term."""
        nodes = list(self.nodes.values())
        leaders = [node for node in nodes if node.alive and node.was_leader]
        return self.random.choice(leaders if leaders and self.random.random() < 0.8 else nodes)

    # operator

    def leader(self) -> tuple[Node, Status] | None:
        """The leader of the highest term, as the operator sees it."""
        leaders = [
            (node, node.raft.status())
            for node in self.nodes.values()
            if node.alive and node.raft._replica.role is Role.LEADER
        ]
        return max(leaders, key=lambda each: each[1].term, default=None)

    def _operate(self) -> Node | None:
        self._later(self.random.randrange(50, 400), self._operate)
        found = self.leader()
        if found is None:
            return None
        node, status = found
        assert status.configuration is not None
        settled = status.configuration == Configuration(peers=self.wanted, token=self.token)
        if self.faults and self.random.random() < (0.15 if settled else 0.01):
            self._wish(status.configuration)
        if status.stage is Stage.NONE and not settled:
            answer = node.raft.change_peers(term=status.term, token=self.token, peers=self.wanted)
            require(answer is ChangePeersAnswer.RECEIVED, "NONE receives", answer=answer)
        elif status.caught_up:
            self._grant(node, status)
        elif status.stage is Stage.CATCHING_UP and self.random.random() < 0.02:
            answer = node.raft.cancel_change_peers(term=status.term, token=status.stage_token)
            require(answer is CancelAnswer.RECEIVED, "catch-up can be cancelled", answer=answer)
            require(node.raft.status().last_index == status.last_index, "a cancel leaves no entry")
            self.reached["cancels"] += 1
        elif status.stage in (Stage.JOINT, Stage.STABLE) and self.random.random() < 0.1:
            answer = node.raft.change_peers(
                term=status.term, token=status.stage_token + 1, peers=self.wanted
            )
            require(answer is ChangePeersAnswer.BUSY, "a joint change is busy", answer=answer)
            cancel = node.raft.cancel_change_peers(term=status.term, token=status.stage_token)
            require(cancel is CancelAnswer.BUSY, "a joint change goes on", answer=cancel)
        if self.random.random() < 0.1:
            before = node.raft.status()
            stale = node.raft.change_peers(
                term=status.term, token=status.configuration.token - 1, peers=self.wanted
            )
            old = node.raft.change_peers(term=status.term - 1, token=999, peers=self.wanted)
            require(stale is old is ChangePeersAnswer.STALE, "old orders are refused")
            require(before == node.raft.status(), "refused orders have no effect")
        return node

    def _wish(self, current: Configuration) -> None:
        size = self.random.choice([1, 2, 3, 3, 3, 4, 5])
        self.token += 1
        names = self.random.sample(sorted(self.nodes), size)
        self.wanted = tuple(sorted(self.nodes[name].peer for name in names))

    def _grant(self, node: Node, status: Status) -> None:
        if status.stage_token != self.token:  # it waits for a grant that won't come
            answer = node.raft.change_peers(term=status.term, token=self.token, peers=self.wanted)
            require(answer is ChangePeersAnswer.RECEIVED, "a new token replaces it", answer=answer)
            return
        self.check.grants.add((node.peer, status.term, self.token, self.wanted))
        answer = node.raft.grant(term=status.term, token=self.token, peers=self.wanted)
        require(answer is GrantAnswer.RECEIVED, "caught up is granted", answer=answer)
        if self.faults and self.random.random() < 0.3:  # the leader dies between the two halves
            self._later(self.random.choice([0, 0, 20, 60]), lambda: self._strike(node))

    def _strike(self, node: Node) -> None:
        if self.random.random() < 0.5:
            self.groups = {node.peer.node: 1}
        elif node.alive:
            self._crash(node)

    # trouble

    def _trouble(self) -> Node | None:
        self._later(self.random.randrange(50, 1500), self._trouble)
        if not self.faults:
            return None
        node = self._some_node()
        match self.random.randrange(11):
            case 0 | 1 if node.alive:
                self._crash(node)
            case 2:
                self.groups = {name: self.random.randrange(2) for name in self.nodes}
            case 3 | 4:
                self.groups = {}
            case 5 if node.alive:
                node.raft.transfer_leadership()
                return node
            case 6 if node.alive and node.applied > node.store.first_index:
                self._compact(node)
            case 7:
                self._wipe(self.random.choice(list(self.nodes.values())))
            case 8:
                self.groups = {node.peer.node: 1}
            case 9 if node.alive:
                node.raft.refuse_leadership(self.random.random() < 0.5)
                return node
            case 10 if node.alive:
                node.raft.report_unreachable(self._some_node().peer)
                return node
        return None

    def _compact(self, node: Node) -> None:
        node.durable_applied = node.applied
        index = self.random.randrange(node.store.first_index, node.applied + 1)
        index = min(index, node.store.last_index)
        meta = node.raft.snapshot_meta(index)
        node.raft.compact(index)
        node.store.compact(meta)

    def _wipe(self, node: Node) -> None:
        """The replica's storage is gone: it comes back as another, and its old one never.

        Not if a majority of a half of any configuration would then be gone for good.
        """
        present = {each.peer for each in self.nodes.values()} - {node.peer}
        for other in self.nodes.values():
            for _, configuration in other.store.configurations()[-2:]:
                for half in (configuration.peers, configuration.old_peers):
                    if node.peer in half and 2 * len(present.intersection(half)) <= len(half):
                        return
        if node.peer in self.wanted:
            self.token += 1
        node.alive = False
        node.life += 1
        name = node.peer.node
        self._start(
            Peer(name, f"{self.random.getrandbits(64):016x}"), MemoryLogStore(), 0, node.life
        )
        self.wanted = tuple(
            self.nodes[name].peer if peer == node.peer else peer for peer in self.wanted
        )

    # quiet

    def settle(self, *, seconds: int = 60) -> None:
        """End all faults; within `seconds` of virtual time everything must be in order."""
        self.faults = False
        self.groups = {}
        for node in list(self.nodes.values()):
            if not node.alive:
                self._restart(node)
            self.nodes[node.peer.node].raft.refuse_leadership(False)
        end = self.now + seconds * 1000
        while self.now < end:
            self.step()
            if self.steps % 50 == 0 and self._is_settled():
                return
        require(
            False,
            "everything settles in quiet",
            wanted=(self.token, self.wanted),
            statuses=[node.raft.status() for node in self.nodes.values()],
        )

    def _is_settled(self) -> bool:
        found = self.leader()
        if found is None:
            return False
        _, status = found
        if status.stage is not Stage.NONE or status.configuration != Configuration(
            peers=self.wanted, token=self.token
        ):
            return False
        members = [self.nodes[peer.node] for peer in self.wanted]
        settled = status.commit > 0 and all(
            node.applied == status.commit == status.last_index for node in members
        )
        require(
            not settled or self.token in self.check.announced,
            "each change is announced",
            token=self.token,
        )
        return settled
