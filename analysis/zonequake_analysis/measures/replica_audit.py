"""The replicas after the quiet time: all of a partition equal, and nothing acknowledged missing.

From `replica.audit` events (applied index, digest) and from the dumps themselves, if any.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zonequake_analysis.inputs.run_folder import Dump, RecordedEvent
from zonequake_analysis.inputs.shapes import INDEX_BITS
from zonequake_analysis.measures.acknowledged import Acknowledged


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Replicas of one partition that differ, or one that lacks an acknowledged write."""

    zone: str
    partition: int
    kind: str  # digest, applied, missing
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The result of comparing the replicas."""

    partitions: int
    replicas: int
    writes_compared: int
    disagreements: tuple[Disagreement, ...]


def audit(
    acknowledged: Sequence[Acknowledged], events: Sequence[RecordedEvent], dumps: Sequence[Dump]
) -> Audit:
    """Compares the replicas with each other, and the dumps with what was acknowledged."""
    states = _states(events, dumps)
    found = []
    for (zone, partition), replicas in sorted(states.items()):
        for kind, place in (("applied", 0), ("digest", 1)):
            by_value: dict[object, list[str]] = defaultdict(list)
            for node, state in sorted(replicas.items()):
                by_value[state[place]].append(node)
            if len(by_value) > 1:
                what = "; ".join(
                    f"{value} on {', '.join(nodes)}" for value, nodes in by_value.items()
                )
                found.append(Disagreement(zone=zone, partition=partition, kind=kind, what=what))
    compared = 0
    if dumps:
        compared, missing = _missing(acknowledged, dumps)
        found.extend(missing)
    return Audit(
        partitions=len(states),
        replicas=sum(len(replicas) for replicas in states.values()),
        writes_compared=compared,
        disagreements=tuple(found),
    )


def _states(
    events: Iterable[RecordedEvent], dumps: Iterable[Dump]
) -> dict[tuple[str, int], dict[str, tuple[int, str]]]:
    """(applied, digest) by partition and node; the newest word of each replica counts."""
    states: dict[tuple[str, int], dict[str, tuple[int, str]]] = defaultdict(dict)
    for dump in dumps:
        header = dump.header
        states[dump.zone, dump.partition][header.node] = (header.applied, header.digest)
    for event in events:
        if event.kind == "replica.audit" and event.partition is not None:
            states[event.zone or "", event.partition][event.node or ""] = (
                int(event.number("applied") or 0),
                event.text("digest"),
            )
    return states


def _missing(
    acknowledged: Sequence[Acknowledged], dumps: Sequence[Dump]
) -> tuple[int, list[Disagreement]]:
    """Acknowledged appends that a dump lacks, and registers older than their last acknowledgement.

    A register's dump entry names the index that wrote it: below the acknowledged one it is older.
    """
    by_place: dict[tuple[str, int], list[Dump]] = defaultdict(list)
    for dump in dumps:
        by_place[dump.zone, dump.partition].append(dump)
    compared, found = 0, []
    for one in acknowledged:
        elements = set(one.elements)
        for dump in by_place.get((one.zone, one.partition), ()):
            compared += max(1, len(elements))
            entry = dump.entries.get(one.key)
            held = entry.value if entry else None
            lacks = ""
            if elements:
                gone = elements - set(held if isinstance(held, list) else ())
                if gone:
                    lacks = f"{len(gone)} acknowledged elements, for instance {min(gone)}"
            elif entry is None:
                lacks = "the key"
            elif one.position is not None:
                index = one.position & ((1 << INDEX_BITS) - 1)
                if entry.index < index and entry.index > 0:
                    lacks = f"the write at index {index}: it holds that of index {entry.index}"
            if lacks:
                what = f"{dump.header.node}, key {one.key}: lacks {lacks}"
                found.append(
                    Disagreement(zone=one.zone, partition=one.partition, kind="missing", what=what)
                )
    return compared, found
