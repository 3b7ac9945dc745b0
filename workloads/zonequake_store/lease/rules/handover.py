"""Leaders that may not acknowledge hand over: another node's Lease may hold.

Otherwise a leader that is cut off only from the API server would lead on without answering. If all
nodes are cut off, the next one is no better: each node hands over after longer and longer pauses.
"""

from __future__ import annotations

from zonequake_store.replica.host import ReplicaHost

FIRST_HANDOVER_S = 2.0
"""How long a leader may wait for its permission; a start takes its time."""
LONGEST_PAUSE_S = 60.0


class LeaseWatch:
    """Looks after the leaders of one node; its host calls `look` about once a second."""

    def __init__(self, host: ReplicaHost) -> None:
        self._host = host
        self._pause_s = FIRST_HANDOVER_S
        self._handover_s: float | None = None

    def look(self, now_s: float) -> None:
        """Hand over what is led here in vain."""
        idle = [r for r in self._host.replicas.values() if r.leads and not r.may_acknowledge]
        if not idle:
            self._pause_s, self._handover_s = FIRST_HANDOVER_S, None
        elif self._handover_s is None:
            self._handover_s = now_s + self._pause_s
        elif now_s >= self._handover_s:
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
            self._handover_s = now_s + self._pause_s
            for replica in idle:
                if replica.core_now().transfer_leadership():
                    self._host.wake(replica)
