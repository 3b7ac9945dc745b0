"""Says why pods are not ready, by their own objects and those of their nodes. Pure.

pod zq-operator-5d9-x2x: Pending: Unschedulable: 0/1 nodes are available: 1 node(s) had ...
pod zq-default-1: Running: container store waits: CrashLoopBackOff, restarted 7 times, ...
node zonequake-1: DiskPressure: kubelet has disk pressure; taint disk-pressure:NoSchedule
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from zonequake_kube.objects import Json

MOST_PODS = 10
"""Most pods that are named: an evicted pod stays, and its Deployment may have made dozens."""
MOST_CHARACTERS = 300
"""Characters of a message that are shown."""

_BEFORE_CONTAINERS = ("PodScheduled", "PodReadyToStartContainers", "Initialized")
"""Conditions of a pod that must hold before its containers say anything."""
_PRESSURES = ("DiskPressure", "MemoryPressure", "PIDPressure", "NetworkUnavailable")


def pod_trouble(pod: Json) -> str | None:
    """Returns why a pod is not ready, as a line; None if it is, or has ended well."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    phase = str(status.get("phase") or "Unknown")
    conditions = _conditions(pod)
    deleting = metadata.get("deletionTimestamp")
    is_ready = (conditions.get("Ready") or {}).get("status") == "True"
    if phase == "Succeeded" or (is_ready and not deleting):
        return None
    why = [f"being deleted since {deleting}"] if deleting else []
    why += [_reason(status)] if _reason(status) else []
    containers = list(_containers(status))
    why += containers or _unmet(conditions)
    if phase == "Running":
        why += _gates(pod, conditions)
    return f"pod {metadata['name']}: {phase}: {'; '.join(why) or 'no reason is given'}"


def node_trouble(node: Json) -> str | None:
    """Returns what keeps pods from a node, or drives them from it, as a line; None if nothing
    does.
    """
    conditions = _conditions(node)
    why = [
        f"{kind}: {_reason(found)}"
        for kind in _PRESSURES
        if (found := conditions.get(kind)) and found.get("status") == "True"
    ]
    ready = conditions.get("Ready") or {}
    if ready.get("status") != "True":
        why.insert(0, f"NotReady: {_reason(ready) or 'no reason is given'}")
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        why.append("cordoned")
    why += [
        f"taint {taint['key']}:{taint['effect']}"
        for taint in spec.get("taints") or []
        if taint.get("effect") in ("NoSchedule", "NoExecute")
    ]
    return f"node {node['metadata']['name']}: {'; '.join(why)}" if why else None


def trouble_lines(pods: Iterable[Json], nodes: Iterable[Json]) -> list[str]:
    """Returns a line for each pod that is not ready and each node in trouble; pods that can still
    become ready come first.
    """
    by_hope = sorted(pods, key=lambda pod: (pod.get("status") or {}).get("phase") == "Failed")
    told = [line for pod in by_hope if (line := pod_trouble(pod)) is not None]
    more = len(told) - MOST_PODS
    rest = [f"and {more} pods more"] if more > 0 else []
    return [*told[:MOST_PODS], *rest, *filter(None, map(node_trouble, nodes))]


def lease_words(lease: Json, now: datetime) -> str:
    """Returns the holder of a Lease, and how old it is by this clock."""
    name, spec = lease["metadata"]["name"], lease.get("spec") or {}
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    if not holder:
        return f"Lease {name} has no holder"
    if not renewed:
        return f"Lease {name} is held by {holder}"
    age_s = (now - datetime.fromisoformat(renewed)).total_seconds()
    return (
        f"Lease {name} is held by {holder}, renewed {age_s:.0f} s ago, and lasts "
        f"{spec.get('leaseDurationSeconds', 0)} s"
    )


def well_words(pod: Json) -> str:
    """Returns a line on a pod without trouble, with what became of its containers before."""
    status = pod.get("status") or {}
    words = "has ended" if status.get("phase") == "Succeeded" else "is ready"
    past = "".join(map(_past, status.get("containerStatuses") or []))
    return f"pod {pod['metadata']['name']} {words}{past}"


def _unmet(conditions: dict[str, Json]) -> Iterator[str]:
    for kind in _BEFORE_CONTAINERS:
        found = conditions.get(kind)
        if found is not None and found.get("status") != "True":
            yield _reason(found) or f"{kind} is {found.get('status')}"


def _containers(status: Json) -> Iterator[str]:
    for container in status.get("initContainerStatuses") or []:
        ended = (container.get("state") or {}).get("terminated") or {"exitCode": -1}
        if ended.get("exitCode") != 0:
            yield _container(container)
    for container in status.get("containerStatuses") or []:
        if not container.get("ready"):
            yield _container(container)


def _container(container: Json) -> str:
    """Returns what a container does that isn't ready."""
    state = container.get("state") or {}
    does = "is not ready"
    if "waiting" in state:
        does = f"waits: {_reason(state['waiting'] or {}) or 'no reason is given'}"
    elif "terminated" in state:
        does = f"ended with {_end(state['terminated'])}"
    elif "running" in state:
        does = "runs and is not ready"
    return f"container {container['name']} {does}{_past(container)}"


def _past(container: Json) -> str:
    """Returns how often a container was restarted, and how its last life ended."""
    restarts = container.get("restartCount") or 0
    last = (container.get("lastState") or {}).get("terminated")
    words = f", restarted {restarts} times" if restarts else ""
    return words + (f", before that ended with {_end(last)}" if last else "")


def _end(terminated: Json) -> str:
    reason = terminated.get("reason")
    return f"exit code {terminated.get('exitCode')}{f' ({reason})' if reason else ''}"


def _gates(pod: Json, conditions: dict[str, Json]) -> Iterator[str]:
    for gate in (pod.get("spec") or {}).get("readinessGates") or []:
        kind = gate["conditionType"]
        found = conditions.get(kind)
        if found is None:
            yield f"readiness gate {kind} was never set"
        elif found.get("status") != "True":
            yield f"readiness gate {kind} is {found.get('status')}: {_reason(found)}"


def _conditions(obj: Json) -> dict[str, Json]:
    found = (obj.get("status") or {}).get("conditions") or []
    return {condition["type"]: condition for condition in found}


def _reason(found: Json) -> str:
    """Returns reason and message of a condition, a state or a status, as far as there are any."""
    words = " ".join(str(found.get("message") or "").split())
    if len(words) > MOST_CHARACTERS:
        words = f"{words[:MOST_CHARACTERS]}…"
    return ": ".join(filter(None, (found.get("reason"), words)))
