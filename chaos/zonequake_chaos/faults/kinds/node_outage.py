"""Holds data nodes down for any time.

The pod gets a finalizer, then its process is killed and the pod deleted: the kubelet reports the
end of its containers, and the StatefulSet can't create a successor while the object exists.
Recovery removes the finalizer.

The deletion follows the kill at once: a pod that is only killed is restarted, and one that is
deleted first gets two seconds from the kubelet, in which a data node hands over its leaderships.
"""

from __future__ import annotations

import asyncio

from zonequake_chaos.faults.kinds.pod_kill import kill_and_delete
from zonequake_chaos.faults.life import Injection, Proof, Victim
from zonequake_chaos.faults.watching import until_back, until_processes_gone
from zonequake_chaos.record.cleanup_journal import RemoveFinalizer
from zonequake_kube.client import Kube
from zonequake_kube.errors import NotFound

FINALIZER = "zonequake.io/outage"


class NodeOutage:
    """Life of `NodeOutageSpec`. The victims return in their order, `return_gap_s` apart."""

    def __init__(self, *, return_gap_s: float = 0.0) -> None:
        self._return_gap_s = return_gap_s

    async def prepare(self, injection: Injection) -> None:
        for victim in injection.victims:
            injection.owe(RemoveFinalizer(pod=victim.node, finalizer=FINALIZER))

    async def inject(self, injection: Injection) -> None:
        kube = injection.world.kube
        for victim in injection.victims:
            pod = await kube.get("Pod", victim.node)
            present = pod["metadata"].get("finalizers") or []
            await kube.patch(
                "Pod",
                victim.node,
                {"metadata": {"uid": victim.pod_uid, "finalizers": [*present, FINALIZER]}},
            )
        await kill_and_delete(injection)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        return await until_processes_gone(injection)

    async def recover(self, injection: Injection) -> None:
        for victim in injection.victims:
            if not await _is_held(injection, victim):
                injection.ended_early = f"{victim.node} was let back before its outage ended"
        for number, victim in enumerate(injection.victims):
            if number:
                await asyncio.sleep(self._return_gap_s)
            await remove_finalizer(injection.world.kube, pod=victim.node, finalizer=FINALIZER)

    async def wait_until_recovered(self, injection: Injection) -> None:
        await until_back(injection)

    async def clean_up(self, injection: Injection) -> None:
        for victim in injection.victims:
            await remove_finalizer(injection.world.kube, pod=victim.node, finalizer=FINALIZER)
        injection.pay()


async def _is_held(injection: Injection, victim: Victim) -> bool:
    """Returns whether the victim's own object is still there, and keeps a successor away."""
    try:
        metadata = (await injection.world.kube.get("Pod", victim.node))["metadata"]
    except NotFound:
        return False
    return metadata["uid"] == victim.pod_uid and FINALIZER in (metadata.get("finalizers") or [])


async def remove_finalizer(kube: Kube, *, pod: str, finalizer: str) -> None:
    """Removes the finalizer from the pod, if pod and finalizer exist."""
    try:
        found = await kube.get("Pod", pod)
        metadata = found["metadata"]
        present = metadata.get("finalizers") or []
        if finalizer in present:
            rest = [entry for entry in present if entry != finalizer]
            await kube.patch(
                "Pod", pod, {"metadata": {"uid": metadata["uid"], "finalizers": rest or None}}
            )
    except NotFound:
        return
