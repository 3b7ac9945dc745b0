"""The turns of a simulated node: the real turn, whose edge is a disk and a network in virtual time.

A turn serves all replicas with new input since the last one; their writes become one commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from zonequake_simulation.checks.group import GroupRules
from zonequake_simulation.disk import Disk
from zonequake_simulation.outgoing import Outgoing
from zonequake_simulation.replicas import Replicas
from zonequake_simulation.standstill import Standstill
from zonequake_simulation.trace_events import tell
from zonequake_simulation.world import World
from zonequake_store.catch_up.edge import NodeCatchUp
from zonequake_store.network.transaction_messages import Letter
from zonequake_store.node.letters import LetterRouter
from zonequake_store.raft.api import RaftEvent, Ready, SupplyPeer
from zonequake_store.raft.messages import Message, SnapshotMeta
from zonequake_store.replica.replica import Replica
from zonequake_store.replica.turn import Edge, finish, serve, writes_of
from zonequake_store.storage.cells import Overlay


class TurnProcess(Protocol):
    """The interface of a node for the turns of its processes."""

    alive: bool
    process: int
    """The number of the process that runs or ran last."""
    catch_up: NodeCatchUp
    letter_router: LetterRouter


class Turns(Edge):
    """The turns of one node, in all of its processes."""

    def __init__(
        self,
        node: TurnProcess,
        *,
        world: World,
        disk: Disk,
        replicas: Replicas,
        rules: Mapping[str, GroupRules],
        out: Outgoing,
        standstill: Standstill,
    ) -> None:
        self._node = node
        self._world = world
        self._disk = disk
        self._replicas = replicas
        self._rules = rules
        self._out = out
        self._standstill = standstill
        self._awake: dict[str, Replica] = {}
        self._batch: list[tuple[Replica, Ready]] = []

    def join(self, replica: Replica) -> None:
        """Adds a replica to those that the next turn serves."""
        self._awake[replica.group] = replica

    def take_with(self, replica: Replica) -> None:
        """Takes a turn at once, also for this replica."""
        self.join(replica)
        self.take()

    def leave(self, group: str) -> None:
        """Removes a stopped replica from those that wait for a turn."""
        self._awake.pop(group, None)

    def process_ended(self) -> None:
        """Drops all waiting replicas."""
        self._awake.clear()

    def wake(self, replica: Replica) -> None:
        """Serves a replica, in this event or a later one."""
        self.join(replica)
        self._world.later(0, self.take_if_due)

    def take_if_due(self) -> None:
        """Takes a turn if a replica waits for one."""
        if self._node.alive and self._awake:
            self.take()

    def take(self) -> None:
        """Serves the waiting replicas; their writes become one commit."""
        awake = list(self._awake.values())
        self._awake.clear()
        self._batch = []
        for replica in awake:
            serve(replica, self)
        for replica in awake:
            life = self._replicas.lives.get(replica.group)
            if life is not None:
                life.event_ended()
                life.rules.users.turned(life, replica)
        if self._batch:
            self._submit(self._batch)
        self._node.catch_up.after_turn(awake)

    def _submit(self, batch: list[tuple[Replica, Ready]]) -> None:
        writes = [write for replica, ready in batch for write in writes_of(replica, ready)]

        def stored() -> None:
            for replica, ready in batch:
                self._rules[replica.group].stored(replica.me, ready)

        process = self._node.process

        def done() -> None:
            ended = not self._node.alive or self._node.process != process
            if ended or self._standstill.puts_off(done):
                return
            for replica, ready in batch:
                if not replica.stopped:
                    finish(replica, ready, self)
                    self.join(replica)
            self.take()

        self._disk.write_log(writes, stored, done)

    # ── the edge of the real turn ────────────────────────────────────────────────────────────

    def send(self, replica: Replica, messages: Sequence[Message]) -> None:
        """Sends messages, each separately."""
        self._rules[replica.group].sent(messages)
        for message in messages:
            self._out.message(replica.group, message)

    def carry(self, replica: Replica, letters: Sequence[Letter]) -> None:
        """Sends letters to the nodes where the leaders of their groups may be."""
        self._node.letter_router.carry(letters)

    def store(self, replica: Replica, ready: Ready) -> None:
        """Stores a Ready with all others of this turn."""
        self._batch.append((replica, ready))

    def note(self, replica: Replica, event: RaftEvent) -> None:
        """Counts and traces events of the core."""
        tell(self._world, replica.me, event)

    def applied(self, replica: Replica, count: int) -> None:
        """Takes note that a replica applied entries."""
        self._rules[replica.group].state.applied(replica, count)
        if not isinstance(replica.cells, Overlay):
            replica.durable_index = replica.partition.index

    def supply(self, replica: Replica, request: SupplyPeer) -> None:
        """Lets a peer demand the entries or state that it lacks."""
        self._world.tally["supplies"] += 1
        self._node.catch_up.supply(replica, request)

    def claim_snapshot(self, replica: Replica, meta: SnapshotMeta) -> None:
        """Points the replica's record at the staged state."""
        replica.record = self._node.catch_up.claim(replica, meta)

    def install_snapshot(self, replica: Replica) -> None:
        """Gives the replica the staged state."""
        self._node.catch_up.install(replica)
        self._world.tally["snapshots installed"] += 1
        life = self._replicas.lives[replica.group]
        life.state_is_at(replica.partition.index, replica.partition.term)
        life.rules.state.holds(replica)
