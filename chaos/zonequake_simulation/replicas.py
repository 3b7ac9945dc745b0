"""The replicas of one node: begun, recovered from its disk, found broken, erased."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

import msgspec

from zonequake_simulation.checks.group import GroupRules, JudgedLife
from zonequake_simulation.checks.watch import WatchedRaft
from zonequake_simulation.disk import Disk
from zonequake_simulation.scenario import FaultKind, Scenario
from zonequake_simulation.trace import TraceKind
from zonequake_simulation.violation import Violation
from zonequake_simulation.world import World
from zonequake_store.errors import LogCorrupt
from zonequake_store.lease.rules.node_lease import Permission
from zonequake_store.raft.core import Raft
from zonequake_store.raft.errors import LogCorrupted
from zonequake_store.raft.messages import Configuration, Peer
from zonequake_store.replica.log import MemoryLog
from zonequake_store.replica.planted_faults import PlantedFaults
from zonequake_store.replica.recovery import RecoveredReplica, from_disk, with_nothing
from zonequake_store.replica.replica import Replica
from zonequake_store.storage.cells import Overlay
from zonequake_store.storage.log_writes import Erase, GroupRecord, PutRecord

ZONE = "z"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlace:
    """A group by name, and its partition among the zone's."""

    name: str
    partition: int
    partitions: int


