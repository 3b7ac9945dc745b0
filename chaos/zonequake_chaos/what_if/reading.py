"""Reads what-if files: YAML to a `Question`.

Strict, because a misspelled key that was ignored would answer another question than the one asked:
every refusal names the place, what was found there and what is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import yaml

from zonequake_chaos.errors import WhatIfError
from zonequake_chaos.what_if.place import Place, shown
from zonequake_chaos.what_if.question import (
    Alter,
    Applied,
    Attributes,
    Cancelled,
    CaughtUp,
    Drop,
    Event,
    GivenKeys,
    GivenLink,
    GivenReplica,
    GivenSet,
    GroupRestart,
    LeaderElected,
    Membership,
    OperatorRestart,
    Question,
    ReconfigurationError,
    ReplicaLost,
    StageReported,
    Target,
)
from zonequake_chaos.what_if.zone_fields import parsed, read_changes, read_spec
from zonequake_store.admin_protocol import Stage

T = TypeVar("T")

_TOP = ("topology", "zone", "partitions", "replicas", "events", "until", "autoApply")


def read(text: str) -> Question:
    """The question that a file asks. Raises WhatIfError."""
    try:
        document = yaml.load(text, Loader=_UniqueKeys)  # noqa: S506  (it is a SafeLoader)
    except yaml.YAMLError as error:
        raise WhatIfError(f"the file isn't YAML: {error}") from error
    top = Place(document).fields(_TOP)
    zone = read_spec(top["zone"]) if "zone" in top else {}
    partitions = parsed(zone).partitions
    given = _by_partition(top.get("partitions"), partitions, _keys)
    question = Question(
        topology=_nodes(top["topology"]) if "topology" in top else {},
        zone=zone,
        partitions=given,
        replicas=_by_partition(top.get("replicas"), partitions, _replicas),
        events=_events(top.get("events"), partitions),
        until_ms=top["until"].seconds_ms() if "until" in top else None,
        auto_apply=top["autoApply"].flag() if "autoApply" in top else False,
    )
    _check_leaves(question)
    return question


class _UniqueKeys(yaml.SafeLoader):
    """YAML's safe values; a key that stands twice in one mapping is refused, not overwritten."""


def _unique(loader: _UniqueKeys, node: yaml.MappingNode) -> dict[object, object]:
    loader.flatten_mapping(node)
    found: dict[object, object] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        where = f"line {key_node.start_mark.line + 1}"
        if not isinstance(key, str | int | float | bool):
            raise WhatIfError(f"{where}: found the key {shown(key)}, expected a text or a number")
        if key in found:
            raise WhatIfError(f"{where}: found the key {shown(key)} again, expected each key once")
        found[key] = loader.construct_object(value_node, deep=True)
    return found


_UniqueKeys.add_constructor("tag:yaml.org,2002:map", _unique)


# ------------------------------------------------------------------------------- topology and keys


def _nodes(place: Place) -> dict[str, Attributes]:
    nodes: dict[str, Attributes] = {}
    for name, inner in place.entries("a mapping of node names to attributes"):
        nodes[Place(name, place.path or "topology").text("a node's name")] = _attributes(inner)
    return nodes


def _attributes(place: Place) -> Attributes:
    expected = "attributes ({region: EU}) or a list of tags ([EU, SSD])"
    if place.value is None:
        return {}
    if isinstance(place.value, list):
        return {item.text("a tag"): "" for item in place.items(expected)}
    found: dict[str, str] = {}
    for key, inner in place.entries(expected):
        if isinstance(inner.value, dict | list):
            inner.refuse("an attribute's value, a text or a number")
        found[str(key)] = _attribute(inner.value)
    return found


