"""Pods, data nodes and load pods of a made-up cluster, as the runner sees them.

A partition walks through CATCHING_UP, JOINT and NONE when a node joins. Everything is quick, so
that a whole scenario takes seconds. Its time is counted in the model's own ticks, not read from a
clock: on a machine that stands still for a while, no stage passes before the runner can see it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.unit.made_up_nodes import node_identity
from zonequake_protocol.admin import (
    CatchUpProgress,
    ConfigurationReport,
    PeerName,
    ReplicaRole,
    ReplicasReport,
    ReplicaStatus,
    Stage,
    StoreEvent,
)

BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
TICK_S = 0.02
CATCH_UP_TICKS = 40
JOINT_TICKS = 10
REBIRTH_S = 0.2


@dataclass
class Group:
    partition: int
    members: list[str]
    leader: str
    term: int = 1
    token: int = 1
    pending: list[str] = field(default_factory=list)
    stage: Stage = Stage.NONE
    ticks: int = 0
    """In this stage."""

    def progress(self) -> float:
        return min(1.0, self.ticks / CATCH_UP_TICKS)


class ClusterModel:
    """Pods and processes, and partitions that walk through their stages; `_tell` feeds watches."""

    def __init__(self) -> None:
        self.versions = itertools.count(1)
        self.pods: dict[str, dict[str, Any]] = {}
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.groups: dict[int, Group] = {}
        self.zone: str | None = None
        self.processes: dict[str, str | None] = {}
        self.stopped: set[str] = set()
        self.journals: dict[str, list[StoreEvent]] = {}
        self.replicas = 3
        self.watchers: list[tuple[str, asyncio.Queue[dict[str, Any]]]] = []
        self.told: list[tuple[str, dict[str, Any]]] = []
        """Every change so far: a watch begins after those that its list has seen."""
        self.phases: dict[str, str] = {}
        self.ended: Counter[str] = Counter()
        """Operations of each load pod: one more at each look while it works."""
        self.load_lost_at: str | None = None
        """The phase into which the first load pod doesn't go, because it is gone."""
        self.deleted: list[str] = []
        self.signals: list[tuple[str, int]] = []
        self.commands: list[list[str]] = []
        self.namespace_labels: dict[str, str] = {
            "zonequake.io/chaos": "allowed",
            "zonequake.io/chaos-max-seconds": "3600",
        }
        self.rate = 100.0
        self.never_catch_up = False
        self.refused: dict[str, str] | None = None
        self.keeps_zones = False
        self.watches_begin_after_s = 0.0
        self.takes_newcomers = True
        """False for a zone whose scale-up timer is infinite."""
        self.held = asyncio.Event()
        self.objects["configmaps", "zq-harness"] = {
            "metadata": {"name": "zq-harness", "namespace": "zonequake"},
            "data": {
                "release": "zq",
                "loadImage": "zonequake/store:1",
                "loadPullPolicy": "Never",
                "storeService": "zq-store",
                "prometheusService": "",
                "tlsDomain": "",
            },
        }
        for ordinal in range(3):
            self._birth(f"zq-default-{ordinal}")

    def _birth(self, name: str) -> None:
        uid = f"uid-{next(self.versions)}"
        self.pods[name] = {
            "metadata": {
                "name": name,
                "uid": uid,
                "labels": {
                    "app.kubernetes.io/name": "zonequake",
                    "app.kubernetes.io/component": "store",
                    "zonequake.io/pool": "default",
                },
            },
            "spec": {"containers": [{"name": "store"}]},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [
                    {"name": "store", "restartCount": 0, "state": {"running": {}}}
                ],
            },
        }
        self._start_process(name)
        self._tell("pods", "ADDED", self.pods[name])

    def _restart(self, name: str, uid: str) -> None:
        """The kubelet starts a container again unless its pod was deleted meanwhile."""
        pod = self.pods.get(name, {"metadata": {}})["metadata"]
        if pod.get("uid") == uid and "deletionTimestamp" not in pod:
            self._start_process(name)

    def _start_process(self, name: str) -> None:
        self.processes[name] = f"process-{next(self.versions)}"
        self.journals.setdefault(name, [])
        self._note(name, "node.started", {"process_incarnation": self.processes[name]})

    def _note(
        self, node: str, kind: str, data: dict[str, Any], partition: int | None = None
    ) -> None:
        journal = self.journals[node]
        journal.append(
            StoreEvent(
                seq=len(journal) + 1,
                kind=kind,
                time=time.monotonic_ns(),
                wall=time.time_ns(),
                clock=BOOT,
                zone=self.zone if partition is not None else None,
                partition=partition,
                data=data,
            )
        )

    def _lead(self, group: Group, node: str) -> None:
        group.leader, group.term = node, group.term + 1
        self._note(node, "leader.change", {"leader": node, "term": group.term}, group.partition)

    def _enter(self, group: Group, stage: Stage) -> None:
        group.stage, group.ticks = stage, 0
        self._note(group.leader, "rebalance.stage", {"stage": stage.value}, group.partition)

    def die(self, name: str) -> None:
        self.processes[name] = None
        for group in self.groups.values():
            if group.leader == name:
                others = [n for n in group.members if n != name and self.processes.get(n)]
                if others:
                    self._lead(group, others[0])
                    if group.pending:
                        self._enter(group, Stage.CATCHING_UP)

    async def tick(self) -> None:
        """What the operator and the leaders would do."""
        while True:
            await asyncio.sleep(TICK_S)
            for group in list(self.groups.values()):
                group.ticks += 1
                joining = [n for n in group.pending if n not in group.members]
                alive = all(self.processes.get(n) for n in joining)
                if group.stage is Stage.CATCHING_UP and not alive:
                    group.ticks = 0
                elif (
                    group.stage is Stage.CATCHING_UP
                    and group.progress() >= 1
                    and not self.never_catch_up
                ):
                    self._enter(group, Stage.JOINT)
                elif group.stage is Stage.JOINT and group.ticks > JOINT_TICKS:
                    group.members, group.pending = list(group.pending), []
                    group.token += 1
                    self._enter(group, Stage.NONE)
                    if group.leader not in group.members:
                        self._lead(group, group.members[0])
                    self._tell("partitions", "MODIFIED", self._partition(group))

    def scale(self, replicas: int) -> None:
        self.replicas = replicas
        for ordinal in range(replicas):
            name = f"zq-default-{ordinal}"
            if name not in self.pods:
                self._birth(name)
                for group in self.groups.values():
                    if group.partition % 4 != 3 and self.takes_newcomers:
                        group.pending = [*group.members[:2], name]
                        self._enter(group, Stage.CATCHING_UP)
                        self._tell("partitions", "MODIFIED", self._partition(group))
        for name in list(self.pods):
            if int(name.rpartition("-")[2]) >= replicas and name.startswith("zq-default"):
                self.processes[name] = None
                self._tell("pods", "DELETED", self.pods.pop(name))

    async def delete_pod(self, name: str, uid: str | None) -> bool:
        pod = self.pods[name]
        if uid is not None and uid != pod["metadata"]["uid"]:
            return False
        self.die(name)
        if pod["metadata"].get("finalizers"):
            pod["metadata"]["deletionTimestamp"] = "now"
            self.held.set()
            pod["status"]["phase"] = "Failed"
            self._tell("pods", "MODIFIED", pod)
            return True
        self._tell("pods", "DELETED", self.pods.pop(name))
        asyncio.get_running_loop().call_later(REBIRTH_S, self._reborn, name)
        return True

    def _reborn(self, name: str) -> None:
        if name not in self.pods and int(name.rpartition("-")[2]) < self.replicas:
            self._birth(name)

    def _partition(self, group: Group) -> dict[str, Any]:
        return {
            "metadata": {"name": f"{self.zone}-{group.partition}", "resourceVersion": "1"},
            "spec": {"zone": self.zone, "partition": group.partition},
            "status": {
                "stable": {"nodes": group.members},
                "pending": {"nodes": group.pending} if group.pending else None,
                "configurationToken": group.token,
            },
        }

    def _tell(self, plural: str, kind: str, found: dict[str, Any]) -> None:
        event = json.loads(json.dumps({"type": kind, "object": found}))
        self.told.append((plural, event))
        for wanted, queue in self.watchers:
            if wanted == plural:
                queue.put_nowait(event)

    def resource_version(self) -> str:
        """From which a watch goes on without missing a change."""
        return str(len(self.told))

    def changes_since(self, plural: str, resource_version: str) -> asyncio.Queue[dict[str, Any]]:
        """What changed since then, and whatever will."""
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        for wanted, event in self.told[int(resource_version) :]:
            if wanted == plural:
                queue.put_nowait(event)
        self.watchers.append((plural, queue))
        return queue

    def report(self, node: str) -> ReplicasReport:
        return ReplicasReport(
            node=node_identity(
                node,
                process_incarnation=str(self.processes[node]),
                pod_uid=self.pods[node]["metadata"]["uid"],
            ),
            replicas=[
                self._replica(group, node)
                for group in self.groups.values()
                if node in {*group.members, *group.pending}
            ],
        )

    def _replica(self, group: Group, node: str) -> ReplicaStatus:
        leads = node == group.leader
        joining = [n for n in group.pending if n not in group.members]
        return ReplicaStatus(
            group=f"{self.zone}.00000000.{group.partition}",
            zone=str(self.zone),
            partition=group.partition,
            incarnation="0" * 16,
            role=ReplicaRole.LEADER if leads else ReplicaRole.FOLLOWER,
            term=group.term,
            configuration=ConfigurationReport(
                peers=[PeerName(node=n, incarnation="i") for n in group.members],
                token=group.token,
                index=1,
            ),
            stage=group.stage if leads else Stage.NONE,
            stage_token=group.token + 1 if group.pending else 0,
            progress=[
                CatchUpProgress(
                    peer=PeerName(node=n, incarnation="i"),
                    fraction=group.progress(),
                    bytes_sent=1,
                    match_index=1,
                    by="log",
                )
                for n in joining
            ]
            if leads and group.stage is Stage.CATCHING_UP
            else [],
            applied=7,
        )
