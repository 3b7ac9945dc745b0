"""Takes the power from the victims' volumes: what was synced stays, and what was not is lost.

The node's agent kills what uses them, shuts their file systems down without a flush, and mounts
them again (`zonequake_agent.disk.power`), for all victims of a node in one call. The kubelet then
restarts the containers. A volume that is not a file system of its own is refused before anything is
done to it.
"""

from __future__ import annotations

from itertools import groupby

from zonequake_agent.disk.power import HALF_BYTES, PowerLoss
from zonequake_agent.disk.power_plan import Volume
from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.faults.life import Injection, Proof, Victim, together
from zonequake_chaos.faults.watching import until_back, until_processes_gone
from zonequake_chaos.node_access.shell import NodeShell, PodOnNode, asked, shell_of, told
from zonequake_chaos.record.cleanup_journal import RestorePower
from zonequake_kube.objects import claim_path


class PowerLossLife:
    """Life of `PowerLossSpec`. Effective once each volume is mounted again, without the bytes that
    were written and not synced just before.
    """

    def __init__(self) -> None:
        self._paths: dict[str, str] = {}
        self._volumes: dict[str, Volume] = {}
        self._lost: dict[str, PowerLoss] = {}

    async def prepare(self, injection: Injection) -> None:
        shell = shell_of(injection.world.shell)
        for victim in injection.victims:
            path = claim_path(await injection.world.kube.get("Pod", victim.node))
            if path is None:
                raise FaultFailed(
                    f"{injection.name}: pod {victim.node} has no volume from a claim, so nothing "
                    "of it can lose its power: expected a volume with its own file system "
                    "(docs/faults.md)"
                )
            words = (victim.pod_uid, path)
            self._paths[victim.node] = path
            self._volumes[victim.node] = await asked(
                shell, victim.on_node, Volume, "volume", *words
            )
        for victim in injection.victims:
            volume = self._volumes[victim.node]
            injection.owe(RestorePower(pod=victim.on_node, volume=volume))

    async def inject(self, injection: Injection) -> None:
        shell = shell_of(injection.world.shell)
        for victim in injection.victims:
            words = (victim.pod_uid, self._paths[victim.node])
            await asked(shell, victim.on_node, type(None), "mark-power", *words)

        def host(victim: Victim) -> str:
            return victim.host

        hosts = groupby(sorted(injection.victims, key=host), key=host)
        await together(self._lose(injection, shell, list(group)) for _, group in hosts)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        for name, lost in self._lost.items():
            if (lost.synced_bytes, lost.unsynced_bytes) != (HALF_BYTES, 0):
                raise FaultFailed(
                    f"{injection.name}: of the marker of {name} there are {lost.synced_bytes} "
                    f"bytes that were synced and {lost.unsynced_bytes} that were not; expected "
                    f"{HALF_BYTES} and 0: the file system lost something else than its memory"
                )
        gone = await until_processes_gone(injection)
        killed = {name: lost.killed for name, lost in self._lost.items()}
        return {**gone, "killed": killed, "kept_bytes": HALF_BYTES, "lost_bytes": HALF_BYTES}

    async def recover(self, injection: Injection) -> None:
        """Does nothing: the volume is there, and the kubelet restarts the container."""

    async def wait_until_recovered(self, injection: Injection) -> None:
        await until_back(injection)

    async def clean_up(self, injection: Injection) -> None:
        shell = shell_of(injection.world.shell)
        for victim in injection.victims:
            volume = self._volumes.get(victim.node)
            if volume is not None:
                await restore_power(shell, victim.on_node, volume)
        injection.pay()

    async def _lose(self, injection: Injection, shell: NodeShell, victims: list[Victim]) -> None:
        words = [word for v in victims for word in (v.pod_uid, self._paths[v.node])]
        lost = await asked(shell, victims[0].on_node, list[PowerLoss], "lose-power", *words)
        for victim, each in zip(victims, lost, strict=True):
            self._lost[victim.node] = each
            injection.killed_ns[victim.node] = injection.world.clock.now().time_ns


async def restore_power(shell: NodeShell, pod: PodOnNode, volume: Volume) -> None:
    """Mounts the volume again where it is missing or shut down, and deletes the marker. Raises
    HarnessError.
    """
    await asked(shell, pod, type(None), "restore-power", pod.uid, told(volume))
