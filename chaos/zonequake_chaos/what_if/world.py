"""The world of a what-if: resources and supposed data nodes, on which the operator's `plan` acts.

    event ─▶ topology, spec or reports ─▶ plan() ─▶ keys, zone status ─┐
                     ▲                      └─────▶ orders ────────────┤ until nothing is left
                     └─────────────────────────────────────────────────┘

The operator counts a zone's creation as its revision 1, the file as 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from zonequake_chaos.errors import HarnessError
from zonequake_chaos.what_if import zone_fields
from zonequake_chaos.what_if.actions import Action, Do, action_of
from zonequake_chaos.what_if.given import log_ends, restore
from zonequake_chaos.what_if.group import SupposedGroup
from zonequake_chaos.what_if.memory import partition_as_stored, zone_as_stored
from zonequake_chaos.what_if.nodes import SupposedNodes
from zonequake_chaos.what_if.question import Attributes, GivenReplica
from zonequake_operator import data_nodes
from zonequake_operator.model import (
    AssignmentSet,
    ConsistencyMode,
    Partition,
    PartitionKeys,
    Snapshot,
    Storage,
    TokenPeers,
    Topology,
    Zone,
    ZoneSpec,
    ZoneStatus,
    group_name,
)
from zonequake_operator.overrides import override
from zonequake_operator.pacing import Pacer
from zonequake_operator.plan import (
    Plan,
    SendOrder,
    WritePartition,
    WriteZone,
    calculated_sets,
    plan,
)
from zonequake_store.admin_protocol import (
    Bootstrap,
    CancelChangePeers,
    ChangePeers,
    Grant,
    InspectReplica,
    Order,
    PeerName,
    ReplicasReport,
    ReplicaStatus,
    ResetPeers,
    StartReplica,
    StopReplica,
)

MAX_ROUNDS = 200
"""A step that takes more of them never ends; those of all tests take less than 20."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write of a partition's keys; both through the operator's own rules."""

    partition: int
    before: PartitionKeys
    after: PartitionKeys


