"""`zonequake status`: nodes and partitions as they are now, with stage and progress."""

from __future__ import annotations

import asyncio

from rich.console import Group
from rich.table import Table

from zonequake_chaos.observe.observer import DataNodes, Observer
from zonequake_chaos.observe.view import ClusterView, PartitionView
from zonequake_chaos.record.clock import SystemClock
from zonequake_ctl.context import ReleasePlace
from zonequake_ctl.zq.progress import catching_up_text

LOOK_S = 1.2
"""Long enough for one answer of each node."""


async def look(place: ReleasePlace) -> ClusterView:
    """One view of the installation at `place`. Raises UsageError, ClusterError."""
    async with await place.connect() as kube:
        await kube.version()
        observer = Observer(kube=kube, clock=SystemClock(), sight=DataNodes(kube))
        async with observer.watching():
            await asyncio.sleep(LOOK_S)
            return observer.view()


def tables(view: ClusterView) -> Group:
    """The view as two tables."""
    nodes = Table(title="Data nodes", title_justify="left")
    for column in ("node", "pool", "ready", "answers", "leads", "replicas", "restarts"):
        nodes.add_column(column)
    for name, node in sorted(view.nodes.items()):
        nodes.add_row(
            name,
            node.pod.pool,
            "yes" if node.pod.ready else "no",
            "yes" if node.answers else "no",
            str(sum(p.leader == name for p in view.partitions.values())),
            str(len(node.report.replicas)) if node.report is not None else "?",
            str(node.pod.restarts),
        )
    partitions = Table(title="Partitions", title_justify="left")
    for column in ("zone", "partition", "leader", "term", "members", "stage", "catching up"):
        partitions.add_column(column)
    for (zone, number), partition in sorted(view.partitions.items()):
        partitions.add_row(
            zone,
            str(number),
            partition.leader or "none",
            str(partition.term),
            ", ".join(partition.members),
            partition.stage.value,
            _catching_up(partition),
        )
    return Group(nodes, partitions)


def _catching_up(partition: PartitionView) -> str:
    leading = partition.replicas[partition.leader] if partition.leader is not None else None
    return "\n".join(catching_up_text(one) for one in (leading.progress if leading else ()))
