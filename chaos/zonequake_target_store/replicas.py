"""Collects the data nodes' dumps and events, and what they have of partitions without a leader.

Each piece is collected independently: one that fails is reported as a problem, and the others are
still collected.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from zonequake_chaos.kit.collect import patiently
from zonequake_chaos.observe.view import ClusterView, NodeView
from zonequake_chaos.record.clock import Moment, SystemClock
from zonequake_chaos.record.event_log import EventLog
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError
from zonequake_kube.objects import ADMIN_PORT
from zonequake_protocol.admin import DumpHeader, ReplicaStatus, StoreEvent

_DUMP_TIMEOUT_S = 60.0


def record_leaderless(view: ClusterView, events: EventLog) -> None:
    """Emits `replicas.seen` for each partition without a leader: what each node that answers has of
    it.
    """
    for place, partition in sorted(view.partitions.items()):
        if partition.leader is None and partition.keys is not None:
            seen = {
                node.name: _seen(node, partition.replicas.get(node.name))
                for node in view.nodes.values()
                if node.answers
            }
            events.emit("replicas.seen", {"replicas": seen}, place=place)


def _seen(node: NodeView, replica: ReplicaStatus | None) -> dict[str, object]:
    return {
        "process_incarnation": node.process_incarnation,
        "role": replica.role.value if replica else None,
        "lost": replica.lost if replica else False,
        "reason": replica.broken_reason if replica else None,
    }


async def dump_replicas(kube: Kube, view: ClusterView, folder: Path, events: EventLog) -> list[str]:
    """Dumps every member of every partition and emits `replica.audit`; returns problems."""
    zones = {zone for zone, _ in view.partitions}
    problems = []
    for (zone, number), partition in sorted(view.partitions.items()):
        for node in partition.members:
            replica = partition.replicas.get(node)
            if replica is None:
                problems.append(f"{zone}/{number}: {node} has no replica to dump")
                continue
            place = f"{number}" if len(zones) == 1 else f"{zone}-{number}"
            name = f"{place}-{node}.jsonl"
            try:
                data = await kube.pod_proxy(
                    node,
                    ADMIN_PORT,
                    f"/admin/v1/replicas/{replica.group}/dump",
                    timeout_s=_DUMP_TIMEOUT_S,
                )
                header = msgspec.json.decode(data.partition(b"\n")[0], type=DumpHeader)
            except (ClusterError, msgspec.MsgspecError) as error:
                problems.append(f"{zone}/{number}: no dump of {node}: {error}")
                continue
            (folder / name).write_bytes(data)
            events.emit(
                "replica.audit",
                {
                    "applied": header.applied,
                    "digest": header.digest,
                    "keys": header.keys,
                    "lineage": header.lineage,
                    "term": header.term,
                    "incarnation": header.incarnation,
                    "file": f"dumps/{name}",
                },
                place=(zone, number),
                node=node,
            )
    return problems


async def store_events(
    kube: Kube, nodes: Sequence[str], *, since_wall_ns: int
) -> tuple[dict[str, list[StoreEvent]], list[str]]:
    """Returns the events that each data node recorded since `since_wall_ns`, also before its last
    restart, and problems.
    """
    found: dict[str, list[StoreEvent]] = {}
    now = SystemClock().now()
    problems = []
    for node in nodes:
        try:
            lines = await patiently(
                partial(kube.pod_proxy, node, ADMIN_PORT, "/admin/v1/events", params={"after": "0"})
            )
            events = [msgspec.json.decode(line, type=StoreEvent) for line in lines.splitlines()]
        except (ClusterError, msgspec.MsgspecError) as error:
            problems.append(f"no events of {node}: {error}")
        else:
            found[node] = [event for event in events if _since(event, since_wall_ns, now)]
    return found, problems


def _since(event: StoreEvent, since_wall_ns: int, now: Moment) -> bool:
    """Returns whether the event was recorded since then. Compares by the monotonic clock if both
    share it, because a node's wall clock may have been stepped.
    """
    if event.clock == now.clock:
        return event.time >= now.time_ns - (now.wall_ns - since_wall_ns)
    return event.wall >= since_wall_ns
