"""Hears all data nodes of the release, again and again, and keeps the logical topology.

One `Fleet` serves all zones: a round asks every node for its replicas at once, then updates the
LogicalTopology and wakes the zones. Pods are listed anew on every pod event, while a node that
should answer doesn't, and every PODS_MAX_AGE_S, so a lost event costs at most that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from zonequake_store.admin_protocol import NodeIdentity, ReplicasReport

from . import leases, metrics, topology
from .errors import Conflict, KubeError, NodeUnreachable
from .fencing import Fencing
from .gates import GATE, Gates
from .kube import Kube
from .leases import Lease, Session, Trouble, TroubleKind, sessions_of
from .model import Topology
from .parsing import parse_topology
from .rendering import render_topology_status
from .rights import Right
from .store_client import StoreClient
from .topology import Pod
from .wire import TOPOLOGY_NAME, Object

logger = logging.getLogger(__name__)

BUSY_PERIOD_S = 0.2
SETTLED_PERIOD_S = 0.4
PODS_MAX_AGE_S = 3.0
PODS_RETRY_S = 0.5
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One round: the topology, who answered what, and where nodes can be reached.

    `lease_troubles`: also of nodes that answer but were given up; `reports` leaves those out.
    """

    number: int = 0
    topology: Topology = field(default_factory=Topology)
    reports: Mapping[str, ReplicasReport] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    lease_troubles: Mapping[str, Trouble] = field(default_factory=dict)
    missing_rights: frozenset[Right] = frozenset()

    @property
    def sessions(self) -> dict[str, Session]:
        """Of the nodes' Leases, where they have one."""
        return sessions_of(self.reports)


@dataclass(slots=True)
class _Machines:
    """What was listed last."""

    pods: dict[str, Pod] = field(default_factory=dict)
    wanted: dict[str, int] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    listed_s: float = float("-inf")


