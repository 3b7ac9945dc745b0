"""The interface of a node, real or simulated, for its catch-up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from zonequake_store.network.peer_protocol import CatchUpFrame
from zonequake_store.replica.host import ReplicaHost
from zonequake_store.replica.replica import Replica
from zonequake_store.storage.cells import View
from zonequake_store.storage.data_store import DataStore

Result = TypeVar("Result")


class CatchUpHost(ReplicaHost, Protocol):
    """The interface of a node for its catch-up."""

    @property
    def data(self) -> DataStore:
        """The store of applied state; written by `write_data` alone."""

    def send_frame(self, to: str, frame: CatchUpFrame) -> bool:
        """Sends a frame to a node; it may get lost. False: it was not taken."""

    def new_number(self) -> int:
        """Returns a number for cells, never used before."""

    def write_data(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        """Run a job on the data environment after those before it, then call `done`."""

    def open_state(self, replica: Replica, opened: Callable[[View | None], None]) -> None:
        """Open what the replica has applied by now, or later, and hand it over; None: not now."""

    def read_aside(self, read: Callable[[], Result], done: Callable[[Result], None]) -> None:
        """Calls `read` in a thread where it blocks nothing, then `done` with its result."""
