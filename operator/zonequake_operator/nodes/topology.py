"""The members of the logical topology (design §3, Membership).

A node joins as soon as its store has identified itself. It has left when

- its container status says terminated, or shows a later start than the process we knew
  (the kubelet may still report the process before it, which proves nothing);
- the machine it ran on is gone (Node object deleted, or tainted out-of-service);
- its successor identified itself (it holds the lock on the data directory): leave and join in
  one version;
- its pod object is gone and its StatefulSet no longer wants that ordinal;
- its Lease has run out, or it gave it up itself.

A node that holds a Lease is fenced first (`to_fence`), and left only then: see `leases`. Until it
has begun another session it doesn't join again, and until it is in the topology with that session
none of its replicas is permitted in it (`sessions_of`). A vanished pod object alone proves nothing:
a delete with grace 0 removes the object before the process. Nor does silence: an unreachable node
may serve its clients. Both keep their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from zonequake_operator.resources.leases import Lease, LeaseSession
from zonequake_operator.resources.model import Departure, Topology, TopologyNode
from zonequake_protocol.admin import NodeIdentity, ReplicasReport

MAX_DEPARTED = 1000
"""The number of departures that are remembered; the resource must stay small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """The relevant state of a pod. `terminated`: its containers were started, and none runs now."""

    name: str
    uid: str
    ip: str | None
    machine: str | None
    terminated: bool
    restarts: int
    caught_up: bool | None = None


def advance(
    topology: Topology,
    *,
    identities: Mapping[str, NodeIdentity],
    pods: Mapping[str, Pod],
    wanted: Mapping[str, int],
    lost_machines: frozenset[str] = frozenset(),
    leases: Mapping[str, Lease] | None = None,
) -> Topology:
    """Returns the topology after this round of observation; equal to `topology` if nothing changed.

    Args:
        identities: what nodes answered in this round, by name.
        pods: data node pods that exist, by name.
        wanted: replicas of each StatefulSet, by its name.
        lost_machines: names of machines that are proven gone.
        leases: of nodes, by name, as they are after `to_fence` was carried out.
    """
    leases = leases or {}
    version = topology.version + 1
    nodes: dict[str, TopologyNode] = {}
    departed = dict(topology.departed)
    changed = False
    for name in sorted(topology.nodes.keys() | identities.keys()):
        known, identity, pod = topology.nodes.get(name), identities.get(name), pods.get(name)
        lease = leases.get(name)
        if identity is not None and lease is not None and _was_taken(lease, identity):
            identity = None  # it may answer, but it doesn't know yet that it was given up
        if identity is not None and known is not None and is_same(known, identity):
            nodes[name] = _refresh(known, identity, pod)
        elif identity is not None and not _ended(identity.pod_uid, pod, lost_machines):
            nodes[name] = _join(identity, pod, version, known)
            changed = True
        elif known is not None and not _left(known, pod, wanted, lost_machines, lease):
            nodes[name] = known
        else:
            changed = changed or known is not None
        if known is not None and (name not in nodes or nodes[name].since == version):
            departed[name] = Departure(since=known.since, left=version)
    if not changed:
        version = topology.version
    return Topology(version=version, nodes=nodes, departed=_newest(departed))


def to_fence(
    topology: Topology,
    *,
    identities: Mapping[str, NodeIdentity],
    pods: Mapping[str, Pod],
    lost_machines: frozenset[str],
    leases: Mapping[str, Lease],
    run_out: frozenset[str],
) -> frozenset[str]:
    """Returns the nodes that would have left if their process had no Lease on which it may still
    act.

    Excludes nodes whose successor answers: it has the lock on the data directory, so they have
    ended. Excludes those whose pod is gone and no longer wanted, which proves nothing about the
    process: their Lease will run out.
    """
    return frozenset(
        name
        for name, known in topology.nodes.items()
        if name in leases
        and leases[name].is_live_for(known.process_incarnation)
        and (name not in identities or is_same(known, identities[name]))
        and (
            name in run_out
            or (name not in identities and has_ended(known, pods.get(name), lost_machines))
        )
    )


def to_delete(
    topology: Topology,
    *,
    pods: Mapping[str, Pod],
    wanted: Mapping[str, int],
    leases: Mapping[str, Lease],
    run_out: frozenset[str],
) -> frozenset[str]:
    """Returns the Leases of nodes that have left permanently: out of the topology, without a pod,
    and with an ordinal that their StatefulSet no longer wants.

    Includes only those on which no process can act: fenced, given back, or run out by our own
    clock. Deleting a Lease ends its session as a fence does, because its renewal is refused from
    then on; docs/leases.md says why that leaves no hole.
    """
    return frozenset(
        name
        for name, lease in leases.items()
        if name not in topology.nodes
        and name not in pods
        and not _is_wanted(name, wanted)
        and (lease.fenced is not None or not lease.holder or name in run_out)
    )


