"""`kubectl zq plan`: asks the server whether it takes the change, then the planner what follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import yaml
from rich.console import RenderableType

from zonequake_ctl.zq.look import copy_bytes, inspect, look, zone_object
from zonequake_ctl.zq.screens.forecast import Forecast, ForecastStep, forecast
from zonequake_ctl.zq.screens.forecast_screen import forecast_screen, spec_changes
from zonequake_ctl.zq.screens.namespace_view import NamespaceView, ZoneView, named_zone
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, Conflict, UsageError, unreadable
from zonequake_kube.objects import Json
from zonequake_kube.yaml_text import read_yaml, read_yaml_documents
from zonequake_operator.resources.model import Partition, ZoneSnapshot, ZoneSpec, group_name
from zonequake_operator.resources.parsing import parse_zone

KIND = "DistributionZone"
TRIES = 5
"""How often a zone is looked at that changes before the server has checked the wish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedZone:
    """A wanted zone: a whole spec (`fields` False), or some fields of one."""

    zone: str
    spec: Json
    fields: bool


def wishes_of_file(path: Path) -> list[WantedZone]:
    """Reads the DistributionZones of a manifest file. Raises UsageError."""
    try:
        documents = [each for each in read_yaml_documents(path.read_text()) if each]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} can't be read: {unreadable(error)}, expected a manifest"
        ) from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path} can't be read, it isn't YAML: {error}") from error
    wishes = [
        WantedZone(zone=str(one["metadata"]["name"]), spec=one.get("spec") or {}, fields=False)
        for one in documents
        if isinstance(one, dict)
        and one.get("kind") == KIND
        and (one.get("metadata") or {}).get("name")
    ]
    if not wishes:
        raise UsageError(f"{path} holds no {KIND} with a name")
    return wishes


def wish_of_settings(zone: str, settings: Sequence[str]) -> WantedZone:
    """`replicas=5` words over the zone's present spec. Raises UsageError."""
    spec: Json = {}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or not key:
            raise UsageError(f"--set {setting!r}: expected FIELD=VALUE, such as replicas=5")
        try:
            spec[key] = read_yaml(value)
        except yaml.YAMLError as error:
            problem = getattr(error, "problem", None) or "it isn't YAML"
            raise UsageError(f"--set {setting!r}: found {value!r}, {problem}") from error
    return WantedZone(zone=zone, spec=spec, fields=True)


async def answer(kube: Kube, wish: WantedZone, *, show_all: bool) -> RenderableType:
    """Returns the forecast of the zone for the screen. Raises UsageError if there is none."""
    present, wanted = await _present_and_wanted(kube, wish)
    if present is not None and "deletionTimestamp" in present["metadata"]:
        raise UsageError(f"zone {wish.zone} is being deleted: no change of it has any effect")
    view = await look(kube)
    if present is not None and not view.reports:
        reasons = "; ".join(sorted(set(view.unheard.values()))) or "there are no pods"
        raise ClusterError(
            f"found no data node that answers, expected one or more: {reasons}; look at their pods"
        )
    zone = _zone(view, wish.zone, wanted)
    spec = parse_zone(wanted).spec
    if isinstance(spec, str):
        raise UsageError(f"zone {wish.zone}: {spec}")
    going_on = msgspec.structs.replace(spec, paused=False)
    foretold = await _foretold(kube, zone.snapshot(view), going_on)
    sizes = await copy_bytes(kube, _asked(zone, foretold.steps))
    changes = spec_changes((present or {}).get("spec") or {}, wanted["spec"])
    return forecast_screen(
        wish.zone,
        changes=changes,
        spec=spec,
        foretold=foretold,
        sizes=sizes,
        show_all=show_all,
        lost=[number for number, health in zone.health.items() if health.lost],
    )


async def _foretold(kube: Kube, snapshot: ZoneSnapshot, spec: ZoneSpec) -> Forecast:
    """Forecasts, once everything was looked at that the forecast rests on and that can be seen."""
    tried: frozenset[tuple[str, str]] = frozenset()
    while True:
        foretold = forecast(snapshot, spec)
        asked = foretold.unseen - tried
        if not asked:
            return foretold
        tried |= asked
        inspected = {node: dict(known) for node, known in snapshot.inspected.items()}
        for node, found in (await inspect(kube, sorted(asked))).items():
            inspected.setdefault(node, {}).update(found)
        snapshot = replace(snapshot, inspected=inspected)


async def _present_and_wanted(kube: Kube, wish: WantedZone) -> tuple[Json | None, Json]:
    """Returns the zone as it is, None if there is none, and as the server would store it. Looks
    again if another client, such as the operator, changed it in between."""
    tries = 0
    while True:
        present = await zone_object(kube, wish.zone)
        if present is None and wish.fields:
            named_zone(await look(kube), wish.zone)  # says which there are
        try:
            return present, await _accepted(kube, wish, present)
        except Conflict:
            tries += 1
            if tries == TRIES:
                raise


async def _accepted(kube: Kube, wish: WantedZone, present: Json | None) -> Json:
    """Returns the zone as the server would store it. Raises UsageError with the server's words,
    Conflict if `present` is no longer the zone."""
    if present is None:
        manifest: Json = {
            "apiVersion": "zonequake.io/v1alpha1",
            "kind": KIND,
            "metadata": {"name": wish.zone},
            "spec": wish.spec,
        }
    else:
        spec = {**present["spec"], **wish.spec} if wish.fields else wish.spec
        manifest = {**present, "spec": {k: v for k, v in spec.items() if v is not None}}
    try:
        wanted = await kube.try_write(manifest, replaces=present is not None)
    except ClusterError as error:
        if error.status in (400, 403, 422):
            raise UsageError(f"the server would refuse it: {error.words or error}") from error
        raise
    wanted["metadata"].setdefault("resourceVersion", "0")
    return wanted


def _zone(view: NamespaceView, name: str, wanted: Json) -> ZoneView:
    for zone in view.zones:
        if zone.zone.name == name:
            return zone
    none: dict[int, Partition] = {}
    return ZoneView(zone=parse_zone(wanted), partitions=none, reports=view.reports)


def _asked(zone: ZoneView, steps: Sequence[ForecastStep]) -> list[tuple[int, str, str]]:
    """Returns the partitions whose sizes are worth asking for: those of which some node gets a
    copy.
    """
    numbers = {m.partition for step in steps for m in step.moves if m.copies and not m.reset_to}
    asked = []
    for number in sorted(numbers):
        leader = zone.groups[number].leader
        if leader is not None:
            asked.append((number, group_name(zone.zone.name, zone.zone.uid, number), leader))
    return asked
