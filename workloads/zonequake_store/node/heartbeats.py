"""A node's ticks, and the heartbeats of all its groups at once.

An idle node costs what its wake-ups cost. So it wakes up once for the heartbeats of all the groups
that it leads, for those of its peers and for all answers: when a peer's heartbeats come and its own
are nearly due, it sends them too.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from zonequake_store.network.peer_protocol import Messages
from zonequake_store.node.ticks import TickSchedule
from zonequake_store.raft.api import RaftSettings
from zonequake_store.raft.messages import MessageKind
from zonequake_store.replica.host import ReplicaHost
from zonequake_store.replica.replica import LOG_ERRORS, Replica
from zonequake_store.replica.turn import Edge, beat

TICK_S = RaftSettings().tick_s


class TickingHost(ReplicaHost, Edge, Protocol):
    """The host whose replicas get ticks and send heartbeats."""

    @property
    def tick_schedule(self) -> TickSchedule:
        """The replicas that a tick concerns."""

    def clock_ms(self) -> int:
        """Returns the time of the cores' ticks."""

    def ticked(self, now_s: float, *, lag_s: float) -> None:
        """Handles a tick, so much late, for all replicas that it concerned."""


class Heartbeats:
    """Ticks begin with it and go on until `stop`; every `heartbeat_ticks` heartbeats leave."""

    def __init__(self, host: TickingHost, *, heartbeat_ticks: int) -> None:
        self._host = host
        self._heartbeat_ticks = heartbeat_ticks
        self._leading: dict[Replica, None] = {}
        self._ticks_since_beat = 0
        self._loop = asyncio.get_running_loop()
        self._next_s = self._loop.time() + TICK_S
        self._timer = self._loop.call_at(self._next_s, self._tick)

    def stop(self) -> None:
        """Records that no tick comes any more."""
        self._timer.cancel()

    def begin(self, replica: Replica) -> None:
        """Records that a replica leads from now on."""
        self._leading[replica] = None

    def end(self, replica: Replica) -> None:
        """Records that a replica doesn't lead any more, if it did."""
        self._leading.pop(replica, None)

    def heard(self, frame: Messages) -> None:
        """Records that a peer's messages were taken."""
        if self._ticks_since_beat >= self._heartbeat_ticks - 1 and _is_beat(frame):
            # The rest of this tick doesn't count: the node that beats first goes on to do so.
            self._ticks_since_beat = -1
            self._beat()

    def _beat(self) -> None:
        host = self._host
        for replica in list(self._leading):
            try:
                if beat(replica, host):
                    host.wake(replica)
                else:
                    host.tick_schedule.consider_core(replica)
            except LOG_ERRORS as error:
                host.break_down(replica, str(error))

    def _tick(self) -> None:
        host, now_s = self._host, self._loop.time()
        lag_s = now_s - self._next_s
        # Ticks that were missed are not made up for: a node that was stopped for a while must not
        # find that its election time-out passed before it could read what its peers sent.
        self._next_s = max(self._next_s + TICK_S, now_s + TICK_S / 2)
        self._timer = self._loop.call_at(self._next_s, self._tick)
        self._ticks_since_beat += 1
        if self._ticks_since_beat >= self._heartbeat_ticks:
            self._ticks_since_beat = 0
            self._beat()
        for replica in host.tick_schedule.pass_tick(host.clock_ms()):
            if replica.stopped:
                continue
            if replica.core_now().has_ready():
                host.wake(replica)
            else:
                host.tick_schedule.consider(replica)
            if replica.needs_ticks:
                replica.tick()
                host.wake(replica)
        host.ticked(now_s, lag_s=lag_s)


def _is_beat(frame: Messages) -> bool:
    """Returns whether a peer sends heartbeats."""
    return any(m and m[0].kind is MessageKind.HEARTBEAT for _, m in frame.groups)
