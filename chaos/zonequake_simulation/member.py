"""A data node in virtual time: the real replicas, driven by the real turn, over simulated edges.

Where the real host has an event loop, two writer threads and sockets, this one has events in
virtual time. A process dies with all that is in memory; what its disk keeps is decided by the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from zlib import crc32

from zonequake_protocol.client import Reply, ReplyStatus, RouteReply, Transaction
from zonequake_simulation.catch_up import SimulatedCatchUpHost
from zonequake_simulation.checks.group import GroupRules
from zonequake_simulation.connections import SimulatedConnections
from zonequake_simulation.disk import Disk
from zonequake_simulation.flushing import SimulatedFlushing
from zonequake_simulation.lease import LeaseCalls, SimulatedLease
from zonequake_simulation.network import Network
from zonequake_simulation.outgoing import Outgoing
from zonequake_simulation.replicas import ZONE, GroupPlace, Replicas
from zonequake_simulation.scenario import Scenario
from zonequake_simulation.standstill import Standstill
from zonequake_simulation.trace import TraceKind
from zonequake_simulation.trace_events import StorageJournal
from zonequake_simulation.turns import Turns
from zonequake_simulation.violation import require
from zonequake_simulation.world import VirtualTimer, World
from zonequake_store.catch_up.edge import NodeCatchUp
from zonequake_store.lease.rules.handover import LeaseWatch
from zonequake_store.lease.rules.node_lease import NOT_PERMITTED, Permission
from zonequake_store.network.peer_protocol import (
    CatchUpFrame,
    Hello,
    Messages,
    TransactionLetter,
    decode_frame,
)
from zonequake_store.node.letters import LetterRouter
from zonequake_store.node.storage_watch import FreeSpace, StorageWatch
from zonequake_store.replica.host import EventSink
from zonequake_store.replica.replica import Replica
from zonequake_store.replica.requests import KeyOperation
from zonequake_store.replica.status import route_of
from zonequake_store.replica.turn import receive

TICK_US = 100_000
FLUSH_US = 1_000_000

_SILENT = logging.Logger("simulation", level=logging.CRITICAL + 1)
"""Discards a node's log output; the trace has the same facts."""