class Replicas:
    """The replicas of one node: the running ones, and the contents of its disk for the others."""

    def __init__(
        self,
        name: str,
        *,
        world: World,
        scenario: Scenario,
        rules: Mapping[str, GroupRules],
        disk: Disk,
        random: Random,
        clock_ms: Callable[[], int],
    ) -> None:
        self.running: dict[str, Replica] = {}
        self.lives: dict[str, JudgedLife] = {}
        """The lives of running replicas, by group."""
        self.broken: dict[str, tuple[GroupRecord, str]] = {}
        """Replicas that no longer run, and the reason."""
        self.damage: FaultKind | None = None
        """The damage to the log while no process ran."""
        self._name = name
        self._world = world
        self._scenario = scenario
        self._rules = rules
        self._disk = disk
        self._random = random
        self._clock_ms = clock_ms
        self._known: dict[str, JudgedLife] = {}
        """As `lives`, but also after the process has ended."""
        self.waiting: dict[str, GroupRecord] = {}
        """Replicas on the disk that were not started in this process."""

    def process_began(self) -> None:
        """Lets all replicas on the disk wait for permission to start, because the disk is open
        now.
        """
        for group, record in self._disk.storage.records.items():
            if self._disk.storage.distrusted(record) is None:
                self.waiting[group] = record
            else:  # no `reason` of the store: it names the folder, which differs in each run
                self._found_broken(group, record, "what is stored is not to be trusted")
        for group, staging in self._disk.storage.stagings.items():
            view = self._disk.data.view(staging.number)
            self._rules[group].catch_up.recovered(staging, sum(1 for _ in view.pairs()))
            view.close()

    def process_ended(self) -> None:
        """Forgets all replicas of the ended process."""
        self.running.clear()
        self.lives.clear()
        self.broken.clear()
        self.waiting.clear()

    def begin(
        self, place: GroupPlace, *, token: int, permission: Permission | None = None
    ) -> Replica | None:
        """Recovers the stored state of a replica that does not run, or starts over. None: it is
        broken.
        """
        if place.name in self.broken:
            return None
        record = self.waiting.pop(place.name, None)
        if self._scenario.is_volatile:
            record = self._new_record(place, token, number=0, data_number=0)
            return self._started(place, record, with_nothing(), permission)
        if record is None:
            new = self._disk.storage.new_number
            record = self._new_record(place, token, number=new(), data_number=new())
        else:
            record = msgspec.structs.replace(record, token=token)
        self._disk.log.write([PutRecord(place.name, record)])
        try:
            recovered = from_disk(self._disk.log, self._disk.data, record)
            return self._started(place, record, recovered, permission)
        except (LogCorrupt, LogCorrupted) as error:
            self._found_broken(place.name, record, str(error))
            return None

    def break_down(self, replica: Replica, reason: str) -> None:
        """Stops a replica for good."""
        self._found_broken(replica.group, replica.record, reason)
        replica.stop()
        self.running.pop(replica.group, None)
        self.lives.pop(replica.group, None)

    def _found_broken(self, group: str, record: GroupRecord, reason: str) -> None:
        """Checks that only damage to the disk, or its failure, breaks a replica."""
        if self.damage is not None:
            self._world.bites(self.damage)
        elif not self._disk.is_distrusted:
            raise Violation("no sound replica breaks", node=self._name, reason=reason)
        self.broken[group] = record, reason
        self._known.pop(group, None)
        self._world.tally["broken replicas"] += 1
        self._world.note(TraceKind.FAULT, self._name, f"{group} is broken: {reason}")

    def erase(self, group: str) -> None:
        """Carries out an order to erase, once the replica has stopped if it ran."""
        replica = self.running.pop(group, None)
        self.lives.pop(group, None)
        self._known.pop(group, None)
        self.broken.pop(group, None)
        self.waiting.pop(group, None)
        record = replica.record if replica else self._disk.log.records().get(group)
        if record is not None and not self._scenario.is_volatile:
            self._disk.log.write([Erase(group, record.number)])
            self._disk.data.erase(record.data_number)
            left = self._disk.log.records()
            self._disk.storage.erased(left.values())
            if replica is not None and isinstance(replica.cells, Overlay):
                self._disk.data.erase(replica.cells.number)  # while a snapshot is installed

    def known(self, group: str) -> JudgedLife | None:
        """Returns the newest life of the replica whose state this node still has."""
        return self._known.get(group)

    def present(self, group: str) -> Peer | None:
        """Returns the replica whose state this node still has, perhaps on its disk alone."""
        life, disk = self._known.get(group), self._disk
        if life is None or disk.has_failed or disk.trouble is FaultKind.FAILED_SYNC:
            return None
        if group not in self.lives and (self._scenario.is_volatile or disk.is_distrusted):
            return None
        return life.peer

    def configurations(self, group: str) -> list[Configuration]:
        """Returns the last two configurations that this node's replica may use."""
        life = self._known.get(group)
        return [known for _, known in life.core.log._configurations[-2:]] if life else []

    def forget(self) -> None:
        """Forgets the contents of the disk, which are not used any more."""
        self._known.clear()

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

    def look(self, group: str) -> Replica | None:
        """Returns a replica made from the disk to be looked at. Raises LogCorrupt."""
        record = self.waiting.get(group)
        if record is None:
            return None
        recovered = from_disk(self._disk.log, self._disk.data, record)
        me = Peer(self._name, record.incarnation)
        raft = Raft(
            me=me,
            settings=self._scenario.settings,
            log=recovered.log,
            hard_state=recovered.hard_state,
            random=lambda _: 0,
            applied=recovered.state.index,
        )
        return self._replica(group, record, me, raft, recovered)

    def _started(
        self,
        place: GroupPlace,
        record: GroupRecord,
        recovered: RecoveredReplica,
        permission: Permission | None,
    ) -> Replica:
        me = Peer(self._name, record.incarnation)
        raft = WatchedRaft(
            me=me,
            settings=self._scenario.settings,
            log=recovered.log,
            hard_state=recovered.hard_state,
            random=self._random.randrange,
            applied=recovered.state.index,
        )
        raft.is_volatile = isinstance(recovered.log, MemoryLog)
        rules = self._rules[place.name]
        life = JudgedLife(rules, raft)
        self.lives[place.name] = self._known[place.name] = life
        raft.observer = life
        life.began(is_volatile=raft.is_volatile)
        self.running[place.name] = replica = self._replica(place.name, record, me, raft, recovered)
        replica.permission = permission
        rules.state.holds(replica)
        return replica

    def _replica(
        self, group: str, record: GroupRecord, me: Peer, raft: Raft, recovered: RecoveredReplica
    ) -> Replica:
        return Replica(
            group=group,
            record=record,
            me=me,
            raft=raft,
            log=recovered.log,
            cells=recovered.cells,
            partition=recovered.partition(),
            faults=PlantedFaults(),
            client_address=lambda node: node,
            clock_ms=self._clock_ms,
        )
