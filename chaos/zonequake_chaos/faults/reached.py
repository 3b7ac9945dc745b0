"""A state that was reached: its trigger came, and there is nothing to do or to undo."""

from __future__ import annotations

from zonequake_chaos.faults.life import Injection, Proof


class Reached:
    """See `ReachedSpec`."""

    async def prepare(self, injection: Injection) -> None:
        """Nothing will have to be undone."""

    async def inject(self, injection: Injection) -> None:
        """The state is there already."""

    async def wait_until_effective(self, injection: Injection) -> Proof:
        return {"seen": injection.sighting.what}

    async def recover(self, injection: Injection) -> None:
        """Nothing was changed."""

    async def wait_until_recovered(self, injection: Injection) -> None:
        """Nothing was harmed."""

    async def clean_up(self, injection: Injection) -> None:
        injection.pay()
