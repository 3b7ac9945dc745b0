"""The known state of the cluster at one instant, as plain values.

`zonequake_chaos.observe.observer` fills it in from the data nodes' own reports and the Partition
resources; triggers, targets and waits are functions over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zonequake_kube.objects import KeysView, PodView
from zonequake_protocol.admin import ReplicaRole, ReplicasReport, ReplicaStatus, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPorts:
    """TCP ports of one kind of system under test: where members and clients reach a member."""

    peers: int
    clients: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A data node: its pod, and its process's last report (`report` None: it doesn't answer)."""

    pod: PodView
    report: ReplicasReport | None = None

    @property
    def name(self) -> str:
        return self.pod.name

    @property
    def answers(self) -> bool:
        return self.report is not None

    @property
    def process_incarnation(self) -> str | None:
        return self.report.node.process_incarnation if self.report is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition, as its leader with the highest term reports it.

    `progress` is the catching-up peers' fraction by node name; `members` the voters' nodes, both
    halves while joint; `replicas` all replicas that answer, by node.
    """

    zone: str
    partition: int
    leader: str | None
    term: int
    token: int
    stage: Stage
    stage_token: int
    progress: Mapping[str, float]
    caught_up: bool
    members: tuple[str, ...]
    replicas: Mapping[str, ReplicaStatus]
    keys: KeysView | None

    @property
    def slowest_progress(self) -> float:
        """The progress of the slowest catching-up peer; 1 if there is none."""
        return min(self.progress.values(), default=1.0)

    @property
    def settled(self) -> bool:
        """Whether a leader serves the stable set, and no replica must move (document `rebalance`).

        Each member must take part: one that restarted without its data stays in `stable` until the
        operator has seen it, and a second loss then would cost the majority.
        """
        if self.leader is None or self.stage is not Stage.NONE or self.keys is None:
            return False
        return all(self._takes_part(node) for node in self.keys.stable) and (
            not self.keys.pending
            and not self.keys.planned
            and not self.keys.switch_reduce
            and set(self.keys.stable) == set(self.members)
        )

    def _takes_part(self, node: str) -> bool:
        replica = self.replicas.get(node)
        return replica is not None and replica.role not in (ReplicaRole.WAITING, ReplicaRole.BROKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """Everything at the instant `at_ns` (monotonic); `began_ns` is when the faults phase began."""

    at_ns: int
    began_ns: int
    nodes: Mapping[str, NodeView]
    partitions: Mapping[tuple[str, int], PartitionView]

    def node(self, name: str) -> NodeView | None:
        return self.nodes.get(name)

    def of_zone(self, zone: str) -> list[PartitionView]:
        """Returns the zone's partitions by number."""
        return [view for _, view in sorted(self.partitions.items()) if view.zone == zone]


def assemble(
    *, at_ns: int, began_ns: int, nodes: Iterable[NodeView], keys: Iterable[KeysView]
) -> ClusterView:
    """Builds one view from the nodes' reports and the resources.

    A node that was absent when a zone was dropped may still hold a replica of it, even beside one
    of a new zone of the same name: such a replica belongs to no partition.
    """
    by_name = {node.name: node for node in nodes}
    by_partition = {(entry.zone, entry.partition): entry for entry in keys}
    replicas: dict[tuple[str, int], dict[str, ReplicaStatus]] = {key: {} for key in by_partition}
    for node in by_name.values():
        if node.report is not None:
            for replica in node.report.replicas:
                place = (replica.zone, replica.partition)
                if not _is_dropped(replica, by_partition.get(place)):
                    replicas.setdefault(place, {})[node.name] = replica
    return ClusterView(
        at_ns=at_ns,
        began_ns=began_ns,
        nodes=by_name,
        partitions={
            place: _partition(place, held, by_partition.get(place))
            for place, held in replicas.items()
        },
    )


def _is_dropped(replica: ReplicaStatus, keys: KeysView | None) -> bool:
    if keys is None:
        return replica.role is ReplicaRole.WAITING  # no assignment wants it to start
    return bool(keys.group) and replica.group != keys.group


def _partition(
    place: tuple[str, int], replicas: dict[str, ReplicaStatus], keys: KeysView | None
) -> PartitionView:
    leaders = [(r.term, node) for node, r in replicas.items() if r.role is ReplicaRole.LEADER]
    term, leader = max(leaders, default=(max((r.term for r in replicas.values()), default=0), None))
    status = replicas[leader] if leader is not None else None
    configuration = status.configuration if status is not None else None
    members = (
        {peer.node for peer in (*configuration.peers, *configuration.old_peers)}
        if configuration is not None
        else set()
    )
    return PartitionView(
        zone=place[0],
        partition=place[1],
        leader=leader,
        term=term,
        token=configuration.token if configuration is not None else 0,
        stage=status.stage if status is not None else Stage.NONE,
        stage_token=status.stage_token if status is not None else 0,
        progress={p.peer.node: p.fraction for p in status.progress} if status is not None else {},
        caught_up=status.caught_up if status is not None else False,
        members=tuple(sorted(members)),
        replicas=replicas,
        keys=keys,
    )
