"""The surroundings of catch-up in a real process: its disk, its lines, and threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Protocol

from zonequake_store.catch_up.host import CatchUpHost, Result
from zonequake_store.catch_up.messages import BULK
from zonequake_store.errors import StateCorrupt, StorageError
from zonequake_store.network.peer_protocol import CatchUpFrame, encode_frame
from zonequake_store.network.transport import Transport
from zonequake_store.replica.host import ReplicaHost
from zonequake_store.replica.replica import Replica
from zonequake_store.storage.cells import View
from zonequake_store.storage.data_store import DataStore
from zonequake_store.storage.directory import Storage
from zonequake_store.storage.threads import read_in_thread


class ConnectedHost(ReplicaHost, Protocol):
    """The host whose disk and lines catch-up uses."""

    @property
    def storage(self) -> Storage:
        """The store of state."""

    @property
    def transport(self) -> Transport:
        """The lines to other nodes."""

    async def view(self, replica: Replica) -> View:
        """Opens the replica's state of now or later; the caller closes it. Raises StorageError."""


class NodeCatchUpHost(CatchUpHost):
    """One node's."""

    def __init__(self, host: ConnectedHost) -> None:
        self._host = host
        self._reading: set[asyncio.Task[None]] = set()

    @property
    def replicas(self) -> Mapping[str, Replica]:
        """Returns the replicas that run, by group."""
        return self._host.replicas

    @property
    def data(self) -> DataStore:
        """The store of applied state."""
        return self._host.storage.data

    def send_frame(self, to: str, frame: CatchUpFrame) -> bool:
        """Send a frame beside the turns' messages."""
        transport = self._host.transport
        send = transport.send_bulk if isinstance(frame, BULK) else transport.send
        return send(to, encode_frame(frame))

    def wake(self, replica: Replica) -> None:
        """Makes a replica take part in the next turn."""
        self._host.wake(replica)

    def break_down(self, replica: Replica, reason: str) -> None:
        """Stops a replica permanently, and reports why."""
        self._host.break_down(replica, reason)

    def new_number(self) -> int:
        """Returns a number for cells, never used before."""
        return self._host.storage.new_number()

    def write_data(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        """Run a job in the data writer, then `done` here."""
        self._host.storage.write_data(job, done)

    def open_state(self, replica: Replica, opened: Callable[[View | None], None]) -> None:
        """Stores what the replica has applied, and opens it."""

        async def open_it() -> None:
            try:
                view = await self._host.view(replica)
            except StateCorrupt as error:
                if not replica.stopped:
                    self._host.break_down(replica, str(error))
                opened(None)
            except StorageError:
                opened(None)
            else:
                opened(view)

        self._aside(open_it())

    def read_aside(self, read: Callable[[], Result], done: Callable[[Result], None]) -> None:
        """Read in a thread."""

        async def read_it() -> None:
            done(await read_in_thread(read))

        self._aside(read_it())

    def _aside(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def idle(self) -> None:
        """Wait until nothing is read any more."""
        await asyncio.gather(*self._reading)
