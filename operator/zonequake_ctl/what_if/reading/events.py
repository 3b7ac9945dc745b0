"""Reads the events of a what-if file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from zonequake_ctl.what_if.reading.located import TextPlace
from zonequake_ctl.what_if.reading.question import (
    AlterEvent,
    AppliedEvent,
    CancelledEvent,
    CaughtUpEvent,
    DropEvent,
    GroupRestartEvent,
    LeaderElectedEvent,
    MembershipEvent,
    OperatorRestartEvent,
    ReconfigurationErrorEvent,
    ReplicaLostEvent,
    ResetByHandEvent,
    StageReported,
    TargetEvent,
    TimelineEvent,
)
from zonequake_ctl.what_if.reading.values import read_nodes, read_number, read_term, read_whole
from zonequake_ctl.what_if.reading.zone_fields import read_changes
from zonequake_protocol.admin import ReconfigurationStatus, Stage

E = TypeVar("E", Stage, ReconfigurationStatus)

_COMMON = ("at", "revision")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fields:
    """The fields of one kind of partition event besides the partition, each with its reader."""

    event: Callable[..., TimelineEvent]
    required: Mapping[str, Callable[[TextPlace], object]] = field(default_factory=dict)
    optional: Mapping[str, Callable[[TextPlace], object]] = field(default_factory=dict)

    def read(self, place: TextPlace, partitions: int) -> dict[str, object]:
        """The event's fields. Raises WhatIfError."""
        readers = {**self.required, **self.optional}
        fields = place.fields(("partition", *readers))
        for key in ("partition", *self.required):
            if key not in fields:
                place.refuse(f"{key} too")
        number = read_number(fields["partition"], partitions)
        given = {key: read(fields[key]) for key, read in readers.items() if key in fields}
        return {"partition": number, **given}


def _node(place: TextPlace) -> str:
    return place.text("a node's name")


def _index(place: TextPlace) -> int:
    return read_whole(place, "an index")


def _stage(place: TextPlace) -> Stage:
    return _one_of(Stage, place, str(place.value).upper().removeprefix("STAGE"))


def _status(place: TextPlace) -> ReconfigurationStatus:
    return _one_of(ReconfigurationStatus, place, str(place.value).upper())


def _one_of(kinds: type[E], place: TextPlace, word: str) -> E:
    found = {kind.value.replace("_", ""): kind for kind in kinds}
    spelled = word.replace("_", "")
    if spelled not in found:
        *others, last = (kind.value.title().replace("_", "") for kind in kinds)
        place.refuse(f"{', '.join(others)} or {last}")
    return found[spelled]


_OF_PARTITION = {
    "target": _Fields(event=TargetEvent, required={"nodes": TextPlace.names}),
    "applied": _Fields(
        event=AppliedEvent,
        required={"peers": TextPlace.names},
        optional={"term": read_term, "index": _index},
    ),
    "leaderElected": _Fields(
        event=LeaderElectedEvent,
        required={"node": _node},
        optional={"term": read_term, "peers": TextPlace.names},
    ),
    "reconfigurationError": _Fields(event=ReconfigurationErrorEvent, required={"status": _status}),
    "replicaLost": _Fields(event=ReplicaLostEvent, required={"node": _node}),
    "cancelled": _Fields(event=CancelledEvent, required={"result": TextPlace.flag}),
    "caughtUp": _Fields(event=CaughtUpEvent, required={"peers": TextPlace.names}),
    "stage": _Fields(event=StageReported, required={"stage": _stage}),
    "groupRestart": _Fields(event=GroupRestartEvent, required={"alive": TextPlace.names}),
    "resetByHand": _Fields(event=ResetByHandEvent, optional={"survivor": _node}),
}
_BARE = {"operatorRestart": OperatorRestartEvent, "drop": DropEvent}
"""Events that say nothing but that they happen: `drop: true`."""
_KINDS = ("alter", *_OF_PARTITION, *_BARE)
_EVENT_KEYS = (*_COMMON, "join", "leave", *_KINDS)


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
        revision = read_whole(fields["revision"], "a revision")
    kinds = [key for key in fields if key not in _COMMON]
    if set(kinds) <= {"join", "leave"} and kinds:
        return MembershipEvent(
            at_ms=at_ms,
            revision=revision,
            join=read_nodes(fields["join"]) if "join" in fields else {},
            leave=fields["leave"].names() if "leave" in fields else (),
            kinds=tuple(sorted(kinds)),
        )
    if len(kinds) != 1:
        place.refuse(f"one of {', '.join(_KINDS)} (join and leave may stand together)")
    kind, inner = kinds[0], fields[kinds[0]]
    if kind == "alter":
        return AlterEvent(at_ms=at_ms, revision=revision, changes=read_changes(inner))
    if kind in _OF_PARTITION:
        said = _OF_PARTITION[kind]
        return said.event(at_ms=at_ms, revision=revision, **said.read(inner, partitions))
    if inner.value is not True:
        inner.refuse("true")
    return _BARE[kind](at_ms=at_ms, revision=revision)
