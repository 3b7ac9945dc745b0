"""Pauses the load for a while, so that faults in that time meet no user's write.

There is nothing to owe: the load ends with the run. But while the run goes on, a pause that can't
be proven is ended, too, or the faults after it would meet no load.
"""

from __future__ import annotations

from zonequake_chaos.faults.life import Injection, Proof
from zonequake_load.pod.control import LoadStatus, Phase


class LoadPause:
    """Life of `LoadPauseSpec`. Effective once nothing is outstanding in any load pod, and undone
    once operations end in each of them again, however they end.
    """

    def __init__(self) -> None:
        self._paused = False
        self._before: dict[str, LoadStatus] = {}
        """Each pod's status when the pause began, or was ended, by the pod's name."""

    async def prepare(self, injection: Injection) -> None:
        """Records nothing: there is nothing to owe."""

    async def inject(self, injection: Injection) -> None:
        self._paused = True
        for load in injection.world.loads:
            await load.enter(Phase.QUIET)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        for load in injection.world.loads:
            statuses = await load.complete(Phase.QUIET, timeout_s=injection.timeout_s)
            self._before |= {status.pod: status for status in statuses}
        return {"quiet": list(self._before)}

    async def recover(self, injection: Injection) -> None:
        now = await self._statuses(injection)
        for status in now:
            if status.phase is not Phase.QUIET or self._ended_since(status):
                injection.ended_early = f"{status.pod} worked before its pause ended"
        self._before = {status.pod: status for status in now}
        await self._resume(injection)

    async def wait_until_recovered(self, injection: Injection) -> None:
        ended: dict[str, int] = {}

        async def all_work() -> bool:
            for status in await self._statuses(injection):
                resumed = status.phase is Phase.LOAD
                ended[status.pod] = self._ended_since(status) if resumed else 0
            return all(ended.values())

        await injection.until(
            all_work, waiting_for=lambda: f"operations that ended since the pause: {ended}"
        )
        injection.back = {"operations": ended}

    async def clean_up(self, injection: Injection) -> None:
        if self._paused:
            await self._resume(injection)
        injection.pay()

    async def _resume(self, injection: Injection) -> None:
        for load in injection.world.loads:
            await load.enter(Phase.LOAD)
        self._paused = False

    async def _statuses(self, injection: Injection) -> list[LoadStatus]:
        return [status for load in injection.world.loads for status in await load.status()]

    def _ended_since(self, status: LoadStatus) -> int:
        """Returns how many operations of the load have ended since the pod's status before; a
        process that was started meanwhile counts from 0.
        """
        before = self._before.get(status.pod)
        same = before is not None and before.incarnation == status.incarnation
        return _ended(status) - (_ended(before) if before is not None and same else 0)


def _ended(status: LoadStatus) -> int:
    counts = status.counts.get(Phase.LOAD)
    if counts is None:
        return 0
    kinds = (counts.operations, counts.probes, counts.pressure)
    return sum(each.ok + each.fail + each.info for each in kinds)
