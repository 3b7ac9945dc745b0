"""Kubernetes objects as the harness's own types: the one place that knows their JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

Json = dict[str, Any]

STORE_LABELS = "app.kubernetes.io/component=store"
OPERATOR_LABELS = "app.kubernetes.io/component=operator"
POOL_LABEL = "zonequake.io/pool"
STORE_CONTAINER = "store"
PROGRAM_LABEL = "zonequake.io/program"
"""Label of pods that run another project's program: its name; it runs in the first container."""

HANDS_CONTAINER = "hands"
"""Beside such a program, in the same PID namespace: its image may hold no shell and no Python."""

ADMIN_PORT = 8080

RESTRICTED_POD: Json = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "fsGroup": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
RESTRICTED_CONTAINER: Json = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""Settings that a `restricted` namespace requires of a pod and each of its containers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """A member's pod as the API server has it; `host` is the node that carries it.

    `container` is where commands run that signal the process under test: a child of PID 1 there, or
    those of the name `program`. `started_wall_ns`: when such a program's container started, in
    whole seconds. `runs`, `restarts`: of the container of that process alone, and of no other that
    the pod has beside it. `patience_s`: how long the kubelet lets that container live while it
    answers no liveness probe; None: forever.
    """

    name: str
    uid: str
    pool: str
    ready: bool
    phase: str
    deleting: bool
    container: str
    restarts: int
    address: str = ""
    host: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    program: str = ""
    started_wall_ns: int | None = None
    runs: bool = True
    patience_s: float | None = None

    @property
    def process(self) -> str:
        """Names the process in it: each has another pod, or another life of its containers."""
        return f"{self.uid}/{self.restarts}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkView:
    """A link of a partition's chain; `term` is a whole term."""

    nodes: tuple[str, ...]
    term: int
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysView:
    """A Partition resource's keys: node names, in order.

    `forced`, `from_reset`: names of the keys that carry the flag. `group`: the replication group
    that it stands for; empty where there is but one.
    """

    zone: str
    partition: int
    group: str = ""
    stable: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    planned: tuple[str, ...] = ()
    forced: frozenset[str] = frozenset()
    from_reset: frozenset[str] = frozenset()
    switch_reduce: tuple[str, ...] = ()
    switch_append: tuple[str, ...] = ()
    chain: tuple[LinkView, ...] = ()
    token: int = 0
    revision: int = 0


def pod_view(pod: Json) -> PodView:
    """Returns the view of a member's pod."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    labels = metadata.get("labels") or {}
    names = [container["name"] for container in pod["spec"]["containers"]]
    program = labels.get(PROGRAM_LABEL, "")
    acts_in = next((n for n in (HANDS_CONTAINER, STORE_CONTAINER) if n in names), names[0])
    containers = status.get("containerStatuses") or []
    holder = main_container(pod) if program else acts_in
    held: Json = next((each for each in containers if each.get("name") == holder), {})
    return PodView(
        name=metadata["name"],
        uid=metadata["uid"],
        pool=labels.get(POOL_LABEL, ""),
        ready=is_ready(pod),
        phase=status.get("phase", "Unknown"),
        deleting=metadata.get("deletionTimestamp") is not None,
        container=acts_in,
        restarts=int(held.get("restartCount", 0)),
        address=status.get("podIP", ""),
        host=pod["spec"].get("nodeName", ""),
        labels=tuple(sorted(labels.items())),
        program=program,
        started_wall_ns=_started_ns(held) if program else None,
        runs=status.get("phase") == "Running"
        and not {"terminated", "waiting"} & set(held.get("state") or {}),
        patience_s=_patience_s(pod, holder),
    )


def _patience_s(pod: Json, name: str) -> float | None:
    """Returns the time of `PodView.patience_s`; a probe that another container answers limits
    nothing.
    """
    containers = pod["spec"]["containers"]
    held: Json = next((each for each in containers if each["name"] == name), {})
    probe = held.get("livenessProbe")
    if probe is None:
        return None
    port = next((asked["port"] for asked in probe.values() if _asks_a_port(asked)), None)
    others = (each for each in containers if each["name"] != name)
    if port in {p["containerPort"] for each in others for p in each.get("ports") or []}:
        return None
    return float(probe.get("periodSeconds", 10) * probe.get("failureThreshold", 3))


def _asks_a_port(probe: object) -> bool:
    return isinstance(probe, dict) and "port" in probe


def _started_ns(container: Json) -> int | None:
    """Returns when the container that runs now started; None if none runs."""
    running = (container.get("state") or {}).get("running") or {}
    started = running.get("startedAt")
    return int(datetime.fromisoformat(started).timestamp()) * 10**9 if started else None


def container_end(pod: Json, name: str, *, in_last_life: bool = False) -> Json | None:
    """Returns how the pod's container of that name ended: `exitCode`, `reason`; None while it runs.

    `in_last_life`: also of one that was started again, how it ended before.
    """
    for container in (pod.get("status") or {}).get("containerStatuses") or []:
        states = [container.get("state"), *([container.get("lastState")] if in_last_life else [])]
        for state in states:
            ended: Json | None = (state or {}).get("terminated")
            if ended is not None and container["name"] == name:
                return ended
    return None


def main_container(pod: Json) -> str:
    """Returns the name of the container that the pod is there for: the first one."""
    return str(pod["spec"]["containers"][0]["name"])


def is_ready(pod: Json) -> bool:
    """Returns whether the pod is Ready, by its containers' probes and its readiness gates."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpProbe:
    """An address in a pod that answers the kubelet."""

    port: int
    path: str
    scheme: str


