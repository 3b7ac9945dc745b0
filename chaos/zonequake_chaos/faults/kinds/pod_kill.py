"""Kills pods: the process by SIGKILL, and in the same breath the pod's object with grace 0.

Both are needed. The kubelet gives even a pod that is deleted with grace 0 two seconds after a
SIGTERM, in which a data node hands over its leaderships and stops in good order: that is no kill.
And a process that is only killed comes back in its old pod. The StatefulSet puts a successor in the
pod's place; that is the recovery.
"""

from __future__ import annotations

import signal

from zonequake_chaos.faults.life import Injury, Proof, Victim, together
from zonequake_chaos.faults.signals import ready_to_signal
from zonequake_chaos.faults.watching import until_back, until_processes_gone
from zonequake_kube.errors import NotFound


class PodKill:
    """See the module."""

    async def prepare(self, injury: Injury) -> None:
        """Nothing to undo: the StatefulSet brings the pod back."""

    async def inject(self, injury: Injury) -> None:
        await kill_and_delete(injury)

    async def wait_until_effective(self, injury: Injury) -> Proof:
        return await until_processes_gone(injury)

    async def recover(self, injury: Injury) -> None:
        """The StatefulSet does."""

    async def wait_until_recovered(self, injury: Injury) -> None:
        await until_back(injury)

    async def clean_up(self, injury: Injury) -> None:
        injury.pay()


class GracefulDelete:
    """Deletes the pod with its own grace period: leaderships move away before it ends."""

    async def prepare(self, injury: Injury) -> None:
        """Nothing to undo: the StatefulSet brings the pod back."""

    async def inject(self, injury: Injury) -> None:
        await together(delete_pod(injury, victim, grace_s=None) for victim in injury.victims)

    async def wait_until_effective(self, injury: Injury) -> Proof:
        return await until_processes_gone(injury)

    async def recover(self, injury: Injury) -> None:
        """The StatefulSet does."""

    async def wait_until_recovered(self, injury: Injury) -> None:
        await until_back(injury)

    async def clean_up(self, injury: Injury) -> None:
        injury.pay()


async def kill_and_delete(injury: Injury) -> None:
    """Kills the victims' processes and deletes their pods, all at the same moment."""
    async with ready_to_signal(injury, signal.SIGKILL) as kill_all:
        await together(
            [kill_all(), *(delete_pod(injury, victim, grace_s=0) for victim in injury.victims)]
        )


async def delete_pod(injury: Injury, victim: Victim, *, grace_s: int | None) -> None:
    """Deletes exactly the pod that was chosen: a successor has another UID."""
    try:
        await injury.world.kube.delete("Pod", victim.node, uid=victim.pod_uid, grace_s=grace_s)
    except NotFound:
        return