class SimulatedNode:
    """One node; `start` it, and `crash` it at any time. `rate`: how fast its clock goes."""

    def __init__(
        self,
        name: str,
        *,
        world: World,
        network: Network,
        scenario: Scenario,
        rules: dict[str, GroupRules],
        folder: Path,
        rate: float,
        leases: LeaseCalls,
        nodes: Mapping[str, SimulatedNode],
        died: Callable[[SimulatedNode], None],
    ) -> None:
        self.name = name
        self.alive = False
        self.process = 0
        """The number of the process that runs or ran last."""
        self.address = name
        """The address of that process: now and then a new process has another one, as pods do."""
        self.refuses = False
        self.disk = Disk(world, folder, name)
        self.disk.close()
        self._world = world
        self._network = network
        self._out = Outgoing(name, world=world, network=network, nodes=nodes)
        self._scenario = scenario
        self._rules = rules
        self._rate = rate
        self._leases = leases
        self._nodes = nodes
        self._died = died
        self._random = world.stream(f"node {name}")
        self._addresses = world.stream(f"addresses of {name}")
        self._journal = StorageJournal(world, name)
        self.began: Callable[[], None] = lambda: None
        """Called when a process has begun."""
        self.replicas_changed: Callable[[], None] = lambda: None
        """Called when a replica has started or stopped."""
        self.home = Replicas(
            name,
            world=world,
            scenario=scenario,
            rules=rules,
            disk=self.disk,
            random=self._random,
            clock_ms=self.clock_ms,
        )
        self.replicas = self.home.running
        self.lease: SimulatedLease | None = None
        """The Lease of the process that runs, where nodes have one."""
        self.frame_left: Callable[[SimulatedNode, SimulatedNode], None] | None = None
        """Called with sender and addressee when a frame of catch-up leaves."""
        self.flushing = SimulatedFlushing(
            world=world, disk=self.disk, replicas=self.home, rules=rules
        )
        self.standstill = Standstill(world)
        self._timers: list[VirtualTimer] = []
        self._turns = Turns(
            self,
            world=world,
            disk=self.disk,
            replicas=self.home,
            rules=rules,
            out=self._out,
            standstill=self.standstill,
        )

    # ── the process ──────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Begins a process. Its replicas wait for permission to start."""
        assert not self.alive, "a data directory has one process"
        self.alive = True
        self.process += 1
        if self._addresses.random() < 0.3:
            self.address = f"{self.name} {self.process}"
        self.connections = SimulatedConnections(
            self.name,
            world=self._world,
            network=self._network,
            nodes=self._nodes,
            ended=self._node_ended,
        )
        self.disk.open()
        self.watch = self.disk.watcher = StorageWatch(self, log=_SILENT)
        self._lease_watch = LeaseWatch(self)
        self.home.process_began()
        self.catch_up = self._new_catch_up()
        self.letter_router = self._new_letter_router()
        self._timers = [
            self._world.later(self._random.randrange(TICK_US), self._tick),
            self._world.later(self._random.randrange(FLUSH_US), self._flush_due),
        ]
        self.lease = None
        self.began()
        if self._scenario.lease_ms:
            self.lease = self._new_lease()
            self._timers.append(self._world.later(0, self.lease.look))
        self._world.note(TraceKind.START, self.name)

    def _new_lease(self) -> SimulatedLease:
        return SimulatedLease(
            self.name,
            self.process,
            world=self._world,
            network=self._network,
            calls=self._leases,
            lease_ms=self._scenario.lease_ms,
            rate=self._rate,
            when_awake=partial(self._when_awake, self.process),
        )

    def _when_awake(self, process: int, call: Callable[[], None]) -> None:
        if self.process != process or not self.alive:
            return
        if not self.standstill.holds(lambda: self._when_awake(process, call)):
            call()

    def _new_catch_up(self) -> NodeCatchUp:
        place = SimulatedCatchUpHost(
            self,
            world=self._world,
            disk=self.disk,
            replicas=self.home,
            turns=self._turns,
            random=self._random,
        )
        return NodeCatchUp(
            place, staged=self.disk.storage.stagings, first_snapshot=self._random.getrandbits(62)
        )

    def _new_letter_router(self) -> LetterRouter:
        return LetterRouter(
            self.name, self.replicas, wake=self.wake, send=self._out.letter, nodes=self._nodes.keys
        )

    def crash(self) -> None:
        """Ends the process at once."""
        assert self.alive, "only what lives can die"
        self.alive = False
        for timer in self._timers:
            timer.cancel()
        self.connections.close()
        for other in self._nodes.values():
            if other.alive:
                other.connections.died(self.name, self.process)
        self.home.process_ended()
        self._turns.process_ended()
        self.disk.crash()
        self._world.note(TraceKind.CRASH, self.name)
        self._world.tally["crashes"] += 1
        self._died(self)

    def _node_ended(self, node: str, process: int) -> None:
        """Takes note that a process there was proven to have ended."""
        there = self._nodes[node]
        require(
            not there.alive or there.process != process,
            "a process that was proven to have ended has ended",
            seen_by=self.name,
            ended=(node, process),
        )
        self._act_on_end(self.process, node)

    def _act_on_end(self, own: int, node: str) -> None:
        if not self.alive or self.process != own:
            return
        if self.standstill.puts_off(lambda: self._act_on_end(own, node)):
            return
        for replica in list(self.replicas.values()):
            replica.core_now().node_ended(node, lot=crc32(replica.group.encode()))
            self._turns.join(replica)
        self._turns.take()

    def clock_ms(self) -> int:
        """Returns the node's own clock, as fast as its ticks."""
        return int(self._world.now_us / self._rate / 1000)

    def clock_s(self) -> float:
        """Returns the same clock in seconds, exactly."""
        return self._world.now_us / self._rate / 1e6

    def _tick(self) -> None:
        self._timers[0] = self._world.later(int(TICK_US * self._rate), self._tick)
        if self.standstill.left_us():
            return
        for replica in list(self.replicas.values()):
            replica.core_now().tick(self.clock_ms())
            replica.tick()
            self._turns.join(replica)
        self.catch_up.tick()
        self._turns.take()

    def act(self, group: str, action: Callable[[Replica], None]) -> None:
        """Calls `act` on a replica, if it is here, and takes a turn."""
        replica = self.replicas.get(group)
        if replica is not None:
            action(replica)
            self._turns.take_with(replica)

    def deliver(self, group: str, frame: bytes) -> None:
        """Takes a peer's messages."""
        if not self.alive or self.standstill.puts_off(lambda: self.deliver(group, frame)):
            return
        replica = self.replicas.get(group)
        if replica is None:
            return
        received = decode_frame(frame)
        assert not isinstance(received, (Hello, TransactionLetter)), "these go other ways here"
        if isinstance(received, Messages):
            for _, messages in received.groups:
                receive(replica, [each for each in messages if each.to == replica.me], self._turns)
        else:
            self.catch_up.received(received)
        self._turns.take_with(replica)

    def take(self, frame: bytes, sender: str) -> None:
        """Takes a letter of another group's leader."""
        if not self.alive or self.standstill.puts_off(lambda: self.take(frame, sender)):
            return
        letter = decode_frame(frame)
        assert isinstance(letter, TransactionLetter), "nothing else is posted"
        self.letter_router.received(sender, letter)

    def request(
        self,
        group: str,
        id_: int,
        operation: KeyOperation | Transaction,
        answer: Callable[[Reply], None],
    ) -> None:
        """Takes a client's operation; `answer` is called once, or never if the process dies."""
        again = partial(self.request, group, id_, operation, answer)
        if not self.alive or self.standstill.puts_off(again):
            return
        replica = self.replicas.get(group)
        if replica is None:
            answer(Reply(id_, ReplyStatus.NOT_HERE))
            return
        rules = self._rules[group]
        rules.users.asked(operation)
        before, life = rules.replies.seen(), self.home.lives[group]

        def judged(reply: Reply) -> None:
            if reply.error == NOT_PERMITTED:
                self._world.tally["answers without permission"] += 1
            rules.replies.answered(life, operation, reply, before, rate=self._rate)
            answer(reply)

        if replica.offer(id_, operation, judged):
            self._turns.take_with(replica)

    def route(self) -> RouteReply:
        """Returns the routes of the zone's partitions, as far as this node knows."""
        routes = [route_of(replica, lambda node: node) for replica in self.replicas.values()]
        return RouteReply(ZONE, self._scenario.groups, routes, {self.name: self.name})

    # ── replicas come and go ─────────────────────────────────────────────────────────────────

    def start_replica(
        self,
        place: GroupPlace,
        *,
        token: int,
        lineage: int,
        permission: Permission | None = None,
    ) -> Replica | None:
        """Carries out a start order: recovers the stored state, or starts over. None: the replica
        is broken.

        `lineage`: the lineage below which no replica takes part.
        """
        replica = self.replicas.get(place.name)
        if replica is not None:
            return replica
        if permission is None and self.lease is not None:
            permission = self.lease.permission()
        replica = self.home.begin(place, token=token, permission=permission)
        if replica is None:
            return None
        replica.core_now().enforce(lineage)
        self.watch.admit(replica)
        if self.refuses:
            replica.core_now().refuse_leadership(True)
        self.replicas_changed()
        self._turns.take_with(replica)
        return replica

    def erase(self, group: str) -> bool:
        """Carries out an order to stop and erase; returns False if nothing is stored in this
        process.
        """
        if self.disk.has_failed:
            return False
        replica = self.replicas.get(group)
        if replica is not None:
            replica.stop()
            self._turns.leave(group)
            self.catch_up.removed(replica)
        self.catch_up.forget(group)
        self.home.erase(group)
        self.replicas_changed()
        return True

    def _flush_due(self) -> None:
        self._timers[1] = self._world.later(int(FLUSH_US * self._rate), self._flush_due)
        if self.standstill.left_us():
            return
        self.watch.look(self.clock_s())
        if self.lease is not None:
            self._lease_watch.look(self.clock_s())
        self.flushing.flush()
        if self.disk.has_failed:
            self.crash()  # it reports that it is not healthy, and is started again

    # ── what the watches go by ───────────────────────────────────────────────────────────────

    @property
    def storage(self) -> FreeSpace:
        """The room for the replicas' data."""
        return self.disk

    @property
    def journal(self) -> EventSink:
        """The receiver of the storage's reports."""
        return self._journal

    def wake(self, replica: Replica) -> None:
        """Serves a replica, in this event or a later one."""
        self._turns.wake(replica)

    def break_down(self, replica: Replica, reason: str) -> None:
        """Stops a replica for good."""
        self._turns.leave(replica.group)
        self.home.break_down(replica, reason)
        self.catch_up.removed(replica)

    # ── catch-up ─────────────────────────────────────────────────────────────────────────────

    def send_frame(self, to: str, frame: CatchUpFrame) -> None:
        """Sends a frame, separately from the messages."""
        replica = self.replicas.get(frame.group)
        if replica is not None:
            stored = None if self._scenario.is_volatile else self.disk.data.stagings
            rules = self._rules[frame.group].catch_up
            rules.sent(replica.core_now(), frame, self._world.now_us, stored)
        self._out.frame(to, frame)
        if self.frame_left is not None:
            self.frame_left(self, self._nodes[to])