class World:
    """Everything that a decision rests on, and what was done since `forget` was called."""

    def __init__(self, spec: Mapping[str, object], *, auto_apply: bool = False) -> None:
        self.now_ms = 0
        self._plan_wake_ms: int | None = None
        self.nodes = SupposedNodes()
        self.raw_spec = dict(spec)
        self.zone = Zone(
            name="zone",
            namespace="what-if",
            uid="what-if-zone",
            generation=1,
            resource_version="1",
            spec=zone_fields.parsed(spec),
            status=ZoneStatus(),
        )
        self._statuses: dict[int, dict[str, ReplicaStatus]] = {}
        """What the replicas of a group report, until it changes."""
        numbers = range(self.spec.partitions)
        self.partitions = {n: Partition(number=n, resource_version="1") for n in numbers}
        self.groups = {n: self.new_group(n) for n in numbers}
        self.auto_apply = auto_apply
        self.as_given: set[int] = set()
        """Partitions whose keys the file gave and that no event concerned yet: nobody acts."""
        self.instead: dict[int, AssignmentSet] = {}
        """Sets that stand in for the calculated ones."""
        self.actions: list[Action] = []
        self.writes: list[Write] = []
        self._logs: Mapping[int, Mapping[str, GivenReplica]] = {}
        self._numbers = {group.name: n for n, group in self.groups.items()}
        self._started_at = 0
        self._pacer = Pacer()
        self._retries_ms: dict[int, int] = {}
        """When failed changes may be asked for again, by partition."""
        self._inspected: dict[str, dict[str, ReplicaStatus]] = {}
        """What waiting replicas showed of themselves, by node and group."""
        self.reported: int | None = None
        """The partition whose leader reports in the present event, if it is one's report."""
        self._asked: dict[tuple[int, str], Order] = {}
        """Orders that wait for their event: what they asked for hasn't happened yet."""

    @property
    def spec(self) -> ZoneSpec:
        """The zone's spec; what-if files with an unreadable one are refused."""
        assert isinstance(self.zone.spec, ZoneSpec)
        return self.zone.spec

    @property
    def revision(self) -> int:
        """The zone's revision as the file counts it."""
        return self.zone.status.revision - 1

    @revision.setter
    def revision(self, value: int) -> None:
        self.zone = replace(self.zone, status=replace(self.zone.status, revision=value + 1))

    @property
    def handled(self) -> int:
        """The revision that every partition has been evaluated at, 0 until the first event."""
        handled = self.zone.status.handled_revision - 1
        return handled if handled > self._started_at else 0

    def start_at(self, revision: int) -> None:
        """The file's keys are those of this revision: none of them is due."""
        self._started_at = revision
        status = replace(self.zone.status, revision=revision + 1, handled_revision=revision + 1)
        self.zone = replace(self.zone, status=status)

    @property
    def wake_at_ms(self) -> int | None:
        """When the next timer ends, or the next retry is due."""
        timers = [] if self._plan_wake_ms is None else [self._plan_wake_ms]
        return min([*timers, *self._retries_ms.values()], default=None)

    def finish(self) -> None:
        """All partitions were evaluated at the present revision."""
        status = replace(self.zone.status, handled_revision=self.zone.status.revision)
        self.zone = replace(self.zone, status=status)

    def forget(self) -> None:
        """What was done has been told."""
        self.actions, self.writes = [], []

    def group(self, number: int) -> SupposedGroup:
        """A partition's group, to be changed: it will be heard anew."""
        self._statuses.pop(number, None)
        return self.groups[number]

    def new_group(self, number: int) -> SupposedGroup:
        """A group without replicas."""
        self._statuses.pop(number, None)
        name = group_name(self.zone.name, self.zone.uid, number)
        return SupposedGroup(name=name, zone=self.zone.name, partition=number)

    def keys(self, number: int) -> PartitionKeys:
        """A partition's keys."""
        return self.partitions[number].keys

    def give(self, number: int, keys: PartitionKeys, group: SupposedGroup) -> None:
        """Keys that the file gives, and the group that has come there."""
        if self.spec.storage is Storage.PERSISTENT:
            restore(group, keys.chain, present=self.topology.nodes)
        self.groups[number] = group
        self.partitions[number] = replace(self.partitions[number], keys=keys)
        self._see_logs(number)

    def set_logs(self, logs: Mapping[int, Mapping[str, GivenReplica]]) -> None:
        """Where the logs end, as the file says it."""
        self._logs = logs
        for number in logs:
            self._see_logs(number)

    def _see_logs(self, number: int) -> None:
        if number in self._logs:
            self.group(number).ends = log_ends(self._logs[number], self.keys(number).chain)

    # ------------------------------------------------------------------------------------- nodes

    @property
    def topology(self) -> Topology:
        """The logical topology."""
        return self.nodes.topology

    def change_topology(self, join: Mapping[str, Attributes], leave: tuple[str, ...]) -> None:
        """One topology version. A node that joins while it is there has restarted."""
        for name in self.nodes.change(join, leave):
            self._end_process(name)
        if self.spec.storage is Storage.VOLATILE:
            self._come_back_empty(join)

    def _come_back_empty(self, names: Iterable[str]) -> None:
        """Volatile members that the keys or a report counted while they were away."""
        for number, group in self.groups.items():
            for name in group.replicas.keys() & set(names):
                del self.group(number).replicas[name]

    def _end_process(self, name: str) -> None:
        for number, group in self.groups.items():
            if name in group.replicas:
                self._stop_replica(number, name)

    def _stop_replica(self, number: int, name: str) -> None:
        group = self.group(number)
        group.stop(name, keeps_state=self.spec.storage is Storage.PERSISTENT)
        self._asked.pop((number, name), None)
        self._inspected.get(name, {}).pop(group.name, None)

    def lose_replica(self, number: int, name: str) -> None:
        """The replica restarts without its state, under another incarnation."""
        self.group(number).stop(name, keeps_state=False)
        self._asked.pop((number, name), None)
        self.nodes.restart(name, wiped=self.spec.storage is Storage.PERSISTENT)

    def restart_group(self, number: int, started: tuple[str, ...]) -> None:
        """Every replica was stopped; those of `started` wait on their nodes, which are there.

        A node with a replica that isn't among them has ended, and isn't there. No topology version
        tells either: this is what nodes report, not what a zone's timers wait for.
        """
        group = self.groups[number]
        if self.spec.storage is Storage.PERSISTENT:
            restore(group, self.keys(number).chain)
        stopped = frozenset(group.replicas)
        for name in stopped:
            self._stop_replica(number, name)
        for name in stopped.difference(started):
            self._end_process(name)
        self.nodes.set_present(started, stopped.difference(started))
        self._drop_from_timers()

    def _drop_from_timers(self) -> None:
        """Nodes that are back leave the down set, those that are gone the up set, without an event:
        a report raises no revision."""
        status = self.zone.status
        if status.data_nodes is None:
            return
        advanced = data_nodes.advance(
            status.data_nodes,
            timers=self.spec.timers,
            filter_text=status.data_nodes.filter,
            matches=lambda name, attributes: True,  # asked only when a timer fires
            topology=self.topology,
            now_ms=self.now_ms,
        )
        self.zone = replace(self.zone, status=replace(status, data_nodes=advanced))

    def restart_operator(self) -> None:
        """It remembers nothing but the resources, and sends its orders again."""
        self._asked.clear()
        self._inspected.clear()
        self._pacer = Pacer()
        self._retries_ms.clear()
        self.zone = zone_as_stored(self.zone, self.raw_spec, self.now_ms)
        self.partitions = {
            n: partition_as_stored(self.zone, partition) for n, partition in self.partitions.items()
        }

    def alter(self, changes: Mapping[str, object]) -> None:
        """ALTER ZONE."""
        self.raw_spec = override(self.raw_spec, changes)
        self.zone = replace(
            self.zone,
            generation=self.zone.generation + 1,
            spec=zone_fields.parsed(self.raw_spec),
        )
        self.instead.clear()

    def drop(self) -> None:
        """DROP ZONE: all that can be reached is erased, and nothing remains."""
        for number, group in self.groups.items():
            for node in sorted(group.replicas):
                if node in self.topology.nodes:
                    action = Action(partition=number, node=node, do=Do.ERASE_REPLICA)
                    self.actions.append(action)
        self.partitions, self.groups = {}, {}
        self.zone = replace(
            self.zone, status=replace(self.zone.status, data_nodes=None, reset=None, reset_due=None)
        )
        self._plan_wake_ms = None
        self._retries_ms.clear()

    def answer_cancel(self, number: int, *, accepted: bool) -> None:
        """The leader's answer to cancelChangePeers: "If it returns false - do nothing"."""
        if accepted:
            self.group(number).cancel(self.keys(number).configuration_token)
            self._ask_cancel_again(number)

    def _ask_cancel_again(self, number: int) -> None:
        self._asked = {
            (n, node): order
            for (n, node), order in self._asked.items()
            if n != number or not isinstance(order, CancelChangePeers)
        }

    def _apply_running(self, numbers: Iterable[int]) -> None:
        """Let every change that runs succeed (autoApply), if its peers' majority is there."""
        for number in numbers:
            if number not in self.as_given and self.groups[number].can_finish():
                self.group(number).apply_change()

    # ---------------------------------------------------------------------------------- decisions

    def accept(self) -> None:
        """Let the operator accept what is new: topology, spec, timers."""
        # A due reset ends when all partitions are judged; otherwise none has a say in this.
        decided = self._decide(self.partitions.keys() if self._may_reset else ())
        for action in decided.actions:
            if isinstance(action, WriteZone):
                self._write_zone(action)

    def settle(self, numbers: Collection[int] | None = None) -> None:
        """Decide, write and tell until nothing is left to be done, for these partitions or all.

        A partition is decided by what is known of itself, so that after the first round only those
        are looked at again for which something was done; but not while a reset may be due.
        """
        everything = self.partitions.keys()
        chosen: Collection[int] = everything if numbers is None else numbers
        for _ in range(MAX_ROUNDS):
            if self._may_reset:
                chosen = everything
            if self.auto_apply:
                self._apply_running(chosen)
            decided = self._decide(chosen)
            written = self._write(decided)
            done = written | self._tell(decided, frozenset(chosen) - written)
            if not done:
                return
            chosen = done
        raise HarnessError(
            f"the operator's rules never come to an end at {self.now_ms / 1000:g} s: the last "
            f"decision was still {[a for a in decided.actions if not isinstance(a, WriteZone)]}"
        )

    @property
    def _may_reset(self) -> bool:
        return self.spec.consistency_mode is ConsistencyMode.HIGH_AVAILABILITY

    def _decide(self, numbers: Collection[int]) -> Plan:
        chosen = self.partitions
        if len(numbers) < len(chosen):
            chosen = {n: self.partitions[n] for n in sorted(numbers)}
        decided = plan(
            Snapshot(
                now_ms=self.now_ms,
                zone=self.zone,
                partitions=chosen,
                topology=self.topology,
                reports=self._reports(chosen),
                inspected=self._inspected,
            ),
            calculate=self._calculate,
        )
        self._plan_wake_ms = decided.wake_at_ms
        return decided

    def _calculate(
        self, nodes: tuple[str, ...], partitions: int, replicas: int
    ) -> list[AssignmentSet | None]:
        sets = calculated_sets(nodes, partitions, replicas)
        if not self.instead:
            return sets
        return [self.instead.get(n, found) for n, found in enumerate(sets)]

    def _reports(self, numbers: Iterable[int]) -> dict[str, ReplicasReport]:
        found: dict[str, list[ReplicaStatus]] = {name: [] for name in self.topology.nodes}
        for number in numbers:
            group = self.groups[number]
            statuses = self._statuses.get(number)
            if statuses is None:
                unheard = number != self.reported and not self.auto_apply
                if unheard and is_back_at_stable(self.keys(number)):
                    group.suppose_busy()
                statuses = {node: group.status(node) for node in group.replicas}
                self._statuses[number] = statuses
            for name, status in statuses.items():
                if name in group.vouched:
                    found.setdefault(name, [])
                if name in found:
                    found[name].append(status)
        return {
            name: ReplicasReport(node=self.nodes.identity(name), replicas=replicas)
            for name, replicas in found.items()
        }

    def _write(self, decided: Plan) -> set[int]:
        """Store what was decided; says whose keys changed, or all if the zone's status did."""
        done: set[int] = set()
        for action in decided.actions:
            if isinstance(action, WriteZone):
                if self._write_zone(action):
                    done.update(self.partitions)
            elif isinstance(action, WritePartition) and self._write_partition(action):
                done.add(action.number)
        return done

    def _write_zone(self, action: WriteZone) -> bool:
        before, after = self.zone.status, action.status
        self.zone = replace(self.zone, status=after)
        if _nodes_of(before) != _nodes_of(after):
            self.instead.clear()
        return replace(after, handled_revision=0) != replace(before, handled_revision=0)

    def _write_partition(self, action: WritePartition) -> bool:
        stored = self.partitions[action.number]
        if action.number in self.as_given:
            return False
        self.partitions[action.number] = replace(stored, keys=action.keys, view=action.view)
        if action.keys == stored.keys:
            return False
        self.writes.append(Write(partition=action.number, before=stored.keys, after=action.keys))
        if is_back_at_stable(action.keys):
            self._statuses.pop(action.number, None)
        if action.keys.planned != stored.keys.planned:
            # "Listen the planned key and on update: execute cancelChangePeers()" (`rebalance`)
            self._ask_cancel_again(action.number)
        if action.keys.chain != stored.keys.chain:
            self._see_logs(action.number)
        return not self._bootstrap_at_once(action.number)

    def _bootstrap_at_once(self, number: int) -> bool:
        """A new partition whose first members are all there has its group at once.

        The operator's own way there takes three rounds, and a fourth in which it finds nothing left
        to be done.
        """
        keys, group = self.keys(number), self.groups[number]
        if keys.bootstrap is not None or keys.stable is None or keys.bootstrap_lineage:
            return False
        if group.replicas or not self.topology.nodes.keys() >= set(keys.stable.nodes):
            return False
        token, group = keys.configuration_token, self.group(number)
        peers = []
        for node in keys.stable.nodes:
            replica = group.new_replica(node, running=True)
            peers.append(PeerName(node, replica.incarnation))
            self.actions.append(Action(partition=number, node=node, do=Do.START_REPLICA))
        group.install(peers, token=token)
        bootstrapped = replace(keys, bootstrap=TokenPeers(token=token, peers=tuple(peers)))
        self.partitions[number] = replace(self.partitions[number], keys=bootstrapped)
        return True

    def _tell(self, decided: Plan, numbers: Collection[int]) -> set[int]:
        """Send the orders of these partitions; says for which of them one had an effect.

        Not of those whose keys were written just now: orders rest on stored keys.
        """
        done: set[int] = set()
        wanted: set[tuple[int, str]] = set()
        for number in numbers:
            self._retries_ms.pop(number, None)
        for send in decided.actions:
            if isinstance(send, SendOrder):
                number = self._numbers[send.order.group]
                if number in self.as_given or number not in numbers:
                    continue
                if send.node not in self.topology.nodes and send.node != self.groups[number].leader:
                    continue  # only a report speaks of it
                wanted.add((number, send.node))
                if self._is_due(send) and self._obey(number, send.node, send.order):
                    done.add(number)
        self._asked = {
            (number, node): order
            for (number, node), order in self._asked.items()
            if number not in numbers or (number, node) in wanted
        }
        return done

    def _is_due(self, send: SendOrder) -> bool:
        """A change that failed is asked for again ever more slowly (`rebalance`, Failover)."""
        if not isinstance(send.order, ChangePeers) or self._pacer.due([send], self.now_ms / 1000):
            return True
        at_ms = int(self._pacer.change_due_s(send.order) * 1000) + 1
        self._retries_ms[self._numbers[send.order.group]] = at_ms
        return False

    def _obey(self, number: int, node: str, order: Order) -> bool:
        """Carry an order out; says whether that changed what nodes report."""
        if self._asked.get((number, node)) == order:
            return False
        group = self.group(number)
        action = action_of(number, node, order)
        match order:
            case StartReplica():
                before = group.heard(node)
                if not group.start(node, order):
                    return before != group.heard(node)
            case InspectReplica():
                self._inspected.setdefault(node, {})[group.name] = group.status(
                    node, inspected=True
                )
            case Bootstrap():
                group.bootstrap(node, order)
            case StopReplica(erase=True):
                group.erase(node)
            case StopReplica():
                group.stop(node, keeps_state=True)
            case Grant():
                group.go_joint()
            case ChangePeers():
                group.change_peers(order)
            case ResetPeers() if self.auto_apply:
                group.apply_reset(node, order)
            case CancelChangePeers() if self.auto_apply:
                group.cancel(order.token)  # no change runs that couldn't be cancelled
            case ResetPeers() | CancelChangePeers():
                self._asked[number, node] = order
            case _:
                return False
        if action is not None:
            self.actions.append(action)
        return (number, node) not in self._asked


def is_back_at_stable(keys: PartitionKeys) -> bool:
    """Is pending stable again? Only a report of the leader ends that, and reports are events."""
    pending, stable = keys.pending, keys.stable
    return (
        pending is not None
        and stable is not None
        and not pending.force
        and pending.nodes == stable.nodes
    )


def _nodes_of(status: ZoneStatus) -> frozenset[str]:
    return status.data_nodes.nodes if status.data_nodes else frozenset()
