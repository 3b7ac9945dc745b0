"""The environment of catch-up in a simulated process: its disk, connections and threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Protocol

from zonequake_simulation.disk import Disk
from zonequake_simulation.replicas import Replicas
from zonequake_simulation.turns import Turns
from zonequake_simulation.world import World
from zonequake_store.catch_up.edge import NodeCatchUp
from zonequake_store.catch_up.host import CatchUpHost, Result
from zonequake_store.network.peer_protocol import CatchUpFrame
from zonequake_store.replica.replica import Replica
from zonequake_store.storage.cells import MemoryCells, View
from zonequake_store.storage.data_store import DataStore


class CatchUpProcess(Protocol):
    """The interface of a node for the catch-up of its process."""

    catch_up: NodeCatchUp
    """The catch-up of the process that runs now."""

    @property
    def alive(self) -> bool:
        """Whether a process runs."""

    def send_frame(self, to: str, frame: CatchUpFrame) -> None:
        """Sends a frame, separately from the messages."""

    def break_down(self, replica: Replica, reason: str) -> None:
        """Stops a replica for good."""


class SimulatedCatchUpHost(CatchUpHost):
    """The catch-up host of one process."""

    def __init__(
        self,
        process: CatchUpProcess,
        *,
        world: World,
        disk: Disk,
        replicas: Replicas,
        turns: Turns,
        random: Random,
    ) -> None:
        self._process = process
        self._world = world
        self._disk = disk
        self._replicas = replicas
        self._turns = turns
        self._random = random

    @property
    def replicas(self) -> Mapping[str, Replica]:
        """The running replicas, by group."""
        return self._replicas.running

    @property
    def data(self) -> DataStore:
        """The store of applied state."""
        return self._disk.data

    def send_frame(self, to: str, frame: CatchUpFrame) -> bool:
        """Sends a frame, separately from the messages."""
        self._process.send_frame(to, frame)
        return True

    def wake(self, replica: Replica) -> None:
        """Schedules a turn for a replica, in this event or a later one."""
        self._turns.wake(replica)

    def break_down(self, replica: Replica, reason: str) -> None:
        """Stops a replica for good."""
        self._process.break_down(replica, reason)

    def new_number(self) -> int:
        """Returns a number for cells that was never used before."""
        return self._disk.storage.new_number()

    def write_data(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        """Runs a job on the data environment."""
        self._disk.write_data(job, done)

    def open_state(self, replica: Replica, opened: Callable[[View | None], None]) -> None:
        """Opens the durable part of a replica's state."""

        def open_it() -> None:
            cells = replica.cells
            if replica.stopped:
                opened(None)
            elif isinstance(cells, MemoryCells):
                opened(cells.view(replica.partition))
            else:
                opened(self._disk.data.view(cells.number))

        self._soon(open_it)

    def read_aside(self, read: Callable[[], Result], done: Callable[[Result], None]) -> None:
        """Reads after a delay."""
        self._soon(lambda: done(read()))

    def _soon(self, work: Callable[[], None]) -> None:
        """Schedules work of this process, which is dropped if the process dies first."""
        catch_up = self._process.catch_up

        def run() -> None:
            if self._process.catch_up is catch_up and self._process.alive:
                work()
                self._turns.take_if_due()

        self._world.later(self._random.randrange(100, 20_000), run)
