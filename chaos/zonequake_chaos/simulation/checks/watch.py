"""The real core with a witness: the checks see all that goes in and comes out."""

from __future__ import annotations

from typing import Protocol

from zonequake_store.raft.api import Ready
from zonequake_store.raft.core import Raft


class Witness(Protocol):
    """Who is told; one to each life of a replica."""

    def after_step(self) -> None:
        """The core took an input, or a Ready was stored."""

    def took(self, ready: Ready) -> None:
        """The host was given a Ready."""

    def enforces(self, lineage: int) -> None:
        """The core is about to be told below which lineage nobody takes part."""

    def storing_in_memory(self, ready: Ready) -> None:
        """A volatile replica's Ready counts as stored from now on."""


class WatchedRaft(Raft):
    """A core that tells its witness; it changes nothing."""

    __slots__ = ("is_volatile", "witness")

    witness: Witness
    is_volatile: bool

    def ready(self) -> Ready:
        self.witness.after_step()
        ready = super().ready()
        self.witness.took(ready)
        return ready

    def enforce(self, lineage: int) -> None:
        self.witness.enforces(lineage)
        super().enforce(lineage)

    def stored(self, ready: Ready) -> None:
        if self.is_volatile:
            self.witness.storing_in_memory(ready)
        super().stored(ready)
        self.witness.after_step()
