"""Groups whose replicas are all lost, by what their nodes say after the quiet time. Pure.

A group is lost only if no node may hold anything of it: each node that its `stable`, `pending` or
chain ever named must have answered, by a process that none followed, that it holds no replica, or
one that can't be used. A volatile zone loses its data by design, and a reset is judged by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pyarrow as pa

from zonequake_analysis.inputs.event_shapes import NamedNodes, SeenReplica, SeenReplicas
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.inputs.shapes import Function, OutcomeCode
from zonequake_analysis.measures.resets import RESET


@dataclass(frozen=True, slots=True, kw_only=True)
class LostGroup:
    """A group whose replicas are all lost; `said`: what each node said at `at_ns`.

    `acknowledged`: the number of acknowledged writes to it, `last_write` the last one in words.
    """

    zone: str
    partition: int
    at_ns: int
    said: Mapping[str, str]
    acknowledged: int = 0
    last_write: str = ""

    @property
    def in_words(self) -> str:
        """The words of its nodes, and the writes that are lost."""
        said = "; ".join(f"{node}: {words}" for node, words in self.said.items())
        return (
            f"after the quiet time all of its replicas said so ({said}); the last of "
            f"{self.acknowledged:,} acknowledged writes to it is {self.last_write}"
        )


class AcknowledgedWrites(msgspec.Struct, frozen=True, kw_only=True):
    """The acknowledged writes of one partition, or of some of its keys."""

    zone: str
    partition: int
    count: int
    last_ns: int
    last_write: str


def leaderless(events: Iterable[RecordedEvent]) -> int:
    """Returns how many partitions had no leader after the quiet time."""
    return len({(one.zone, one.partition) for one in events if one.kind == "replicas.seen"})


def lost_groups(
    events: Sequence[RecordedEvent], volatile_zones: Collection[str]
) -> dict[tuple[str, int], LostGroup]:
    """Returns the lost groups by zone and partition."""
    seen: dict[tuple[str, int], RecordedEvent] = {}
    named: dict[tuple[str, int], set[str]] = defaultdict(set)
    processes: dict[str, str] = {}
    reset: set[tuple[str, int]] = set()
    for event in events:
        if event.kind == "node.started":
            processes[event.node or ""] = event.text("process_incarnation")
        elif event.partition is not None:
            place = event.zone or "", event.partition
            if event.kind == "replicas.seen":
                seen[place] = event
            elif event.kind == "partition.changed":
                named[place] |= _nodes(event)
            elif event.kind == RESET:
                reset.add(place)
    found = {}
    for place, event in seen.items():
        replicas = msgspec.convert(event.data, SeenReplicas).replicas
        nodes = named[place] | {node for node, replica in replicas.items() if replica.role}
        if place in reset or place[0] in volatile_zones or not named[place]:
            continue
        if all(_is_lost(replicas.get(node), processes.get(node)) for node in nodes):
            found[place] = LostGroup(
                zone=place[0],
                partition=place[1],
                at_ns=event.time,
                said={
                    node: replicas[node].reason or "it holds no replica" for node in sorted(nodes)
                },
            )
    return found


def _nodes(event: RecordedEvent) -> set[str]:
    named = msgspec.convert(event.data, NamedNodes)
    links = [link.nodes for link in named.chain or ()]
    return {node for nodes in (named.stable, named.pending, *links) for node in nodes or ()}


def _is_lost(replica: SeenReplica | None, process: str | None) -> bool:
    """Returns whether a node's newest process, None if no start was recorded, said that it holds
    nothing.
    """
    return (
        replica is not None
        and (replica.role is None or replica.lost)
        and process in (None, replica.process_incarnation)
    )


def acknowledged_writes(ops: pa.Table, partitions: Collection[int]) -> list[AcknowledgedWrites]:
    """Returns the acknowledged writes of these partitions, by their ids."""
    partition = ops.column("partition_id").to_numpy()
    f, fin = ops.column("f").to_numpy(), ops.column("fin").to_numpy()
    applied = ops.column("applied").to_numpy(zero_copy_only=False)
    writes = np.isin(f, (Function.WRITE.value, Function.APPEND.value)) | (
        (f == Function.CAS.value) & applied
    )
    writes &= ops.column("outcome").to_numpy() == OutcomeCode.OK.value
    found = []
    for number in sorted(partitions):
        rows = np.flatnonzero(writes & (partition == number))
        if len(rows):
            last = int(rows[fin[rows].argmax()])
            names = ["zone", "partition", "op", "f", "key", "node", "fin"]
            (row,) = ops.select(names).slice(last, 1).to_pylist()
            found.append(
                AcknowledgedWrites(
                    zone=row["zone"] or "",
                    partition=row["partition"],
                    count=len(rows),
                    last_ns=row["fin"],
                    last_write=f"{row['op']}, {Function(row['f']).name.lower()} of {row['key']} "
                    f"by {row['node'] or 'an unknown node'}",
                )
            )
    return found


def with_writes(
    groups: Mapping[tuple[str, int], LostGroup], parts: Iterable[AcknowledgedWrites]
) -> tuple[LostGroup, ...]:
    """Returns the groups that lost acknowledged writes, with these."""
    of_group: dict[tuple[str, int], list[AcknowledgedWrites]] = defaultdict(list)
    for part in parts:
        of_group[part.zone, part.partition].append(part)
    return tuple(
        replace(
            groups[place],
            acknowledged=sum(part.count for part in some),
            last_write=max(some, key=lambda part: part.last_ns).last_write,
        )
        for place, some in sorted(of_group.items())
    )
