"""Rules for members of the logical topology, and for a zone's view of it (design §3,
Membership)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from zonequake_operator.fleet.fencing import parse_lease
from zonequake_operator.resources.model import Topology, TopologyNode
from zonequake_simulation.operated.objects import Object, Objects
from zonequake_simulation.violation import require

if TYPE_CHECKING:
    from zonequake_simulation.member import SimulatedNode

_SHOWN_US = 8_000_000
"""For how long a pod's state that the API server showed may still be used, in µs."""
_LOOKS = 16


class TopologyRules:
    """Judges each write of the topology by the processes that truly run."""

    def __init__(
        self, nodes: Mapping[str, SimulatedNode], objects: Objects, now_us: Callable[[], int]
    ) -> None:
        self._nodes = nodes
        self._objects = objects
        self._now_us = now_us
        self._newest: dict[str, int] = {}
        """Node → the latest of its processes that was ever in the topology."""
        self._sessions: set[tuple[str, int]] = set()
        """(process, session of its Lease) that were ever in the topology."""

    def written(self, before: Topology, after: Topology) -> None:
        """Checks a write that replaces the topology. Raises Violation."""
        for name, known in after.nodes.items():
            process = _process(known)
            require(
                process >= self._newest.get(name, 0),
                "no process takes its successor's place",
                node=name,
                process=process,
                successor=self._newest.get(name),
            )
            self._newest[name] = process
            self._sessions.add((known.process_incarnation, known.lease_session))
        for name, known in before.nodes.items():
            now = after.nodes.get(name)
            if now is None or now.since != known.since:
                self._left(known)

    def permitted(self, process: str, session: int) -> None:
        """Checks that a replica of this process may be permitted in a session of its Lease. Raises
        Violation.
        """
        require(
            (process, session) in self._sessions,
            "no replica is permitted in a session that the topology doesn't know",
            process=process,
            session=session,
        )

    def accepted(self, before: Object, after: Object) -> None:
        """Checks a write that replaces a zone's status. Raises Violation."""
        was, is_now = (each.get("status", {}).get("topologyVersion", 0) for each in (before, after))
        require(
            is_now >= was, "a zone never goes back to an older topology", before=was, after=is_now
        )

    def _left(self, known: TopologyNode) -> None:
        """Checks that the node's process was shown to have ended, or that its Lease was taken from
        it; and that the node may not act: no replica is permitted in a session before the topology
        has the node with that session.
        """
        node = self._nodes[known.name]
        if not node.alive or node.process != _process(known):
            return
        found = self._objects.get("leases", known.name)
        lease = parse_lease(found) if found is not None else None
        process = known.process_incarnation
        was_taken = (
            lease is not None
            and lease.holder == process
            and (lease.fenced is not None or 0 < known.lease_session < lease.session)
        )
        may_act = (
            lease is not None
            and lease.is_live_for(process)
            and known.lease_session >= lease.session
        )
        require(
            was_taken or not may_act,
            "a node that may still act has not left",
            node=known.name,
            lease=lease,
        )
        require(
            was_taken or self._was_shown_ended(known),
            "a node leaves the topology by proof",
            node=known.name,
            lease=lease,
        )

    def _was_shown_ended(self, known: TopologyNode) -> bool:
        """Returns whether the process was shown to have ended; the kubelet's report of it may
        arrive after its successor has joined."""
        step_us = _SHOWN_US // _LOOKS
        return any(
            self._shows_end(known, at_us)
            for at_us in range(self._now_us() - _SHOWN_US, self._now_us() + 1, step_us)
        )

    def _shows_end(self, known: TopologyNode, at_us: int) -> bool:
        pod = self._objects.get("pods", known.name, at_us=at_us)
        if pod is None:  # no StatefulSet wants one, as also before the first write
            return next(self._objects.all("statefulsets", at_us=at_us), None) is None
        status = pod["status"]["containerStatuses"][0]
        return "terminated" in status["state"] or status["restartCount"] > known.restarts


def _process(known: TopologyNode) -> int:
    return int(known.process_incarnation.rpartition("-")[2])
