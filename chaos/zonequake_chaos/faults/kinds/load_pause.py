"""Takes the load away for a while: what happens then, no user's write belongs to.

Nothing is owed: the load goes with the run.
"""

from __future__ import annotations

from zonequake_chaos.faults.life import Injury, Proof
from zonequake_load.pod.control import Phase


class LoadPause:
    """See `LoadPauseSpec`. Effective once nothing is outstanding in any load pod."""

    async def prepare(self, injury: Injury) -> None:
        """Nothing will have to be undone."""

    async def inject(self, injury: Injury) -> None:
        for load in injury.world.loads:
            await load.enter(Phase.QUIET)

    async def wait_until_effective(self, injury: Injury) -> Proof:
        pods = []
        for load in injury.world.loads:
            statuses = await load.complete(Phase.QUIET, timeout_s=injury.timeout_s)
            pods += [status.pod for status in statuses]
        return {"quiet": pods}

    async def recover(self, injury: Injury) -> None:
        for load in injury.world.loads:
            await load.enter(Phase.LOAD)

    async def wait_until_recovered(self, injury: Injury) -> None:
        """A pod that was asked to work works."""

    async def clean_up(self, injury: Injury) -> None:
        injury.pay()