class Fleet:
    """The data nodes. `run` never ends; `view` is the newest round."""

    def __init__(
        self,
        kube: Kube,
        store: StoreClient,
        *,
        monotonic_s: Callable[[], float],
        wall_ms: Callable[[], int],
    ) -> None:
        self._kube = kube
        self._store = store
        self._monotonic_s = monotonic_s
        self._machines = _Machines()
        self._fencing = Fencing(kube, monotonic_s=monotonic_s)
        self._ended: dict[str, Pod] = {}
        """By name, pods that an event showed without a running container. A list may never show
        it: the pod is deleted as soon as its end is written down."""
        self._topology: tuple[Topology, str] | None = None
        self._newest: tuple[Topology, str] | None = None
        """The topology that was read or written last, and the uid of the object that holds it."""
        self._topology_read_s = float("-inf")
        self._stale_pods = True
        self._hurry = asyncio.Event()
        self._round = asyncio.Condition()
        self._unsettled: set[str] = set()
        self._gates = Gates(kube, monotonic_s=monotonic_s, wall_ms=wall_ms)
        self.missing_rights: frozenset[Right] = frozenset()
        """Of our own account, as the last look at them found."""
        self.view = View()
        self.heard_s = self.ended_s = monotonic_s()
        """When the last good round ended, and when the last one did."""

    def pods_changed(self, seen: Object | None = None) -> None:
        """Look at the pods now; `seen`: one of them as an event shows it."""
        pod = _parse_pod(seen) if seen is not None else None
        if pod is not None and pod.terminated:
            self._ended[pod.name] = pod
        elif pod is not None:
            self._ended.pop(pod.name, None)  # of its process before, or of another pod
        self._stale_pods = True
        self._hurry.set()

    def rights_missing(self, missing: frozenset[Right]) -> None:
        """What our account lacks now; the view says so to the zones."""
        self.missing_rights = missing
        # Also where no further round can be good without what is missing.
        self.view = replace(self.view, missing_rights=missing)
        self._hurry.set()

    def topology_is_old(self) -> None:
        """Somebody knows a newer one: read it again in the next round."""
        self._topology_read_s = float("-inf")

    def tell(self, zone: str, *, view: int, settled: bool, behind: frozenset[str]) -> None:
        """A zone's verdict on this view, by its plan; it sets the pace and the readiness gates."""
        self._gates.judged(zone, view, behind)
        if settled:
            self._unsettled.discard(zone)
        else:
            self._unsettled.add(zone)

    def forget(self, zone: str) -> None:
        """The zone is gone."""
        self._unsettled.discard(zone)
        self._gates.forget(zone)

    async def next_view(self, after: int, timeout_s: float) -> View:
        """The first view with a higher number, or the present one after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s), self._round:
                await self._round.wait_for(lambda: self.view.number > after)
        except TimeoutError:
            return self.view
        return self.view

    async def run(self) -> None:
        """Round after round until cancelled; a failed round is logged and tried again."""
        while True:
            began_s = self._monotonic_s()
            hurried = self._hurry.is_set()
            self._hurry.clear()
            try:
                await self._once(hurried=hurried)
                self.heard_s = self._monotonic_s()
                metrics.ROUNDS.labels("ok").inc()
            except KubeError as error:
                metrics.ROUNDS.labels("failed").inc()
                logger.warning("this round failed, the next will tell: %s", error)
            except Exception:
                # A resource that nobody can read must not end the task that would read it mended.
                metrics.ROUNDS.labels("failed").inc()
                self._topology = None
                logger.exception("this round failed, the next will tell")
            self.ended_s = self._monotonic_s()
            period_s = BUSY_PERIOD_S if self._unsettled else SETTLED_PERIOD_S
            rest_s = max(0.02, period_s - (self._monotonic_s() - began_s))
            try:
                async with asyncio.timeout(rest_s):
                    await self._hurry.wait()
            except TimeoutError:
                continue

    async def _once(self, *, hurried: bool) -> None:
        await self._list_if_due(hurried=hurried)
        with metrics.ROUND_SECONDS.time():
            reports = await self._hear()
        identities = {name: report.node for name, report in reports.items()}
        before, after = await self._update_topology(identities)
        troubles = leases.troubles(identities, self._fencing.leases)
        # Whoever answers but was given up is no part of any group until it has noticed.
        reports = {name: report for name, report in reports.items() if name in after.nodes}
        addresses = {n: p.ip for n, p in self._machines.pods.items() if p.ip}
        async with self._round:
            self.view = View(
                number=self.view.number + 1,
                topology=after,
                reports=reports,
                addresses=addresses,
                lease_troubles=troubles,
                missing_rights=self.missing_rights,
            )
            self._round.notify_all()
        silent = after.nodes.keys() - reports.keys()
        if silent:
            self._stale_pods = True
        metrics.NODES.set(len(after.nodes))
        metrics.NODES_SILENT.set(len(silent))
        metrics.TOPOLOGY_VERSION.set(after.version)
        for kind in TroubleKind:
            of_kind = sum(each.kind is kind for each in troubles.values())
            metrics.LEASE_TROUBLES.labels(kind.value).set(of_kind)
        if before.version != after.version:
            logger.info("topology %d: %s", after.version, ", ".join(after.nodes) or "empty")
        processes = {name: report.node.process_incarnation for name, report in reports.items()}
        await self._gates.set(self._machines.pods, processes, self.view.number)

    async def _list_if_due(self, *, hurried: bool) -> None:
        age_s = self._monotonic_s() - self._machines.listed_s
        due_s = PODS_RETRY_S if self._stale_pods else PODS_MAX_AGE_S
        is_due = age_s >= due_s or (hurried and self._stale_pods)
        if is_due or self._fencing.leases or _have_leases(self.view.reports):
            await self._fencing.look()
        # Before pods are listed and nodes heard: what another operator saw of them is newer than
        # what we did before it wrote, and judged by that a process would be replaced by its
        # predecessor.
        if not await self._read_topology() and not is_due:
            return
        self._stale_pods = False
        await self._list_machines()

    async def _list_machines(self) -> None:
        pods, sets, machines = await asyncio.gather(
            self._kube.list_pods(), self._kube.list_stateful_sets(), self._kube.list_machines()
        )
        parsed = {pod.name: pod for pod in map(_parse_pod, pods)}
        self._machines = _Machines(
            pods=parsed,
            wanted={s["metadata"]["name"]: s["spec"].get("replicas", 1) for s in sets},
            lost=_lost_machines(machines, parsed),
            listed_s=self._monotonic_s(),
        )

    async def _read_topology(self) -> bool:
        """Read the LogicalTopology if ours may be old; whether it is another one now."""
        known, now_s = self._topology, self._monotonic_s()
        if (
            known is not None
            and now_s - self._topology_read_s < PODS_MAX_AGE_S
            and not _may_lack(known[0], self._fencing.leases)
        ):
            return False
        obj = await self._kube.get_or_create_topology()
        read, version, uid = parse_topology(obj), obj["metadata"]["resourceVersion"], _uid(obj)
        if self._newest is not None:
            ours, ours_uid = self._newest
            if uid != ours_uid and read.version < ours.version:
                # Deleted by hand: versions must go on, or who joins or leaves next would be taken
                # for somebody that zones know already.
                logger.warning("the LogicalTopology was deleted; version %d again", ours.version)
                read = ours
                version = await self._write_topology(ours, version)
        self._newest = (read, uid)
        self._topology = (read, version)
        self._topology_read_s = now_s
        return known is None or known[1] != version

    async def _hear(self) -> dict[str, ReplicasReport]:
        known = self._topology[0].nodes if self._topology is not None else {}
        # A pod that ended may have gone on already, under the process that we know.
        pods = [
            pod
            for pod in self._machines.pods.values()
            if pod.ip and (pod.name in known or not pod.terminated)
        ]
        answers = await asyncio.gather(*(self._hear_one(pod) for pod in pods))
        return {pod.name: answer for pod, answer in zip(pods, answers, strict=True) if answer}

    async def _hear_one(self, pod: Pod) -> ReplicasReport | None:
        assert pod.ip is not None
        try:
            report = await self._store.replicas(pod.ip)
        except NodeUnreachable as error:
            logger.debug("%s is silent: %s", pod.name, error)
            return None
        if report.node.name != pod.name or report.node.pod_uid not in ("", pod.uid):
            logger.warning("%s: %s answers at its address", pod.name, report.node.name)
            return None  # an address that was given to another pod meanwhile
        return report

    async def _update_topology(
        self, identities: Mapping[str, NodeIdentity]
    ) -> tuple[Topology, Topology]:
        fencing = self._fencing
        assert self._topology is not None, "it was read before the nodes were heard"
        before, resource_version = self._topology
        machines = self._machines
        pods = {**machines.pods, **self._proofs(before, identities)}
        have_leases = bool(fencing.leases) or _have_leases(self.view.reports)
        if have_leases and before.nodes.keys() - identities.keys():
            # Who is to leave may have begun a session while others were waited for.
            await fencing.look()
        due = topology.to_fence(
            before,
            identities=identities,
            pods=pods,
            lost_machines=machines.lost,
            leases=fencing.leases,
            run_out=fencing.run_out,
        )
        await fencing.fence(due, f"counted as left after topology {before.version}")
        after = topology.advance(
            before,
            identities=identities,
            pods=pods,
            wanted=machines.wanted,
            lost_machines=machines.lost,
            leases=fencing.leases,
        )
        if after != before:
            self._topology = None  # read again, unless the write succeeds
            resource_version = await self._write_topology(after, resource_version)
            self._topology = (after, resource_version)
            if self._newest is not None:
                self._newest = (after, self._newest[1])
        await self._delete_leases(after)
        return before, after

    async def _delete_leases(self, after: Topology) -> None:
        """By the pods as they are now: who came back under its name needs its Lease again."""
        fencing, machines = self._fencing, self._machines

        def due() -> frozenset[str]:
            return topology.to_delete(
                after,
                pods=machines.pods,
                wanted=machines.wanted,
                leases=fencing.leases,
                run_out=fencing.run_out,
            )

        if fencing.may_delete and due():
            await self._list_machines()
            machines = self._machines
            await fencing.delete(due())

    async def _write_topology(self, after: Topology, resource_version: str) -> str:
        try:
            written = await self._kube.write_status(
                "logicaltopologies",
                "LogicalTopology",
                TOPOLOGY_NAME,
                resource_version,
                render_topology_status(after),
            )
        except Conflict:
            metrics.KEY_WRITES.labels("topology", "conflict").inc()
            raise
        metrics.KEY_WRITES.labels("topology", "ok").inc()
        return written

    def _proofs(self, topology: Topology, identities: Mapping[str, NodeIdentity]) -> dict[str, Pod]:
        """Pods that ended and are listed no more, of nodes whose successors haven't come yet."""
        listed = self._machines.pods
        self._ended = {
            name: pod
            for name, pod in self._ended.items()
            if name in topology.nodes and topology.nodes[name].pod_uid == pod.uid
        }
        return {
            name: pod
            for name, pod in self._ended.items()
            if name not in identities and (name not in listed or listed[name].uid != pod.uid)
        }


def _uid(obj: Object) -> str:
    return str(obj["metadata"].get("uid", ""))


def _have_leases(reports: Mapping[str, ReplicasReport]) -> bool:
    return any(report.node.lease_session for report in reports.values())


def _may_lack(topology: Topology, leases: Mapping[str, Lease]) -> bool:
    """Whether a node has a Lease that is none of this topology: another operator may have let it
    join again, and no reset may rest on its absence."""
    return any(
        lease.holder and lease.fenced is None and name not in topology.nodes
        for name, lease in leases.items()
    )


def _parse_pod(obj: Object) -> Pod:
    meta, status = obj["metadata"], obj.get("status", {})
    containers: list[dict[str, Any]] = status.get("containerStatuses", [])
    running = any("running" in c.get("state", {}) for c in containers)
    ended = any(
        "terminated" in c.get("state", {}) or "terminated" in c.get("lastState", {})
        for c in containers
    )
    gate = next((c for c in status.get("conditions", []) if c["type"] == GATE), None)
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        ip=status.get("podIP"),
        machine=obj.get("spec", {}).get("nodeName"),
        terminated=status.get("phase") in ("Failed", "Succeeded") or (ended and not running),
        restarts=sum(c.get("restartCount", 0) for c in containers),
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
