"""The zone's spec in a file, and what ALTER ZONE changes in it.

The limits are those that the API server enforces (charts/zonequake, CRD DistributionZone); the
meaning is the operator's own (`parse_zone_spec`).
"""

from __future__ import annotations

from collections.abc import Mapping

from zonequake_ctl.what_if.reading.located import TextPlace
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

_NAMES: dict[str, tuple[str, ...]] = {
    "affinityFunction": ("rendezvous",),
    "consistencyMode": tuple(mode.value for mode in ConsistencyMode),
    "storage": tuple(storage.value for storage in StorageKind),
    "changePeers": tuple(mode.value for mode in ChangePeersMode),
}
_FIELDS = (
    "partitions",
    "replicas",
    AUTO_ADJUST,
    SCALE_UP,
    SCALE_DOWN,
    "dataNodesFilter",
    "partitionDistributionResetTimeout",
    *_NAMES,
    "fsync",
    "catchUpBytesPerSecond",
    "paused",
)


def read_spec(place: TextPlace) -> dict[str, object]:
    """A DistributionZone spec, checked as the API server would. Raises WhatIfError."""
    return {
        key: inner.value
        for key, inner in _checked(place, removable=False).items()
        if inner.value is not None
    }


def read_changes(place: TextPlace) -> dict[str, object]:
    """Reads the fields that ALTER ZONE changes; null removes a field. Raises WhatIfError."""
    fields = _checked(place, removable=True)
    for key in IMMUTABLE:
        if key in fields:
            fields[key].refuse(f"no {key}: it can't be changed after the zone's creation")
    if not fields:
        place.refuse("at least one field of the zone's spec")
    return {key: inner.value for key, inner in fields.items()}


def parsed(spec: Mapping[str, object]) -> ZoneSpec:
    """A checked spec as the operator reads it."""
    found = parse_zone_spec(spec)
    assert isinstance(found, ZoneSpec), found
    return found


def _checked(place: TextPlace, *, removable: bool) -> dict[str, TextPlace]:
    fields = place.fields(_FIELDS)
    for key, inner in fields.items():
        if inner.value is not None or not removable:
            _check(key, inner)
    if AUTO_ADJUST in fields and fields[AUTO_ADJUST].value is not None:
        for key in (SCALE_UP, SCALE_DOWN):
            if key in fields and fields[key].value is not None:
                place.refuse(f"{AUTO_ADJUST} or {key}: they are incompatible, remove one of them")
    return fields


def _check(key: str, place: TextPlace) -> None:
    if key in _NAMES:
        if place.value not in _NAMES[key]:
            place.refuse(" or ".join(_NAMES[key]))
    elif key in (AUTO_ADJUST, SCALE_UP, SCALE_DOWN):
        if place.value != "Infinite":
            _up_to(place, f"whole seconds (0 to {MAX_SECONDS}) or Infinite", 0, MAX_SECONDS)
    elif key == "partitions":
        _up_to(place, f"a whole number between 1 and {MAX_PARTITIONS}", 1, MAX_PARTITIONS)
    elif key == "replicas":
        _up_to(place, f"a whole number between 1 and {MAX_REPLICAS}", 1, MAX_REPLICAS)
    elif key == "partitionDistributionResetTimeout":
        _up_to(place, f"whole seconds (0 to {MAX_SECONDS})", 0, MAX_SECONDS)
    elif key == "catchUpBytesPerSecond":
        place.whole("bytes per second, or 0 for no limit")
    elif key == "dataNodesFilter":
        _check_filter(place)
    else:
        place.flag()


def _up_to(place: TextPlace, expected: str, least: int, most: int) -> None:
    place.whole(expected, least, most)


def _check_filter(place: TextPlace) -> None:
    expected = 'a filter such as ("US" || "EU") && "SSD"'
    if not isinstance(place.value, str):
        place.refuse(expected)
    if not place.value:
        return  # as good as none
    try:
        filters.parse(place.value)
    except FilterError as error:
        place.refuse(f"{expected}: {error}")
