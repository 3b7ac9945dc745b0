"""Runs a question in virtual time: events in their order, timers between them.

A timer that ends at the time of an event fires before it. What happens at one time in several
steps (two events, a timer and an event) makes as many lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from zonequake_ctl.what_if import reports
from zonequake_ctl.what_if.actions import Action
from zonequake_ctl.what_if.given import build
from zonequake_ctl.what_if.lines import TimelineState, look
from zonequake_ctl.what_if.reading.question import (
    AlterEvent,
    AppliedEvent,
    CancelledEvent,
    CaughtUpEvent,
    DropEvent,
    GroupRestartEvent,
    Happening,
    LeaderElectedEvent,
    MembershipEvent,
    OperatorRestartEvent,
    PartitionEvent,
    Question,
    ReconfigurationErrorEvent,
    ReplicaLostEvent,
    ResetByHandEvent,
    StageReported,
    TargetEvent,
    TimelineEvent,
    given,
)
from zonequake_ctl.what_if.rounds import Rounds
from zonequake_ctl.what_if.world import KeysWrite, WhatIfWorld, is_back_at_stable
from zonequake_kube.errors import HarnessError
from zonequake_operator.resources.model import AssignmentSet
from zonequake_protocol.admin import Stage

LEADERS_REPORTS = (AppliedEvent, LeaderElectedEvent, ReconfigurationErrorEvent, StageReported)
"""Events in which a leader shows its configuration; so does CaughtUpEvent, but of a change that
runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineStep:
    """An instant at which something changed: the state after it and what led there."""

    cause: str
    before: TimelineState | None
    state: TimelineState
    actions: tuple[Action, ...]
    writes: tuple[KeysWrite, ...]


def run(
    question: Question, tell: Callable[[str], None] = lambda words: None
) -> Iterator[TimelineStep]:
    """Returns the steps, beginning with the zone's creation. `tell` is called with a sentence about
    each request that the operator refuses: it makes no step."""
    return _Run(question, tell).steps()


