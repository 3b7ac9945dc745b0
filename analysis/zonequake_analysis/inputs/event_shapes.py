"""Shapes of the part of an event's `data` that a verdict rests on.

The rest of `data` is free: reports show it, and leave out what isn't of the expected kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from zonequake_analysis.limits import MOST_NS

_Moment = Annotated[int, msgspec.Meta(gt=-MOST_NS, lt=MOST_NS)]
_Partition = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Lineage = Annotated[int, msgspec.Meta(ge=0, lt=2**10)]
_Term = Annotated[int, msgspec.Meta(ge=0, lt=2**20)]
_Index = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]


class _Victim(msgspec.Struct, frozen=True):
    node: str
    process_incarnation: str | None = None


class _Gone(msgspec.Struct, frozen=True):
    gone_ns: dict[str, _Moment]
    victims: list[_Victim]


class _AskedReset(msgspec.Struct, frozen=True):
    partition: _Partition
    token: _Number
    survivor: str | None = None


class _Asked(msgspec.Struct, frozen=True):
    zone: str
    partitions: list[_AskedReset]


class _DeathProof(msgspec.Struct, frozen=True):
    proof: _Gone


class _ResetProof(msgspec.Struct, frozen=True):
    proof: _Asked


class _Link(msgspec.Struct, frozen=True):
    nodes: list[str]
    term: _Number
    index: _Number


class NamedNodes(msgspec.Struct, frozen=True):
    """The nodes that a partition's resource names as holders of its data."""

    token: _Number | None = None
    stable: list[str] | None = None
    pending: list[str] | None = None
    chain: list[_Link] | None = None


class _Reset(msgspec.Struct, frozen=True):
    lineage: _Lineage
    last_lineage: _Lineage | None = None
    last_term: _Term | None = None
    last_index: _Index | None = None


class SeenReplica(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a partition's replica at a node, by its process. `role` is None if the node
    holds none; `lost`: what is stored can't be used.
    """

    process_incarnation: str
    role: str | None = None
    lost: bool = False
    reason: str | None = None


class SeenReplicas(msgspec.Struct, frozen=True):
    """The replicas of a partition without a leader, by node."""

    replicas: dict[str, SeenReplica]


def check_data(kind: str, data: Mapping[str, Any]) -> None:
    """Raises msgspec.ValidationError, with the field's path, for `data` unfit for a verdict."""
    for shape in _shapes(kind, data):
        msgspec.convert(data, shape)


def _shapes(kind: str, data: Mapping[str, Any]) -> list[type[msgspec.Struct]]:
    if kind == "partition.changed":
        return [NamedNodes]
    if kind == "group.reset":
        return [_Reset]
    if kind == "replicas.seen":
        return [SeenReplicas]
    proof = data.get("proof")
    if kind != "fault.effective" or not isinstance(proof, dict):
        return []
    deaths = [_DeathProof] if "gone_ns" in proof else []
    by_hand = data.get("type") == "reset_by_hand" and "partitions" in proof
    return [*deaths, *([_ResetProof] if by_hand else [])]
