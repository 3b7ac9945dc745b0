"""Runs all replicas of a node: one loop turn serves every replica that has work.

    frames, ticks, clients ──► wake(replica) ──► turn:  propose and start reads
                                                        take each core's Ready
                                                        one frame to each peer
                                                        one batch to the log writer
                              stored ◄── log writer ◄──┘
                              messages_after_store, stored(ready), wake

What a turn does with one replica is in `turn.py`; the host is its edge to disk, network and clock.

A turn runs at most once per pass of the event loop, so that what arrives together is proposed,
stored and sent together: the slower the disk, the larger the batches, without a timer. A replica
whose Ready is being stored is passed over (the core gives none); its work waits for the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Sequence
from zlib import crc32

from zonequake_protocol.client import RouteReply
from zonequake_store.catch_up.edge import NodeCatchUp
from zonequake_store.errors import StorageError
from zonequake_store.lease.clock import boottime_s
from zonequake_store.lease.rules.handover import LeaseWatch
from zonequake_store.lease.rules.node_lease import NodeLease
from zonequake_store.network.framing import FrameFlush
from zonequake_store.network.peer_protocol import Messages, TransactionLetter, encode_frame
from zonequake_store.network.transaction_messages import Letter
from zonequake_store.network.transport import Transport
from zonequake_store.node.catch_up import NodeCatchUpHost
from zonequake_store.node.flushing import Flushing
from zonequake_store.node.heartbeats import Heartbeats
from zonequake_store.node.letters import LetterRouter
from zonequake_store.node.outbox import Outbox
from zonequake_store.node.storage_watch import StorageWatch
from zonequake_store.node.ticks import TickSchedule
from zonequake_store.raft.api import (
    LeaderChanged,
    RaftEvent,
    Ready,
    SupplyPeer,
)
from zonequake_store.raft.messages import Message, Peer, SnapshotMeta
from zonequake_store.replica.replica import LOG_ERRORS, Replica
from zonequake_store.replica.status import route_of
from zonequake_store.replica.turn import Edge, finish, receive, serve, writes_of
from zonequake_store.serving.counters import Counters
from zonequake_store.serving.journal import EventJournal
from zonequake_store.serving.journal_entries import note_core, note_replica
from zonequake_store.storage.cells import MemoryCells, Overlay, View
from zonequake_store.storage.directory import LogBatch, Storage
from zonequake_store.storage.log_writes import GroupRecord

_log = logging.getLogger("zonequake_store")

FLUSH_S = 1.0
# A replica that changes more than this between two flushes is flushed at once.
_FLUSH_BYTES = 8 << 20


class Host(Edge):
    """The replicas that run in this process, and those on disk that wait for a start order.

    `append_delay_s` and `flushes=False` are halves of the planted faults `ack-before-commit` and
    `drop-log-tail`: the first holds entries back, the second leaves the applied state to the log,
    so that a log that lost its tail takes the state with it.
    """

    def __init__(
        self,
        *,
        name: str,
        storage: Storage,
        transport: Transport,
        frame_flush: FrameFlush,
        journal: EventJournal,
        lease: NodeLease,
        heartbeat_ticks: int,
        append_delay_s: float,
        flushes: bool,
    ) -> None:
        self.name = name
        self.lease = lease
        self.heartbeat_ticks = heartbeat_ticks
        self.lease_wanted_changed: Callable[[], None] | None = None
        self.lease_unrenewed_since_ms = 0
        """Unix ms, as the Lease's `unrenewed_since_s`."""
        self.storage = storage
        self.transport = transport
        self.frame_flush = frame_flush
        self.journal = journal
        self.counters = Counters()
        self.replicas: dict[str, Replica] = {}
        self.waiting: dict[str, GroupRecord] = {}
        self.broken: dict[str, tuple[GroupRecord, str]] = {}
        self.lost: set[str] = set()
        """The broken replicas that could not be started from what is stored."""
        for group, record in storage.records.items():
            reason = storage.distrusted(record)
            if reason is None:
                self.waiting[group] = record
            else:
                self.broken[group] = (record, reason)
                note_replica(self.journal, "replica.broken", record, reason)
        self.draining = False
        self.outbox = Outbox(transport, self._unreachable, append_delay_s=append_delay_s)
        self._place = NodeCatchUpHost(self)
        self.catch_up = NodeCatchUp(
            self._place, staged=storage.stagings, first_snapshot=secrets.randbits(62)
        )
        self.letter_router = LetterRouter(
            name, self.replicas, wake=self.wake, send=self._post, nodes=transport.client_addresses
        )
        self.flushing = Flushing(self)
        self.watch = StorageWatch(self, log=_log)
        storage.watcher = self.watch
        self._lease_watch = LeaseWatch(self)
        self._flushes = flushes
        self._loop = asyncio.get_running_loop()
        self._awake: dict[Replica, None] = {}
        """In order, because memory is read faster in the order in which it was taken."""
        self._turn_due = False
        self._batch = LogBatch()
        self._storing: list[tuple[Replica, Ready]] = []
        self._next_flush_s = self._loop.time() + FLUSH_S
        self.tick_schedule = TickSchedule()
        self._heartbeats = Heartbeats(self, heartbeat_ticks=heartbeat_ticks)

    # ── turns ────────────────────────────────────────────────────────────────────────────────

    def wake(self, replica: Replica) -> None:
        """Makes a replica take part in the next turn."""
        self._awake[replica] = None
        self._turn_soon()

    def _turn_soon(self) -> None:
        if not self._turn_due:
            self._turn_due = True
            self._loop.call_soon(self._turn)

    def received(self, frame: Messages) -> None:
        """Take a peer's messages."""
        for group, messages in frame.groups:
            replica = self.replicas.get(group)
            if replica is None:
                continue
            try:
                if receive(replica, messages, self):
                    self.wake(replica)
                else:
                    self.tick_schedule.consider_core(replica)
            except LOG_ERRORS as error:
                self.break_down(replica, str(error))
        self._heartbeats.heard(frame)
        self._leave_soon()

    def ticked(self, now_s: float, *, lag_s: float) -> None:
        """Handles a tick, so much late, for all replicas that it concerned."""
        self.counters.lagged(lag_s)
        self._leave_soon()
        self.catch_up.tick()
        if now_s >= self._next_flush_s:
            self._next_flush_s = now_s + FLUSH_S
            self._flush_due(now_s)

    def _leave_soon(self) -> None:
        """Messages leave with the next turn, also those that needed none."""
        if not self.outbox.is_empty:
            self._turn_soon()

    def _turn(self) -> None:
        self._turn_due = False
        self.counters.turns += 1
        self.frame_flush.hold()
        try:
            self._serve_awake()
        finally:
            self.frame_flush.flush()

    def _serve_awake(self) -> None:
        awake, self._awake = self._awake, {}
        batch = self._batch = LogBatch()
        storing: list[tuple[Replica, Ready]] = []
        self._storing = storing
        for replica in awake:
            if replica.stopped:
                continue
            try:
                serve(replica, self)
            except LOG_ERRORS as error:
                self.break_down(replica, str(error))
            else:
                self.tick_schedule.consider(replica)
        self.outbox.flush()
        if storing:
            self.storage.write_log(batch, lambda: self._stored(storing))
        self.catch_up.after_turn(awake)

    def clock_ms(self) -> int:
        """Monotonic time: the clock of the cores' ticks. It goes on while the machine is suspended,
        as the age of a state does.
        """
        return int(boottime_s() * 1000)

    def send(self, replica: Replica, messages: Sequence[Message]) -> None:
        """Put a replica's messages into this turn's frames."""
        self.outbox.add(replica.group, messages)

    def store(self, replica: Replica, ready: Ready) -> None:
        """Store a Ready with all others of this turn."""
        self._batch.of(replica.record).extend(writes_of(replica, ready))
        self._storing.append((replica, ready))

    def _stored(self, stored: list[tuple[Replica, Ready]]) -> None:
        for replica, ready in stored:
            if replica.stopped:
                continue
            try:
                finish(replica, ready, self)
            except LOG_ERRORS as error:
                self.break_down(replica, str(error))
            else:
                self._awake[replica] = None
        if self.outbox.is_empty:
            self._turn()  # at once: what its commit brings is for clients
        else:
            self._turn_soon()
            self.frame_flush.hold()
            self.outbox.flush()
            self.frame_flush.flush()

    def supply(self, replica: Replica, request: SupplyPeer) -> None:
        """Lets a peer demand what it lacks."""
        self.catch_up.supply(replica, request)

    def claim_snapshot(self, replica: Replica, meta: SnapshotMeta) -> None:
        """Make a replica the owner of its staged state. Raises LogCorrupt."""
        replica.record = self.catch_up.claim(replica, meta)

    def install_snapshot(self, replica: Replica) -> None:
        """Give a replica its staged state."""
        self.catch_up.install(replica)

    def applied(self, replica: Replica, count: int) -> None:
        """Count what a replica applied; flush it if that is much."""
        self.counters.writes_applied += count
        cells = replica.cells
        if isinstance(cells, Overlay):
            if cells.dirty_bytes > _FLUSH_BYTES and self._flushes:
                self.flushing.flush([replica])
        else:
            replica.durable_index = replica.partition.index
            self.flushing.compact(replica)

    def carry(self, replica: Replica, letters: Sequence[Letter]) -> None:
        """Send a replica's letters."""
        self.letter_router.carry(letters)

    def _post(self, nodes: Sequence[str], letter: TransactionLetter) -> None:
        frame = encode_frame(letter)
        for node in nodes:
            self.transport.send(node, frame)

    def note(self, replica: Replica, event: RaftEvent) -> None:
        """Writes an event of the core into the journal."""
        if isinstance(event, LeaderChanged):
            if replica.leads:
                self._heartbeats.begin(replica)
            else:
                self._heartbeats.end(replica)
                self.catch_up.stop_supplying(replica)
        note_core(self.journal, replica, event)

    def node_ended(self, node: str, process: str) -> None:
        """Records that a peer's process is proven to have ended: replicas that followed it need not
        wait.
        """
        _log.info("%s: its process %s has ended", node, process)
        for replica in list(self.replicas.values()):
            if replica.leads or (replica.leader is not None and replica.leader.node == node):
                replica.core_now().node_ended(node, lot=crc32(replica.group.encode()))
                self.wake(replica)

    def _unreachable(self, group: str, peer: Peer) -> None:
        self.counters.frames_dropped += 1
        replica = self.replicas.get(group)
        if replica is not None:
            replica.core_now().report_unreachable(peer)

    # ── replicas come and go ─────────────────────────────────────────────────────────────────

    def add(self, replica: Replica) -> None:
        """Lets a replica take part from now on."""
        self.waiting.pop(replica.group, None)
        self.replicas[replica.group] = replica
        replica.answered = self.counters.answered.setdefault(replica.record.zone, replica.answered)
        self.watch.admit(replica)
        if self.draining:
            replica.core_now().refuse_leadership(True)
        self._want_lease()
        self.wake(replica)

    def remove(self, replica: Replica) -> None:
        """Stop a replica; its files stay."""
        replica.stop()
        if self.replicas.pop(replica.group, None) is not None:
            self.counters.removed_catch_up_bytes += replica.core_now().supply.sent_bytes
        self._awake.pop(replica, None)
        self._heartbeats.end(replica)
        self.catch_up.removed(replica)
        self.flushing.wake()
        self._want_lease()

    def _want_lease(self) -> None:
        wanted = any(replica.permission is not None for replica in self.replicas.values())
        if wanted != self.lease.is_wanted:
            self.lease.want(wanted)
            if self.lease_wanted_changed is not None:
                self.lease_wanted_changed()

    def break_down(self, replica: Replica, reason: str) -> None:
        """Stops a replica that cannot go on, keeps its files and records why."""
        self.remove(replica)
        self.broken[replica.group] = (replica.record, reason)
        note_replica(self.journal, "replica.broken", replica.record, reason)

    # ── once a second ────────────────────────────────────────────────────────────────────────

    def _flush_due(self, now_s: float) -> None:
        self.journal.flush()
        self.watch.look(now_s)
        self._lease_watch.look(now_s)
        if not self._flushes:
            return
        self.flushing.flush(
            [
                replica
                for replica in self.replicas.values()
                if replica.partition.index > replica.durable_index
            ]
        )

    # ── what is asked of it, and the end ─────────────────────────────────────────────────────

    @property
    def catch_up_sent_bytes(self) -> int:
        """All that this node sent to catching-up peers since its start."""
        running_bytes = sum(r.core_now().supply.sent_bytes for r in self.replicas.values())
        return self.counters.removed_catch_up_bytes + running_bytes

    async def view(self, replica: Replica) -> View:
        """Opens the replica's state of now or later; the caller closes it. Raises StorageError."""
        cells = replica.cells
        if isinstance(cells, MemoryCells):
            return cells.view(replica.partition)
        await self.flushing.flushed(replica)
        cells = replica.cells
        assert isinstance(cells, Overlay), "a replica never changes between durable and volatile"
        return self.storage.data.view(cells.number)

    def route(self, zone: str) -> RouteReply:
        """Returns the routes of a zone's partitions, as far as this node knows."""
        found = [r for r in self.replicas.values() if r.record.zone == zone]
        partitions = found[-1].record.partitions if found else 0
        routes = [route_of(replica, self.transport.client_address) for replica in found]
        return RouteReply(zone, partitions, routes, self.transport.client_addresses())

    async def drain(self, timeout_s: float) -> bool:
        """Hands over every leadership and refuses new ones; True if none was left in time. Until
        then clients that ask here are answered with the new leader.
        """
        self.draining = True
        for replica in self.replicas.values():
            replica.core_now().refuse_leadership(True)
            self.wake(replica)
        deadline_s = self._loop.time() + timeout_s
        while any(each.leads or each.awaits_successor for each in self.replicas.values()):
            if self._loop.time() >= deadline_s:
                return False
            await asyncio.sleep(0.01)
        return True

    async def close(self) -> None:
        """Store what is applied and stop everything."""
        self._heartbeats.stop()
        self.catch_up.close()
        await self._place.idle()
        for replica in list(self.replicas.values()):
            if self._flushes:
                # The log has it, and the writer reported the reason.
                with contextlib.suppress(StorageError):
                    await self.flushing.flushed(replica)
            self.remove(replica)
