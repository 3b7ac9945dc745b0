"""Records starts and leaders of members that keep no journal.

A member's own record would be more exact; these are the observer's sightings. A start has the
kubelet's time, in whole seconds, and is therefore rather too early than too late: a member may be
called certainly dead only if it can't have been alive.
"""

from __future__ import annotations

from zonequake_chaos.record.clock import Moment, RunClock
from zonequake_chaos.record.event_log import EventLog, RunEvent
from zonequake_kube.objects import PodView
from zonequake_protocol.admin import ReplicaRole, ReplicasReport, Stage


class MemberEvents:
    """Emits `node.started`, `leader.change` and `stage.seen`, each once for each change."""

    def __init__(self, *, events: EventLog, clock: RunClock) -> None:
        self._events = events
        self._clock = clock
        self._started: dict[str, str] = {}
        self._terms: dict[tuple[str, int], int] = {}
        self._stages: dict[tuple[str, int], Stage] = {}
        self.stages: list[RunEvent] = []
        """All of `stage.seen`."""

    def pod(self, pod: PodView) -> None:
        """Takes a pod as the API server has it now."""
        if pod.started_wall_ns is None or self._started.get(pod.name) == pod.process:
            return
        self._started[pod.name] = pod.process
        now = self._clock.now()
        ago_ns = max(0, now.wall_ns - pod.started_wall_ns)
        self._events.emit(
            "node.started",
            {"process_incarnation": pod.process, "storage_incarnation": "", "reason": None},
            node=pod.name,
            at=Moment(time_ns=now.time_ns - ago_ns, wall_ns=now.wall_ns - ago_ns, clock=now.clock),
        )

    def report(self, report: ReplicasReport) -> None:
        """Takes a member's present report."""
        for replica in report.replicas:
            place = (replica.zone, replica.partition)
            if replica.role is not ReplicaRole.LEADER:
                continue
            if replica.stage is not self._stages.get(place, Stage.NONE):
                self._stages[place] = replica.stage
                behind = {each.peer.node: round(each.fraction, 3) for each in replica.progress}
                seen = self._events.emit(
                    "stage.seen",
                    {"stage": replica.stage.value, "progress": behind},
                    place=place,
                    node=report.node.name,
                )
                self.stages.append(seen)
            if replica.term <= self._terms.get(place, 0):
                continue
            self._terms[place] = replica.term
            self._events.emit(
                "leader.change",
                {"leader": report.node.name, "lineage": 0, "term": replica.term},
                place=place,
                node=report.node.name,
            )
