"""The times without a living majority of a partition's members: no answer is allowed then.

Only what is certain counts. A member is dead from the instant at which its end was proven (the
proof of a fault's effect) until the `node.started` of the process that took its place. A
partition's configuration is one of the sets that its resource held as `stable` or `pending` about
then; only if the majority of each of them was dead, no member could answer. A reset ends the time
without majority: its forced `pending` is such a set, and so is the survivor's own record. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np
import pyarrow as pa

from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.inputs.shapes import NEVER_NS, Function, OutcomeCode

SLACK_NS = 2_000_000_000
"""A change of a resource may be seen, or take effect, so much later than it was made."""

MOST_EXAMPLES = 3

TimeRange = tuple[int, int]


class Unfounded(msgspec.Struct, frozen=True, kw_only=True):
    """Answers of one partition that began and ended while no majority lived.

    `example_places`: key id and start of each example, in their order.
    """

    zone: str
    partition: int
    count: int
    examples: list[str]
    example_places: list[tuple[int, int]] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A set that a resource held from `begin_ns` to `end_ns`."""

    nodes: frozenset[str]
    begin_ns: int
    end_ns: int


def without_majority(events: Sequence[RecordedEvent]) -> dict[tuple[str, int], list[TimeRange]]:
    """Returns, by zone and partition, the times in which certainly no majority lived."""
    dead = deaths(events)
    found = {}
    for place, held in _held_sets(events).items():
        spans = _spans(held, dead)
        if spans:
            found[place] = spans
    return found


def known_groups(events: Sequence[RecordedEvent]) -> int:
    """Returns the number of partitions whose members an event names: of others nothing shows when
    their majority was dead.
    """
    return sum(map(bool, _held_sets(events).values()))


def unfounded(ops: pa.Table, spans: Mapping[int, Sequence[TimeRange]]) -> list[Unfounded]:
    """Returns answers in the spans of their partition (by its id); bounded reads need no
    majority.
    """
    partition = ops.column("partition_id").to_numpy()
    inv, fin = ops.column("inv").to_numpy(), ops.column("fin").to_numpy()
    answered = (ops.column("outcome").to_numpy() == OutcomeCode.OK.value) & ~ops.column(
        "bounded"
    ).to_numpy(zero_copy_only=False)
    found = []
    for number in sorted(set(spans) & set(np.unique(partition).tolist())):
        within = np.zeros(len(partition), bool)
        for begin, end in spans[number]:
            within |= (inv >= begin) & (fin <= end)
        rows = np.flatnonzero((partition == number) & answered & within)
        if len(rows):
            names = ["zone", "partition", "f", "key", "node", "key_id", "inv"]
            named = ops.select(names).take(pa.array(rows[:MOST_EXAMPLES])).to_pylist()
            found.append(
                Unfounded(
                    zone=named[0]["zone"] or "",
                    partition=named[0]["partition"],
                    count=len(rows),
                    examples=[
                        f"{Function(row['f']).name.lower()} of {row['key']} by "
                        f"{row['node'] or 'an unknown node'}"
                        for row in named
                    ],
                    example_places=[(row["key_id"], row["inv"]) for row in named],
                )
            )
    return found


def whole_unfounded(parts: Iterable[Unfounded]) -> list[Unfounded]:
    """Returns those of each partition, by zone and number, from those of some of its keys."""
    of_partition: dict[tuple[str, int], list[Unfounded]] = defaultdict(list)
    for part in parts:
        of_partition[part.zone, part.partition].append(part)
    found = []
    for _, some in sorted(of_partition.items()):
        places, examples = first_examples(
            [(part.example_places, part.examples) for part in some], MOST_EXAMPLES
        )
        count = sum(part.count for part in some)
        found.append(
            msgspec.structs.replace(some[0], count=count, examples=examples, example_places=places)
        )
    return found


def first_examples(
    parts: Iterable[tuple[Sequence[tuple[int, int]], Sequence[str]]], most: int
) -> tuple[list[tuple[int, int]], list[str]]:
    """Returns the first examples of several parts, in the order of the layout, with their places.

    A part has the places of its examples (key id and start), and what they say.
    """
    every = [pair for places, said in parts for pair in zip(places, said, strict=True)]
    first = sorted(every, key=lambda pair: pair[0])[:most]
    return [place for place, _ in first], [said for _, said in first]