def http_probe(pod: Json) -> HttpProbe | None:
    """Returns the first HTTP probe that the pod's containers have; None if they have none."""
    for container in pod["spec"]["containers"]:
        ports = {p.get("name"): int(p["containerPort"]) for p in container.get("ports") or []}
        for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
            asked = (container.get(kind) or {}).get("httpGet")
            if asked is not None:
                port = asked["port"]
                return HttpProbe(
                    port=port if isinstance(port, int) else ports[port],
                    path=asked.get("path", "/"),
                    scheme=asked.get("scheme", "HTTP").lower(),
                )
    return None


def claim_path(pod: Json) -> str | None:
    """Returns the mount path of the pod's first volume with a claim; None if it has none."""
    spec = pod["spec"]
    claims = {v["name"] for v in spec.get("volumes") or [] if "persistentVolumeClaim" in v}
    for container in spec["containers"]:
        for mount in container.get("volumeMounts") or []:
            if mount["name"] in claims:
                return str(mount["mountPath"])
    return None


def keys_view(partition: Json) -> KeysView:
    """Reads a Partition resource's keys; a key that is absent is empty."""
    spec, status = partition["spec"], partition.get("status") or {}
    owners = partition["metadata"].get("ownerReferences") or []
    owner = next((str(each["uid"]) for each in owners if each.get("controller")), "")
    zone, number = str(spec["zone"]), int(spec["partition"])
    return KeysView(
        zone=zone,
        partition=number,
        group=f"{zone}.{owner[:8]}.{number}" if owner else "",
        stable=_nodes(status.get("stable")),
        pending=_nodes(status.get("pending")),
        planned=_nodes(status.get("planned")),
        forced=_flagged(status, "force"),
        from_reset=_flagged(status, "fromReset"),
        switch_reduce=_nodes(status.get("switchReduce")),
        switch_append=_nodes(status.get("switchAppend")),
        chain=tuple(
            LinkView(
                nodes=_nodes(link), term=int(link.get("term", 0)), index=int(link.get("index", 0))
            )
            for link in status.get("chain") or []
        ),
        token=int(status.get("configurationToken") or 0),
        revision=int(status.get("changeTriggerRevision") or 0),
    )


def _flagged(status: Json, flag: str) -> frozenset[str]:
    """Returns the keys whose assignment set carries the flag."""
    return frozenset(
        key for key in ("stable", "pending", "planned") if (status.get(key) or {}).get(flag)
    )


def _nodes(assignments: object) -> tuple[str, ...]:
    """Node names of an assignment set, which is a list of names or carries one in `nodes`."""
    if isinstance(assignments, dict):
        assignments = assignments.get("nodes")
    if not isinstance(assignments, list):
        return ()
    return tuple(str(a["node"]) if isinstance(a, dict) else str(a) for a in assignments)