def _is_wanted(name: str, wanted: Mapping[str, int]) -> bool:
    pool, _, ordinal = name.rpartition("-")
    return ordinal.isdigit() and int(ordinal) < wanted.get(pool, 0)


def _newest(departed: Mapping[str, Departure]) -> dict[str, Departure]:
    newest = sorted(departed, key=lambda name: (-departed[name].left, name))[:MAX_DEPARTED]
    return {name: departed[name] for name in sorted(newest)}


def is_same(known: TopologyNode, identity: NodeIdentity) -> bool:
    """Returns whether this process is the one that we know."""
    return known.process_incarnation == identity.process_incarnation


def _refresh(known: TopologyNode, identity: NodeIdentity, pod: Pod | None) -> TopologyNode:
    """Returns the node with what is known of it by now.

    The kubelet's status lags: the restart that made this process may be counted only now. And an
    operator that took its Lease, and would count it out only now that it is in another session,
    finds that the topology isn't the one that it read.
    """
    shown = pod.restarts if pod is not None and pod.uid == known.pod_uid else 0
    return replace(
        known,
        restarts=max(shown, known.restarts),
        lease_session=max(identity.lease_session, known.lease_session),
    )


def _join(
    identity: NodeIdentity, pod: Pod | None, version: int, known: TopologyNode | None
) -> TopologyNode:
    return TopologyNode(
        name=identity.name,
        process_incarnation=identity.process_incarnation,
        storage_incarnation=identity.storage_incarnation,
        pod_uid=identity.pod_uid,
        restarts=_restarts(identity, pod, known),
        attributes=identity.attributes,
        peer_address=identity.peer_address,
        since=version,
        lease_session=identity.lease_session,
    )


def _restarts(identity: NodeIdentity, pod: Pod | None, known: TopologyNode | None) -> int:
    """Returns how often its container had been restarted when this process began, at least.

    The kubelet's status lags: it may still show the end of the process before this one.
    """
    shown = pod.restarts if pod is not None and pod.uid == identity.pod_uid else 0
    if known is not None and known.pod_uid == identity.pod_uid:
        return max(shown, known.restarts + 1)
    return shown


def _ended(pod_uid: str, pod: Pod | None, lost_machines: frozenset[str]) -> bool:
    return (
        pod is not None and pod.uid == pod_uid and (pod.terminated or pod.machine in lost_machines)
    )


def _left(
    known: TopologyNode,
    pod: Pod | None,
    wanted: Mapping[str, int],
    lost_machines: frozenset[str],
    lease: Lease | None,
) -> bool:
    if lease is not None and lease.holder == known.process_incarnation:
        return _was_taken(lease, known)  # not before it is fenced
    if pod is None:
        return not _is_wanted(known.name, wanted)
    return has_ended(known, pod, lost_machines)


def _was_taken(lease: Lease, node: NodeIdentity | TopologyNode) -> bool:
    """Returns whether it was taken from this process in the session that we know it in, or later.

    A Lease that was read before that session began proves nothing.
    """
    return lease.is_fenced_for(node.process_incarnation) and lease.session >= node.lease_session


def has_ended(known: TopologyNode, pod: Pod | None, lost_machines: frozenset[str]) -> bool:
    """Returns whether its pod, or its machine, proves that this node's process no longer runs."""
    if pod is None or pod.uid != known.pod_uid:
        return False  # its successor hasn't identified itself: the old process may still run
    if pod.restarts < known.restarts:
        return pod.machine in lost_machines  # what it shows is of the process before this one
    return _ended(known.pod_uid, pod, lost_machines) or pod.restarts > known.restarts


def sessions_of(
    reports: Mapping[str, ReplicasReport], topology: Topology
) -> dict[str, LeaseSession]:
    """Returns the sessions in which nodes may be permitted, by name: those that they report and are
    in the topology with.
    """
    return {
        name: LeaseSession(holder=known.process_incarnation, number=known.lease_session)
        for name, report in reports.items()
        if (known := topology.nodes.get(name)) is not None
        and known.process_incarnation == report.node.process_incarnation
        and known.lease_session == report.node.lease_session > 0
    }
