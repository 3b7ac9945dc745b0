"""Reads what-if files: YAML to a `Question`.

Strict, because a misspelled key that was ignored would answer another question than the one asked:
every refusal names the place, what was found there and what is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, TypeVar

import msgspec
import yaml

from zonequake_ctl.errors import WhatIfError
from zonequake_ctl.what_if.reading.question import (
    BARE,
    OF_PARTITION,
    AlterEvent,
    GivenKeys,
    GivenReplica,
    GivenReplicas,
    GivenSeconds,
    Happening,
    MembershipEvent,
    Nodes,
    PartitionEvent,
    Question,
    Revision,
    TimelineEvent,
)
from zonequake_ctl.what_if.reading.zone_fields import check_spec, parsed, read_changes
from zonequake_kube.yaml_fields import NotExpectedError, check_names, convert, refuse, shown
from zonequake_kube.yaml_text import PlainLoader, read_yaml
from zonequake_protocol.admin import ReconfigurationStatus, Stage

T = TypeVar("T")
_UP_TO = {"lastUserCmdTerm": "term", "lastUserCmdIdx": "index", "lastCfgIdx": "index"}
"""Fields of a report that can't be above another one."""
_NULL_IS_NONE = ("stable", "pending", "planned", "switchReduce", "switchAppend", "chain")
_TOP = ("topology", "zone", "partitions", "replicas", "events", "until", "autoApply")
_KINDS = ("alter", *OF_PARTITION, *BARE)
_EVENT_KEYS = ("at", "revision", "join", "leave", *_KINDS)


def read(text: str) -> Question:
    """Reads the question that a file asks. Raises WhatIfError."""
    try:
        return _question(read_yaml(text, _UniqueKeys))
    except yaml.YAMLError as error:
        raise WhatIfError(f"the file isn't YAML: {error}") from error
    except NotExpectedError as error:
        raise WhatIfError(str(error)) from error


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


def _question(document: Any) -> Question:  # noqa: ANN401 - whatever the text holds
    if not isinstance(document, dict):
        refuse("", document, f"a mapping with {', '.join(_TOP)}")
    check_names(document, _TOP, "")
    top = {key: inner for key, inner in document.items() if inner is not None}
    zone = check_spec(top.get("zone", {}), "zone")
    partitions = parsed(zone).partitions
    question = Question(
        topology=convert(top.get("topology", {}), Nodes, "topology"),
        zone=zone,
        partitions=_by_partition(top.get("partitions", {}), "partitions", partitions, _keys),
        replicas=_by_partition(top.get("replicas", {}), "replicas", partitions, _replicas),
        events=_events(top.get("events", []), partitions),
        until_ms=_milliseconds(top["until"], "until") if "until" in top else None,
        auto_apply=convert(top.get("autoApply", False), bool, "autoApply"),
    )
    _check_nodes(question)
    return question


def _milliseconds(value: object, path: str) -> int:
    return round(convert(value, GivenSeconds, path) * 1000)


# -------------------------------------------------------------------------------- keys and reports


def _by_partition(
    value: object, where: str, partitions: int, read_one: Callable[[Any, str], T]
) -> dict[int, T]:
    found: dict[int, T] = {}
    if not isinstance(value, dict):
        refuse(where, value, "a mapping of partition numbers")
    for key, inner in value.items():
        number = _number(key, where, partitions)
        if number in found:
            refuse(where, key, "each partition once")
        found[number] = read_one(inner, f"{where}.{key}")
    return found


def _number(value: object, path: str, partitions: int) -> int:
    """Reads a partition's number, written as a number or as a text."""
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < partitions:
        last = partitions - 1
        refuse(path, value, f"a partition between 0 and {last}" if last else "the partition 0")
    return number


def _keys(value: Any, path: str) -> GivenKeys:  # noqa: ANN401
    fields = value
    if isinstance(value, dict):
        nulls = [key for key in _NULL_IS_NONE if value.get(key) is None]
        fields = {key: inner for key, inner in value.items() if key not in nulls}
        if isinstance(fields.get("stable"), dict):
            check_names(fields["stable"], ("nodes",), f"{path}.stable")
    keys = convert(fields, GivenKeys, path)
    stable, pending, chain = keys.stable, keys.pending, keys.chain
    if keys.stopped and stable is None:
        expected = "a stable set too: a group that never stood can't have stopped"
        refuse(f"{path}.stopped", True, expected)
    if stable is None and (pending or keys.planned or chain):
        refuse(path, value, "a stable set too: nothing moves before there is one")
    for i, link in enumerate(chain):
        if not link.nodes:
            refuse(f"{path}.chain[{i}]", value["chain"][i], "a link with its nodes")
    if chain and stable and not {*chain[-1].nodes} & {*stable.nodes}:
        expected = f"a node of stable ({', '.join(stable.nodes)}) among them"
        refuse(f"{path}.chain[{len(chain) - 1}].nodes", chain[-1].nodes, expected)
    if keys.pending_lock and pending is None:
        refuse(f"{path}.pendingLock", True, "a pending set too: the lock is the grant for it")
    if pending is not None and pending.force and len(pending.nodes) != 1:
        expected = "one node: a forced pending is the node that goes on alone"
        refuse(f"{path}.pending", value["pending"], expected)
    return keys


