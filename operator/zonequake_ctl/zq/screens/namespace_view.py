"""The known state of a namespace's zones at one instant, as the operator's own values.

Resources say what is wanted and what was decided; data nodes say what is. The plugin judges both by
the rules of the operator (`zonequake_operator.planning.conditions`): the two never disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from zonequake_kube.errors import UsageError
from zonequake_kube.objects import PodView
from zonequake_operator.groups.reports import Group, by_group, observe
from zonequake_operator.high_availability.decisions import KeysDecision, judge_zone
from zonequake_operator.planning.conditions import Health, diagnose
from zonequake_operator.resources.model import (
    Partition,
    Topology,
    Zone,
    ZoneSnapshot,
    ZoneSpec,
    group_name,
)
from zonequake_operator.resources.parsing import (
    owner_uid,
    parse_partition,
    parse_topology,
    parse_zone,
)
from zonequake_operator.resources.stored_shapes import Object, from_rfc3339
from zonequake_protocol.admin import ReplicasReport, ReplicaStatus

Inspected = Mapping[str, Mapping[str, ReplicaStatus]]

NO_ANSWER = "no answer"
"""Explains why nothing is known of a node that was asked and didn't answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorView:
    """The operator's pods: how many there are, and how many are ready."""

    pods: int = 0
    ready: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceView:
    """A namespace. `reports`: of data nodes that answered. `unheard`: why others didn't.
    `inspected`: what replicas that wait for their start order hold, by node and group."""

    now_ms: int
    namespace: str
    topology: Topology
    zones: tuple[ZoneView, ...]
    pods: Mapping[str, PodView] = field(default_factory=dict)
    reports: Mapping[str, ReplicasReport] = field(default_factory=dict)
    unheard: Mapping[str, str] = field(default_factory=dict)
    inspected: Inspected = field(default_factory=dict)
    operator: OperatorView | None = None

    def nodes(self) -> list[str]:
        """All nodes that are known by name: in the topology, as a pod, or of some zone."""
        names = set(self.topology.nodes) | set(self.pods)
        for each in self.zones:
            names |= each.data_nodes
            for partition in each.partitions.values():
                for assigned in (partition.keys.stable, partition.keys.pending):
                    names |= set(assigned.nodes) if assigned else set()
        return sorted(names)


@dataclass(frozen=True, kw_only=True)
class ZoneView:
    """One zone with its partitions. `since_ms`: when each condition became what it is, by type."""

    zone: Zone
    partitions: Mapping[int, Partition]
    since_ms: Mapping[str, int] = field(default_factory=dict)
    reports: Mapping[str, ReplicasReport] = field(default_factory=dict)

    @property
    def spec(self) -> ZoneSpec | None:
        """None if it can't be read."""
        return self.zone.spec if isinstance(self.zone.spec, ZoneSpec) else None

    @property
    def data_nodes(self) -> frozenset[str]:
        """Nodes that the zone's partitions may be on."""
        state = self.zone.status.data_nodes
        return state.nodes if state is not None else frozenset()

    @cached_property
    def groups(self) -> dict[int, Group]:
        """Each partition's Raft group as its replicas report it."""
        replicas, answered = by_group(self.reports.values()), frozenset(self.reports)
        found: dict[int, Group] = {}
        for number in self.partitions:
            name = group_name(self.zone.name, self.zone.uid, number)
            found[number] = observe(name, replicas.get(name, {}), answered)
        return found

    @cached_property
    def health(self) -> dict[int, Health]:
        """Returns each partition's diagnosis by the operator's rules and the reports just received;
        if no node could be asked, the one that the operator stored last.
        """
        if not self.reports:
            return {
                number: Health(
                    keys=partition.keys,
                    view=partition.view,
                    missing=(),
                    broken={},
                    at_risk=False,
                    lost=False,
                )
                for number, partition in self.partitions.items()
            }
        return {
            number: diagnose(partition.keys, self.groups[number], partition.view)
            for number, partition in self.partitions.items()
        }

    def snapshot(self, view: NamespaceView) -> ZoneSnapshot:
        """Returns the snapshot that the operator's planner would decide on."""
        return ZoneSnapshot(
            now_ms=view.now_ms,
            zone=self.zone,
            partitions=self.partitions,
            topology=view.topology,
            reports=view.reports,
            inspected=view.inspected,
        )

    def decisions(self, view: NamespaceView) -> dict[int, KeysDecision]:
        """Returns high availability's decision on each partition, with the nodes that it waits
        for.
        """
        spec = self.spec
        if spec is None or self.zone.deleting:
            return {}
        snapshot = self.snapshot(view)
        return judge_zone(snapshot, spec, self.zone.status, self.groups)

    def replicas_on(self, node: str) -> list[ReplicaStatus]:
        """Returns the zone's replicas that a node reports."""
        report, prefix = self.reports.get(node), group_name(self.zone.name, self.zone.uid, 0)[:-1]
        return [r for r in report.replicas if r.group.startswith(prefix)] if report else []


def zone_views(
    zones: Iterable[Object], partitions: Iterable[Object], reports: Mapping[str, ReplicasReport]
) -> tuple[ZoneView, ...]:
    """Zones by name, each with those Partitions that it owns. Raises ResourceError."""
    owned: dict[str, list[Partition]] = {}
    for obj in partitions:
        owned.setdefault(owner_uid(obj) or "", []).append(parse_partition(obj))
    found = []
    for obj in sorted(zones, key=lambda obj: str(obj["metadata"]["name"])):
        zone = parse_zone(obj)
        mine = sorted(owned.get(zone.uid, []), key=lambda partition: partition.number)
        conditions = (obj.get("status") or {}).get("conditions") or []
        found.append(
            ZoneView(
                zone=zone,
                partitions={partition.number: partition for partition in mine},
                since_ms={
                    c["type"]: from_rfc3339(c["lastTransitionTime"])
                    for c in conditions
                    if c.get("lastTransitionTime")
                },
                reports=reports,
            )
        )
    return tuple(found)


def topology_of(objects: Iterable[Object]) -> Topology:
    """Returns the namespace's topology, empty if no operator wrote any. Raises ResourceError."""
    for obj in objects:
        return parse_topology(obj)
    return Topology()


def unseen(view: NamespaceView) -> list[tuple[str, str]]:
    """Waiting replicas, by node and group, that a decision of the operator rests on."""
    return [
        (node, zone.groups[number].name)
        for zone in view.zones
        for number, decision in zone.decisions(view).items()
        for node in sorted(decision.inspect)
    ]


def named_zone(view: NamespaceView, name: str) -> ZoneView:
    """Raises UsageError if there is no such zone."""
    for zone in view.zones:
        if zone.zone.name == name:
            return zone
    names = ", ".join(each.zone.name for each in view.zones) or "none (-n names another namespace)"
    raise UsageError(f"namespace {view.namespace} has no zone {name}; there are: {names}")


def narrowed(view: NamespaceView, name: str) -> NamespaceView:
    """Returns the view of one zone alone. Raises UsageError if there is no such zone."""
    return replace(view, zones=(named_zone(view, name),))
