"""Reads what-if files: YAML to a `Question`.

Strict, because a misspelled key that was ignored would answer another question than the one asked:
every refusal names the place, what was found there and what is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import yaml

from zonequake_ctl.what_if.reading.events import read_events
from zonequake_ctl.what_if.reading.located import TextPlace, shown
from zonequake_ctl.what_if.reading.question import (
    AppliedEvent,
    CaughtUpEvent,
    GivenKeys,
    GivenLink,
    GivenReplica,
    GivenSet,
    GroupRestartEvent,
    LeaderElectedEvent,
    MembershipEvent,
    Question,
    ReplicaLostEvent,
    ResetByHandEvent,
    TargetEvent,
    TimelineEvent,
)
from zonequake_ctl.what_if.reading.values import read_nodes, read_number, read_term, read_whole
from zonequake_ctl.what_if.reading.zone_fields import parsed, read_spec
from zonequake_kube.errors import WhatIfError
from zonequake_kube.yaml_text import PlainLoader, read_yaml

T = TypeVar("T")

_UP_TO = {"lastUserCmdTerm": "term", "lastUserCmdIdx": "index", "lastCfgIdx": "index"}
"""Fields of a report that can't be above another one."""
_TOP = ("topology", "zone", "partitions", "replicas", "events", "until", "autoApply")


def read(text: str) -> Question:
    """The question that a file asks. Raises WhatIfError."""
    try:
        document = read_yaml(text, _UniqueKeys)
    except yaml.YAMLError as error:
        raise WhatIfError(f"the file isn't YAML: {error}") from error
    top = {
        key: inner
        for key, inner in TextPlace(document).fields(_TOP).items()
        if inner.value is not None  # `events:` without a value
    }
    zone = read_spec(top["zone"]) if "zone" in top else {}
    partitions = parsed(zone).partitions
    given = _by_partition(top.get("partitions"), partitions, _keys)
    question = Question(
        topology=read_nodes(top["topology"]) if "topology" in top else {},
        zone=zone,
        partitions=given,
        replicas=_by_partition(top.get("replicas"), partitions, _replicas),
        events=read_events(top.get("events"), partitions),
        until_ms=top["until"].seconds_ms() if "until" in top else None,
        auto_apply=top["autoApply"].flag() if "autoApply" in top else False,
    )
    _check_names(question)
    return question


class _UniqueKeys(PlainLoader):
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


def _by_partition(
    place: TextPlace | None, partitions: int, read_one: Callable[[TextPlace], T]
) -> dict[int, T]:
    found: dict[int, T] = {}
    if place is None or place.value is None:
        return found
    for key, inner in place.entries("a mapping of partition numbers"):
        number = read_number(TextPlace(key, place.path), partitions)
        if number in found:
            TextPlace(key, place.path).refuse("each partition once")
        found[number] = read_one(inner)
    return found


def _keys(place: TextPlace) -> GivenKeys:
    fields = place.fields(
        (
            "stable",
            "pending",
            "planned",
            "switchReduce",
            "switchAppend",
            "changeTriggerRevision",
            "pendingLock",
            "stopped",
            "chain",
        )
    )
    keys = GivenKeys(
        stable=_set(fields.get("stable"), flags=False),
        pending=_set(fields.get("pending"), flags=True),
        planned=_set(fields.get("planned"), flags=True),
        switch_reduce=_names(fields.get("switchReduce")),
        switch_append=_names(fields.get("switchAppend")),
        change_trigger_revision=read_whole(fields.get("changeTriggerRevision"), "a revision"),
        pending_lock="pendingLock" in fields and fields["pendingLock"].flag(),
        stopped="stopped" in fields and fields["stopped"].flag(),
        chain=_chain(fields.get("chain")),
    )
    if keys.stopped and keys.stable is None:
        fields["stopped"].refuse("a stable set too: a group that never stood can't have stopped")
    if keys.stable is None and (keys.pending or keys.planned or keys.chain):
        place.refuse("a stable set too: nothing moves before there is one")
    if keys.chain and keys.stable and not {*keys.chain[-1].nodes} & {*keys.stable.nodes}:
        last = f"{fields['chain'].path}[{len(keys.chain) - 1}].nodes"
        expected = f"a node of stable ({', '.join(keys.stable.nodes)}) among them"
        TextPlace(keys.chain[-1].nodes, last).refuse(expected)
    if keys.pending_lock and keys.pending is None:
        fields["pendingLock"].refuse("a pending set too: the lock is the grant for it")
    if keys.pending is not None and keys.pending.force and len(keys.pending.nodes) != 1:
        fields["pending"].refuse("one node: a forced pending is the node that goes on alone")
    return keys


