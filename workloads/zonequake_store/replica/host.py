"""The interface of a host of replicas, real or simulated, for its helpers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from zonequake_store.replica.replica import Replica


class EventSink(Protocol):
    """Takes events for people."""

    def add(self, kind: str, *, data: dict[str, object]) -> None:
        """Write one down."""


class ReplicaHost(Protocol):
    """Runs replicas; a helper that needs more of it extends this."""

    @property
    def replicas(self) -> Mapping[str, Replica]:
        """The replicas that run, by group."""

    def wake(self, replica: Replica) -> None:
        """Makes a replica take part in the next turn."""

    def break_down(self, replica: Replica, reason: str) -> None:
        """Stops a replica that cannot go on, keeps its files and records why."""
