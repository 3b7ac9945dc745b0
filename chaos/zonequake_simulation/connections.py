"""A process's connections to other nodes, and what it learns when they end. The rules are real ones
(`zonequake_store.network.endings`); the fate of connections is drawn:

    a process dies     its kernel ends its connections, unless a link is cut then: half a connection
                       stays behind, which no side ends
    a link is cut      the network takes the connection at some time, and new ones hang
    now and then       a peer that lives ends a connection; a new one is taken by the same process
    connecting again    is refused where a node's address stayed behind; hangs, or finds no route,
                       where that went with the pod; meets the next process, there or elsewhere

A connection counts as there once a message went over it, and the answer's way is open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from zonequake_simulation.network import Network
from zonequake_simulation.world import VirtualTimer, World
from zonequake_store.network.endings import EndDetector, Failure

_SOON_US = (200, 5_000)
"""Shortest and longest delay after which the end of a connection, or of an attempt, is noticed."""
_LOOK_US = (2_000_000, 6_000_000)
"""Shortest and longest time between two moments at which the network, or a peer, ends a
connection.
"""
_FIRST_PAUSE_US = 5_000
_LONGEST_PAUSE_US = 1_000_000


class ConnectedNode(Protocol):
    """Another node."""

    alive: bool
    process: int
    address: str
    """The address of the process that runs there, or ran last."""


class _To:
    """The state of this process's connection to one node."""

    def __init__(self) -> None:
        self.ending = EndDetector()
        self.process: int | None = None
        """The process that the connection leads to."""
        self.heard = 0
        """The newest process that was heard over it."""
        self.ended = 0
        """The newest process whose end is proven."""
        self.pause_us = _FIRST_PAUSE_US


class SimulatedConnections:
    """The connections of one process; `ended(node, process)` is called for each proof."""

    def __init__(
        self,
        name: str,
        *,
        world: World,
        network: Network,
        nodes: Mapping[str, ConnectedNode],
        ended: Callable[[str, int], None],
    ) -> None:
        self._name = name
        self._world = world
        self._network = network
        self._nodes = nodes
        self._ended = ended
        self._random = world.stream(f"connections of {name}/{nodes[name].process}")
        self._to: dict[str, _To] = {}
        self._timers: dict[str, VirtualTimer] = {}
        self._is_over = False
        self._look_later()

    def close(self) -> None:
        """Ends all work, because the process has died."""
        self._is_over = True
        for timer in self._timers.values():
            timer.cancel()

    # ── what goes over them ──────────────────────────────────────────────────────────────────

    def reached(self, node: str) -> None:
        """Takes note that a message reached the node."""
        if self._is_over or not self._network.reaches(node, self._name):
            return
        host, to = self._nodes[node], self._known(node)
        if to.process != host.process and host.process >= to.heard:
            self._greeted(node, to)

    def takes(self, node: str, process: int) -> bool:
        """Returns whether a message of that process is still read here: not once its end is
        proven.
        """
        to = self._known(node)
        if process <= to.ended:
            return False
        if process > to.heard:
            to.heard = process
            self._conclude(node, to, to.ending.heard(self._nodes[node].address, str(process)))
        return True

    # ── how they end ─────────────────────────────────────────────────────────────────────────

    def died(self, node: str, process: int) -> None:
        """Ends the connections to a process that died."""
        to = self._to.get(node)
        if to is None or to.process != process:
            return
        if not self._network.reaches(node, self._name):
            self._world.tally["half-closed connections"] += 1
            return
        self._soon(f"end {node}", lambda: self._lost(node, process, by_peer=True))

    def _lost(self, node: str, process: int, *, by_peer: bool) -> None:
        to = self._to[node]
        if to.process != process:
            return
        self._world.tally["closed connections"] += 1
        to.process = None
        to.ending.lost(by_peer=by_peer)
        to.pause_us = _FIRST_PAUSE_US
        self._connect(node)

    def _look(self) -> None:
        self._look_later()
        open_ = [node for node, to in self._to.items() if to.process is not None]
        if not open_:
            return
        node = self._random.choice(open_)
        process = self._to[node].process
        assert process is not None, "it is open"
        if self._is_cut(node):
            self._lost(node, process, by_peer=False)
        elif self._nodes[node].alive and self._nodes[node].process == process:
            self._lost(node, process, by_peer=True)

    def _look_later(self) -> None:
        self._later("look", self._random.randrange(*_LOOK_US), self._look)

    # ── connecting again ──────────────────────────────────────────────────────────────────────

    def _connect(self, node: str) -> None:
        address = self._to[node].ending.lost_address
        self._soon(f"connect {node}", lambda: self._arrive(node, address))

    def _arrive(self, node: str, address: str | None) -> None:
        """Ends an attempt to connect; `address`: the last address of the process that is in
        doubt.
        """
        host, to = self._nodes[node], self._to[node]
        if to.process is not None:
            return
        if self._is_cut(node):
            self._fail(node, to, address, Failure.SILENT)
        elif host.alive and host.address == address:
            self._greeted(node, to)
        elif address is not None and not self._stayed(host, address):
            how = self._random.choice([Failure.SILENT, Failure.UNREACHABLE])
            self._fail(node, to, address, how)
        elif address is not None:
            self._fail(node, to, address, Failure.REFUSED)
        elif host.alive:
            self._greeted(node, to)

    def _stayed(self, host: ConnectedNode, address: str) -> bool:
        """Returns whether the address is still there, though its process isn't. It is gone once the
        node's next process has another one, and in some cases when its pod was deleted.
        """
        return host.address == address and self._random.random() < 0.8

    def _fail(self, node: str, to: _To, address: str | None, how: Failure) -> None:
        self._world.tally[f"connecting {how.value}"] += 1
        if address is not None:
            self._conclude(node, to, to.ending.failed(address, how))
        if to.ending.lost_address is not None:
            to.pause_us = min(2 * to.pause_us, _LONGEST_PAUSE_US)
            self._later(f"connect {node}", to.pause_us, lambda: self._connect(node))

    def _greeted(self, node: str, to: _To) -> None:
        host = self._nodes[node]
        to.process = host.process
        to.heard = max(to.heard, host.process)
        self._conclude(node, to, to.ending.greeted(host.address, str(host.process)))

    def _conclude(self, node: str, to: _To, process: str | None) -> None:
        if process is not None:
            to.ended = max(to.ended, int(process))
            self._world.tally["proven ends"] += 1
            self._ended(node, int(process))

    # ── small things ─────────────────────────────────────────────────────────────────────────

    def _known(self, node: str) -> _To:
        return self._to.setdefault(node, _To())

    def _is_cut(self, node: str) -> bool:
        there = self._network.reaches(self._name, node)
        return not (there and self._network.reaches(node, self._name))

    def _soon(self, what: str, action: Callable[[], None]) -> None:
        self._later(what, self._random.randrange(*_SOON_US), action)

    def _later(self, what: str, delay_us: int, action: Callable[[], None]) -> None:
        if self._is_over:
            return
        before = self._timers.get(what)
        if before is not None:
            before.cancel()
        self._timers[what] = self._world.later(delay_us, action)
