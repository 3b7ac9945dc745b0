"""The acknowledged writes of each key, to be looked for in the replicas' dumps. Pure."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from zonequake_analysis.inputs.shapes import Function, OutcomeCode


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """The acknowledged writes of one key: its highest position, and appended elements.

    `places`: the position of each element, in their order.
    """

    zone: str
    partition: int
    key: str
    position: int | None
    elements: list[int]
    places: list[int | None] = []


def acknowledged_of(ops: pa.Table) -> list[Acknowledged]:
    """Returns for each key with an acknowledged write what a replica must hold of it."""
    f = ops.column("f").to_numpy()
    writes = (f == Function.WRITE.value) | (f == Function.APPEND.value)
    writes |= ops.column("applied").to_numpy()
    mine = ops.filter(pa.array(writes & (ops.column("outcome").to_numpy() == OutcomeCode.OK.value)))
    by_key: dict[tuple[int, int], Acknowledged] = {}
    append = mine.column("f").to_numpy() == Function.APPEND.value
    names = ("partition_id", "key_id", "zone", "partition", "key", "position", "value")
    for row, appended in zip(
        zip(*(mine.column(name).to_pylist() for name in names), strict=True),
        append.tolist(),
        strict=True,
    ):
        partition_id, key_id, zone, partition, key, position, value = row
        one = by_key.get((partition_id, key_id))
        if one is None:
            one = Acknowledged(
                zone=zone or "",
                partition=partition,
                key=key,
                position=position,
                elements=[],
                places=[],
            )
        elif position is not None and (one.position is None or position > one.position):
            one = msgspec.structs.replace(one, position=position)
        by_key[partition_id, key_id] = one
        if appended and value is not None:
            one.elements.append(value)
            one.places.append(position)
    return list(by_key.values())
