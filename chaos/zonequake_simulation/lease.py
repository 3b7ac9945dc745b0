"""A node's Lease in virtual time: the real rule, whose calls go over the simulated network.

NodeLease ──next_call──► network ──► API server ──► network ──► found / stored / refused
          ◄── failed, if there is no answer in time (the call may have had its effect)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from zonequake_simulation.api_server import API
from zonequake_simulation.network import Network
from zonequake_simulation.world import World
from zonequake_store.lease.rules.node_lease import (
    RENEW_SHARE,
    LeaseRecord,
    NodeLease,
    Permission,
    PutLease,
    ReadLease,
)


class LeaseCalls(Protocol):
    """The nodes' Leases at the API server."""

    def read_lease(self, node: str) -> tuple[LeaseRecord, str] | None:
        """Returns a Lease and its version; None: there is none."""

    def put_lease(self, node: str, put: PutLease) -> str | None:
        """Writes a Lease; returns its new version, or None if it is not at the version named."""


class SimulatedLease:
    """The Lease of one process. `rate`: the speed of the node's clock. `when_awake`: runs a call at
    once, or, if the process is paused, once it resumes.
    """

    def __init__(
        self,
        node: str,
        process: int,
        *,
        world: World,
        network: Network,
        calls: LeaseCalls,
        lease_ms: int,
        rate: float,
        when_awake: Callable[[Callable[[], None]], None],
    ) -> None:
        self.rule = NodeLease(holder=f"{node}-{process}", duration_s=lease_ms / 1000)
        self.rule.want(True)
        self._node = node
        self._world = world
        self._network = network
        self._calls = calls
        self._rate = rate
        self._when_awake = when_awake
        self._number = 0
        """Number of the newest call, which is the only one whose outcome counts."""

    def clock_s(self) -> float:
        """Returns the time of the node's clock."""
        return self._world.now_us / self._rate / 1e6

    def permission(self) -> Permission:
        """Returns the permission of a replica that begins."""
        return Permission(self.rule, self.clock_s)

    def look(self) -> None:
        """Makes the calls that are due, and schedules the next look."""
        call = self.rule.next_call(self.clock_s())
        if call is None:
            rest_s = self.rule.rest_s(self.clock_s()) or 0.0
            later_us = int(rest_s * self._rate * 1e6) + 1
            self._world.later(later_us, lambda: self._when_awake(self.look))
            return
        self._number += 1
        number = self._number
        patience_s = RENEW_SHARE * self.rule.duration_s * self._rate
        self._world.later(
            int(patience_s * 1e6),
            lambda: self._take(number, lambda: self.rule.failed(self.clock_s())),
        )
        kind = "READ" if isinstance(call, ReadLease) else "PUT"
        self._network.send(
            self._node, API, lambda: f"LEASE {kind}", lambda: self._arrived(number, call)
        )

    def _arrived(self, number: int, call: ReadLease | PutLease) -> None:
        """Carries out a call at the API server."""
        if isinstance(call, ReadLease):
            found = self._calls.read_lease(self._node) or (None, None)
            self._answer(number, lambda: self.rule.found(*found))
        else:
            version = self._calls.put_lease(self._node, call)
            if version is None:
                self._world.tally["Leases refused"] += 1
                self._answer(number, self.rule.refused)
            else:
                self._answer(number, lambda: self.rule.stored(version))

    def _answer(self, number: int, outcome: Callable[[], None]) -> None:
        self._network.send(
            API, self._node, lambda: "LEASE ANSWER", lambda: self._take(number, outcome)
        )

    def _take(self, number: int, outcome: Callable[[], None]) -> None:
        def take() -> None:
            if number == self._number:
                self._number += 1
                outcome()
                self.look()

        self._when_awake(take)
