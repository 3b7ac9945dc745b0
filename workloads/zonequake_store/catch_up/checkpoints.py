"""A replica's checkpoints of its counters: at its configuration entries, and now."""

from __future__ import annotations

from collections import deque

from zonequake_store.catch_up.messages import Checkpoint
from zonequake_store.state.partition import StateMachine
from zonequake_store.storage.cells import View

# A leader's first entry is a configuration: so many leaderships and changes can be looked back on.
_REMEMBERED = 8


def checkpoint_of(partition: StateMachine) -> Checkpoint:
    """Returns a partition's counters as of what it has applied."""
    counter = partition.counter
    return Checkpoint(partition.index, counter.lwm, counter.hwm, counter.ranges, partition.term)


def checkpoint_in(view: View) -> Checkpoint:
    """Returns the counters of a state."""
    state = view.state
    return Checkpoint(state.index, state.lwm, state.hwm, state.ranges, state.term)


class Checkpoints:
    """The checkpoints of one replica. `fresh`: it started, or one was recorded, since it was set
    back.
    """

    __slots__ = ("_recorded", "fresh")

    def __init__(self) -> None:
        self._recorded: deque[Checkpoint] = deque(maxlen=_REMEMBERED)
        self.fresh = True

    def record(self, partition: StateMachine) -> None:
        """Records that a configuration entry was applied: all replicas can compare there."""
        self._recorded.append(checkpoint_of(partition))
        self.fresh = True

    def clear(self) -> None:
        """Records that another state took the place of the one that these are of."""
        self._recorded.clear()

    @property
    def latest(self) -> Checkpoint | None:
        """At the configuration entry that was applied last."""
        return self._recorded[-1] if self._recorded else None

    def at(self, index: int, partition: StateMachine) -> Checkpoint | None:
        """Returns the counters when entry `index` had been applied; None: not known."""
        if index == partition.index:
            return checkpoint_of(partition)
        return next((each for each in self._recorded if each.index == index), None)
