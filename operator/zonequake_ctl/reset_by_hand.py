"""A reset by hand (document `high-availability`, "manual partition disaster recovery"; design §3,
hole 7): what is known of lost majorities, the request, and whether the operator has carried it out.

    proofs_of ─▶ refusal, or to_reset ─▶ requests_for ─▶ request ─▶ wait

The command `zonequake reset` and the fault `reset_by_hand` do the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zonequake_ctl.reset_choices import waiting
from zonequake_ctl.reset_proof import MajorityReport, prove
from zonequake_ctl.zq.look import inspect, look
from zonequake_ctl.zq.screens.namespace_view import NamespaceView, named_zone
from zonequake_kube.client import Kube
from zonequake_kube.errors import Conflict, UsageError
from zonequake_operator.high_availability.decisions import each_with_holders
from zonequake_operator.high_availability.reset import forced_node, last_forced_token
from zonequake_operator.resources.model import Partition, ResetRequest, Zone
from zonequake_operator.resources.parsing import owner_uid, parse_partition, parse_zone
from zonequake_operator.resources.stored_shapes import (
    RESET_ANNOTATION,
    RESET_ZONE_ANNOTATION,
    render_reset_requests,
)
from zonequake_protocol.admin import ReplicaStatus

POLL_S = 0.3
ATTEMPTS = 10
"""Attempts to write the request: the operator may write the zone's status at the same time."""


async def proofs_of(
    kube: Kube, name: str, chosen: Sequence[int] = (), named: str | None = None
) -> tuple[str, list[MajorityReport]]:
    """Returns the zone's uid, and a proof for each chosen partition, or for every partition if none
    is chosen. Raises UsageError.
    """
    view = await _look(kube, name)
    zone = named_zone(view, name)
    if zone.zone.deleting:
        raise UsageError(f"zone {name} is being deleted: its partitions can't be reset any more")
    missing = [number for number in chosen if number not in zone.partitions]
    if missing:
        there = f"0 to {len(zone.partitions) - 1}" if zone.partitions else "it has none yet"
        raise UsageError(f"zone {name} has no partition {missing[0]}: {there}")
    every = each_with_holders(zone.snapshot(view), zone.groups)
    proofs = {partition.number: prove(partition, holders, named) for partition, holders in every}
    return zone.zone.uid, [proofs[number] for number in dict.fromkeys(chosen or sorted(proofs))]


async def _look(kube: Kube, name: str) -> NamespaceView:
    """Reads the namespace, and inspects waiting replicas of partitions without a leader: one of
    them may be chosen.
    """
    view = await look(kube)
    zone = named_zone(view, name)
    unseen = [
        (node, holders.group.name)
        for _, holders in each_with_holders(zone.snapshot(view), zone.groups)
        if holders.group.leader is None
        for node in waiting(holders)
    ]
    if not unseen:
        return view
    found: dict[str, dict[str, ReplicaStatus]] = {n: {**one} for n, one in view.inspected.items()}
    for node, seen in (await inspect(kube, unseen)).items():
        found.setdefault(node, {}).update(seen)
    return replace(view, inspected=found)


def to_reset(found: Sequence[MajorityReport], chosen: Sequence[int]) -> list[MajorityReport]:
    """Returns the proofs of the partitions to reset: the chosen ones, or else all that lost their
    majority.
    """
    return list(found) if chosen else [proof for proof in found if proof.refused is None]


def refusal(zone: str, found: Sequence[MajorityReport], chosen: Sequence[int]) -> list[str]:
    """Returns why nothing is reset, for people; empty if all that is `to_reset` may be."""
    proofs = to_reset(found, chosen)
    if not proofs:
        without_leader = [proof for proof in found if not proof.is_led]
        for_good = " for good" if without_leader else ""
        lost = f"no partition of zone {zone} has lost its majority{for_good}"
        return [lost, *told(without_leader)]
    return told(proofs) if any(proof.refused is not None for proof in proofs) else []


