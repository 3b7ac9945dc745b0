"""Kills pods: the process by SIGKILL, and then at once the pod's object with grace 0.

Both are needed, in this order. Even a pod that is deleted with grace 0 gets two seconds after a
SIGTERM from the kubelet, in which a data node hands over its leaderships and stops gracefully: that
is no kill, and on a busy node a SIGTERM can overtake a SIGKILL. A process that is only killed
restarts in its old pod. The StatefulSet creates a successor of the pod; that is the recovery.
"""

from __future__ import annotations

import signal

from zonequake_chaos.faults.life import Injection, Proof, Victim, together
from zonequake_chaos.faults.signals import ready_to_signal
from zonequake_chaos.faults.watching import until_back, until_processes_gone
from zonequake_kube.errors import NotFound


class PodKill:
    """Life of `PodKillSpec`: kills the victims' processes, then deletes their pods."""

    async def prepare(self, injection: Injection) -> None:
        """Records nothing: the StatefulSet brings the pod back."""

    async def inject(self, injection: Injection) -> None:
        await kill_and_delete(injection)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        return await until_processes_gone(injection)

    async def recover(self, injection: Injection) -> None:
        """Does nothing: the StatefulSet brings the pod back."""

    async def wait_until_recovered(self, injection: Injection) -> None:
        await until_back(injection)

    async def clean_up(self, injection: Injection) -> None:
        injection.pay()


class GracefulDelete:
    """Deletes the pod with its own grace period: leaderships move away before it ends."""

    async def prepare(self, injection: Injection) -> None:
        """Records nothing: the StatefulSet brings the pod back."""

    async def inject(self, injection: Injection) -> None:
        await together(delete_pod(injection, victim, grace_s=None) for victim in injection.victims)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        return await until_processes_gone(injection)

    async def recover(self, injection: Injection) -> None:
        """Does nothing: the StatefulSet brings the pod back."""

    async def wait_until_recovered(self, injection: Injection) -> None:
        await until_back(injection)

    async def clean_up(self, injection: Injection) -> None:
        injection.pay()


async def kill_and_delete(injection: Injection) -> None:
    """Kills the victims' processes at the same moment, and then deletes their pods."""
    async with ready_to_signal(injection, signal.SIGKILL) as kill_all:
        await kill_all()
        await together(delete_pod(injection, victim, grace_s=0) for victim in injection.victims)


async def delete_pod(injection: Injection, victim: Victim, *, grace_s: int | None) -> None:
    """Deletes exactly the chosen pod: a successor has another UID."""
    try:
        await injection.world.kube.delete("Pod", victim.node, uid=victim.pod_uid, grace_s=grace_s)
    except NotFound:
        return
