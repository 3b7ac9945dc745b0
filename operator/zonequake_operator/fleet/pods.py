"""Pods, pools and machines as lists and events showed them: what proves that a process has ended.

A list shows what is there; what an event showed before it, of the same pod, is forgotten. But a pod
is deleted as soon as its end is written down, and no list may ever show that: its event is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zonequake_operator.api_server.kube import NamespaceApi
from zonequake_operator.fleet.gates import GATE
from zonequake_operator.nodes.topology import Pod
from zonequake_operator.resources.model import Topology
from zonequake_operator.resources.stored_shapes import Object

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"

NODE_CONTAINER = "store"
"""The container of a data node's pod in which the node runs, as the chart names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedPod:
    """A pod that an event showed without a running container. `number`: of what was shown, in its
    order; `in_round`: the newest polling round at that time."""

    pod: Pod
    number: int
    in_round: int


class PodEvidence:
    """The last list of pods, and what events have shown since."""

    def __init__(self, kube: NamespaceApi) -> None:
        self._kube = kube
        self._number = 0
        self._ended: dict[tuple[str, str], EndedPod] = {}
        """Ended pods by name and uid."""
        self.pods: dict[str, Pod] = {}
        self.wanted: Mapping[str, int] = {}
        """Replicas of each StatefulSet."""
        self.lost: frozenset[str] = frozenset()
        """Machines that are proven gone."""
        self.listed_in = 0
        """The polling round after which the list was made."""
        self.is_listed = False
        """Whether there has been a list."""

    def show(self, seen: Object, *, in_round: int) -> bool:
        """Records what an event showed of this pod; returns whether it has ended."""
        pod = parse_pod(seen)
        self._number += 1
        if not pod.terminated:
            self._ended.pop((pod.name, pod.uid), None)  # that was the process before
            return False
        self._ended[pod.name, pod.uid] = EndedPod(pod=pod, number=self._number, in_round=in_round)
        if pod.name in self.pods and self.pods[pod.name].uid == pod.uid:
            self.pods[pod.name] = pod  # nodes that have left aren't asked any more
        return True

    async def list(self, *, in_round: int) -> None:
        """List all again. Raises KubeError."""
        self._number += 1
        number = self._number
        pods, sets, machines = await asyncio.gather(
            self._kube.list_pods(), self._kube.list_stateful_sets(), self._kube.list_machines()
        )
        self.pods = {pod.name: pod for pod in map(parse_pod, pods)}
        self.wanted = {s["metadata"]["name"]: s["spec"].get("replicas", 1) for s in sets}
        self.lost = _lost_machines(machines, self.pods)
        self.listed_in = in_round
        self.is_listed = True
        self._ended = {
            (name, uid): shown
            for (name, uid), shown in self._ended.items()
            if shown.number > number or name not in self.pods or self.pods[name].uid != uid
        }

    def ended(self, topology: Topology) -> dict[str, EndedPod]:
        """Returns the pods, of nodes in the topology, that events showed to have ended."""
        self._ended = {
            (name, uid): shown
            for (name, uid), shown in self._ended.items()
            if name in topology.nodes and topology.nodes[name].pod_uid == uid
        }
        return {name: shown for (name, _), shown in self._ended.items()}


def parse_pod(obj: Object) -> Pod:
    """Parses a pod as it was listed, or as an event shows it. What its other containers do, such as
    those of a service mesh, says nothing of the data node."""
    meta, status = obj["metadata"], obj.get("status", {})
    every: list[dict[str, Any]] = status.get("containerStatuses", [])
    node = next((one for one in every if one["name"] == NODE_CONTAINER), {})
    state, before = node.get("state", {}), node.get("lastState", {})
    ended = "running" not in state and ("terminated" in state or "terminated" in before)
    gate = next((c for c in status.get("conditions", []) if c["type"] == GATE), None)
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        ip=status.get("podIP"),
        machine=obj.get("spec", {}).get("nodeName"),
        terminated=ended or status.get("phase") in ("Failed", "Succeeded"),
        restarts=node.get("restartCount", 0),
        caught_up=None if gate is None else gate["status"] == "True",
    )


def _lost_machines(machines: list[Object], pods: Mapping[str, Pod]) -> frozenset[str]:
    if not machines:
        return frozenset()  # we may not read them
    standing = {
        m["metadata"]["name"]
        for m in machines
        if not any(t["key"] == OUT_OF_SERVICE for t in m.get("spec", {}).get("taints", []))
    }
    return frozenset(p.machine for p in pods.values() if p.machine and p.machine not in standing)
