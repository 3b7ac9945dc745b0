"""Watches the system under test without changing it.

One task for each member polls its report through the API server (no network path to the pods is
needed), others watch pods, Partition resources and Kubernetes events. All results go into one
`ClusterView`; waiting tasks are woken at every change.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Protocol, TypeVar

import msgspec

from zonequake_chaos.observe.member_events import MemberEvents
from zonequake_chaos.observe.view import ClusterView, LinkPorts, NodeView, assemble
from zonequake_chaos.record.clock import RunClock
from zonequake_chaos.record.event_log import EventLog, RunEvent
from zonequake_kube.client import Kube, WatchEvent
from zonequake_kube.errors import ClusterError, HarnessError, WaitExpired, in_words
from zonequake_kube.objects import Json, KeysView, PodView, keys_view, pod_view
from zonequake_protocol.admin import ReplicasReport

ARMED_INTERVAL_S = 0.06
"""Poll interval while a trigger is armed: a stage of some seconds must be hit within a fraction of
it.
"""

IDLE_INTERVAL_S = 0.5
"""Poll interval otherwise: the API server shares its processors with the system under test."""

POLL_TIMEOUT_S = 1.0
_REWATCH_S = 0.5
_T = TypeVar("_T")


class MemberSource(Protocol):
    """The source of members and reports of one kind of system under test."""

    @property
    def pod_labels(self) -> str:
        """The label selector of its pods."""
        ...

    @property
    def journals(self) -> bool:
        """Whether members record their starts and leaders themselves; else the observer writes its
        sightings into the run's events.
        """
        ...

    @property
    def own_keys(self) -> Sequence[KeysView] | None:
        """The partitions as the source knows them now; None if they are watched as resources."""
        ...

    @property
    def ports(self) -> LinkPorts:
        """The ports of its members, for each other and for clients."""
        ...

    async def report(self, pod: PodView, *, timeout_s: float) -> ReplicasReport:
        """Returns the present report of the pod's process, in the form of our own data nodes'
        reports.

        Raises ClusterError without an answer, msgspec.MsgspecError for one that can't be read.
        """
        ...


class Observer:
    """Keeps the newest view of the cluster; `watching` starts and ends its tasks."""

    def __init__(
        self,
        *,
        kube: Kube,
        clock: RunClock,
        member_source: MemberSource,
        events: EventLog | None = None,
    ) -> None:
        self._kube = kube
        self._member_source = member_source
        self._clock = clock
        self._events = events
        self._member_events: MemberEvents | None = None
        if events is not None and not member_source.journals:
            self._member_events = MemberEvents(events=events, clock=clock)
        self._pods: dict[str, PodView] = {}
        self._reports: dict[str, ReplicasReport] = {}
        self._keys: dict[tuple[str, int], KeysView] = {}
        self._ended: dict[str, tuple[str | None, int]] = {}
        """Of each node the process that ended last, and when it was dead for certain."""
        self._pollers: dict[str, asyncio.Task[None]] = {}
        self._began_ns = clock.now().time_ns
        self._changed = asyncio.Condition()
        self._interval_s = IDLE_INTERVAL_S
        self._broken: BaseException | None = None
        """The reason why something isn't watched any more."""

    @property
    def ports(self) -> LinkPorts:
        """The ports of the watched system."""
        return self._member_source.ports

    @property
    def stages_seen(self) -> Sequence[RunEvent]:
        """The stages that were seen of members that keep no journal."""
        return self._member_events.stages if self._member_events is not None else ()

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Runs the pollers and watches as long as the block lasts."""
        watches = [
            self._begin(self._watch("Pod", self._member_source.pod_labels, self._on_pod)),
            self._begin(self._watch("Event", "", self._on_kubernetes_event)),
        ]
        if self._member_source.own_keys is None:
            watches.append(self._begin(self._watch("Partition", "", self._on_partition)))
        try:
            yield
        finally:
            tasks = [*watches, *self._pollers.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._pollers.clear()

    def _begin(self, watching: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(watching)
        task.add_done_callback(self._on_end)
        return task

    def _on_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._broken = self._broken or task.exception()

    @contextlib.contextmanager
    def armed(self) -> Iterator[None]:
        """Polls faster inside the block."""
        self._interval_s = ARMED_INTERVAL_S
        try:
            yield
        finally:
            self._interval_s = IDLE_INTERVAL_S

    def faults_begin(self) -> None:
        """Sets the instant from which timed triggers count."""
        self._began_ns = self._clock.now().time_ns

    def process_ended(self, node: str, *, process: str | None, at_ns: int) -> None:
        """Forgets what a node's process said before it ended, and what is on its way.

        Else triggers would see it, and faults would target it, until the next poll.
        """
        self._ended[node] = process, at_ns
        report = self._reports.get(node)
        if report is not None and report.node.process_incarnation == process:
            del self._reports[node]

    def view(self) -> ClusterView:
        """Returns the present view of the cluster."""
        own = self._member_source.own_keys
        return assemble(
            at_ns=self._clock.now().time_ns,
            began_ns=self._began_ns,
            nodes=[
                NodeView(pod=pod, report=self._reports.get(name))
                for name, pod in sorted(self._pods.items())
            ],
            keys=self._keys.values() if own is None else own,
        )

    async def wait(
        self,
        seen: Callable[[ClusterView], _T | None],
        *,
        timeout_s: float,
        waiting_for: Callable[[ClusterView], str],
    ) -> _T:
        """Returns the first truthy result of `seen`, called at every change and at least every 100
        ms.

        Raises WaitExpired with the text of `waiting_for`, HarnessError if a watch has failed: the
        condition might never be seen.
        """
        deadline_ns = self._clock.now().time_ns + int(timeout_s * 1e9)
        while True:
            view = self.view()
            found = seen(view)
            if found:
                return found
            if self._broken is not None:
                words = in_words(self._broken)
                raise HarnessError(f"the watch of the cluster failed: {words}")
            if self._clock.now().time_ns >= deadline_ns:
                raise WaitExpired(f"not within {timeout_s:g} s: {waiting_for(view)}")
            async with self._changed:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await self._changed.wait()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _poll(self, pod: str) -> None:
        # Not an endless loop: a cancellation at the end of a request may end only the request.
        while self._pollers.get(pod) is asyncio.current_task():
            started_ns = self._clock.now().time_ns
            try:
                report = await self._member_source.report(self._pods[pod], timeout_s=POLL_TIMEOUT_S)
                if not self._is_of_the_dead(pod, report, asked_ns=started_ns):
                    self._reports[pod] = report
                    if self._member_events is not None:
                        self._member_events.report(report)
            except (ClusterError, msgspec.MsgspecError):
                self._reports.pop(pod, None)
            await self._notify()
            spent_s = (self._clock.now().time_ns - started_ns) / 1e9
            await asyncio.sleep(max(self._interval_s - spent_s, 0.01))

    def _is_of_the_dead(self, pod: str, report: ReplicasReport, *, asked_ns: int) -> bool:
        process, ended_ns = self._ended.get(pod, (None, 0))
        return asked_ns < ended_ns and report.node.process_incarnation == process

    async def _watch(
        self, kind: str, labels: str, on_event: Callable[[WatchEvent], Awaitable[None]]
    ) -> None:
        while True:
            try:
                present, version = await self._kube.snapshot(kind, labels)
                self._forget_absent(kind, present)
                if kind != "Event":  # older events belong to other runs
                    for found in present:
                        await on_event(WatchEvent(kind="ADDED", object=found))
                await self._notify()
                async for event in self._kube.watch(kind, labels=labels, resource_version=version):
                    await on_event(event)
                    await self._notify()
            except ClusterError:
                await asyncio.sleep(_REWATCH_S)

    def _forget_absent(self, kind: str, present: list[Json]) -> None:
        """Removes from the view the objects that were deleted while no watch ran."""
        if kind == "Pod":
            names = {pod["metadata"]["name"] for pod in present}
            for gone in set(self._pods) - names:
                self._forget_pod(gone)
        elif kind == "Partition":
            places = {(view.zone, view.partition) for view in map(keys_view, present)}
            for place in set(self._keys) - places:
                del self._keys[place]

    async def _on_pod(self, event: WatchEvent) -> None:
        pod = pod_view(event.object)
        before = self._pods.get(pod.name)
        if event.kind == "DELETED":
            self._forget_pod(pod.name)
        else:
            if before is not None and before.uid != pod.uid:
                self._reports.pop(pod.name, None)  # its deletion came while no watch ran
            self._pods[pod.name] = pod
            if self._member_events is not None:
                self._member_events.pod(pod)
            if pod.name not in self._pollers:
                self._pollers[pod.name] = self._begin(self._poll(pod.name))
        if self._events is not None and (event.kind == "DELETED" or pod != before):
            self._events.emit(
                "pod.event",
                {
                    "pod": pod.name,
                    "type": event.kind,
                    "phase": pod.phase,
                    "reason": "Ready" if pod.ready else "NotReady",
                    "uid": pod.uid,
                    "restarts": pod.restarts,
                    "deleting": pod.deleting,
                },
                node=pod.name,
            )

    def _forget_pod(self, name: str) -> None:
        self._pods.pop(name, None)
        self._reports.pop(name, None)
        poller = self._pollers.pop(name, None)
        if poller is not None:
            poller.cancel()

    async def _on_partition(self, event: WatchEvent) -> None:
        keys = keys_view(event.object)
        place = (keys.zone, keys.partition)
        before = self._keys.get(place)
        if event.kind == "DELETED":
            self._keys.pop(place, None)
            return
        self._keys[place] = keys
        if self._events is not None and keys != before:
            self._events.emit(
                "partition.changed",
                {
                    "stable": keys.stable,
                    "pending": keys.pending,
                    "planned": keys.planned,
                    "forced": sorted(keys.forced),
                    "from_reset": sorted(keys.from_reset),
                    "switch_reduce": keys.switch_reduce,
                    "switch_append": keys.switch_append,
                    "chain": [
                        {"nodes": link.nodes, "term": link.term, "index": link.index}
                        for link in keys.chain
                    ],
                    "token": keys.token,
                    "revision": keys.revision,
                },
                place=place,
            )

    async def _on_kubernetes_event(self, event: WatchEvent) -> None:
        if self._events is None or event.kind == "DELETED":
            return
        about = event.object.get("involvedObject") or {}
        self._events.emit(
            "kubernetes.event",
            {
                "object": f"{about.get('kind')}/{about.get('name')}",
                "reason": event.object.get("reason"),
                "message": event.object.get("message"),
                "type": event.object.get("type"),
            },
        )