def _attribute(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _by_partition(
    place: Place | None, partitions: int, read_one: Callable[[Place], T]
) -> dict[int, T]:
    found: dict[int, T] = {}
    if place is None or place.value is None:
        return found
    for key, inner in place.entries("a mapping of partition numbers"):
        number = _number(Place(key, place.path), partitions)
        if number in found:
            Place(key, place.path).refuse("each partition once")
        found[number] = read_one(inner)
    return found


def _number(place: Place, partitions: int) -> int:
    value = place.value
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < partitions:
        last = partitions - 1
        place.refuse("the partition 0" if last == 0 else f"a partition between 0 and {last}")
    return value


def _keys(place: Place) -> GivenKeys:
    fields = place.fields(
        (
            "stable",
            "pending",
            "planned",
            "switchReduce",
            "switchAppend",
            "changeTriggerRevision",
            "pendingLock",
            "chain",
        )
    )
    keys = GivenKeys(
        stable=_set(fields.get("stable"), flags=False),
        pending=_set(fields.get("pending"), flags=True),
        planned=_set(fields.get("planned"), flags=True),
        switch_reduce=_names(fields.get("switchReduce")),
        switch_append=_names(fields.get("switchAppend")),
        change_trigger_revision=_whole(fields.get("changeTriggerRevision"), "a revision"),
        pending_lock="pendingLock" in fields and fields["pendingLock"].flag(),
        chain=_chain(fields.get("chain")),
    )
    if keys.stable is None and (keys.pending or keys.planned or keys.chain):
        place.refuse("a stable set too: nothing moves before there is one")
    if keys.pending_lock and keys.pending is None:
        fields["pendingLock"].refuse("a pending set too: the lock is the grant for it")
    if keys.pending is not None and keys.pending.force and len(keys.pending.nodes) != 1:
        fields["pending"].refuse("one node: a forced pending is the node that goes on alone")
    return keys


def _set(place: Place | None, *, flags: bool) -> GivenSet | None:
    if place is None or place.value is None:
        return None
    if isinstance(place.value, list):
        names = place.names()
        return GivenSet(nodes=names) if names else None
    fields = place.fields(("nodes", "force", "fromReset") if flags else ("nodes",))
    if "nodes" not in fields:
        place.refuse("a list of node names, or a mapping with nodes")
    found = GivenSet(
        nodes=fields["nodes"].names(),
        force="force" in fields and fields["force"].flag(),
        from_reset="fromReset" in fields and fields["fromReset"].flag(),
    )
    if found.force and found.from_reset:
        place.refuse("force or fromReset: they are the two phases of a reset")
    return found if found.nodes else None


def _chain(place: Place | None) -> tuple[GivenLink, ...]:
    if place is None or place.value is None:
        return ()
    links = []
    for item in place.items("a list of links, the oldest first"):
        fields = item.fields(("nodes", "term", "index"))
        if "nodes" not in fields or not fields["nodes"].names():
            item.refuse("a link with its nodes")
        links.append(
            GivenLink(
                nodes=fields["nodes"].names(),
                term=_whole(fields.get("term"), "a term"),
                index=_whole(fields.get("index"), "an index"),
            )
        )
    return tuple(links)


def _replicas(place: Place) -> dict[str, GivenReplica]:
    found = {}
    for name, inner in place.entries("a mapping of node names to what they would report"):
        fields = inner.fields(("term", "index", "lastUserCmdTerm", "lastUserCmdIdx", "lastCfgIdx"))
        user_index = _whole(fields.get("lastUserCmdIdx"), "an index")
        term = _whole(fields.get("term"), "a term")
        found[Place(name, place.path).text("a node's name")] = GivenReplica(
            term=term,
            index=_whole(fields.get("index"), "an index"),
            last_user_cmd_term=_whole(fields.get("lastUserCmdTerm"), "a term")
            if "lastUserCmdTerm" in fields
            else (term if user_index else 0),
            last_user_cmd_idx=user_index,
            last_cfg_idx=_whole(fields.get("lastCfgIdx"), "an index"),
        )
    return found


def _names(place: Place | None) -> tuple[str, ...]:
    return () if place is None or place.value is None else place.names()


def _whole(place: Place | None, what: str) -> int:
    return 0 if place is None else place.whole(f"{what}, a whole number (0 or more)")


# ------------------------------------------------------------------------------------------ events

_COMMON = ("at", "revision")


def _events(place: Place | None, partitions: int) -> tuple[Event, ...]:
    if place is None or place.value is None:
        return ()
    events: list[Event] = []
    for item in place.items("a list of events"):
        event = _event(item, partitions)
        if events and event.at_ms < events[-1].at_ms:
            earlier = events[-1].at_ms / 1000
            item.fields(_EVENT_KEYS)["at"].refuse(f"a time not before {earlier:g}: events in order")
        events.append(event)
    return tuple(events)


def _event(place: Place, partitions: int) -> Event:
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
            join=_nodes(fields["join"]) if "join" in fields else {},
            leave=fields["leave"].names() if "leave" in fields else (),
        )
    if len(kinds) != 1:
        place.refuse(f"one of {', '.join(_KINDS)} (join and leave may stand together)")
    kind = kinds[0]
    return _KINDS[kind](fields[kind], at_ms, revision, partitions)


def _alter(place: Place, at_ms: int, revision: int | None, partitions: int) -> Event:
    return Alter(at_ms=at_ms, revision=revision, changes=read_changes(place))


