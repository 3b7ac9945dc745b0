"""The replicas that a tick concerns: those of idle groups hear their leader and need none.

Looking at many sleeping replicas costs mostly the fetching of their memory. So a core gets its
ticks late, all at once, as long as each of them would have done nothing (`Raft.quiet_ticks`), but
before the core is used (`Replica.core_now`):

    anything happened ──► consider: due at now + 1 + quiet_ticks ──► pass_tick gives it back then,
                                                                 unless it was moved meanwhile
"""

from __future__ import annotations

from zonequake_store.replica.replica import Replica, Ticks


class TickSchedule:
    """The ticks of a node, and what is due at the next ones."""

    def __init__(self) -> None:
        self.ticks = Ticks()
        self._due: dict[int, list[Replica]] = {}

    def consider(self, replica: Replica) -> None:
        """Plans the next tick of a replica; call it after any change to the replica."""
        replica.wants_ticks = replica.needs_ticks
        self.consider_core(replica)

    def consider_core(self, replica: Replica) -> None:
        """Plans the next tick after a change that concerned the core alone."""
        due = self.ticks.now + 1 + (0 if replica.wants_ticks else replica.core_now().quiet_ticks)
        if due != replica.due_tick:
            replica.due_tick = due
            self._due.setdefault(due, []).append(replica)

    def pass_tick(self, now_ms: int) -> list[Replica]:
        """Passes a tick; returns the replicas that it concerns, each to be considered again."""
        self.ticks.now += 1
        self.ticks.now_ms = now_ms
        now = self.ticks.now
        return [each for each in self._due.pop(now, ()) if each.due_tick == now]
