"""Deletes pods: with grace 0 (`pod_kill`) or with their own grace period (`graceful_delete`).

The StatefulSet puts a successor in their place; that is the recovery. A grace-0 delete removes the
object before the process: the proof is the process that no longer answers, never the object.
"""

from __future__ import annotations

from zonequake_chaos.faults.life import Injury, Proof, together
from zonequake_chaos.faults.watching import until_back, until_processes_gone


class PodDeletion:
    """`grace_s` None leaves the pod its own grace period and its preStop hook."""

    def __init__(self, *, grace_s: int | None) -> None:
        self._grace_s = grace_s

    async def prepare(self, injury: Injury) -> None:
        """Nothing to undo: the StatefulSet brings the pod back."""

    async def inject(self, injury: Injury) -> None:
        """Deletes exactly the pods that were chosen: a successor has another UID."""
        await together(
            injury.world.kube.delete("Pod", victim.node, uid=victim.pod_uid, grace_s=self._grace_s)
            for victim in injury.victims
        )

    async def wait_until_effective(self, injury: Injury) -> Proof:
        return await until_processes_gone(injury)

    async def recover(self, injury: Injury) -> None:
        """The StatefulSet does."""

    async def wait_until_recovered(self, injury: Injury) -> None:
        await until_back(injury)

    async def clean_up(self, injury: Injury) -> None:
        injury.pay()
