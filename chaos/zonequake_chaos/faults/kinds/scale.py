"""Sets a pool's size. Effective once the added nodes answer, or the removed ones are gone."""

from __future__ import annotations

from zonequake_chaos.faults.life import Injection, Proof
from zonequake_chaos.record.cleanup_journal import RestoreScale
from zonequake_kube.client import Kube


class Scale:
    """Scales the pool `pool` of the release to `replicas` nodes."""

    def __init__(self, *, pool: str, replicas: int) -> None:
        self._pool = pool
        self._replicas = replicas
        self._name = ""

    async def prepare(self, injection: Injection) -> None:
        """Records the old size; it is restored at the end of the run, not of the fault."""
        self._name = self._stateful_set(injection)
        found = await injection.world.kube.get("StatefulSet", self._name)
        before = int(found["spec"]["replicas"])
        if before != self._replicas:
            injection.world.journal.owe(RestoreScale(stateful_set=self._name, replicas=before))

    async def inject(self, injection: Injection) -> None:
        await set_replicas(injection.world.kube, name=self._name, replicas=self._replicas)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        wanted = {f"{self._name}-{ordinal}" for ordinal in range(self._replicas)}
        await injection.world.observer.wait(
            lambda view: (
                {n.name for n in view.nodes.values() if n.pod.pool == self._pool} == wanted
                and all(view.nodes[name].answers for name in wanted)
            ),
            timeout_s=injection.timeout_s,
            waiting_for=lambda view: (
                f"wanted {sorted(wanted)} to answer, found "
                f"{sorted(n.name for n in view.nodes.values() if n.answers)}"
            ),
        )
        return {"pool": self._pool, "nodes": sorted(wanted)}

    async def recover(self, injection: Injection) -> None:
        """Does nothing: the new size stays."""

    async def wait_until_recovered(self, injection: Injection) -> None:
        """Returns at once: a size has nothing to recover from."""

    async def clean_up(self, injection: Injection) -> None:
        injection.pay()

    def _stateful_set(self, injection: Injection) -> str:
        """Returns the name of the pool's StatefulSet, which a run's own members name otherwise than
        the release does. A pool without a node can only be the release's.
        """
        for node in injection.world.observer.view().nodes.values():
            if node.pod.pool == self._pool:
                return node.name.rpartition("-")[0]
        return stateful_set(injection.world.release, self._pool)


def stateful_set(release: str, pool: str) -> str:
    """Returns the name of a pool's StatefulSet (docs/interfaces.md, "Names")."""
    return f"{release}-{pool}"


async def set_replicas(kube: Kube, *, name: str, replicas: int) -> None:
    """Sets the replicas of the StatefulSet. Raises NotFound."""
    await kube.patch("StatefulSet", name, {"spec": {"replicas": replicas}}, "scale")
