"""One view of a namespace: its resources from the API server, and its data nodes' reports.

Data nodes are asked through the API server. An account that may read the resources but not ask pods
still gets a view, which says so.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec
import yaml

from zonequake_ctl.context import DEFAULT_RELEASE, ReleasePlace
from zonequake_ctl.zq.screens.namespace_view import (
    NO_ANSWER,
    Inspected,
    NamespaceView,
    OperatorView,
    topology_of,
    unseen,
    zone_views,
)
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, NotFound, UsageError
from zonequake_kube.objects import ADMIN_PORT, STORE_LABELS, Json, is_ready, pod_view
from zonequake_kube.yaml_text import read_yaml
from zonequake_operator.errors import ResourceError
from zonequake_protocol.admin import ReplicaSize, ReplicasReport, ReplicaStatus

ANSWER_LIMIT_S = 3.0
"""A node that says nothing for so long is shown as silent."""

SIZES_LIMIT_S = 60.0
PARALLEL_QUESTIONS = 8
"""A node walks a whole state to tell its size, and a log to be inspected: not all at once."""

MAX_INSPECTIONS = 48
"""Waiting replicas that one screen looks at; it says so of the others."""

OPERATOR_LABELS = "app.kubernetes.io/component=operator,app.kubernetes.io/name=zonequake"


def find_current(
    *, kubeconfig: Path | None, context: str | None, namespace: str | None
) -> ReleasePlace:
    """Finds the place that kubectl itself would use: $KUBECONFIG or ~/.kube/config, the current
    context, and that context's namespace. Raises UsageError.
    """
    if kubeconfig is None:
        named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
        kubeconfig = Path(named) if named else Path.home() / ".kube" / "config"
    if not kubeconfig.is_file():
        raise UsageError(f"there is no kubeconfig {kubeconfig}: set KUBECONFIG, or --kubeconfig")
    if namespace is None:
        namespace = _namespace_of(kubeconfig, context)
    return ReleasePlace(
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace,
        release=DEFAULT_RELEASE,
        embedded=False,
    )


def _namespace_of(kubeconfig: Path, context: str | None) -> str:
    try:
        content = read_yaml(kubeconfig.read_text())
    except yaml.YAMLError as error:
        raise UsageError(f"{kubeconfig} is no kubeconfig: {error}") from error
    content = {} if content is None else content
    if not isinstance(content, dict):
        raise UsageError(f"{kubeconfig} is no kubeconfig: found no keys such as contexts in it")
    wanted = context or content.get("current-context")
    for entry in content.get("contexts") or []:
        if entry.get("name") == wanted:
            return str((entry.get("context") or {}).get("namespace") or "default")
    return "default"


async def look(kube: Kube) -> NamespaceView:
    """Everything that one screen needs. Raises ClusterError, UsageError."""
    try:
        zones, partitions, topologies, pods, operators = await asyncio.gather(
            kube.find("DistributionZone"),
            kube.find("Partition"),
            kube.find("LogicalTopology"),
            kube.find("Pod", STORE_LABELS),
            kube.find("Pod", OPERATOR_LABELS),
        )
    except NotFound as error:
        raise UsageError(
            "this cluster has no kind DistributionZone: install the chart first (zonequake install)"
        ) from error
    views = {view.name: view for view in map(pod_view, pods)}
    reports, unheard = await _ask(kube, views)
    try:
        view = NamespaceView(
            now_ms=time.time_ns() // 1_000_000,
            namespace=kube.namespace,
            topology=topology_of(topologies),
            zones=zone_views(zones, partitions, reports),
            pods=views,
            reports=reports,
            unheard=unheard,
            operator=OperatorView(pods=len(operators), ready=sum(map(is_ready, operators))),
        )
    except (ResourceError, ValueError) as error:
        raise ClusterError(
            f"namespace {kube.namespace}: {error}; is this plugin older than the operator?"
        ) from error
    asked = unseen(view)[:MAX_INSPECTIONS]
    return replace(view, inspected=await inspect(kube, asked)) if asked else view


async def inspect(kube: Kube, asked: Iterable[tuple[str, str]]) -> Inspected:
    """Inspects these waiting replicas, by node and group, as the operator would; leaves out those
    whose node cannot answer.
    """
    slots = asyncio.Semaphore(PARALLEL_QUESTIONS)
    found: dict[str, dict[str, ReplicaStatus]] = {}

    async def one(node: str, group: str) -> None:
        async with slots:
            try:
                raw = await kube.pod_proxy(
                    node, ADMIN_PORT, f"/admin/v1/replicas/{group}/inspection"
                )
                status = msgspec.json.decode(raw, type=ReplicaStatus)
                found.setdefault(node, {})[group] = status
            except (ClusterError, msgspec.DecodeError):
                return

    await asyncio.gather(*(one(*each) for each in asked))
    return found


async def _ask(kube: Kube, pods: Iterable[str]) -> tuple[dict[str, ReplicasReport], dict[str, str]]:
    decoder = msgspec.json.Decoder(ReplicasReport)
    reports: dict[str, ReplicasReport] = {}
    unheard: dict[str, str] = {}

    async def one(pod: str) -> None:
        try:
            raw = await kube.pod_proxy(
                pod, ADMIN_PORT, "/admin/v1/replicas", timeout_s=ANSWER_LIMIT_S
            )
            reports[pod] = decoder.decode(raw)
        except ClusterError as error:
            unheard[pod] = _silence(error)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            unheard[pod] = f"its answer is not of this version ({error})"

    await asyncio.gather(*(one(pod) for pod in pods))
    return reports, unheard


def _silence(error: ClusterError) -> str:
    if error.status in (401, 403):
        return "you lack the right to ask it: get pods/proxy"
    if error.status == 0:
        return NO_ANSWER
    return "it can't be reached"


async def copy_bytes(
    kube: Kube, asked: Iterable[tuple[int, str, str]]
) -> dict[int, ReplicaSize | None]:
    """Returns the size of a copy of each partition: `asked` has number, group, and the node that
    leads it. None where the node cannot tell.
    """
    slots = asyncio.Semaphore(PARALLEL_QUESTIONS)
    sizes: dict[int, ReplicaSize | None] = {}

    async def one(number: int, group: str, node: str) -> None:
        async with slots:
            try:
                raw = await kube.pod_proxy(
                    node,
                    ADMIN_PORT,
                    f"/admin/v1/replicas/{group}/size",
                    timeout_s=SIZES_LIMIT_S,
                )
                sizes[number] = msgspec.json.decode(raw, type=ReplicaSize)
            except (ClusterError, msgspec.DecodeError, msgspec.ValidationError):
                sizes[number] = None

    await asyncio.gather(*(one(*each) for each in asked))
    return sizes


async def zone_object(kube: Kube, name: str) -> Json | None:
    """Reads a zone as stored; None if there is none."""
    try:
        return await kube.get("DistributionZone", name)
    except NotFound:
        return None
