"""Collects a run's data from the cluster, as all targets need it.

Each piece is collected independently: one that fails is reported as a problem, and the others are
still collected.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from zonequake_chaos.observe.view import ClusterView, PartitionView
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, NotFound
from zonequake_kube.objects import main_container
from zonequake_kube.retries import retried

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
    return await retried(
        call,
        attempts=_RETRIES,
        pause_s=_RETRY_S,
        is_final=lambda error: isinstance(error, NotFound),
    )


def _applied(partition: PartitionView) -> dict[str, int]:
    return {
        node: replica.applied
        for node, replica in partition.replicas.items()
        if node in partition.members
    }
