"""A data node in virtual time: the real replicas, driven by the real turn, over simulated edges.

Where the real host has an event loop, two writer threads and sockets, this one has events in
virtual time. A process dies with all that is in memory; what its disk keeps is the disk's choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from zonequake_chaos.simulation.api import NAME as API
from zonequake_chaos.simulation.api import ApiServer
from zonequake_chaos.simulation.checks.group import GroupRules
from zonequake_chaos.simulation.checks.life import Life
from zonequake_chaos.simulation.checks.watch import WatchedRaft
from zonequake_chaos.simulation.disk import Disk, DiskTrouble
from zonequake_chaos.simulation.network import Network
from zonequake_chaos.simulation.scenario import Scenario
from zonequake_chaos.simulation.trace import TraceKind
from zonequake_chaos.simulation.violation import Violation
from zonequake_chaos.simulation.world import Timer, World
from zonequake_store.catchup.edge import CatchUp, Result
from zonequake_store.client_protocol import PartitionRoute, Reply, RouteReply, Status
from zonequake_store.data_store import DataStore, Flush, MemoryCells, Overlay, View
from zonequake_store.errors import LogCorrupt
from zonequake_store.log_writes import Compact, Erase, GroupRecord, PutRecord
from zonequake_store.partition import AppliedState, ClientTable, Partition
from zonequake_store.peer_protocol import (
    CatchUpFrame,
    Hello,
    Messages,
    decode_frame,
    encode_frame,
)
from zonequake_store.raft.api import (
    ConfigurationApplied,
    Event,
    LeaderChanged,
    LeaderElected,
    Ready,
    StageChanged,
    SupplyPeer,
)
from zonequake_store.raft.errors import LogCorrupted
from zonequake_store.raft.messages import (
    Configuration,
    HardState,
    Message,
    Peer,
    SnapshotMeta,
)
from zonequake_store.replica import Faults, Operation, Replica
from zonequake_store.replica_log import DurableLog, MemoryLog
from zonequake_store.transactions import TransactionTable
from zonequake_store.turn import Edge, finish, serve, writes_of

TICK_US = 100_000
FLUSH_US = 1_000_000
ZONE = "z"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlace:
    """A group by name, and its partition among the zone's."""

    name: str
    partition: int
    partitions: int