def _set(place: TextPlace | None, *, flags: bool) -> GivenSet | None:
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


def _chain(place: TextPlace | None) -> tuple[GivenLink, ...]:
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
                term=read_term(fields.get("term")),
                index=read_whole(fields.get("index"), "an index"),
            )
        )
    return tuple(links)


def _replicas(place: TextPlace) -> dict[str, GivenReplica]:
    found = {}
    for name, inner in place.entries("a mapping of node names to what they would report"):
        fields = inner.fields(("term", "index", "lastUserCmdTerm", "lastUserCmdIdx", "lastCfgIdx"))
        user_index = read_whole(fields.get("lastUserCmdIdx"), "an index")
        term = read_term(fields.get("term"))
        found[TextPlace(name, place.path).text("a node's name")] = GivenReplica(
            term=term,
            index=read_whole(fields.get("index"), "an index"),
            last_user_cmd_term=read_term(fields.get("lastUserCmdTerm"))
            if "lastUserCmdTerm" in fields
            else (term if user_index else 0),
            last_user_cmd_idx=user_index,
            last_cfg_idx=read_whole(fields.get("lastCfgIdx"), "an index"),
        )
        for key, end in _UP_TO.items():
            most = read_whole(fields.get(end), f"the {end}")
            if read_whole(fields.get(key), f"the {key}") > most:
                fields[key].refuse(f"at most {end} ({most}), the end of the log")
    return found


def _names(place: TextPlace | None) -> tuple[str, ...]:
    return () if place is None or place.value is None else place.names()


def _check_names(question: Question) -> None:
    """Refuses a node that something is said of and that the file has nowhere: it is misspelled."""
    known = set(question.topology)
    for keys in question.partitions.values():
        for one in (keys.stable, keys.pending, keys.planned, *keys.chain):
            known.update(one.nodes if one else ())
        known.update(keys.switch_reduce, keys.switch_append)
    for event in question.events:
        if isinstance(event, MembershipEvent):
            known.update(event.join)
    places: dict[str, Iterable[str]] = {f"replicas.{n}": r for n, r in question.replicas.items()}
    for i, event in enumerate(question.events):
        places |= {f"events[{i}].{key}": names for key, names in _named(event).items()}
    for path, names in places.items():
        for name in names:
            if name not in known:
                expected = f"a node of the topology, or of any set ({', '.join(sorted(known))})"
                TextPlace(name, path).refuse(expected)


def _named(event: TimelineEvent) -> dict[str, tuple[str, ...]]:
    """Returns the nodes to which an event happens, by the place where it names them."""
    match event:
        case MembershipEvent():
            return {"leave": event.leave}
        case TargetEvent():
            return {"target.nodes": event.nodes}
        case AppliedEvent():
            return {"applied.peers": event.peers}
        case CaughtUpEvent():
            return {"caughtUp.peers": event.peers}
        case LeaderElectedEvent():
            return {"leaderElected.node": (event.node,), "leaderElected.peers": event.peers or ()}
        case ReplicaLostEvent():
            return {"replicaLost.node": (event.node,)}
        case GroupRestartEvent():
            return {"groupRestart.alive": event.alive}
        case ResetByHandEvent(survivor=str(survivor)):
            return {"resetByHand.survivor": (survivor,)}
        case _:
            return {}
