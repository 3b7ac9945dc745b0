"""Ports on loopback for the processes that tests and benchmarks start.

A port is handed out a second before its process listens there, and a process that was killed must
find it again: no other test may be given it meanwhile. Therefore

- ports lie below those that the kernel gives to outgoing connections, one of which would take the
  port of a dead node, or even connect to itself there;
- they come from blocks that a process holds until it ends. The first port of a block is its lock:
  the kernel lets one process bind it. So an xdist worker, another run of the tests and a benchmark
  have disjoint ports, whichever starts first;
- a process hands out each port once.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from pathlib import Path

BLOCK_PORTS = 256
LOWEST_OUTGOING = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
LOWEST = LOWEST_OUTGOING // 2
"""The half below is left to what people run on their machines."""


def free_ports(count: int) -> list[int]:
    """Free ports on 127.0.0.1, each of which is given only once.

    Raises RuntimeError if there are no more.
    """
    return _ports.take(count)


class Ports:
    """The ports that this process takes from a range."""

    def __init__(self, lowest: int, end: int) -> None:
        self._range = f"{lowest} to {end - 1}"
        self._locks: list[socket.socket] = []
        self._left = self._all(range(lowest, end - BLOCK_PORTS + 1, BLOCK_PORTS))

    def take(self, count: int) -> list[int]:
        """So many more of them. Raises RuntimeError."""
        taken: list[int] = []
        while len(taken) < count:
            port = next(self._left, None)
            if port is None:
                raise RuntimeError(
                    f"found {len(taken)} free ports among {self._range}, needed {count}; other "
                    "runs hold the rest, or this one has used them up"
                )
            if _is_free(port):
                taken.append(port)
        return taken

    def release(self) -> None:
        """Let others have the blocks."""
        for lock in self._locks:
            lock.close()
        self._locks.clear()

    def _all(self, blocks: range) -> Iterator[int]:
        """Block after block of those that no process holds."""
        for first in random.sample(blocks, k=len(blocks)):
            if self._hold(first):
                yield from range(first + 1, first + BLOCK_PORTS)

    def _hold(self, first: int) -> bool:
        # Neither shared (SO_REUSEADDR) nor listened on: it can be bound once, and accepts nothing.
        lock = socket.socket()
        try:
            lock.bind(("127.0.0.1", first))
        except OSError:
            lock.close()
            return False
        self._locks.append(lock)
        return True


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


_ports = Ports(LOWEST, LOWEST_OUTGOING)
