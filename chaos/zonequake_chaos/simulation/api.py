"""The API server in virtual time: objects written by compare-and-swap, and the nodes' Leases."""

from __future__ import annotations

from dataclasses import dataclass

from zonequake_chaos.simulation.world import World
from zonequake_store.raft.messages import Peer

NAME = "api"
"""Of the API server and the operator, as places in the network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the operator has written down for a group.

    `lineage`: the token of the last reset, below which nobody takes part; `survivor`: who was
    forced then, until a leader of that lineage reports itself.
    """

    token: int
    wanted: tuple[Peer, ...]
    lineage: int = 0
    survivor: Peer | None = None


class ApiServer:
    """Strongly consistent; what was read of it may be old when it is used."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._wishes: dict[str, tuple[int, Wish]] = {}
        self._renewed_us: dict[str, int] = {}

    def read(self, group: str) -> tuple[int, Wish]:
        """A group's object and its version."""
        return self._wishes[group]

    def write(self, group: str, version: int, wish: Wish) -> bool:
        """Replace a group's object; False, and no effect, unless `version` is still the newest.

        Version 0: there is none yet.
        """
        if self._wishes.get(group, (0, None))[0] != version:
            return False
        self._wishes[group] = version + 1, wish
        return True

    def renew(self, node: str) -> dict[str, int]:
        """A node renews its Lease, and then reads below which lineage no replica takes part, by
        group."""
        self._renewed_us[node] = self._world.now_us
        return {group: wish.lineage for group, (_, wish) in self._wishes.items()}

    def has_left(self, node: str, lease_us: int) -> bool:
        """Whether a node's Lease ran out so long ago that the node knows it, whatever its clock."""
        renewed_us = self._renewed_us.get(node)
        return renewed_us is None or self._world.now_us - renewed_us > 1.25 * lease_us