def _replicas(value: Any, path: str) -> dict[str, GivenReplica]:  # noqa: ANN401
    found: dict[str, GivenReplica] = convert(value, GivenReplicas, path)
    for node, fields in value.items():
        for key, end in _UP_TO.items():
            if fields.get(key, 0) > (most := fields.get(end, 0)):
                expected = f"at most {end} ({most}), the end of the log"
                refuse(f"{path}.{node}.{key}", fields[key], expected)
    return found


# ----------------------------------------------------------------------------------------- events


def _events(value: object, partitions: int) -> tuple[TimelineEvent, ...]:
    if not isinstance(value, list):
        refuse("events", value, "a list of events")
    events = tuple(_event(raw, f"events[{i}]", partitions) for i, raw in enumerate(value))
    for i, (earlier, event) in enumerate(pairwise(events), 1):
        if event.at_ms < earlier.at_ms:
            expected = f"a time not before {earlier.at_ms / 1000:g}: events in order"
            refuse(f"events[{i}].at", value[i]["at"], expected)
    return events


def _event(raw: object, path: str, partitions: int) -> TimelineEvent:
    if not isinstance(raw, dict):
        refuse(path, raw, f"a mapping with {', '.join(_EVENT_KEYS)}")
    check_names(raw, _EVENT_KEYS, path)
    if "at" not in raw:
        refuse(path, raw, "at, the second at which it happens")
    kinds = sorted(raw.keys() - {"at", "revision"})
    if len(kinds) != 1 and kinds != ["join", "leave"]:
        expected = f"one of {', '.join(_KINDS)} (join and leave may stand together)"
        refuse(path, raw, expected)
    return TimelineEvent(
        at_ms=_milliseconds(raw["at"], f"{path}.at"),
        revision=convert(raw["revision"], Revision, f"{path}.revision")
        if "revision" in raw
        else None,
        kinds=tuple(kinds),
        what=_what(raw, kinds[0], path, partitions),
    )


def _what(raw: dict[str, Any], kind: str, path: str, partitions: int) -> Happening:
    inner, inside = raw[kind], f"{path}.{kind}"
    if kind in ("join", "leave"):
        joined = {key: raw[key] for key in ("join", "leave") if key in raw}
        return convert(joined, MembershipEvent, path)
    if kind == "alter":
        return AlterEvent(changes=read_changes(inner, inside))
    if kind in BARE:
        return BARE[kind]() if inner is True else refuse(inside, inner, "true")
    if isinstance(inner, dict) and "partition" in inner:
        number = _number(inner["partition"], f"{inside}.partition", partitions)
        inner = {key: _word(key, said) for key, said in inner.items()} | {"partition": number}
    return convert(inner, OF_PARTITION[kind], inside)


def _word(key: str, said: object) -> object:
    """Returns the protocol's word for a stage or a status, which may be written without
    underscores.
    """
    kinds = {"stage": Stage, "status": ReconfigurationStatus}.get(key, ())
    word = str(said).upper().removeprefix("STAGE" if kinds is Stage else "").replace("_", "")
    return next((kind.value for kind in kinds if kind.value.replace("_", "") == word), said)


# ------------------------------------------------------------------------------------------ nodes


def _check_nodes(question: Question) -> None:
    """Refuses a node that something is said of and that the file has nowhere: it is misspelled."""
    known = set(question.topology)
    for keys in question.partitions.values():
        for one in (keys.stable, keys.pending, keys.planned, *keys.chain):
            known.update(one.nodes if one else ())
        known.update(keys.switch_reduce, keys.switch_append)
    for event in question.events:
        known.update(event.what.join if isinstance(event.what, MembershipEvent) else ())
    for path, name in _named(question):
        if name not in known:
            expected = f"a node of the topology, or of any set ({', '.join(sorted(known))})"
            refuse(path, name, expected)


def _named(question: Question) -> Iterator[tuple[str, str]]:
    """Yields the nodes to which something happens, each after the place where the file names it."""
    for number, replicas in question.replicas.items():
        yield from ((f"replicas.{number}", node) for node in replicas)
    for i, event in enumerate(question.events):
        if isinstance(event.what, MembershipEvent):
            yield from ((f"events[{i}].leave", node) for node in event.what.leave)
        elif isinstance(event.what, PartitionEvent):
            for key, value in msgspec.structs.asdict(event.what).items():
                nodes = (value,) if type(value) is str else value
                if isinstance(nodes, tuple):
                    path = f"events[{i}].{event.kinds[0]}.{key}"
                    yield from ((path, node) for node in nodes)
