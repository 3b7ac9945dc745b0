"""The replicas after the quiet time: all of a partition equal, and no acknowledged write missing.

This audit uses `replica.audit` events (place, digest) and the dumps themselves, if there are any. A
replica's state follows from its place in the log. So two states at one place have *diverged*,
whatever other replicas do; replicas at different places have not settled, and can't be compared.

A store may count states and entries apart, as by a revision and a log index. Then two revisions at
one log index have diverged, and one revision at several log indexes is one state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

from zonequake_analysis.inputs.run_folder import Dump, RecordedEvent
from zonequake_analysis.inputs.shapes import INDEX_BITS, TERM_BITS
from zonequake_analysis.measures.acknowledged import Acknowledged

_K = TypeVar("_K", bound=Hashable)

_INDEX = (1 << INDEX_BITS) - 1
_BEGINS_AT = ", compacted "
"""The place from which a digest is computed follows this; digests from other places may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Replicas of one partition that differ, or one that lacks an acknowledged write.

    `kind`: `digest` (two states at one place), `lacks` (an acknowledged write that another replica
    holds), `missing` (one that no replica holds), `applied` (different places: not settled).
    """

    zone: str
    partition: int
    kind: str
    what: str

    @property
    def diverged(self) -> bool:
        """Whether it shows two members of one group with different states."""
        return self.kind in ("digest", "lacks")

    @property
    def where(self) -> str:
        return f"{self.zone}/{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The result of comparing the replicas."""

    partitions: int
    replicas: int
    writes_compared: int
    disagreements: tuple[Disagreement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One replica's report. `log_index`: None if `applied` is the index in the log."""

    lineage: int
    applied: int
    digest: str
    log_index: int | None

    @property
    def reached(self) -> tuple[int, int]:
        return self.lineage, self.applied


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedWrite:
    """An acknowledged write as a dump must show it; only an append has a `value`."""

    value: int | None
    position: int | None


def audit(
    acknowledged: Sequence[Acknowledged], events: Sequence[RecordedEvent], dumps: Sequence[Dump]
) -> Audit:
    """Compares the replicas with each other, and the dumps with what was acknowledged."""
    states = _states(events, dumps)
    found = []
    for (zone, partition), replicas in sorted(states.items()):
        for kind, what in _differences(dict(sorted(replicas.items()))):
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
) -> dict[tuple[str, int], dict[str, State]]:
    """Returns states by partition and node: a replica's last event counts, else its dump."""
    states: dict[tuple[str, int], dict[str, State]] = defaultdict(dict)
    for dump in dumps:
        header = dump.header
        states[dump.zone, dump.partition][header.node] = State(
            lineage=header.lineage,
            applied=header.applied,
            digest=header.digest,
            log_index=header.log_index,
        )
    for event in events:
        if event.kind == "replica.audit" and event.partition is not None:
            log_index = event.number("log_index")
            states[event.zone or "", event.partition][event.node or ""] = State(
                lineage=int(event.number("lineage") or 0),
                applied=int(event.number("applied") or 0),
                digest=event.text("digest"),
                log_index=None if log_index is None else int(log_index),
            )
    return states


def _differences(replicas: Mapping[str, State]) -> list[tuple[str, str]]:
    """Returns the differences between the replicas of one partition, as (kind, words)."""
    found = []
    in_log = _by(replicas, lambda s: None if s.log_index is None else (s.lineage, s.log_index))
    for (_, index), there in in_log.items():
        states = _by(there, lambda s: f"applied {s.applied}, digest {s.digest}")
        if len(states) > 1:
            found.append(("digest", f"at log index {index}: {_told(states)}"))
    if found:
        return found
    by_state = _by(replicas, lambda s: (*s.reached, s.digest.partition(_BEGINS_AT)[2]))
    for (_, applied, _), there in by_state.items():
        states = _by(there, lambda s: s.digest or None)
        if len(states) > 1:
            found.append(("digest", f"at {applied}: {_told(states)}"))
    if found or len(by_state) == 1:
        return found
    places = _by(
        replicas, lambda s: f"{s.applied}" + (f" of lineage {s.lineage}" * bool(s.lineage))
    )
    return [("applied", _told(places))]