def told(proofs: Sequence[MajorityReport]) -> list[str]:
    """Returns lines for people; partitions with equal reports share their lines."""
    alike: dict[object, list[MajorityReport]] = {}
    for proof in proofs:
        key = (proof.stable, tuple(proof.lines()[1:]))
        alike.setdefault(key, []).append(proof)
    return [
        line
        for same in alike.values()
        for line in same[0].lines_for([proof.partition.number for proof in same])
    ]


def requests_for(proofs: Sequence[MajorityReport]) -> dict[int, ResetRequest]:
    """Returns the requests by partition."""
    return {proof.partition.number: proof.request for proof in proofs}


async def request(kube: Kube, name: str, uid: str, requests: Mapping[int, ResetRequest]) -> None:
    """Writes the requests beside those that others made. What the operator wrote since the proof
    doesn't matter. Raises UsageError if the zone isn't the one that the proofs are of.
    """
    for attempt in range(1, ATTEMPTS + 1):
        zone = parse_zone(await kube.get("DistributionZone", name))
        if zone.uid != uid:
            raise UsageError(
                f"zone {name} was deleted and created again since its majorities were looked at, "
                "so nothing was reset: look again"
            )
        all_of_them = render_reset_requests({**zone.reset_requests, **requests})
        change: dict[str, Any] = {
            "metadata": {
                "annotations": {
                    RESET_ANNOTATION: all_of_them,
                    RESET_ZONE_ANNOTATION: zone.uid,
                },
                "resourceVersion": zone.resource_version,
            }
        }
        try:
            await kube.patch("DistributionZone", name, change)
        except Conflict:
            if attempt == ATTEMPTS:
                raise
        else:
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOutReset:
    """A reset that was carried out: its token, and the node that went on; empty if that wasn't
    seen.
    """

    token: int
    survivor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetProgress:
    """The state of reset requests, by partition. `open`: not carried out yet; `lapsed`: without
    effect, since the keys were changed since then by something other than a reset. `said`: the
    zone's texts on its pause and its data at risk.
    """

    open: tuple[int, ...]
    lapsed: tuple[int, ...]
    done: Mapping[int, CarriedOutReset]
    said: tuple[str, ...]


async def wait(
    kube: Kube, name: str, uid: str, requests: Mapping[int, ResetRequest], wait_s: float
) -> ResetProgress:
    """Waits until no request is open, at most `wait_s` seconds; returns the progress. The requests
    are to the zone with this uid: with it they lapse.
    """
    give_up_s = time.monotonic() + wait_s
    chosen: dict[int, str] = {}
    while True:
        zone, found = await _read(kube, name, uid)
        open_: list[int] = []
        lapsed: list[int] = []
        done: dict[int, CarriedOutReset] = {}
        for number, request in requests.items():
            if number not in found:
                lapsed.append(number)  # deleted with its zone
                continue
            keys = found[number].keys
            node = forced_node(keys)
            if keys.configuration_token == request.token or node is not None:
                open_.append(number)
                if node is not None and keys.configuration_token > request.token:
                    chosen[number] = node
            elif last_forced_token(keys) > request.token:
                survivor = chosen.get(number) or _survivor(found[number])
                done[number] = CarriedOutReset(token=last_forced_token(keys), survivor=survivor)
            else:
                lapsed.append(number)
        if not open_ or time.monotonic() > give_up_s:
            telling = ("Paused", "DataAtRisk")
            said = [c.message for c in zone.conditions if c.type in telling and not c.is_well]
            return ResetProgress(
                open=tuple(open_), lapsed=tuple(lapsed), done=done, said=tuple(said)
            )
        await asyncio.sleep(POLL_S)


def _survivor(partition: Partition) -> str:
    """Returns the surviving node where the keys did not show the choice: the only one, or the
    leader.
    """
    newest = partition.keys.chain[-1].nodes
    return newest[0] if len(newest) == 1 else partition.view.leader or ""


async def _read(kube: Kube, name: str, uid: str) -> tuple[Zone, dict[int, Partition]]:
    zone = parse_zone(await kube.get("DistributionZone", name))
    listed = await kube.find("Partition")
    mine = [parse_partition(one) for one in listed if owner_uid(one) == uid]
    return zone, {partition.number: partition for partition in mine}
