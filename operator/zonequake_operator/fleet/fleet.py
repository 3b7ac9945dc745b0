"""Polls the data nodes of the release again and again, and publishes which are there.

One `Fleet` serves all zones: a round asks every node for its replicas (`polling`), then brings the
LogicalTopology up to date (`membership`) and wakes the zones. Beside the rounds, a node that is
proven to have left is counted out at once:

    round    list ── leave ── hear ······················ advance ── view ── gates
    events            pod ended ──► leave ── view ──► hear ── advance ── view

The round after such an end polls at once: a reset may wait for it, and what a list would show
first, Leases and topology, was read and written just before. Pods are listed again on every pod
event, while a node that should answer doesn't, and every PODS_MAX_AGE_S, so a lost event costs at
most that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from zonequake_operator.api_server.kube import NamespaceApi
from zonequake_operator.controller import metrics
from zonequake_operator.errors import KubeError
from zonequake_operator.fleet.fencing import Fencing
from zonequake_operator.fleet.gates import Gates
from zonequake_operator.fleet.membership import Membership
from zonequake_operator.fleet.pods import PodEvidence
from zonequake_operator.fleet.polling import NodePolling
from zonequake_operator.fleet.store_client import StoreClient
from zonequake_operator.nodes.topology import sessions_of
from zonequake_operator.resources import leases
from zonequake_operator.resources.leases import LeaseSession, NodeLeaseTrouble, TroubleKind
from zonequake_operator.resources.model import Topology
from zonequake_operator.resources.rights import Right
from zonequake_operator.resources.stored_shapes import Object
from zonequake_protocol.admin import ReplicasReport

logger = logging.getLogger(__name__)

BUSY_PERIOD_S = 0.2
SETTLED_PERIOD_S = 0.4
LEAST_PERIOD_S = 0.02
PODS_MAX_AGE_S = 3.0
PODS_RETRY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """The topology, the nodes' newest answers, and their addresses.

    Attributes:
        edition: how many views there have been. One may show another topology, and no newer answer.
        number: of the oldest polling round in which one of `reports` was asked for.
        reports: the newest answers of nodes in the topology.
        outdated: those of them that were asked for before a node was last counted out.
        heeded: for how many calls of `topology_is_old` the topology was read again.
        lease_troubles: also of nodes that answer but were given up; `reports` leaves those out.
    """

    edition: int = 0
    number: int = 0
    topology: Topology = field(default_factory=Topology)
    reports: Mapping[str, ReplicasReport] = field(default_factory=dict)
    outdated: frozenset[str] = frozenset()
    addresses: Mapping[str, str] = field(default_factory=dict)
    lease_troubles: Mapping[str, NodeLeaseTrouble] = field(default_factory=dict)
    missing_rights: frozenset[Right] = frozenset()
    heeded: int = 0

    @property
    def sessions(self) -> dict[str, LeaseSession]:
        """The sessions in which nodes may be permitted."""
        return sessions_of(self.reports, self.topology)


class Fleet:
    """The data nodes. `run` never ends; `view` is the newest one."""

    def __init__(
        self,
        kube: NamespaceApi,
        store: StoreClient,
        *,
        monotonic_s: Callable[[], float],
        wall_ms: Callable[[], int],
    ) -> None:
        self._monotonic_s = monotonic_s
        self._evidence = PodEvidence(kube)
        self._listed_s = float("-inf")
        self._fencing = Fencing(kube, monotonic_s=monotonic_s)
        self._membership = Membership(kube, self._fencing, self._evidence, monotonic_s=monotonic_s)
        self._polling = NodePolling(store, returned=self.hurry)
        self._stale_pods = True
        self._hurry = asyncio.Event()
        self._has_ended = asyncio.Event()
        """An event showed that a pod has."""
        self._turn = asyncio.Lock()
        """Held by whatever reads or writes the topology: a round, or the task that counts nodes out
        beside it.
        """
        self._published = asyncio.Condition()
        self._hastened = 0
        """The `changed_in` of the membership for which a round polled at once."""
        self._unsettled: set[str] = set()
        self._gates = Gates(kube, monotonic_s=monotonic_s, wall_ms=wall_ms)
        self.missing_rights: frozenset[Right] = frozenset()
        """Rights that our own account lacks, as of the last look."""
        self.view = FleetView()
        self.heard_s = self.ended_s = monotonic_s()
        """The ends of the last good round and of the last round; monotonic seconds."""

    def pods_changed(self, seen: Object | None = None) -> None:
        """Look at the pods now; `seen`: one of them as an event shows it."""
        if seen is not None and self._evidence.show(seen, in_round=self._polling.round):
            self._has_ended.set()
        self._stale_pods = True
        self._hurry.set()

    def rights_missing(self, missing: frozenset[Right]) -> None:
        """Sets the rights that the operator's account lacks now; the view shows them to the
        zones.
        """
        self.missing_rights = missing
        # Also where no further round can be good without what is missing.
        self.view = replace(self.view, missing_rights=missing)
        self._hurry.set()

    def topology_is_old(self) -> int:
        """Asks for the topology to be read again, because a caller knows a newer one. Returns the
        `FleetView.heeded` of the views after that.
        """
        return self._membership.is_old()

    def hurry(self) -> None:
        """Begin the next round as soon as this one has ended."""
        self._hurry.set()

    def tell(self, zone: str, *, edition: int, settled: bool, behind: frozenset[str]) -> None:
        """Records a zone's verdict on this view, by its plan; it sets the pace and the readiness
        gates.
        """
        self._gates.judged(zone, edition, behind)
        if settled:
            self._unsettled.discard(zone)
        else:
            self._unsettled.add(zone)

    def forget(self, zone: str) -> None:
        """Forgets a zone that is gone."""
        self._unsettled.discard(zone)
        self._gates.forget(zone)

    @property
    def rounds(self) -> int:
        """The number of polling rounds begun; see `FleetView.number`."""
        return self._polling.round

    async def next_view(self, after: int, timeout_s: float) -> FleetView:
        """Waits for a view of a later edition; returns the present one after `timeout_s`."""
        return await self._first_view(lambda: self.view.edition > after, timeout_s)

    async def next_topology(self, after: int, timeout_s: float) -> FleetView:
        """Waits for a view of a newer topology; returns the present one after `timeout_s`."""
        return await self._first_view(lambda: self.view.topology.version > after, timeout_s)

    async def _first_view(self, of_which: Callable[[], bool], timeout_s: float) -> FleetView:
        try:
            async with asyncio.timeout(timeout_s), self._published:
                await self._published.wait_for(of_which)
        except TimeoutError:
            return self.view
        return self.view

    async def run(self) -> None:
        """Round after round until cancelled; a failed round is logged and tried again."""
        beside = asyncio.create_task(self._count_out_at_once(), name="fleet: left nodes")
        try:
            while True:
                await self._next_round()
        finally:
            beside.cancel()

    async def _next_round(self) -> None:
        began_s = self._monotonic_s()
        hurried = self._hurry.is_set()
        self._hurry.clear()
        if await self._is_good(self._once(hurried=hurried)):
            self.heard_s = self._monotonic_s()
            metrics.ROUNDS.labels("ok").inc()
        else:
            metrics.ROUNDS.labels("failed").inc()
        self.ended_s = self._monotonic_s()
        period_s = BUSY_PERIOD_S if self._unsettled else SETTLED_PERIOD_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(period_s - (self._monotonic_s() - began_s)):
                await self._hurry.wait()
        # Even if hurried: nodes that are still being asked have nothing new to report.
        await asyncio.sleep(LEAST_PERIOD_S - (self._monotonic_s() - began_s))

    async def _is_good(self, work: Coroutine[Any, Any, None]) -> bool:
        """Returns whether it didn't fail; it is tried again in the next round."""
        try:
            await work
        except KubeError as error:
            logger.warning("this polling round failed, the next one tries again: %s", error)
            return False
        except Exception:
            # An unreadable resource must not end the task that would read it once it is repaired.
            self._membership.forget()
            logger.exception("this polling round failed, the next one tries again")
            return False
        return True

    async def _count_out_at_once(self) -> None:
        """Counts out nodes whose end an event shows, while the round waits for others."""
        while True:
            await self._has_ended.wait()
            self._has_ended.clear()
            async with self._turn:
                await self._is_good(self._leave())
            self._hurry.set()

    async def _once(self, *, hurried: bool) -> None:
        async with self._turn:
            # Not if a zone knows a newer topology: the round has to read it before it polls.
            hears_at_once = (
                bool(self.view.outdated)
                and self._hastened < self._membership.changed_in
                and not self._membership.is_to_be_read
            )
            self._hastened = self._membership.changed_in
            if not hears_at_once:
                await self._list_if_due(hurried=hurried)
            await self._leave()
        known = self._membership.topology
        # A pod that ended may have gone on already, under the process that we know.
        pods = [
            pod
            for pod in self._evidence.pods.values()
            if pod.ip and ((known is not None and pod.name in known.nodes) or not pod.terminated)
        ]
        with metrics.ROUND_SECONDS.time():
            await self._polling.hear(pods)
        async with self._turn:
            before, after = await self._membership.advance(
                self._polling.answers, in_round=self._polling.round
            )
            await self._publish()
        if self.view.outdated or (hears_at_once and self._stale_pods):
            self._hurry.set()  # a reset may wait for newer answers, a new node for its first poll
        silent = after.nodes.keys() - self.view.reports.keys()
        if silent:
            self._stale_pods = True
        metrics.NODES.set(len(after.nodes))
        metrics.NODES_SILENT.set(len(silent))
        metrics.TOPOLOGY_VERSION.set(after.version)
        for kind in TroubleKind:
            of_kind = sum(each.kind is kind for each in self.view.lease_troubles.values())
            metrics.LEASE_TROUBLES.labels(kind.value).set(of_kind)
        if before.version != after.version:
            logger.info("topology %d: %s", after.version, ", ".join(after.nodes) or "empty")
        processes = {n: report.node.process_incarnation for n, report in self.view.reports.items()}
        await self._gates.set(
            self._evidence.pods,
            processes,
            self.view.edition,
            # A reset may wait for the next round; each gate is a call.
            gives_way=lambda: bool(self.view.outdated),
        )

    async def _leave(self) -> None:
        """Counts out nodes that are proven to have left; waits for no answer."""
        polling = self._polling
        left = await self._membership.leave(polling.answers, in_round=polling.round)
        if not left:
            return
        topology = self._membership.topology
        assert topology is not None, "it was just written"
        logger.info("topology %d: %s", topology.version, ", ".join(topology.nodes) or "empty")
        # A node whose Lease has run out may still answer, and then it is in trouble.
        polling.drop(left - self._fencing.run_out)
        if self.view.edition:
            await self._publish()

    async def _publish(self) -> None:
        """Publishes a view of what is known now."""
        topology, answers = self._membership.topology, self._polling.answers
        assert topology is not None, "it was read before"
        identities = {name: heard.report.node for name, heard in answers.items()}
        # A node that answers but was counted out belongs to no group until it has noticed.
        heard = {name: each for name, each in answers.items() if name in topology.nodes}
        changed_in = self._membership.changed_in
        async with self._published:
            self.view = FleetView(
                edition=self.view.edition + 1,
                number=min((h.asked_in for h in heard.values()), default=self._polling.round),
                topology=topology,
                reports={name: each.report for name, each in heard.items()},
                outdated=frozenset(n for n, each in heard.items() if each.asked_in <= changed_in),
                addresses={n: p.ip for n, p in self._evidence.pods.items() if p.ip},
                lease_troubles=leases.troubles(identities, self._fencing.leases),
                missing_rights=self.missing_rights,
                heeded=self._membership.heeded,
            )
            self._published.notify_all()

    async def _list_if_due(self, *, hurried: bool) -> None:
        age_s = self._monotonic_s() - self._listed_s
        due_s = PODS_RETRY_S if self._stale_pods else PODS_MAX_AGE_S
        is_due = age_s >= due_s or (hurried and self._stale_pods)
        if is_due or self._fencing.leases or self._membership.has_leases:
            await self._fencing.look()
        # Before pods are listed and nodes polled: what another operator saw of them is newer than
        # what we did before it wrote; judged by that, a process would be replaced by its
        # predecessor.
        if not await self._membership.read(in_round=self._polling.round) and not is_due:
            return
        self._stale_pods = False
        self._listed_s = float("-inf")  # due until it succeeds
        await self._evidence.list(in_round=self._polling.round)
        self._listed_s = self._monotonic_s()