class Node(Edge):
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
        api: ApiServer,
        find: Callable[[str], Node],
        died: Callable[[Node], None],
    ) -> None:
        self.name = name
        self.alive = False
        self.process = 0
        """The number of the process that runs or ran last."""
        self.refuses = False
        self.replicas: dict[str, Replica] = {}
        self.lives: dict[str, Life] = {}
        self._known: dict[str, Life] = {}
        """As `lives`, kept beyond the process."""
        self.waiting: dict[str, GroupRecord] = {}
        self.broken: dict[str, str] = {}
        """Groups whose replica could not start here, and why."""
        self.rotten = False
        """A bit of the log was flipped while no process ran."""
        self.compact_to: float | None = None
        """How much of what is durable the next flush is to compact away; 1: all."""
        self.disk = Disk(world, folder, name)
        self.disk.failed = self._disk_failed
        self.disk.close()
        self._world = world
        self._network = network
        self._scenario = scenario
        self._rules = rules
        self._rate = rate
        self._api = api
        self._lease_until_us = 0.0
        self._find = find
        self._died = died
        self._random = world.stream(f"node {name}")
        self._stalled_until_us = 0
        self._timers: list[Timer] = []
        self._awake: dict[str, Replica] = {}
        self._batch: list[tuple[Replica, Ready]] = []

    # ── the process ──────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Begin a process. Its replicas wait for permission to start."""
        assert not self.alive, "a data directory has one process"
        self.alive = True
        self.process += 1
        self.disk.open()
        self.waiting = dict(self.disk.log.records())
        self.catch_up = self._new_catch_up()
        self._timers = [
            self._world.later(self._random.randrange(TICK_US), self._tick),
            self._world.later(self._random.randrange(FLUSH_US), self._flush_due),
        ]
        self._lease_until_us = 0.0
        if self._scenario.lease_ms:
            self._timers.append(self._world.later(0, self._renew))
        self._world.note(TraceKind.START, self.name)

    def _new_catch_up(self) -> CatchUp:
        return CatchUp(self, staged=self.disk.stagings, first_snapshot=self._random.getrandbits(62))

    def crash(self) -> None:
        """The process ends at once."""
        assert self.alive, "only what lives can die"
        self.alive = False
        for timer in self._timers:
            timer.cancel()
        self.replicas.clear()
        self.lives.clear()
        self.waiting.clear()
        self.broken.clear()
        self._awake.clear()
        self.disk.crash()
        self._world.note(TraceKind.CRASH, self.name)
        self._world.tally["crashes"] += 1
        self._died(self)

    def stall(self, for_us: int) -> None:
        """The process stands still; what comes waits in its sockets."""
        self._stalled_until_us = max(self._stalled_until_us, self._world.now_us + for_us)

    def resume(self) -> None:
        """The process goes on at once."""
        self._stalled_until_us = 0

    def _disk_failed(self, trouble: DiskTrouble) -> None:
        self._world.tally[trouble.value] += 1
        self.crash()

    def _awake_again_us(self) -> int:
        return max(0, self._stalled_until_us - self._world.now_us)

    def _clock_ms(self) -> int:
        """The node's own clock, as fast as its ticks."""
        return int(self._world.now_us / self._rate / 1000)

    def _tick(self) -> None:
        self._timers[0] = self._world.later(int(TICK_US * self._rate), self._tick)
        if self._awake_again_us():
            return
        for replica in list(self.replicas.values()):
            replica.raft.tick(self._clock_ms())
            self._wake(replica)
        self.catch_up.tick()
        self._turn()

    def _renew(self) -> None:
        """Ask the API server to renew the node's Lease."""
        lease_us = self._scenario.lease_ms * 1000
        self._timers[2] = self._world.later(int(lease_us * self._rate / 4), self._renew)
        if self._awake_again_us():
            return
        asked_us, process = self._world.now_us, self.process

        def renewed() -> None:
            if self.alive and self.process == process:
                # By the node's own clock, from when it asked.
                until_us = asked_us + lease_us * self._rate
                self._lease_until_us = max(self._lease_until_us, until_us)

        def asked() -> None:
            self._api.renew(self.name)
            self._network.send(API, self.name, lambda: "LEASE", renewed)

        self._network.send(self.name, API, lambda: "RENEW", asked)

    def _wake(self, replica: Replica) -> None:
        self._awake[replica.group] = replica

    def act(self, group: str, action: Callable[[Replica], None]) -> None:
        """Let something outside act on a replica, if it is here, and take a turn."""
        replica = self.replicas.get(group)
        if replica is not None:
            action(replica)
            self._wake(replica)
            self._turn()

    def deliver(self, group: str, frame: bytes) -> None:
        """A peer's messages came."""
        if not self.alive:
            return
        later_us = self._awake_again_us()
        if later_us:
            self._world.later(later_us, lambda: self.deliver(group, frame))
            return
        replica = self.replicas.get(group)
        if replica is None:
            return
        received = decode_frame(frame)
        assert not isinstance(received, Hello), "nodes know each other here"
        if isinstance(received, Messages):
            for _, messages in received.groups:
                for message in messages:
                    if message.to == replica.me:
                        replica.raft.step(message)
        else:
            self.catch_up.received(received)
        self._wake(replica)
        self._turn()

    def request(
        self, group: str, id_: int, operation: Operation, answer: Callable[[Reply], None]
    ) -> None:
        """A client's operation came; `answer` is called once, or never if the process dies."""
        if not self.alive:
            return
        later_us = self._awake_again_us()
        if later_us:
            self._world.later(later_us, lambda: self.request(group, id_, operation, answer))
            return
        replica = self.replicas.get(group)
        if replica is None:
            answer(Reply(id_, Status.NOT_HERE))
            return
        rules = self._rules[group]
        before, life = rules.replies.seen(), self.lives[group]

        def judged(reply: Reply) -> None:
            if self._scenario.lease_ms and self._world.now_us >= self._lease_until_us:
                self._world.tally["answers without a Lease"] += 1
                return
            rules.replies.answered(life, operation, reply, before)
            answer(reply)

        if replica.offer(id_, operation, judged):
            self._wake(replica)
            self._turn()

    def route(self) -> RouteReply:
        """What this node knows of the zone's partitions."""
        routes = []
        for group, replica in self.replicas.items():
            status = replica.raft.status()
            leader = status.leader.node if status.leader else None
            members = status.configuration.members if status.configuration else frozenset()
            routes.append(
                PartitionRoute(
                    replica.record.partition,
                    group,
                    sorted(peer.node for peer in members),
                    leader,
                    leader,
                    status.term,
                )
            )
        return RouteReply(ZONE, self._scenario.groups, routes, {self.name: self.name})

    # ── turns ────────────────────────────────────────────────────────────────────────────────

    def _turn(self) -> None:
        """Serve whom something happened to; what they have to store becomes one commit."""
        awake = list(self._awake.values())
        self._awake.clear()
        self._batch = []
        for replica in awake:
            serve(replica, self)
        for replica in awake:
            life = self.lives.get(replica.group)
            if life is not None:
                life.event_ended()
        if self._batch:
            self._submit(self._batch)
        self.catch_up.after_turn(awake)

    def _submit(self, batch: list[tuple[Replica, Ready]]) -> None:
        writes = [write for replica, ready in batch for write in writes_of(replica, ready)]

        def stored() -> None:
            for replica, ready in batch:
                self._rules[replica.group].stored(replica.me, ready)

        def done() -> None:
            later_us = self._awake_again_us()
            if later_us:
                life = dict(self.lives)
                self._world.later(later_us, lambda: done() if self.lives == life else None)
                return
            for replica, ready in batch:
                if not replica.stopped:
                    finish(replica, ready, self)
                    self._wake(replica)
            self._turn()

        self.disk.write_log(writes, stored, done)

    def send(self, replica: Replica, messages: Sequence[Message]) -> None:
        """Have messages leave, each on its own."""
        self._rules[replica.group].sent(messages)
        for message in messages:
            self._send(replica.group, message)

    def _send(self, group: str, message: Message) -> None:
        frame = encode_frame(Messages([(group, [message])]))
        to = message.to.node
        self._network.send(
            self.name,
            to,
            lambda: _text(message),
            lambda: self._find(to).deliver(group, frame),
        )

    def store(self, replica: Replica, ready: Ready) -> None:
        """Store a Ready with all others of this turn."""
        self._batch.append((replica, ready))

    def note(self, replica: Replica, event: Event) -> None:
        """Count what the core told."""
        tally = self._world.tally
        if isinstance(event, LeaderElected):
            tally["elections"] += 1
            self._note_role("leads", event.term, "leader")
        elif isinstance(event, ConfigurationApplied):
            tally["configurations"] += 1
        elif isinstance(event, StageChanged):
            tally[f"stage {event.stage.value}"] += 1
            self._world.note(TraceKind.STAGE, self.name, f"{event.stage.value} {event.token}")
        elif isinstance(event, LeaderChanged):
            leader = event.leader
            if leader != replica.me:
                told = "hears no leader" if leader is None else f"follows {leader.node}"
                self._note_role(told, event.term, "follower")
            else:
                self._note_role("is elected", event.term, "leader")
        else:
            tally["reconfiguration errors"] += 1

    def _note_role(self, told: str, term: int, role: str) -> None:
        self._world.note(TraceKind.ROLE, self.name, f"{told}, term {term}", term=term, role=role)

    def applied(self, replica: Replica, count: int) -> None:
        """A replica applied entries."""
        self._rules[replica.group].state.applied(replica)
        if not isinstance(replica.cells, Overlay):
            replica.durable_index = replica.partition.index

    # ── replicas come and go ─────────────────────────────────────────────────────────────────

    def start_replica(self, place: GroupPlace, *, token: int, lineage: int) -> Replica | None:
        """What a start order does: recover what is stored, or begin anew. None: it is broken.

        `lineage`: below which no replica takes part.
        """
        replica = self.replicas.get(place.name)
        if replica is not None:
            return replica
        if place.name in self.broken:
            return None
        record = self.waiting.pop(place.name, None)
        if self._scenario.is_volatile:
            record = self._new_record(place, token, number=0, data_number=0)
            replica = self._replica(
                place,
                record,
                MemoryLog(),
                HardState(),
                MemoryCells(),
                ClientTable(),
                TransactionTable(),
                AppliedState(),
            )
        else:
            if record is None:
                new = self.disk.new_number
                record = self._new_record(place, token, number=new(), data_number=new())
                self.disk.log.write([PutRecord(place.name, record)])
            try:
                replica = self._recovered(place, record)
            except (LogCorrupt, LogCorrupted) as error:
                if not self.rotten:
                    raise Violation("a log that no disk fault met is sound", error=error) from error
                self.broken[place.name] = str(error)
                self._world.tally["broken replicas"] += 1
                self._world.note(TraceKind.FAULT, self.name, f"{place.name} is broken")
                return None
        self.replicas[place.name] = replica
        replica.raft.enforce(lineage)
        if self.refuses:
            replica.raft.refuse_leadership(True)
        self._wake(replica)
        self._turn()
        return replica

    def erase(self, group: str) -> None:
        """What an order to stop and erase does."""
        replica = self.replicas.pop(group, None)
        self.lives.pop(group, None)
        self._known.pop(group, None)
        self._awake.pop(group, None)
        if replica is not None:
            replica.stop()
            self.catch_up.removed(replica)
        self.catch_up.forget(group)
        self.broken.pop(group, None)
        self.waiting.pop(group, None)
        record = replica.record if replica else self.disk.log.records().get(group)
        if record is not None and not self._scenario.is_volatile:
            self.disk.log.write([Erase(group, record.number)])
            self.disk.data.erase(record.data_number)
            if replica is not None and isinstance(replica.cells, Overlay):
                self.disk.data.erase(replica.cells.number)  # while a snapshot is installed

    def _new_record(
        self, place: GroupPlace, token: int, *, number: int, data_number: int
    ) -> GroupRecord:
        return GroupRecord(
            number=number,
            data_number=data_number,
            incarnation=f"{self._random.getrandbits(64):016x}",
            zone=ZONE,
            partition=place.partition,
            partitions=place.partitions,
            token=token,
        )

    def _recovered(self, place: GroupPlace, record: GroupRecord) -> Replica:
        disk = self.disk
        state = disk.data.state(record.data_number)
        recovered = disk.log.recover(record.number)
        start = recovered.snapshot.index if recovered.snapshot else 0
        if not start <= state.index <= recovered.last_index:
            raise LogCorrupt(
                f"the stored state is that of index {state.index}, but the log holds "
                f"{start + 1} to {recovered.last_index}"
            )
        return self._replica(
            place,
            record,
            DurableLog(disk.log, record.number, recovered),
            recovered.hard_state,
            Overlay(disk.data, record.data_number),
            disk.data.clients(record.data_number),
            disk.data.transactions(record.data_number),
            state,
        )

    def _replica(
        self,
        place: GroupPlace,
        record: GroupRecord,
        log: DurableLog | MemoryLog,
        hard_state: HardState,
        cells: Overlay | MemoryCells,
        clients: ClientTable,
        transactions: TransactionTable,
        state: AppliedState,
    ) -> Replica:
        me = Peer(self.name, record.incarnation)
        raft = WatchedRaft(
            me=me,
            settings=self._scenario.settings,
            log=log,
            hard_state=hard_state,
            random=self._random.randrange,
            applied=state.index,
        )
        raft.is_volatile = isinstance(log, MemoryLog)
        rules = self._rules[place.name]
        rules.created(me)
        life = Life(rules, raft)
        self.lives[place.name] = self._known[place.name] = life
        raft.witness = life
        life.after_step()
        return Replica(
            group=place.name,
            record=record,
            me=me,
            raft=raft,
            log=log,
            cells=cells,
            partition=Partition(cells, clients=clients, transactions=transactions, state=state),
            faults=Faults(),
            client_address=lambda node: node,
            clock_ms=self._clock_ms,
        )

    def present(self, group: str) -> Peer | None:
        """The replica whose state this node still has, perhaps on its disk alone."""
        life = self._known.get(group)
        if life is None or (self._scenario.is_volatile and group not in self.lives):
            return None
        return life.peer

    def configurations(self, group: str) -> list[Configuration]:
        """The last two configurations that this node's replica may go by."""
        life = self._known.get(group)
        return [known for _, known in life.core.log._configurations[-2:]] if life else []

    def forget(self) -> None:
        """What is on the disk will not be used any more."""
        self._known.clear()

    # ── flushing and compaction ──────────────────────────────────────────────────────────────

    def _flush_due(self) -> None:
        self._timers[1] = self._world.later(int(FLUSH_US * self._rate), self._flush_due)
        if not self._awake_again_us():
            self.flush()

    def flush(self) -> None:
        """Have what the replicas applied stored in one commit."""
        flushing: list[tuple[Replica, Overlay, int]] = []
        jobs: list[Flush] = []
        for replica in self.replicas.values():
            cells, index = replica.cells, replica.partition.index
            if not isinstance(cells, Overlay):
                self._compact(replica)
            elif not replica.flushing and (index > replica.durable_index or self.compact_to):
                replica.flushing = True
                flushing.append((replica, cells, index))
                jobs.append(cells.begin_flush(replica.partition))
        if not jobs:
            return
        data = self.disk.data

        def flushed() -> None:
            for replica, cells, index in flushing:
                replica.flushing = False
                cells.end_flush()
                if replica.cells is cells and not replica.stopped:
                    replica.durable_index = index
                    self._compact(replica)

        self.disk.write_data(lambda: data.flush(jobs), flushed)

    def _compact(self, replica: Replica) -> None:
        share = self.compact_to
        if share is None or replica.raft.pending_snapshot is not None:
            return
        self.compact_to = None
        log = replica.log
        index = log.first_index - 1 + round(share * (replica.durable_index + 1 - log.first_index))
        index = min(index, replica.durable_index, log.last_index)
        if index < log.first_index:
            return
        meta = replica.raft.snapshot_meta(index)
        replica.raft.compact(index)
        log.compacted(meta)
        self._world.tally["compactions"] += 1
        rules, me = self._rules[replica.group], replica.me
        if isinstance(log, DurableLog):
            self.disk.write_log(
                [Compact(log.number, meta)], lambda: rules.compacted(me, meta), lambda: None
            )
        else:
            rules.compacted(me, meta)

    # ── catch-up ─────────────────────────────────────────────────────────────────────────────

    def supply(self, replica: Replica, request: SupplyPeer) -> None:
        """Let a peer demand what it lacks."""
        self._world.tally["supplies"] += 1
        self.catch_up.supply(replica, request)

    def claim_snapshot(self, replica: Replica, meta: SnapshotMeta) -> None:
        """Point the replica's record at the staged state."""
        replica.record = self.catch_up.claim(replica, meta)

    def install_snapshot(self, replica: Replica) -> None:
        """Give the replica the staged state."""
        self.catch_up.install(replica)
        self._world.tally["snapshots installed"] += 1
        life = self.lives[replica.group]
        state = replica.partition.state
        life.digest = life.rules.ledger.digests[state.index, state.term]

    @property
    def data(self) -> DataStore:
        """Where applied state is stored."""
        return self.disk.data

    def send_frame(self, to: str, frame: CatchUpFrame) -> bool:
        """Have a frame leave beside the messages."""
        kind = type(frame).__name__
        self._world.tally[f"{kind} frames"] += 1
        encoded, node = encode_frame(frame), self._find(to)
        self._network.send(
            self.name,
            to,
            lambda: kind.upper(),
            lambda: node.deliver(frame.group, encoded),
        )
        return True

    def wake(self, replica: Replica) -> None:
        """Let a replica have a turn, in this event or a later one."""
        self._wake(replica)
        self._world.later(0, self._turn_if_alive)

    def _turn_if_alive(self) -> None:
        if self.alive and self._awake:
            self._turn()

    def break_down(self, replica: Replica, reason: str) -> None:
        """Nothing but a rotten disk may break a replica."""
        if not self.rotten:
            raise Violation("no sound replica breaks", node=self.name, reason=reason)
        self.broken[replica.group] = reason
        self._world.tally["broken replicas"] += 1
        replica.stop()
        self.replicas.pop(replica.group, None)
        self.lives.pop(replica.group, None)
        self.catch_up.removed(replica)

    def new_number(self) -> int:
        """A number for cells, never used before."""
        return self.disk.new_number()

    def write_data(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        """Run a job on the data environment."""
        self.disk.write_data(job, done)

    def open_state(self, replica: Replica, opened: Callable[[View | None], None]) -> None:
        """Open what is durable of a replica's state."""

        def open_it() -> None:
            cells = replica.cells
            if replica.stopped:
                opened(None)
            elif isinstance(cells, MemoryCells):
                opened(cells.view(replica.partition))
            else:
                opened(self.disk.data.view(cells.number))

        self._soon(open_it)

    def read_aside(self, read: Callable[[], Result], done: Callable[[Result], None]) -> None:
        """Read after a while."""
        self._soon(lambda: done(read()))

    def _soon(self, work: Callable[[], None]) -> None:
        """Work of this process, unless it dies before."""
        catch_up = self.catch_up

        def run() -> None:
            if self.catch_up is catch_up and self.alive:
                work()
                self._turn_if_alive()

        self._world.later(self._random.randrange(100, 20_000), run)


def _text(message: Message) -> str:
    words = [message.kind.name, f"term {message.term}"]
    if message.entries:
        words.append(f"entries {message.entries[0].index}..{message.entries[-1].index}")
    elif message.index:
        words.append(f"index {message.index}")
    if message.reject:
        words.append("rejected")
    return " ".join(words)