class _Run:
    def __init__(self, question: Question, tell: Callable[[str], None]) -> None:
        self._question = question
        self._tell = tell
        self._world = WhatIfWorld(question.zone, auto_apply=question.auto_apply)
        self._operator = Rounds(self._world)
        self._highest = 0
        """The highest number that any event has."""
        self._known = 0
        """The highest revision that was given, or that the zone had: any revision not above it is
        stale.
        """
        self._shown: TimelineState | None = None

    def steps(self) -> Iterator[TimelineStep]:
        world, question = self._world, self._question
        self._create()
        yield self._step("create")
        if question.auto_apply and world.as_given:
            world.as_given.clear()
            self._operator.settle()
            yield from self._changed("applied")
        for event in question.events:
            if question.until_ms is not None and event.at_ms > question.until_ms:
                break
            yield from self._timers(event.at_ms)
            world.now_ms = event.at_ms
            yield from self._event(event)
            if isinstance(event.what, DropEvent):
                return
        yield from self._timers(question.until_ms)

    # ---------------------------------------------------------------------------------- creation

    def _create(self) -> None:
        world, question = self._world, self._question
        world.nodes.add(question.topology)
        world.as_given = set(question.partitions)
        self._operator.accept()
        if len(question.partitions) < len(world.partitions):
            self._operator.settle()
            world.actions = [a for a in world.actions if a.partition not in question.partitions]
        alive = frozenset(world.topology.nodes)
        for number, keys in question.partitions.items():
            self._highest = max(self._highest, keys.change_trigger_revision)
            group = world.new_group(number)
            built = build(keys, group, alive, keys.change_trigger_revision + 1)
            world.give(number, built, group)
        world.set_logs(question.replicas)
        world.start_at(self._highest)
        self._known = self._highest

    # ------------------------------------------------------------------------------------- timers

    def _timers(self, until_ms: int | None) -> Iterator[TimelineStep]:
        """Fire what ends up to that time; None: all that ends."""
        world = self._world
        while (at_ms := self._operator.wake_at_ms) is not None:
            if until_ms is not None and at_ms > until_ms:
                return
            world.now_ms = max(at_ms, world.now_ms)
            world.as_given.clear()
            cause = ", ".join(look(world).ending(world.now_ms))
            if cause:
                self._raise_revision(None)
            else:
                cause = "retry"
                self._operator.settle()
            if self._operator.wake_at_ms is not None and self._operator.wake_at_ms <= at_ms:
                raise HarnessError(f"a timer of {at_ms / 1000:g} s fires without an end ({cause})")
            yield from self._changed(cause)

    # ------------------------------------------------------------------------------------- events

    def _event(self, event: TimelineEvent) -> Iterator[TimelineStep]:
        world, what, revision = self._world, event.what, event.revision
        if revision is not None and revision <= self._known:
            # Stale. A trigger's revision is the operator's to refuse; a topology or a spec that is
            # older than the stored one never reaches it, since both are one versioned resource.
            if isinstance(what, TargetEvent):
                yield from self._stale_trigger(what)
            return
        if isinstance(what, PartitionEvent) and not isinstance(what, TargetEvent):
            world.as_given.discard(what.partition)
        else:
            world.as_given.clear()
        match what:
            case MembershipEvent():
                world.change_topology(what.join, what.leave)
                self._raise_revision(revision)
            case AlterEvent():
                world.alter(what.changes)
                self._raise_revision(revision)
            case TargetEvent():
                target = AssignmentSet.of(*what.nodes) if what.nodes else None
                world.instead[what.partition] = target
                self._raise_revision(revision, accepted=True)
            case _:
                self._highest = max(self._highest, self._number(revision))
                self._known = max(self._known, revision or 0)
                if isinstance(what, LEADERS_REPORTS) and is_back_at_stable(
                    world.keys(what.partition)
                ):
                    world.reported = what.partition
                if isinstance(what, ResetByHandEvent):
                    self._reset_by_hand(what)
                elif self._report(what):
                    self._operator.settle(
                        [what.partition] if isinstance(what, PartitionEvent) else None
                    )
                if isinstance(what, PartitionEvent):
                    world.group(what.partition).look_again()
                world.reported = None
        yield from self._changed(", ".join(event.kinds))

    def _stale_trigger(self, event: TargetEvent) -> Iterator[TimelineStep]:
        """Handles a trigger whose revision was handled before; the operator's own rule decides on
        "skip".
        """
        world = self._world
        before = dict(world.instead)
        world.instead[event.partition] = AssignmentSet.of(*event.nodes) if event.nodes else None
        self._operator.settle()
        world.instead = before
        yield from self._changed("target")

    def _report(self, event: Happening) -> bool:
        """Returns what nodes report, or the operator's own restart; False if it says nothing
        new.
        """
        world = self._world
        match event:
            case DropEvent():
                world.drop()
                self._operator.stop()
                return False
            case OperatorRestartEvent():
                self._operator.restart()
            case AppliedEvent():
                keys = world.keys(event.partition)
                if keys.pending is None or event.peers != keys.pending.nodes:
                    return False  # hole 2: a late callback of an older change
                group = world.group(event.partition)
                reports.report_applied(
                    group, event.peers, given(event.term), given(event.index), keys
                )
            case LeaderElectedEvent():
                keys = world.keys(event.partition)
                stable = keys.stable.nodes if keys.stable else ()
                # Without a pending, no change leads to another configuration than stable's.
                peers = event.peers or stable
                if keys.pending is None and peers != stable:
                    # The reported peers belong to no known change: they are replaced by stable's.
                    if event.node not in stable:
                        return False
                    peers = stable
                group = world.group(event.partition)
                return reports.report_leader(group, event.node, given(event.term), peers, keys)
            case ReconfigurationErrorEvent() | StageReported():
                return self._report_stage(event)
            case CaughtUpEvent():
                keys = world.keys(event.partition)
                reports.report_caught_up(world.group(event.partition), event.peers, keys)
            case CancelledEvent():
                if event.result and world.keys(event.partition).planned is not None:
                    reports.hear_leader(world.group(event.partition))
                world.answer_cancel(event.partition, accepted=event.result)
            case ReplicaLostEvent():
                world.lose_replica(event.partition, event.node)
            case GroupRestartEvent():
                world.restart_group(event.partition, event.alive)
        return True

    def _reset_by_hand(self, event: ResetByHandEvent) -> None:
        """Does what `zonequake reset` does; prints the reason if nothing changes."""
        world, number = self._world, event.partition
        before = world.keys(number)
        proof = self._operator.prove(number, given(event.survivor))
        why = proof.refused
        if why is None:
            world.ask_for_reset(number, proof.request)
            why = self._operator.waits_for(number)
        self._operator.settle([number])
        if world.keys(number) == before:
            at = f"{world.now_ms / 1000:g}"
            self._tell(f"at {at}: resetByHand of partition {number} changes nothing: {why}")

    def _report_stage(self, event: ReconfigurationErrorEvent | StageReported) -> bool:
        pending = self._world.keys(event.partition).pending
        group = self._world.group(event.partition)
        if pending is not None and not pending.force:
            reports.hear_leader(group)
        if isinstance(event, ReconfigurationErrorEvent):
            reports.report_stage(group, Stage.NONE, event.status)
        elif event.stage is Stage.NONE or pending is not None:
            reports.report_stage(group, event.stage)
        else:
            return False  # of no change that was ever asked for
        return True

    def _raise_revision(self, number: int | None, *, accepted: bool = False) -> None:
        """Makes the operator accept new inputs under this number, the next one if None.

        `accepted`: nothing that it watches has changed, but the number counts.
        """
        world, before = self._world, self._world.revision
        revision = self._known = self._number(number)
        self._highest = max(self._highest, revision)
        if not accepted:
            world.revision = revision - 1
            self._operator.accept()
            if world.revision < revision:
                world.revision = before  # a paused zone accepts nothing
        elif not world.spec.paused:
            world.revision = revision
        self._operator.settle()
        world.finish()

    def _number(self, number: int | None) -> int:
        return self._highest + 1 if number is None else number

    # -------------------------------------------------------------------------------------- steps

    def _changed(self, cause: str) -> Iterator[TimelineStep]:
        """Yields the step, if anything changed."""
        shown = self._shown
        if self._world.actions or shown is None or not look(self._world).looks_like(shown):
            yield self._step(cause)
        self._world.forget()

    def _step(self, cause: str) -> TimelineStep:
        world, before = self._world, self._shown
        self._shown = look(world)
        step = TimelineStep(
            cause=cause,
            before=before,
            state=self._shown,
            actions=tuple(world.actions),
            writes=tuple(world.writes),
        )
        world.forget()
        return step
