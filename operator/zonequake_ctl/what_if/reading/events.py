"""Reads the events of a what-if file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zonequake_ctl.what_if.reading.located import TextPlace
from zonequake_ctl.what_if.reading.question import (
    Alter,
    Applied,
    Cancelled,
    CaughtUp,
    Drop,
    GroupRestart,
    LeaderElected,
    Membership,
    OperatorRestart,
    ReconfigurationError,
    ReplicaLost,
    ResetByHand,
    StageReported,
    TargetEvent,
    TimelineEvent,
)
from zonequake_ctl.what_if.reading.values import read_nodes, read_number, read_whole
from zonequake_ctl.what_if.reading.zone_fields import read_changes
from zonequake_protocol.admin import Stage

_COMMON = ("at", "revision")


def read_events(place: TextPlace | None, partitions: int) -> tuple[TimelineEvent, ...]:
    """Events in the order of their times. Raises WhatIfError."""
    if place is None or place.value is None:
        return ()
    events: list[TimelineEvent] = []
    for item in place.items("a list of events"):
        event = _event(item, partitions)
        if events and event.at_ms < events[-1].at_ms:
            earlier = events[-1].at_ms / 1000
            item.fields(_EVENT_KEYS)["at"].refuse(f"a time not before {earlier:g}: events in order")
        events.append(event)
    return tuple(events)


def _event(place: TextPlace, partitions: int) -> TimelineEvent:
    fields = place.fields(_EVENT_KEYS)
    if "at" not in fields:
        place.refuse("at, the second at which it happens")
    at_ms = fields["at"].seconds_ms()
    revision = None
    if "revision" in fields:
        revision = fields["revision"].whole("a revision, a whole number (0 or more)")
    kinds = [key for key in fields if key not in _COMMON]
    if set(kinds) <= {"join", "leave"} and kinds:
        return Membership(
            at_ms=at_ms,
            revision=revision,
            join=read_nodes(fields["join"]) if "join" in fields else {},
            leave=fields["leave"].names() if "leave" in fields else (),
            kinds=tuple(sorted(kinds)),
        )
    if len(kinds) != 1:
        place.refuse(f"one of {', '.join(_KINDS)} (join and leave may stand together)")
    kind = kinds[0]
    return _KINDS[kind](fields[kind], at_ms, revision, partitions)


def _alter(place: TextPlace, at_ms: int, revision: int | None, partitions: int) -> TimelineEvent:
    return Alter(at_ms=at_ms, revision=revision, changes=read_changes(place))


def _target(place: TextPlace, at_ms: int, revision: int | None, partitions: int) -> TimelineEvent:
    fields = _of_partition(place, required=("nodes",))
    number = read_number(fields["partition"], partitions)
    nodes = fields["nodes"].names()
    return TargetEvent(at_ms=at_ms, revision=revision, partition=number, nodes=nodes)


def _applied(place: TextPlace, at_ms: int, revision: int | None, partitions: int) -> TimelineEvent:
    fields = _of_partition(place, required=("peers",), optional=("term", "index"))
    return Applied(
        at_ms=at_ms,
        revision=revision,
        partition=read_number(fields["partition"], partitions),
        peers=fields["peers"].names(),
        term=read_whole(fields["term"], "a term") if "term" in fields else None,
        index=read_whole(fields["index"], "an index") if "index" in fields else None,
    )


def _leader_elected(
    place: TextPlace, at_ms: int, revision: int | None, partitions: int
) -> TimelineEvent:
    fields = _of_partition(place, required=("node",), optional=("term", "peers"))
    return LeaderElected(
        at_ms=at_ms,
        revision=revision,
        partition=read_number(fields["partition"], partitions),
        node=fields["node"].text("a node's name"),
        term=read_whole(fields["term"], "a term") if "term" in fields else None,
        peers=fields["peers"].names() if "peers" in fields else None,
    )


def _reconfiguration_error(
    place: TextPlace, at_ms: int, revision: int | None, partitions: int
) -> TimelineEvent:
    fields = _of_partition(place, required=("status",))
    return ReconfigurationError(
        at_ms=at_ms,
        revision=revision,
        partition=read_number(fields["partition"], partitions),
        status=fields["status"].text("a status, such as CatchUpTimeout"),
    )


def _replica_lost(
    place: TextPlace, at_ms: int, revision: int | None, partitions: int
) -> TimelineEvent:
    fields = _of_partition(place, required=("node",))
    return ReplicaLost(
        at_ms=at_ms,
        revision=revision,
        partition=read_number(fields["partition"], partitions),
        node=fields["node"].text("a node's name"),
    )


def _cancelled(
    place: TextPlace, at_ms: int, revision: int | None, partitions: int
) -> TimelineEvent:
    fields = _of_partition(place, required=("result",))
    return Cancelled(
        at_ms=at_ms,
        revision=revision,
        partition=read_number(fields["partition"], partitions),
        result=fields["result"].flag(),
    )


def _caught_up(
    place: TextPlace, at_ms: int, revision: int | None, partitions: int
) -> TimelineEvent:
    fields = _of_partition(place, required=("peers",))
    number = read_number(fields["partition"], partitions)
    return CaughtUp(at_ms=at_ms, revision=revision, partition=number, peers=fields["peers"].names())


def _stage(place: TextPlace, at_ms: int, revision: int | None, partitions: int) -> TimelineEvent:
    fields = _of_partition(place, required=("stage",))
    value = fields["stage"].value
    word = "NONE" if value is None else str(value)
    spelled = word.upper().replace("_", "").removeprefix("STAGE")
    stages = {stage.value.replace("_", ""): stage for stage in Stage}
    if spelled not in stages:
        fields["stage"].refuse("None, CatchingUp, Joint or Stable")
    return StageReported(
        at_ms=at_ms,
        revision=revision,
        partition=read_number(fields["partition"], partitions),
        stage=stages[spelled],
    )


def _group_restart(
    place: TextPlace, at_ms: int, revision: int | None, partitions: int
) -> TimelineEvent:
    fields = _of_partition(place, required=("alive",))
    number = read_number(fields["partition"], partitions)
    return GroupRestart(
        at_ms=at_ms, revision=revision, partition=number, alive=fields["alive"].names()
    )


def _reset_by_hand(
    place: TextPlace, at_ms: int, revision: int | None, partitions: int
) -> TimelineEvent:
    fields = _of_partition(place, required=(), optional=("survivor",))
    return ResetByHand(
        at_ms=at_ms,
        revision=revision,
        partition=read_number(fields["partition"], partitions),
        survivor=fields["survivor"].text("a node's name") if "survivor" in fields else None,
    )


def _operator_restart(
    place: TextPlace, at_ms: int, revision: int | None, partitions: int
) -> TimelineEvent:
    _must_be_true(place)
    return OperatorRestart(at_ms=at_ms, revision=revision)


def _drop(place: TextPlace, at_ms: int, revision: int | None, partitions: int) -> TimelineEvent:
    _must_be_true(place)
    return Drop(at_ms=at_ms, revision=revision)


_KINDS: Mapping[str, Callable[[TextPlace, int, int | None, int], TimelineEvent]] = {
    "alter": _alter,
    "target": _target,
    "applied": _applied,
    "leaderElected": _leader_elected,
    "reconfigurationError": _reconfiguration_error,
    "replicaLost": _replica_lost,
    "cancelled": _cancelled,
    "caughtUp": _caught_up,
    "stage": _stage,
    "groupRestart": _group_restart,
    "resetByHand": _reset_by_hand,
    "operatorRestart": _operator_restart,
    "drop": _drop,
}
_EVENT_KEYS = (*_COMMON, "join", "leave", *_KINDS)


def _of_partition(
    place: TextPlace, *, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, TextPlace]:
    fields = place.fields(("partition", *required, *optional))
    for key in ("partition", *required):
        if key not in fields:
            place.refuse(f"{key} too")
    return fields


def _must_be_true(place: TextPlace) -> None:
    if place.value is not True:
        place.refuse("true")