def deaths(events: Iterable[RecordedEvent]) -> dict[str, list[TimeRange]]:
    """Returns, by node, from when to when its process was certainly dead.

    A proof says when the end was *seen*: the successor may already answer by then, and nothing is
    certain of the time between the two. Nor is it if the fault's victims were back before any start
    is recorded: a node's record of its starts may have been lost with its power.
    """
    ended: dict[str, list[tuple[int, str, int]]] = defaultdict(list)
    began: dict[str, list[tuple[int, str]]] = defaultdict(list)
    back_ns: dict[str, list[int]] = defaultdict(list)
    told = list(events)
    for event in told:
        if event.kind == "fault.recovered":
            back_ns[str(event.data.get("fault"))].append(event.time)
    for event in told:
        if event.kind == "fault.effective":
            later = [at for at in back_ns[str(event.data.get("fault"))] if at >= event.time]
            for node, at_ns, process in _ends(event.data.get("proof")):
                ended[node].append((at_ns, process, min(later, default=NEVER_NS)))
        elif event.kind == "node.started" and event.node:
            began[event.node].append((event.time, str(event.data.get("process_incarnation"))))
    dead = {}
    for node, ends in ended.items():
        spans = [
            (at, successor, seen_back)
            for at, process, seen_back in sorted(ends)
            for successor in [_successor_ns(began[node], process)]
        ]
        dead[node] = [(at, successor) for at, successor, back in spans if at < successor <= back]
    return dead


def _ends(proof: object) -> list[tuple[str, int, str]]:
    """Returns (node, when its end was seen, which process ended) for each victim of a proven
    fault.
    """
    if not isinstance(proof, dict) or not isinstance(proof.get("gone_ns"), dict):
        return []
    gone = proof["gone_ns"]
    return [
        (str(victim["node"]), int(gone[victim["node"]]), str(victim.get("process_incarnation")))
        for victim in proof.get("victims", [])
        if victim["node"] in gone
    ]


def _successor_ns(began: Iterable[tuple[int, str]], process: str) -> int:
    """Returns when the process after this one began at its node.

    A process whose own start is in no journal was there before all others.
    """
    own = max((at for at, who in began if who == process), default=-1)
    return min((at for at, who in began if at > own and who != process), default=NEVER_NS)


def _held_sets(events: Iterable[RecordedEvent]) -> dict[tuple[str, int], list[_Held]]:
    """Returns, by partition, every set that was stable or pending, with slack on both sides, and
    every survivor of a reset.
    """
    changes: dict[tuple[str, int], list[RecordedEvent]] = defaultdict(list)
    resets: dict[tuple[str, int], list[RecordedEvent]] = defaultdict(list)
    for event in events:
        if event.partition is None:
            continue
        if event.kind == "partition.changed":
            changes[event.zone or "", event.partition].append(event)
        elif event.kind == "group.reset":
            resets[event.zone or "", event.partition].append(event)
    result = {}
    for place, own in changes.items():
        own.sort(key=lambda event: event.time)
        ends = [event.time + SLACK_NS for event in own[1:]] + [NEVER_NS]
        result[place] = [
            _Held(nodes=frozenset(nodes), begin_ns=event.time - SLACK_NS, end_ns=end)
            for event, end in zip(own, ends, strict=True)
            for key in ("stable", "pending")
            if isinstance(nodes := event.data.get(key), list) and nodes
        ] + [_survivor(reset, own) for reset in resets[place]]
    return result


def _survivor(reset: RecordedEvent, changes: Iterable[RecordedEvent]) -> _Held:
    """Returns the survivor alone, from when it led until the resource was seen to know of it."""
    lineage = reset.number("lineage") or 0
    known = (
        event.time + SLACK_NS
        for event in changes
        if event.time >= reset.time and (event.number("token") or 0) >= lineage
    )
    return _Held(
        nodes=frozenset({reset.node or ""}),
        begin_ns=reset.time,
        end_ns=min(known, default=NEVER_NS),
    )


def _spans(held: Sequence[_Held], dead: Mapping[str, Sequence[TimeRange]]) -> list[TimeRange]:
    """Returns the maximal times in which sets are known and each possible one has lost its
    majority.
    """
    edges = {edge for one in held for edge in (one.begin_ns, one.end_ns)}
    edges |= {edge for spans in dead.values() for span in spans for edge in span}
    moments = sorted(edges)
    spans: list[TimeRange] = []
    for begin, end in pairwise(moments):
        possible = [one.nodes for one in held if one.begin_ns <= begin and one.end_ns >= end]
        if not possible or not all(is_lost(nodes, dead, begin, end) for nodes in possible):
            continue
        if spans and spans[-1][1] == begin:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((begin, end))
    return spans


def is_lost(
    nodes: Collection[str], dead: Mapping[str, Sequence[TimeRange]], begin: int, end: int
) -> bool:
    """Returns whether a majority of these nodes was dead all the time from `begin` to `end`."""
    gone = sum(any(a <= begin and b >= end for a, b in dead.get(node, ())) for node in nodes)
    return len(nodes) - gone < len(nodes) // 2 + 1
