"""A leader's supplier and a peer's demander, each with a real core, and the line between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tests.unit.raft.memory_log import MemoryLogStore
from zonequake_store.catch_up.demander import Demander, size_of
from zonequake_store.catch_up.messages import (
    Checkpoint,
    Demand,
    Dismissal,
    Invite,
    Pairs,
    Piece,
    Staging,
    Supply,
    encode_pairs,
)
from zonequake_store.catch_up.supplier import (
    OutFrame,
    Supplier,
)
from zonequake_store.raft.api import RaftSettings, Ready
from zonequake_store.raft.core import Raft
from zonequake_store.raft.messages import Configuration, HardState, Message, Peer

LEADER, NEW = Peer("a", "1"), Peer("d", "1")
GROUP = "z.0.0"
Sent = TypeVar("Sent")
SMALL = RaftSettings(max_append_bytes=40)


class Core:
    """A Raft core with its stored log; what is stored, is stored at once."""

    def __init__(self, me: Peer, store: MemoryLogStore | None = None) -> None:
        self.me = me
        self.store = store or MemoryLogStore()
        self.raft = Raft(
            me=me,
            settings=SMALL,
            log=self.store,
            hard_state=HardState(),
            random=lambda n: n - 1,
            applied=self.store.first_index - 1,
        )

    def turn(self) -> list[Ready]:
        done: list[Ready] = []
        while self.raft.has_ready():
            ready = self.raft.ready()
            self.store.store(ready)
            self.raft.stored(ready)
            if ready.committed:
                self.raft.applied(ready.committed[-1].index)
            done.append(ready)
        return done


class World:
    """A leader, its supplier, and a peer with its demander. `line` decides what becomes of a frame:
    how often it arrives."""

    def __init__(self, commands: int, *, compacted_to: int = 0, cells: int = 40) -> None:
        self.leader = Core(LEADER)
        self.leader.raft.bootstrap(Configuration(peers=(LEADER,), token=1))
        for _ in range(40):
            self.leader.raft.tick()
            self.leader.turn()
        self.leader.raft.propose([b"%05d" % n for n in range(commands)])
        self.leader.turn()
        self.line: Callable[[object], int] = lambda frame: 1
        self.is_disconnected = False
        self.waiting: list[object] = []
        self.sent: list[object] = []
        self.state: Pairs = [(b"k%04d" % n, b"v" * (n % 17)) for n in range(cells)]
        self.index = self.leader.raft.status().commit
        self.lwm: int | None = None
        """Of the supplied state, if not as many as its index."""
        self.counters: dict[int, Checkpoint] = {}
        self.may_judge = True
        self.opened: set[int] = set()
        self.snapshots = 0
        self.broken: list[str] = []
        self.staged: dict[int, Pairs] = {}
        self.durable: Staging | None = None
        self.installed: Pairs | None = None
        self.numbers = 0
        self.holds_up_staging = False
        self.held: list[Staging] = []
        self.peer = Core(NEW)
        self.new_supplier()
        self.new_demander()
        if compacted_to:
            self.leader.store.compact(self.leader.raft.snapshot_meta(compacted_to))
            self.leader.raft.compact(compacted_to)
        self.change()

    def change(self) -> None:
        raft = self.leader.raft
        raft.change_peers(term=raft.term, token=2, peers=(LEADER, NEW))
        self.turns()

    def new_supplier(self) -> None:
        self.supplier = Supplier(
            group=GROUP,
            me=LEADER,
            raft=self.leader.raft,
            edge=self,
            checkpoint_at=self.counters.get,
            may_judge=lambda: self.may_judge,
            new_snapshot=self._new_snapshot,
        )

    def new_demander(self) -> None:
        self.demander = Demander(
            group=GROUP, me=NEW, raft=self.peer.raft, edge=self.Peer(self), staging=self.durable
        )

    def later(self, at: Peer, callback: Callable[[], None]) -> None:
        self.waiting.append((at, callback))

    def forget(self, at: Peer) -> None:
        """A process ended: what its edge would have called back is gone."""
        self.waiting = [
            each for each in self.waiting if not isinstance(each, tuple) or each[0] != at
        ]

    def _new_snapshot(self) -> int:
        self.snapshots += 1
        return self.snapshots

    # the supplier's edge

    def send(self, frame: OutFrame | Demand) -> bool:
        if self.is_disconnected:
            return False
        self.sent.append(frame)
        self.waiting += [frame] * self.line(frame)
        return True

    def open(self, to: Peer, snapshot: int) -> None:
        self.opened.add(snapshot)
        self.later(
            LEADER,
            lambda: self.supplier.opened(
                to,
                snapshot,
                meta=self.leader.raft.snapshot_meta(self.index),
                pairs=len(self.state),
                size_bytes=size_of(self.state),
                checkpoint=Checkpoint(self.index, self.lwm or self.index, self.index),
            ),
        )

    def read(self, to: Peer, snapshot: int, after: bytes, max_bytes: int) -> None:
        assert snapshot in self.opened, "it was closed"
        pairs: Pairs = []
        left = max_bytes
        for pair in self.state:
            if pair[0] > after and left > 0:
                pairs.append(pair)
                left -= size_of([pair])
        last = pairs[-1][0] if pairs else after
        self.later(
            LEADER,
            lambda: self.supplier.read(
                to,
                snapshot,
                after=after,
                content=encode_pairs(pairs),
                last=last,
                size_bytes=size_of(pairs),
                at_end=left > 0,
            ),
        )

    def close(self, to: Peer, snapshot: int) -> None:
        self.opened.discard(snapshot)

    # the demander's edge

    class Peer:
        def __init__(self, world: World) -> None:
            self.world = world

        def send(self, frame: Demand) -> bool:
            return self.world.send(frame)

        def checkpoint(self) -> Checkpoint:
            applied = self.world.peer.raft.status().applied
            return Checkpoint(applied, applied, applied)

        def step(self, message: Message) -> bool:
            self.world.peer.raft.step(message)
            return True

        def new_number(self) -> int:
            self.world.numbers += 1
            return self.world.numbers

        def stage(self, staging: Staging, pairs: Pairs) -> None:
            def stored() -> None:
                self.world.staged.setdefault(staging.number, []).extend(pairs)
                self.world.durable = staging
                self.world.demander.staged(staging)

            if self.world.holds_up_staging:
                self.world.held.append(staging)
            else:
                self.world.later(NEW, stored)

        def discard(self, staging: Staging) -> None:
            self.world.staged.pop(staging.number, None)
            self.world.durable = None

        def state_of(self, staging: Staging) -> tuple[int, int]:
            assert staging.end is not None
            return staging.end.meta.index, staging.end.meta.term

        def break_down(self, reason: str) -> None:
            self.world.broken.append(reason)

    # what happens

    def turns(self) -> None:
        for ready in self.leader.turn():
            for request in ready.supplies:
                self.supplier.begin(request.to)
            for message in ready.messages:
                if message.to == NEW:
                    self.peer.raft.step(message)
        self.supplier.advance()
        for ready in self.peer.turn():
            if ready.snapshot is not None:
                staging = self.demander.staging
                assert staging is not None
                self.installed = self.staged.pop(staging.number)
                self.durable = None
                self.demander.installed()
            for message in ready.messages_after_store:
                self.leader.raft.step(message)
        self.demander.progressed()

    def deliver(self, frame: object) -> None:
        if isinstance(frame, Demand):
            self.supplier.demanded(frame)
        elif isinstance(frame, Invite):
            self.demander.invited(frame)
        elif isinstance(frame, Supply):
            self.demander.supplied(frame)
        elif isinstance(frame, Piece):
            self.demander.piece(frame)
        elif isinstance(frame, Dismissal):
            self.demander.dismissed(frame)
        elif isinstance(frame, tuple):
            frame[1]()
        self.turns()

    def run(self, *, choose: Callable[[int], int] = lambda n: 0, most: int = 5000) -> None:
        """Deliver until nothing moves."""
        while self.waiting and most:
            most -= 1
            self.deliver(self.waiting.pop(choose(len(self.waiting))))

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.leader.raft.tick()
            self.supplier.tick()
            self.demander.tick()
            self.turns()
            self.run()

    @property
    def is_caught_up(self) -> bool:
        return self.leader.raft.status().caught_up

    def of(self, kind: type[Sent]) -> list[Sent]:
        return [frame for frame in self.sent if isinstance(frame, kind)]
