"""Fills the victims' volumes, so that the kernel answers their writes with ENOSPC.

A file takes all space in the volume (`zonequake_agent.disk.filling`); the agent refuses volumes
that share their file system with anything else. The file lies in the volume, so it outlives the
pod: it is deleted through the pod that has the volume then.
"""

from __future__ import annotations

from dataclasses import asdict

from zonequake_agent.disk.filling import VolumeState
from zonequake_chaos.errors import FaultFailed, NoProcess
from zonequake_chaos.faults.life import Injection, Proof, Victim
from zonequake_chaos.node_access.shell import NodeShell, PodOnNode, asked, shell_of
from zonequake_chaos.observe.view import ClusterView, NodeView
from zonequake_chaos.record.cleanup_journal import EmptyVolume
from zonequake_kube.client import Kube
from zonequake_kube.errors import NotFound
from zonequake_kube.objects import claim_path, pod_view


class DiskFull:
    """Life of `DiskFullSpec`. Effective once one more block was refused in each volume."""

    def __init__(self) -> None:
        self._paths: dict[str, str] = {}

    async def prepare(self, injection: Injection) -> None:
        for victim in injection.victims:
            path = claim_path(await injection.world.kube.get("Pod", victim.node))
            if path is None:
                raise FaultFailed(
                    f"{injection.name}: pod {victim.node} has no volume from a claim: filling any "
                    "other would fill the node"
                )
            self._paths[victim.node] = path
            injection.owe(EmptyVolume(pod=victim.node, path=path))

    async def inject(self, injection: Injection) -> None:
        for victim in injection.victims:
            await self._ask(injection, victim, "fill")

    async def wait_until_effective(self, injection: Injection) -> Proof:
        stands: dict[str, VolumeState] = {}

        async def all_refuse() -> bool:
            for victim in injection.victims:
                stands[victim.node] = await self._ask(injection, victim, "filled")
            return all(found.refuses for found in stands.values())

        await injection.until(all_refuse, waiting_for=lambda: f"state of the volumes: {stands}")
        volumes = {name: asdict(found) for name, found in stands.items()}
        return {"volumes": volumes, "error": "ENOSPC"}

    async def recover(self, injection: Injection) -> None:
        for victim in injection.victims:
            found = await self._ask_patiently(injection, victim, "filled")
            if not found.refuses:
                injection.ended_early = f"the volume of {victim.node} takes writes again: {found}"
        await self._empty(injection)

    async def wait_until_recovered(self, injection: Injection) -> None:
        """Waits until every victim answers and reports no storage trouble."""
        names = [victim.node for victim in injection.victims]

        def troubles(view: ClusterView) -> list[str]:
            return [
                f"{name}: {trouble}" for name in names if (trouble := _trouble(view.node(name)))
            ]

        await injection.world.observer.wait(
            lambda view: not troubles(view),
            timeout_s=injection.timeout_s,
            waiting_for=lambda view: "; ".join(troubles(view)),
        )

    async def clean_up(self, injection: Injection) -> None:
        await self._empty(injection)
        injection.pay()

    async def _empty(self, injection: Injection) -> None:
        for victim in injection.victims:
            if victim.node in self._paths:
                await self._ask_patiently(injection, victim, "empty")

    async def _ask_patiently(self, injection: Injection, victim: Victim, verb: str) -> VolumeState:
        """Asks until a process has the volume: a member may have ended on its full disk, and be
        started again later. Raises WaitExpired.
        """
        answers: list[VolumeState] = []
        refusals: list[str] = []

        async def answered() -> bool:
            try:
                answers.append(await self._ask(injection, victim, verb))
            except (NoProcess, NotFound) as error:
                refusals.append(str(error))
            return bool(answers)

        await injection.until(
            answered, waiting_for=lambda: f"nothing has the volume now: {refusals[-1]}"
        )
        return answers[-1]

    async def _ask(self, injection: Injection, victim: Victim, verb: str) -> VolumeState:
        kube, shell = injection.world.kube, shell_of(injection.world.shell)
        return await _ask_there(kube, shell, victim.node, self._paths[victim.node], verb)


def _trouble(node: NodeView | None) -> str | None:
    if node is None or node.report is None:
        return "silent"
    return node.report.node.storage_problem


async def empty_volume(kube: Kube, shell: NodeShell, *, pod: str, path: str) -> None:
    """Deletes the fill file, if there is one, through the pod of that name that has the volume
    now."""
    await _ask_there(kube, shell, pod, path, "empty")


async def _ask_there(kube: Kube, shell: NodeShell, name: str, path: str, verb: str) -> VolumeState:
    found = pod_view(await kube.get("Pod", name))
    now = PodOnNode(name=found.name, uid=found.uid, node=found.host)
    return await asked(shell, now, VolumeState, verb, found.uid, path)