def _target(place: Place, at_ms: int, revision: int | None, partitions: int) -> Event:
    fields = _of_partition(place, required=("nodes",))
    nodes = fields["nodes"].names()
    if not nodes:
        fields["nodes"].refuse("at least one node: an empty set never becomes assignments")
    number = _number(fields["partition"], partitions)
    return Target(at_ms=at_ms, revision=revision, partition=number, nodes=nodes)


def _applied(place: Place, at_ms: int, revision: int | None, partitions: int) -> Event:
    fields = _of_partition(place, required=("peers",), optional=("term", "index"))
    return Applied(
        at_ms=at_ms,
        revision=revision,
        partition=_number(fields["partition"], partitions),
        peers=fields["peers"].names(),
        term=_whole(fields["term"], "a term") if "term" in fields else None,
        index=_whole(fields["index"], "an index") if "index" in fields else None,
    )


def _leader_elected(place: Place, at_ms: int, revision: int | None, partitions: int) -> Event:
    fields = _of_partition(place, required=("node",), optional=("term", "peers"))
    return LeaderElected(
        at_ms=at_ms,
        revision=revision,
        partition=_number(fields["partition"], partitions),
        node=fields["node"].text("a node's name"),
        term=_whole(fields["term"], "a term") if "term" in fields else None,
        peers=fields["peers"].names() if "peers" in fields else None,
    )


def _reconfiguration_error(
    place: Place, at_ms: int, revision: int | None, partitions: int
) -> Event:
    fields = _of_partition(place, required=("status",))
    return ReconfigurationError(
        at_ms=at_ms,
        revision=revision,
        partition=_number(fields["partition"], partitions),
        status=fields["status"].text("a status, such as CatchUpTimeout"),
    )


def _replica_lost(place: Place, at_ms: int, revision: int | None, partitions: int) -> Event:
    fields = _of_partition(place, required=("node",))
    return ReplicaLost(
        at_ms=at_ms,
        revision=revision,
        partition=_number(fields["partition"], partitions),
        node=fields["node"].text("a node's name"),
    )


def _cancelled(place: Place, at_ms: int, revision: int | None, partitions: int) -> Event:
    fields = _of_partition(place, required=("result",))
    return Cancelled(
        at_ms=at_ms,
        revision=revision,
        partition=_number(fields["partition"], partitions),
        result=fields["result"].flag(),
    )


def _caught_up(place: Place, at_ms: int, revision: int | None, partitions: int) -> Event:
    fields = _of_partition(place, required=("peers",))
    number = _number(fields["partition"], partitions)
    return CaughtUp(at_ms=at_ms, revision=revision, partition=number, peers=fields["peers"].names())


def _stage(place: Place, at_ms: int, revision: int | None, partitions: int) -> Event:
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
        partition=_number(fields["partition"], partitions),
        stage=stages[spelled],
    )


def _group_restart(place: Place, at_ms: int, revision: int | None, partitions: int) -> Event:
    fields = _of_partition(place, required=("alive",))
    number = _number(fields["partition"], partitions)
    return GroupRestart(
        at_ms=at_ms, revision=revision, partition=number, alive=fields["alive"].names()
    )


def _operator_restart(place: Place, at_ms: int, revision: int | None, partitions: int) -> Event:
    _must_be_true(place)
    return OperatorRestart(at_ms=at_ms, revision=revision)


def _drop(place: Place, at_ms: int, revision: int | None, partitions: int) -> Event:
    _must_be_true(place)
    return Drop(at_ms=at_ms, revision=revision)


_KINDS: Mapping[str, Callable[[Place, int, int | None, int], Event]] = {
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
    "operatorRestart": _operator_restart,
    "drop": _drop,
}
_EVENT_KEYS = (*_COMMON, "join", "leave", *_KINDS)


def _of_partition(
    place: Place, *, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, Place]:
    fields = place.fields(("partition", *required, *optional))
    for key in ("partition", *required):
        if key not in fields:
            place.refuse(f"{key} too")
    return fields


def _must_be_true(place: Place) -> None:
    if place.value is not True:
        place.refuse("true")


def _check_leaves(question: Question) -> None:
    """A node that is named nowhere else can't leave: it is misspelled."""
    known = set(question.topology)
    for keys in question.partitions.values():
        for one in (keys.stable, keys.pending, keys.planned):
            known.update(one.nodes if one else ())
    for event in question.events:
        if isinstance(event, Membership):
            known.update(event.join)
    for i, event in enumerate(question.events):
        if isinstance(event, Membership):
            for name in event.leave:
                if name not in known:
                    Place(name, f"events[{i}].leave").refuse("a node of the topology")
