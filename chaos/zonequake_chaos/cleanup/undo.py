"""Settles the entries of a cleanup journal. Repeatable, also by another process."""

from __future__ import annotations

import asyncio

from zonequake_agent.disk.tampering import TamperedCalls
from zonequake_chaos.faults.kinds.disk_full import empty_volume
from zonequake_chaos.faults.kinds.node_outage import remove_finalizer
from zonequake_chaos.faults.kinds.power_loss import restore_power
from zonequake_chaos.faults.kinds.scale import set_replicas
from zonequake_chaos.faults.signals import continue_process
from zonequake_chaos.load.objects import RUN_LABEL
from zonequake_chaos.load.pods import delete_load
from zonequake_chaos.node_access.agent_links import undo_links
from zonequake_chaos.node_access.own_machine import OwnMachine
from zonequake_chaos.node_access.shell import NodeShell, PodOnNode, asked, asked_if_there
from zonequake_chaos.record.cleanup_journal import (
    ContinueProcess,
    Debt,
    DeleteLoad,
    DeleteObjects,
    DeleteZone,
    EmptyVolume,
    JoinNetwork,
    LetSyncsPass,
    QuickenDisk,
    RemoveFinalizer,
    RestoreClock,
    RestorePower,
    RestoreScale,
    ResumeComponent,
)
from zonequake_kube.client import Kube
from zonequake_kube.deletion import erase_all
from zonequake_kube.diagnosis import look_at_operator
from zonequake_kube.errors import ClusterError, HarnessError, NotFound, WaitExpired

ZONE_GONE_S = 60.0
ZONE_GONE_AGAIN_S = 5.0
"""How long a zone that stayed once is waited for when its deletion is asked for again."""
_POLL_S = 0.5


async def pay(
    kube: Kube,
    debt: Debt,
    *,
    node: OwnMachine | None,
    shell: NodeShell | None,
    zone_gone_s: float = ZONE_GONE_S,
    run: str | None = None,
) -> None:
    """Brings about the state that `debt` names. Raises HarnessError.

    `run`: whose debt it is. A zone that doesn't have this run's label took its name later, and
    stays.
    """
    match debt:
        case JoinNetwork():
            carried = PodOnNode(name=debt.pod, uid=debt.uid, node=debt.host)
            await undo_links(_within_reach(shell, debt), carried, debt.fault)
        case ResumeComponent():
            _there(node, debt).resume(debt.component)
        case LetSyncsPass():
            on_node = PodOnNode(name=debt.pod, uid=debt.uid, node=debt.host)
            await asked(
                _within_reach(shell, debt), on_node, TamperedCalls, "let-syncs-pass", debt.uid
            )
        case QuickenDisk():
            on_node = PodOnNode(name=debt.pod, uid=debt.uid, node=debt.host)
            await asked(
                _within_reach(shell, debt), on_node, TamperedCalls, "quicken-disk", debt.uid
            )
        case RestorePower():
            await restore_power(_within_reach(shell, debt), debt.pod, debt.volume)
        case RestoreClock():
            on_node = PodOnNode(name=debt.pod, uid=debt.uid, node=debt.host)
            await asked_if_there(_within_reach(shell, debt), on_node, "step-clock", debt.uid, "0")
        case EmptyVolume():
            await empty_volume(kube, _within_reach(shell, debt), pod=debt.pod, path=debt.path)
        case RemoveFinalizer():
            await remove_finalizer(kube, pod=debt.pod, finalizer=debt.finalizer)
        case ContinueProcess():
            await continue_process(kube, pod=debt.pod, uid=debt.uid)
        case RestoreScale():
            try:
                await set_replicas(kube, name=debt.stateful_set, replicas=debt.replicas)
            except NotFound:
                return
        case DeleteLoad():
            await delete_load(kube, debt.name)
        case DeleteZone():
            if run is None or await _is_zone_of(kube, debt.zone, run):
                await delete_zone(kube, debt.zone, within_s=zone_gone_s)
        case DeleteObjects():
            await erase_all(kube, debt.labels, debt.kinds)


async def _is_zone_of(kube: Kube, zone: str, run: str) -> bool:
    found = await kube.find("DistributionZone", f"{RUN_LABEL}={run}")
    return zone in {each["metadata"]["name"] for each in found}


def _within_reach(shell: NodeShell | None, debt: Debt) -> NodeShell:
    if shell is None:
        raise HarnessError(
            f"{debt}: found neither a fault agent in the release nor an embedded cluster here: "
            "install the release with --set faultAgent.enabled=true, then clean again"
        )
    return shell


def _there(node: OwnMachine | None, debt: Debt) -> OwnMachine:
    if node is None:
        raise HarnessError(
            f"{debt}: the embedded cluster of this fault does not run on this machine: "
            "start it with `zonequake cluster up`, then clean again"
        )
    return node


async def delete_zone(kube: Kube, zone: str, *, within_s: float = ZONE_GONE_S) -> None:
    """Deletes a zone and waits until its finalizer is removed. Raises WaitExpired, with the state
    of the operator, which is to remove it.
    """
    for _ in range(int(within_s / _POLL_S)):
        try:
            await kube.delete("DistributionZone", zone)
            await asyncio.sleep(_POLL_S)
        except NotFound:
            return
        except ClusterError as error:
            if error.status in (401, 403):
                raise
            await asyncio.sleep(_POLL_S)
    raise WaitExpired(
        f"zone {zone} is still there {within_s:g} s after its deletion: "
        f"{await look_at_operator(kube)}"
    )
