"""A state that was reached: its trigger fired; nothing is done, and nothing must be undone."""

from __future__ import annotations

from zonequake_chaos.faults.life import Injection, Proof


class Reached:
    """Life of `ReachedSpec`."""

    async def prepare(self, injection: Injection) -> None:
        """Records nothing: there is nothing to undo."""

    async def inject(self, injection: Injection) -> None:
        """Does nothing: the state is reached already."""

    async def wait_until_effective(self, injection: Injection) -> Proof:
        return {"seen": injection.sighting.what}

    async def recover(self, injection: Injection) -> None:
        """Does nothing: nothing was changed."""

    async def wait_until_recovered(self, injection: Injection) -> None:
        """Returns at once: nothing was harmed."""

    async def clean_up(self, injection: Injection) -> None:
        injection.pay()
