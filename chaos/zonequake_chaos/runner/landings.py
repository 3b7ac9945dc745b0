"""Judges where a fault landed, by the events that the data nodes recorded.

Some time passes between the trigger's sighting of a stage and the death of the process. The
runner's own view proves nothing, so the data nodes' `rebalance.stage` events decide:

- The victim led the partition: its own last stage event before its next `node.started` is the
  stage in which it died, exactly.
- Another node led and caught the victim up: all stages that the partition was in between the
  instant of injection and the instant at which the victim was seen silent. If one of them is not a
  requested stage, the landing is uncertain, and the fault counts as missed.

Members that keep no journal record no stages. For them the runner's own sightings of their
reports (`stage.seen`) decide, by the second rule: what ended and came back between two polls is
not noticed.

A kill is one only if its victim did not stop gracefully: a data node that heard SIGTERM records
`node.stopping`, and hands over its leaderships before it ends.

Times are compared by the monotonic clock if all of them share it, else by wall time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zonequake_chaos.record.clock import Moment
from zonequake_chaos.record.event_log import RunEvent
from zonequake_chaos.targeting.triggers import PartitionPlace
from zonequake_protocol.admin import Stage

SEEN = "stage.seen"
"""The event by which the runner records a stage that it saw itself."""

_CAUGHT_UP = "CAUGHT_UP"
"""An event, not a stage: the leader is still in CATCHING_UP and waits for the grant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """One injection that is bound to a stage.

    `injected` is the instant just before the injection, `gone` the first instant at which the
    victim was known to be dead, `progress_seen` the progress that the trigger saw.
    """

    fault: str
    place: PartitionPlace
    victim: str
    was_leader: bool
    asked: tuple[Stage, ...]
    injected: Moment
    gone: Moment
    progress_seen: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One process that a fault had to end by SIGKILL; `injected` as in `Landing`."""

    fault: str
    victim: str
    injected: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """The fault landed in `stage`, which the scenario requests."""

    stage: Stage
    progress: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """The fault did not land in a requested stage, or its landing is uncertain."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReportedStage:
    at_ns: int
    node: str
    stage: Stage
    progress: float | None


def judge(landing: Landing, events: Iterable[RunEvent]) -> Hit | Miss:
    """Judges the stage that `landing` hit, given the data nodes' events of the run (in any
    order).
    """
    known = list(events)
    recorded = [event for event in known if event.source == "store"]
    of_partition = [e for e in recorded if (e.zone, e.partition) == landing.place]
    clocks = {event.clock for event in of_partition} | {landing.injected.clock}
    times = _Times(monotonic=len(clocks) == 1)
    steps = _steps(of_partition, "rebalance.stage", times)
    if not steps:
        here = [e for e in known if (e.zone, e.partition) == landing.place]
        seen = _steps(here, SEEN, _Times(monotonic=True))
        if seen:
            return _peer_died(landing, seen, _Times(monotonic=True))
        return Miss(reason=f"no data node recorded a stage of {_name(landing)}")
    if landing.was_leader:
        return _leader_died(landing, steps, recorded, of_partition, times)
    return _peer_died(landing, steps, times)


def stopped_gracefully(kill: Kill, events: Iterable[RunEvent]) -> Miss | None:
    """Returns a miss if the victim recorded a graceful stop after the injection, before it started
    again; `events` as in `judge`.
    """
    own = [e for e in events if e.source == "store" and e.node == kill.victim]
    times = _Times(monotonic={event.clock for event in own} <= {kill.injected.clock})
    injected_ns = times.of_moment(kill.injected)
    later = sorted((times.of_event(e), e.kind) for e in own if times.of_event(e) >= injected_ns)
    turns = [kind for _, kind in later if kind in ("node.stopping", "node.started")]
    if turns[:1] != ["node.stopping"]:
        return None
    return Miss(
        reason=f"{kill.victim} stopped gracefully: SIGTERM reached it before SIGKILL, and it could "
        "hand over its leaderships"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    monotonic: bool

    def of_event(self, event: RunEvent) -> int:
        return event.time if self.monotonic else event.wall

    def of_moment(self, moment: Moment) -> int:
        return moment.time_ns if self.monotonic else moment.wall_ns


def _leader_died(
    landing: Landing,
    steps: Sequence[_ReportedStage],
    recorded: Sequence[RunEvent],
    of_partition: Sequence[RunEvent],
    times: _Times,
) -> Hit | Miss:
    injected_ns = times.of_moment(landing.injected)
    reborn_ns = min(
        (
            times.of_event(event)
            for event in recorded
            if event.kind == "node.started"
            and event.node == landing.victim
            and times.of_event(event) > injected_ns
        ),
        default=None,
    )
    own = [
        step
        for step in steps
        if step.node == landing.victim and (reborn_ns is None or step.at_ns < reborn_ns)
    ]
    leaders = sorted(
        (times.of_event(event), str(event.data.get("leader")))
        for event in of_partition
        if event.kind == "leader.change" and times.of_event(event) <= injected_ns
    )
    if leaders and leaders[-1][1] != landing.victim:
        return Miss(reason=f"{leaders[-1][1]} led {_name(landing)} when {landing.victim} was hit")
    if not own:
        return Miss(reason=f"{landing.victim} recorded no stage of {_name(landing)} before it died")
    return _decide(landing, [own[-1]])


def _peer_died(landing: Landing, steps: Sequence[_ReportedStage], times: _Times) -> Hit | Miss:
    injected_ns, gone_ns = times.of_moment(landing.injected), times.of_moment(landing.gone)
    before = [step for step in steps if step.at_ns <= injected_ns]
    during = [step for step in steps if injected_ns < step.at_ns <= gone_ns]
    if not before:
        return Miss(reason=f"no stage of {_name(landing)} was recorded before the fault")
    return _decide(landing, [before[-1], *during])


def _decide(landing: Landing, passed: Sequence[_ReportedStage]) -> Hit | Miss:
    wrong = [step.stage.value for step in passed if step.stage not in landing.asked]
    if wrong:
        return Miss(
            reason=f"expected {_asked(landing)}, but {_name(landing)} was in "
            f"{', '.join(wrong)} when {landing.victim} died"
        )
    known = [p for p in (landing.progress_seen, passed[0].progress) if p is not None]
    return Hit(stage=passed[-1].stage, progress=max(known, default=None))


def _steps(events: Iterable[RunEvent], kind: str, times: _Times) -> list[_ReportedStage]:
    found = [_step(event, times) for event in events if event.kind == kind]
    return sorted(found, key=lambda step: step.at_ns)


def _step(event: RunEvent, times: _Times) -> _ReportedStage:
    stage = str(event.data["stage"])
    progress = event.data.get("progress")
    return _ReportedStage(
        at_ns=times.of_event(event),
        node=event.node or "",
        stage=Stage.CATCHING_UP if stage == _CAUGHT_UP else Stage(stage),
        progress=float(progress) if isinstance(progress, int | float) else None,
    )


def _name(landing: Landing) -> str:
    return f"{landing.place[0]}/{landing.place[1]}"


def _asked(landing: Landing) -> str:
    return " or ".join(stage.value for stage in landing.asked)
