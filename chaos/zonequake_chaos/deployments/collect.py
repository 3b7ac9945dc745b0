"""Collects a run's data from the cluster: replica dumps, the data nodes' events, logs, metrics.

Each piece is collected independently: one that fails is reported as a problem, and the others are
still collected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from zonequake_chaos.observe.view import ClusterView, PartitionView
from zonequake_chaos.record.clock import Moment, SystemClock
from zonequake_chaos.record.event_log import EventLog
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, NotFound
from zonequake_kube.objects import ADMIN_PORT, main_container
from zonequake_protocol.admin import DumpHeader, StoreEvent

PROMETHEUS_PORT = 9090
_DUMP_TIMEOUT_S = 60.0
_RETRIES = 5
_T = TypeVar("_T")
_RETRY_S = 1.0


def applied_alike(view: ClusterView) -> list[str]:
    """Returns the partitions whose members haven't all applied the same index."""
    return [
        f"{zone}/{number}: applied {applied}"
        for (zone, number), partition in sorted(view.partitions.items())
        if len(set((applied := _applied(partition)).values())) != 1
        or set(applied) != set(partition.members)
    ]


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


async def pod_logs(kube: Kube, folder: Path) -> list[str]:
    """Writes the logs of every pod of the installation, and of the containers before their last
    restart; returns problems."""
    problems = []
    for pod in await kube.find("Pod", "app.kubernetes.io/name=zonequake"):
        name, container = pod["metadata"]["name"], main_container(pod)
        try:
            (folder / f"{name}.log").write_bytes(await kube.logs(name, container))
        except ClusterError as error:
            problems.append(f"no log of {name}: {error}")
            continue
        try:
            before = await kube.logs(name, container, previous=True)
        except ClusterError:
            continue  # the container has not restarted
        (folder / f"{name}.before.log").write_bytes(before)
    return problems


async def patiently(call: Callable[[], Awaitable[_T]]) -> _T:
    """Retries a call several times: a node may be restarting, or the API server may cut an answer
    short. Only for calls that may be repeated."""
    for _ in range(_RETRIES - 1):
        try:
            return await call()
        except NotFound:
            raise
        except ClusterError:
            await asyncio.sleep(_RETRY_S)
    return await call()


def _applied(partition: PartitionView) -> dict[str, int]:
    return {
        node: replica.applied
        for node, replica in partition.replicas.items()
        if node in partition.members
    }
