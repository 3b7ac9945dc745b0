"""Restarts data nodes one after another, each gracefully, as an upgrade would.

A node is restarted only when the one before is Ready (which includes its readiness gate: the
operator reports that its replicas have caught up) and every partition is settled again.
"""

from __future__ import annotations

from dataclasses import replace

from zonequake_chaos.faults.kinds.pod_kill import GracefulDelete
from zonequake_chaos.faults.life import Injection, Proof
from zonequake_chaos.faults.watching import until_back
from zonequake_chaos.observe.view import ClusterView
from zonequake_chaos.targeting.triggers import unsettled


class RollingRestart:
    """The victims' order is the order of restarts."""

    def __init__(self) -> None:
        self._proofs: list[Proof] = []

    async def prepare(self, injection: Injection) -> None:
        """Records nothing: the StatefulSet brings each pod back."""

    async def inject(self, injection: Injection) -> None:
        deletion = GracefulDelete()
        events = injection.world.events
        for victim in injection.victims:
            one = replace(injection, victims=(victim,))
            step: dict[str, object] = {
                "fault": injection.name,
                "type": "graceful_delete",
                "targets": [victim.node],
            }
            events.emit("fault.start", step | {"trigger": {"role": "next"}}, node=victim.node)
            await deletion.inject(one)
            proof = await deletion.wait_until_effective(one)
            self._proofs.append(proof)
            events.emit("fault.effective", step | {"proof": proof}, node=victim.node)
            await until_back(one)
            await self._until_ready_and_settled(injection, victim.node, victim.pod_uid)
            events.emit("fault.recovered", step, node=victim.node)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        """Returns the proof: each restart was proven on its own."""
        return {"restarts": self._proofs}

    async def recover(self, injection: Injection) -> None:
        """Does nothing: each node recovers by itself."""

    async def wait_until_recovered(self, injection: Injection) -> None:
        await until_back(injection)

    async def clean_up(self, injection: Injection) -> None:
        injection.pay()

    async def _until_ready_and_settled(self, injection: Injection, node: str, old_uid: str) -> None:
        def problems(view: ClusterView) -> list[str]:
            found = view.node(node)
            if found is None or found.pod.uid == old_uid or not found.pod.ready:
                return [f"{node} is not Ready"]
            return unsettled(view)

        await injection.world.observer.wait(
            lambda view: not problems(view),
            timeout_s=injection.timeout_s,
            waiting_for=lambda view: "; ".join(problems(view)[:3]),
        )
