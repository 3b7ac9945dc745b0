"""The edge of a demander: what it stages lies in the data store, or in memory.

A state that arrives is written under a number that no replica owns, by the data writer.
"""

from __future__ import annotations

from zonequake_store.catch_up.checkpoints import checkpoint_of
from zonequake_store.catch_up.demander import Demander
from zonequake_store.catch_up.host import CatchUpHost
from zonequake_store.catch_up.messages import Checkpoint, Demand, Pairs, Staging
from zonequake_store.errors import StateCorrupt
from zonequake_store.raft.messages import Message
from zonequake_store.replica.replica import LOG_ERRORS, Replica
from zonequake_store.state.encoding import state_in


class StagedState:
    """The staged state of one replica; `demander` is set before anything is called."""

    demander: Demander

    def __init__(self, host: CatchUpHost, replica: Replica) -> None:
        self._host = host
        self._replica = replica
        self._pairs: dict[int, Pairs] = {}
        self._numbers = 0

    def send(self, frame: Demand) -> bool:
        return self._host.send_frame(frame.to.node, frame)

    def checkpoint(self) -> Checkpoint:
        return checkpoint_of(self._replica.partition)

    def step(self, message: Message) -> bool:
        try:
            self._replica.core_now().step(message)
        except LOG_ERRORS as error:
            self._host.break_down(self._replica, str(error))
            return False
        self._host.wake(self._replica)
        return True

    def new_number(self) -> int:
        if not self._replica.is_volatile:
            return self._host.new_number()
        self._numbers += 1
        return self._numbers

    def stage(self, staging: Staging, pairs: Pairs) -> None:
        if self._replica.is_volatile:
            self._pairs.setdefault(staging.number, []).extend(pairs)
            self._stored(staging)
            return
        data, group = self._host.data, self._replica.group
        self._host.write_data(
            lambda: data.stage(group, staging, pairs), lambda: self._stored(staging)
        )

    def _stored(self, staging: Staging) -> None:
        if not self._replica.stopped:
            self.demander.staged(staging)

    def discard(self, staging: Staging) -> None:
        if self._replica.is_volatile:
            self._pairs.pop(staging.number, None)
        else:
            discard(self._host, self._replica.group, staging)

    def state_of(self, staging: Staging) -> tuple[int, int]:
        if self._replica.is_volatile:
            state = state_in(self._pairs[staging.number])
        else:
            try:
                state = self._host.data.state(staging.number)
            except StateCorrupt:
                return 0, 0
        return state.index, state.term

    def break_down(self, reason: str) -> None:
        self._host.break_down(self._replica, reason)

    def take(self, staging: Staging) -> Pairs:
        """Removes a volatile replica's staged state, and returns it."""
        return self._pairs.pop(staging.number)


def discard(host: CatchUpHost, group: str, staging: Staging) -> None:
    """Delete a snapshot that will not be installed, after what was asked before."""

    def forget() -> None:
        host.data.unstage(group, staging.number)
        host.data.erase(staging.number)

    host.write_data(forget, lambda: None)
