"""A state that was reached: its trigger came, and there is nothing to do or to undo."""

from __future__ import annotations

from zonequake_chaos.faults.life import Injury, Proof


class Reached:
    """See `ReachedSpec`."""

    async def prepare(self, injury: Injury) -> None:
        """Nothing will have to be undone."""

    async def inject(self, injury: Injury) -> None:
        """The state is there already."""

    async def wait_until_effective(self, injury: Injury) -> Proof:
        return {"seen": injury.sighting.what}

    async def recover(self, injury: Injury) -> None:
        """Nothing was changed."""

    async def wait_until_recovered(self, injury: Injury) -> None:
        """Nothing was harmed."""

    async def clean_up(self, injury: Injury) -> None:
        injury.pay()