def _by(
    replicas: Mapping[str, State], key: Callable[[State], _K | None]
) -> dict[_K, dict[str, State]]:
    """Returns the replicas by the key of each, without those whose key is None."""
    groups: dict[_K, dict[str, State]] = defaultdict(dict)
    for node, state in replicas.items():
        said = key(state)
        if said is not None:
            groups[said][node] = state
    return groups


def _told(groups: Mapping[str, Mapping[str, State]]) -> str:
    return "; ".join(f"{said} on {', '.join(nodes)}" for said, nodes in groups.items())


def _missing(
    acknowledged: Sequence[Acknowledged], dumps: Sequence[Dump]
) -> tuple[int, list[Disagreement]]:
    """Returns the number of writes compared, and acknowledged writes that a dump should hold but
    lacks.

    A dump should hold the places that its replica has applied. A write without a place counts for
    the replicas that are furthest in their partition.
    """
    by_place: dict[tuple[str, int], list[Dump]] = defaultdict(list)
    for dump in dumps:
        by_place[dump.zone, dump.partition].append(dump)
    compared, found = 0, []
    for one in acknowledged:
        there = by_place.get((one.zone, one.partition), ())
        furthest = max((_reached(dump) for dump in there), default=(0, 0))
        held = [(dump, _shown(dump, one.key)) for dump in there]
        for dump, shown in held:
            expected = [w for w in _writes(one) if _reached(dump) >= (_entry(w) or furthest)]
            compared += len(expected)
            gone = [write for write in expected if not _holds(shown, write)]
            if not gone:
                continue
            kind, what = (
                "missing",
                f"{dump.header.node}, key {one.key}: lacks {_lacking(shown, gone)}",
            )
            for other, others in held:
                if any(_holds(others, write) for write in gone):
                    kind, what = "lacks", f"{what}, which {other.header.node} holds"
                    break
            found.append(Disagreement(zone=one.zone, partition=one.partition, kind=kind, what=what))
    return compared, found


def _shown(dump: Dump, key: str) -> tuple[Set[int], int | None]:
    """Returns the elements of a key in a dump, and the index that wrote it; None: no such key."""
    entry = dump.entries.get(key)
    if entry is None:
        return frozenset(), None
    return frozenset(entry.value if isinstance(entry.value, list) else ()), entry.index


def _writes(one: Acknowledged) -> list[DumpedWrite]:
    """Returns the writes to a key that a replica must show: all appends, or a register's last."""
    if not one.elements:
        return [DumpedWrite(value=None, position=one.position)]
    places = one.places or [None] * len(one.elements)
    return [DumpedWrite(value=v, position=p) for v, p in zip(one.elements, places, strict=True)]


def _reached(dump: Dump) -> tuple[int, int]:
    return dump.header.lineage, dump.header.applied


def _entry(write: DumpedWrite) -> tuple[int, int] | None:
    """Returns the lineage and the index of the entry that made the write; None without a place."""
    if write.position is None:
        return None
    return write.position >> (TERM_BITS + INDEX_BITS), write.position & _INDEX


def _holds(shown: tuple[Set[int], int | None], write: DumpedWrite) -> bool:
    """Returns whether a replica shows the write.

    A register's entry names the index that wrote it; 0 is no index.
    """
    elements, index = shown
    if write.value is not None:
        return write.value in elements
    place = _entry(write)
    return index is not None and (place is None or index <= 0 or index >= place[1])


def _lacking(shown: tuple[Set[int], int | None], gone: Sequence[DumpedWrite]) -> str:
    values = [write.value for write in gone if write.value is not None]
    if values:
        many = "element" if len(values) == 1 else "elements"
        return f"{len(values)} acknowledged {many}, for instance {min(values)}"
    place = _entry(gone[0])
    if shown[1] is None or place is None:
        return "the key"
    return f"the write at index {place[1]}: it holds that of index {shown[1]}"
