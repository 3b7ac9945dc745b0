"""The zone's spec in a file, and what ALTER ZONE changes in it.

The limits are those that the API server enforces (charts/zonequake, CRD DistributionZone); the
meaning is the operator's own (`parse_zone_spec`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from zonequake_ctl.what_if.reading.question import MAX_WHOLE, FilePart
from zonequake_kube.yaml_fields import check_names, convert, file_names, refuse
from zonequake_operator.errors import FilterError
from zonequake_operator.nodes import filters
from zonequake_operator.resources.model import (
    ChangePeersMode,
    ConsistencyMode,
    StorageKind,
    ZoneSpec,
)
from zonequake_operator.resources.overrides import AUTO_ADJUST, SCALE_DOWN, SCALE_UP
from zonequake_operator.resources.parsing import parse_zone_spec

IMMUTABLE = ("partitions", "consistencyMode", "storage")
MAX_SECONDS = 2147483647
MAX_REPLICAS = 1000
MAX_PARTITIONS = 65000

_FILTER = 'a filter such as ("US" || "EU") && "SSD"'
_SECONDS = f"whole seconds (0 to {MAX_SECONDS})"


def _count(most: int) -> Meta:
    return Meta(ge=1, le=most, description=f"a whole number between 1 and {most}")


GivenTimer = Annotated[
    Annotated[int, Meta(ge=0, le=MAX_SECONDS)] | Literal["Infinite"],
    Meta(description=f"{_SECONDS} or Infinite"),
]


class ZoneFields(FilePart, frozen=True):
    """A DistributionZone spec, as a file has it."""

    partitions: Annotated[int, _count(MAX_PARTITIONS)] | UnsetType = UNSET
    replicas: Annotated[int, _count(MAX_REPLICAS)] | UnsetType = UNSET
    data_nodes_auto_adjust: GivenTimer | UnsetType = UNSET
    data_nodes_auto_adjust_scale_up: GivenTimer | UnsetType = UNSET
    data_nodes_auto_adjust_scale_down: GivenTimer | UnsetType = UNSET
    data_nodes_filter: Annotated[str, Meta(description=_FILTER)] | UnsetType = UNSET
    partition_distribution_reset_timeout: (
        Annotated[int, Meta(ge=0, le=MAX_SECONDS, description=_SECONDS)] | UnsetType
    ) = UNSET
    affinity_function: Literal["rendezvous"] | UnsetType = UNSET
    consistency_mode: ConsistencyMode | UnsetType = UNSET
    storage: StorageKind | UnsetType = UNSET
    change_peers: ChangePeersMode | UnsetType = UNSET
    fsync: bool | UnsetType = UNSET
    catch_up_bytes_per_second: (
        Annotated[int, Meta(ge=0, le=MAX_WHOLE, description="bytes per second, or 0 for no limit")]
        | UnsetType
    ) = UNSET
    paused: bool | UnsetType = UNSET


def check_spec(spec: object, path: str) -> dict[str, object]:
    """Checks a DistributionZone spec as the API server would, and returns it. Raises
    NotExpectedError.
    """
    fields = convert(spec, ZoneFields, path)
    if fields.data_nodes_filter:
        try:
            filters.parse(fields.data_nodes_filter)
        except FilterError as error:
            refuse(f"{path}.dataNodesFilter", fields.data_nodes_filter, f"{_FILTER}: {error}")
    found: dict[str, object] = msgspec.to_builtins(fields)
    for key in (SCALE_UP, SCALE_DOWN):
        if AUTO_ADJUST in found and key in found:
            wrong = f"{AUTO_ADJUST} or {key}: they are incompatible, remove one of them"
            refuse(path, spec, wrong)
    return found


def read_changes(value: Any, path: str) -> dict[str, object]:  # noqa: ANN401
    """Reads the fields that ALTER ZONE changes; null removes a field. Raises NotExpectedError."""
    nulls = {}
    if isinstance(value, dict):
        check_names(value, file_names(ZoneFields), path)
        nulls = {key: inner for key, inner in value.items() if inner is None}
        value = {key: inner for key, inner in value.items() if inner is not None}
    found = check_spec(value, path) | nulls
    for key in IMMUTABLE:
        if key in found:
            what = f"no {key}: it can't be changed after the zone's creation"
            refuse(f"{path}.{key}", found[key], what)
    if not found:
        refuse(path, value, "at least one field of the zone's spec")
    return found


def parsed(spec: Mapping[str, object]) -> ZoneSpec:
    """Parses a checked spec as the operator reads it."""
    found = parse_zone_spec(spec)
    assert isinstance(found, ZoneSpec), found
    return found
