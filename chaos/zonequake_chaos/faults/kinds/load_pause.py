"""Pauses the load for a while, so that faults in that time meet no user's write.

There is nothing to undo: the load ends with the run.
"""

from __future__ import annotations

from zonequake_chaos.faults.life import Injection, Proof
from zonequake_load.pod.control import Phase


class LoadPause:
    """Life of `LoadPauseSpec`. Effective once nothing is outstanding in any load pod."""

    async def prepare(self, injection: Injection) -> None:
        """Records nothing: there is nothing to undo."""

    async def inject(self, injection: Injection) -> None:
        for load in injection.world.loads:
            await load.enter(Phase.QUIET)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        pods = []
        for load in injection.world.loads:
            statuses = await load.complete(Phase.QUIET, timeout_s=injection.timeout_s)
            pods += [status.pod for status in statuses]
        return {"quiet": pods}

    async def recover(self, injection: Injection) -> None:
        for load in injection.world.loads:
            await load.enter(Phase.LOAD)

    async def wait_until_recovered(self, injection: Injection) -> None:
        """Returns at once: a load pod works again as soon as it accepts the phase."""

    async def clean_up(self, injection: Injection) -> None:
        injection.pay()
