"""The world of a what-if: resources and supposed data nodes, and what events change about them.

What the operator does about it is `rounds`. The operator counts a zone's creation as its revision
1, the file as 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from zonequake_ctl.what_if.actions import Action, ActionKind
from zonequake_ctl.what_if.given import log_ends, restore
from zonequake_ctl.what_if.group import SupposedGroup
from zonequake_ctl.what_if.group_status import status_of
from zonequake_ctl.what_if.memory import partition_as_stored, zone_as_stored
from zonequake_ctl.what_if.nodes import SupposedNodes
from zonequake_ctl.what_if.reading import zone_fields
from zonequake_ctl.what_if.reading.question import Attributes, GivenReplica
from zonequake_operator.nodes import data_nodes
from zonequake_operator.resources.model import (
    AssignmentSet,
    Partition,
    PartitionKeys,
    PartitionStatus,
    ResetRequest,
    StorageKind,
    Topology,
    Zone,
    ZoneSpec,
    ZoneStatus,
    group_name,
)
from zonequake_operator.resources.overrides import override
from zonequake_protocol.admin import (
    CancelChangePeers,
    Order,
    ReplicasReport,
    ReplicaStatus,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysWrite:
    """One write of a partition's keys; both through the operator's own rules."""

    partition: int
    before: PartitionKeys
    after: PartitionKeys


class WhatIfWorld:
    """Everything that a decision rests on, and what was done since `forget` was called."""

    def __init__(self, spec: Mapping[str, object], *, auto_apply: bool = False) -> None:
        self.now_ms = 0
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
        """The reports of a group's replicas, cached until the group changes."""
        numbers = range(self.spec.partitions)
        self.partitions = {n: Partition(number=n, resource_version="1") for n in numbers}
        self.groups = {n: self.new_group(n) for n in numbers}
        self.auto_apply = auto_apply
        self.as_given: set[int] = set()
        """Partitions with keys from the file that no event has concerned yet; nothing acts on them.
        """
        self.instead: dict[int, AssignmentSet | None] = {}
        """Sets that stand in for the calculated ones; None: an empty one."""
        self.actions: list[Action] = []
        self.writes: list[KeysWrite] = []
        self._logs: Mapping[int, Mapping[str, GivenReplica]] = {}
        self._started_at = 0
        self.inspected: dict[str, dict[str, ReplicaStatus]] = {}
        """The inspected state of waiting replicas, by node and group."""
        self.reported: int | None = None
        """The partition whose leader reports in the present event; None if the event is no report.
        """
        self.asked: dict[tuple[int, str], Order] = {}
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
        """Starts with the file's keys as those of this revision: none of them is due."""
        self._started_at = revision
        status = replace(self.zone.status, revision=revision + 1, handled_revision=revision + 1)
        self.zone = replace(self.zone, status=status)

    def finish(self) -> None:
        """All partitions were evaluated at the present revision."""
        status = replace(self.zone.status, handled_revision=self.zone.status.revision)
        self.zone = replace(self.zone, status=status)

    def forget(self) -> None:
        """Clears the recorded actions and writes, which have been printed."""
        self.actions, self.writes = [], []

    def group(self, number: int) -> SupposedGroup:
        """Returns a partition's group for a change; drops its cached reports."""
        self._statuses.pop(number, None)
        return self.groups[number]

    def new_group(self, number: int) -> SupposedGroup:
        """Makes a group without replicas."""
        self._statuses.pop(number, None)
        name = group_name(self.zone.name, self.zone.uid, number)
        return SupposedGroup(name=name, zone=self.zone.name, partition=number)

    def keys(self, number: int) -> PartitionKeys:
        """Returns a partition's keys."""
        return self.partitions[number].keys

    def give(self, number: int, keys: PartitionKeys, group: SupposedGroup) -> None:
        """Keys that the file gives, and the group that has come there."""
        if self.spec.storage is StorageKind.PERSISTENT:
            restore(group, keys.chain, present=self.topology.nodes)
        self.groups[number] = group
        self.partitions[number] = replace(self.partitions[number], keys=keys)
        self._see_logs(number)

    def set_logs(self, logs: Mapping[int, Mapping[str, GivenReplica]]) -> None:
        """Sets the ends of the logs to those of the file."""
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
        if self.spec.storage is StorageKind.VOLATILE:
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
        group.stop(name, keeps_state=self.spec.storage is StorageKind.PERSISTENT)
        self.asked.pop((number, name), None)
        self.inspected.get(name, {}).pop(group.name, None)

    def lose_replica(self, number: int, name: str) -> None:
        """Restarts the replica without its state, under another incarnation."""
        self.group(number).stop(name, keeps_state=False)
        self.asked.pop((number, name), None)
        self.nodes.restart(name, wiped=self.spec.storage is StorageKind.PERSISTENT)

    def restart_group(self, number: int, started: tuple[str, ...]) -> None:
        """Every replica was stopped; those of `started` wait on their nodes, which are there.

        A node with a replica that isn't among them has ended, and isn't there. No topology version
        tells either: this is what nodes report, not what a zone's timers wait for.
        """
        group = self.groups[number]
        if self.spec.storage is StorageKind.PERSISTENT:
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

    def ask_for_reset(self, number: int, request: ResetRequest) -> None:
        """Adds a request by hand to those for other partitions."""
        requests = {**self.zone.reset_requests, number: request}
        self.zone = replace(self.zone, reset_requests=requests)

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
                    action = Action(partition=number, node=node, do=ActionKind.ERASE_REPLICA)
                    self.actions.append(action)
        self.partitions, self.groups = {}, {}
        self.zone = replace(
            self.zone, status=replace(self.zone.status, data_nodes=None, reset=None, reset_due=None)
        )

    def forget_unstored(self) -> None:
        """Records that the operator's process ends: only the resources remain."""
        self.asked.clear()
        self.inspected.clear()
        self.zone = zone_as_stored(self.zone, self.raw_spec, self.now_ms)
        self.partitions = {
            n: partition_as_stored(self.zone, partition) for n, partition in self.partitions.items()
        }

    # --------------------------------------------------------------------------------------- keys

    def store(self, number: int, keys: PartitionKeys, view: PartitionStatus) -> bool:
        """Store a partition's status; says whether its keys have changed."""
        stored = self.partitions[number]
        if number in self.as_given:
            return False
        self.partitions[number] = replace(stored, keys=keys, view=view)
        if keys == stored.keys:
            return False
        self.writes.append(KeysWrite(partition=number, before=stored.keys, after=keys))
        if is_back_at_stable(keys):
            self._statuses.pop(number, None)
        if keys.planned != stored.keys.planned:
            # "Listen the planned key and on update: execute cancelChangePeers()" (`rebalance`)
            self.ask_cancel_again(number)
        if keys.chain != stored.keys.chain:
            self._see_logs(number)
        return True

    def store_zone(self, status: ZoneStatus) -> bool:
        """Store the zone's status; says whether partitions have to be looked at again for it.

        Not so if it only says that all were handled, or that a reset isn't due any more.
        """
        before = self.zone.status
        self.zone = replace(self.zone, status=status)
        if _nodes_of(before) != _nodes_of(status):
            self.instead.clear()
        same = replace(status, handled_revision=before.handled_revision, reset_due=before.reset_due)
        return same != before

    # ------------------------------------------------------------------------------------ reports

    def reports(self, numbers: Iterable[int]) -> dict[str, ReplicasReport]:
        """Returns the reports of all nodes on these partitions, by node."""
        found: dict[str, list[ReplicaStatus]] = {name: [] for name in self.topology.nodes}
        for number in numbers:
            group = self.groups[number]
            statuses = self._statuses.get(number)
            if statuses is None:
                unheard = number != self.reported and not self.auto_apply
                if unheard and is_back_at_stable(self.keys(number)):
                    group.suppose_busy(has_next=self.keys(number).planned is not None)
                statuses = {node: status_of(group, node) for node in group.replicas}
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

    def answer_cancel(self, number: int, *, accepted: bool) -> None:
        """Applies the leader's answer to cancelChangePeers: "If it returns false - do nothing"."""
        if accepted:
            self.group(number).cancel(self.keys(number).configuration_token)
            self.ask_cancel_again(number)

    def ask_cancel_again(self, number: int) -> None:
        """Records that no cancelChangePeers of this partition waits for its answer any more."""
        self.asked = {
            (n, node): order
            for (n, node), order in self.asked.items()
            if n != number or not isinstance(order, CancelChangePeers)
        }


def is_back_at_stable(keys: PartitionKeys) -> bool:
    """Returns whether pending is stable again. Only a report of the leader ends that, and reports
    are events.
    """
    pending, stable = keys.pending, keys.stable
    return (
        pending is not None
        and stable is not None
        and not pending.force
        and pending.nodes == stable.nodes
    )


def _nodes_of(status: ZoneStatus) -> frozenset[str]:
    return status.data_nodes.nodes if status.data_nodes else frozenset()
