"""A node's Lease as the node knows it, by its own clock.

Who lost its Lease may have been given up meanwhile: with the next one alone it would acknowledge in
a lineage that has ended, until somebody tells it of the reset. So it reads the lineages of its
groups behind each renewal, and heeds them before it acts on the Lease.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zonequake_chaos.simulation.api import NAME as API
from zonequake_chaos.simulation.api import ApiServer
from zonequake_chaos.simulation.network import Network
from zonequake_chaos.simulation.world import World


class Lease:
    """Of one process; it begins without. `rate`: how fast the node's clock goes."""

    def __init__(
        self,
        node: str,
        *,
        world: World,
        network: Network,
        api: ApiServer,
        lease_ms: int,
        rate: float,
        heed: Callable[[Mapping[str, int], Callable[[], None]], None],
    ) -> None:
        self._node = node
        self._world = world
        self._network = network
        self._api = api
        self._lease_us = lease_ms * 1000
        self._rate = rate
        self._heed = heed
        self._until_us = 0.0

    @property
    def renew_every_us(self) -> int:
        """How long until the next renewal."""
        return int(self._lease_us * self._rate / 4)

    @property
    def holds(self) -> bool:
        """Whether the node may act on it; always, where nodes have none."""
        return not self._lease_us or self._world.now_us < self._until_us

    def renew(self) -> None:
        """Ask the API server. What is answered counts from now, when it was asked."""
        asked_us = self._world.now_us

        def renewed(lineages: Mapping[str, int]) -> None:
            self._heed(lineages, act_on_it)

        def act_on_it() -> None:
            self._until_us = max(self._until_us, asked_us + self._lease_us * self._rate)

        def asked() -> None:
            lineages = self._api.renew(self._node)
            self._network.send(API, self._node, lambda: "LEASE", lambda: renewed(lineages))

        self._network.send(self._node, API, lambda: "RENEW", asked)
