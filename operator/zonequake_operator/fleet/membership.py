"""Keeps the LogicalTopology: the nodes that have joined, and those that have left, fenced first.

    proven ── Leases looked at ── fenced ── counted as left        `leave`: needs no node's answer
    a round has polled all nodes ── the same, and new nodes join `advance`

Both rest on what the API server shows at that moment, and end in one compare-and-swap.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from zonequake_operator.api_server.kube import NamespaceApi
from zonequake_operator.api_server.rendering import render_topology_status
from zonequake_operator.controller import metrics
from zonequake_operator.errors import KubeConflict
from zonequake_operator.fleet.fencing import Fencing
from zonequake_operator.fleet.pods import PodEvidence
from zonequake_operator.fleet.polling import NodeAnswer
from zonequake_operator.nodes import topology
from zonequake_operator.nodes.topology import Pod
from zonequake_operator.resources.leases import Lease
from zonequake_operator.resources.model import Topology, TopologyNode
from zonequake_operator.resources.parsing import parse_topology
from zonequake_operator.resources.stored_shapes import TOPOLOGY_NAME, Object
from zonequake_protocol.admin import NodeIdentity

logger = logging.getLogger(__name__)

MAX_AGE_S = 3.0
"""The resource is read again when it was read so long ago."""
FENCE_ATTEMPTS = 2
"""A Lease may have been renewed between the look at it and the fence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The present evidence on nodes and pods: of each node the newer of its answer and its end."""

    identities: dict[str, NodeIdentity]
    pods: dict[str, Pod]


class Membership:
    """One operator's LogicalTopology. Its callers take turns."""

    def __init__(
        self,
        kube: NamespaceApi,
        fencing: Fencing,
        evidence: PodEvidence,
        *,
        monotonic_s: Callable[[], float],
    ) -> None:
        self._kube = kube
        self._fencing = fencing
        self._evidence = evidence
        self._monotonic_s = monotonic_s
        self._known: tuple[Topology, str] | None = None
        """With its resourceVersion, unless a write failed."""
        self._newest: tuple[Topology, str] | None = None
        """The topology read or written last, and the uid of the object that holds it."""
        self._read_s = float("-inf")
        self._older = 0
        """The number of calls of `is_old`."""
        self.heeded = 0
        """For how many of those it was read again, from its beginning on."""
        self.has_leases = False
        """Whether any node ever reported a Lease."""
        self.changed_in = 0
        """The newest polling round when a node was last counted out, by this or by another
        operator: answers of rounds up to it are older than that.
        """

    @property
    def topology(self) -> Topology | None:
        """The topology read or written last; None if it must be read first."""
        return self._known[0] if self._known is not None else None

    @property
    def is_to_be_read(self) -> bool:
        """Returns whether the topology is unknown here, or a newer one is known elsewhere."""
        return self._known is None or self._read_s == float("-inf")

    def is_old(self) -> int:
        """Records that a newer topology exists, to be read again. Returns the value that `heeded`
        has once it was read.
        """
        self._older += 1
        self._read_s = float("-inf")
        return self._older

    def forget(self) -> None:
        """Read it again before anything else rests on it."""
        self._known = None

    async def read(self, *, in_round: int) -> bool:
        """Read it if ours may be old; whether it is another one now.

        `in_round`: the newest polling round. What was answered until then is older than what
        another operator saw: judged by that a process would be replaced by its predecessor.
        """
        known, now_s = self._known, self._monotonic_s()
        if (
            known is not None
            and now_s - self._read_s < MAX_AGE_S
            and not _may_lack(known[0], self._fencing.leases)
        ):
            return False
        older = self._older
        obj = await self._kube.get_or_create_topology()
        read, version, uid = parse_topology(obj), obj["metadata"]["resourceVersion"], _uid(obj)
        if self._newest is not None:
            ours, ours_uid = self._newest
            if uid != ours_uid and read.version < ours.version:
                # Deleted by hand: versions must continue, or zones would take the next node that
                # joins or leaves for one that they know already.
                logger.warning("the LogicalTopology was deleted; version %d again", ours.version)
                read = ours
                version = await self._write(ours, version)
        is_another = known is None or known[1] != version
        if is_another:
            self.changed_in = in_round
        self._newest = (read, uid)
        self._known = (read, version)
        self.heeded = older
        # It was current at some time since we asked; if `is_old` was called meanwhile, it may be
        # too old.
        self._read_s = now_s if older == self._older else float("-inf")
        return is_another

    async def leave(self, answers: Mapping[str, NodeAnswer], *, in_round: int) -> frozenset[str]:
        """Counts out the nodes that are proven to have left, and returns them.

        A pod that a list alone shows ended is asked first, if its node answered in the last round:
        the list may lag behind. No node is counted out before the first list: it says which nodes
        are wanted.
        """
        if self._known is None or not self._evidence.is_listed:
            return frozenset()
        before, _ = self._known
        seen = self._seen(before, answers, in_this_round=False)
        leaving = self._to_fence(before, seen) | _left(before, self._after(before, seen))
        if not leaving:
            return frozenset()
        await self._fencing.look_at(leaving)
        seen = self._with_next_sessions(before, seen, answers, ask_first=True)
        after = await self._advance(before, seen, in_round)
        return _left(before, after)

    async def advance(
        self, answers: Mapping[str, NodeAnswer], *, in_round: int
    ) -> tuple[Topology, Topology]:
        """After this polling round: the topology before and now."""
        if self._known is None:  # another operator wrote it as this one counted a node out
            await self.read(in_round=in_round)
        assert self._known is not None, "it was just read"
        before, _ = self._known
        seen = self._seen(before, answers, in_this_round=True)
        is_anybody_missing = before.nodes.keys() - seen.identities.keys()
        self.has_leases = self.has_leases or have_leases(answers)
        if is_anybody_missing and (self._fencing.leases or self.has_leases):
            # A node that is to leave may have begun a session while others were waited for.
            await self._fencing.look()
            seen = self._with_next_sessions(before, seen, answers)
        after = await self._advance(before, seen, in_round)
        await self._delete_leases(after, in_round)
        return before, after

    def _seen(
        self, before: Topology, answers: Mapping[str, NodeAnswer], *, in_this_round: bool
    ) -> _Seen:
        """Returns of each node the newer of its answer and its end."""
        evidence = self._evidence
        pods, identities = dict(evidence.pods), dict[str, NodeIdentity]()
        ended = evidence.ended(before)
        for name, heard in answers.items():
            known, identity, asked_in = before.nodes.get(name), heard.report.node, heard.asked_in
            is_known = known is not None and topology.is_same(known, identity)
            if not is_known and (not in_this_round or asked_in <= self.changed_in):
                continue
            if name in ended and asked_in <= ended[name].in_round:
                continue
            if (
                in_this_round
                and asked_in <= evidence.listed_in
                and known is not None
                and topology.has_ended(known, pods.get(name), evidence.lost)
            ):
                continue
            identities[name] = identity
        if not in_this_round:
            for name in before.nodes.keys() & pods.keys():
                pods[name] = _without_successor(pods[name], before.nodes[name])
        pods |= {name: shown.pod for name, shown in ended.items() if name not in identities}
        return _Seen(identities=identities, pods=pods)

    def _with_next_sessions(
        self,
        before: Topology,
        seen: _Seen,
        answers: Mapping[str, NodeAnswer],
        *,
        ask_first: bool = False,
    ) -> _Seen:
        """Adds nodes whose Lease still belongs to another process: the evidence of an end may be
        late and concern that process, and they may begin a session while they are counted out. They
        stay while their answer stands; `ask_first`: also without an answer, because the round asks
        them.
        """
        identities, pods = dict(seen.identities), dict(seen.pods)
        for name, known in before.nodes.items():
            lease = self._fencing.leases.get(name)
            is_theirs = lease is not None and lease.holder == known.process_incarnation
            if is_theirs or not self._fencing.leases:
                continue
            if name in answers and topology.is_same(known, answers[name].report.node):
                identities[name] = answers[name].report.node
            if name in pods and ask_first:  # as if it hadn't ended
                pods[name] = replace(pods[name], terminated=False, restarts=known.restarts)
        return _Seen(identities=identities, pods=pods)

    def _to_fence(self, before: Topology, seen: _Seen) -> frozenset[str]:
        return topology.to_fence(
            before,
            identities=seen.identities,
            pods=seen.pods,
            lost_machines=self._evidence.lost,
            leases=self._fencing.leases,
            run_out=self._fencing.run_out,
        )

    def _after(self, before: Topology, seen: _Seen) -> Topology:
        return topology.advance(
            before,
            identities=seen.identities,
            pods=seen.pods,
            wanted=self._evidence.wanted,
            lost_machines=self._evidence.lost,
            leases=self._fencing.leases,
        )

    async def _advance(self, before: Topology, seen: _Seen, in_round: int) -> Topology:
        for attempt in range(FENCE_ATTEMPTS):
            due = self._to_fence(before, seen)
            if attempt and due:
                await self._fencing.look()
                due = self._to_fence(before, seen)
            await self._fencing.fence(due, f"counted as left after topology {before.version}")
        after = self._after(before, seen)
        if after != before:
            assert self._known is not None, "it is what this rests on"
            _, resource_version = self._known
            self._known = None  # read again, unless the write succeeds
            self._known = (after, await self._write(after, resource_version))
            if self._newest is not None:
                self._newest = (after, self._newest[1])
            if _left(before, after):
                self.changed_in = in_round
        return after

    async def _write(self, after: Topology, resource_version: str) -> str:
        try:
            written = await self._kube.write_status(
                "logicaltopologies",
                "LogicalTopology",
                TOPOLOGY_NAME,
                resource_version,
                render_topology_status(after),
            )
        except KubeConflict:
            metrics.KEY_WRITES.labels("topology", "conflict").inc()
            raise
        metrics.KEY_WRITES.labels("topology", "ok").inc()
        return written

    async def _delete_leases(self, after: Topology, in_round: int) -> None:
        """Deletes Leases by the pods as they are now: a node that came back under its name needs
        its Lease.
        """
        fencing, evidence = self._fencing, self._evidence

        def due() -> frozenset[str]:
            return topology.to_delete(
                after,
                pods=evidence.pods,
                wanted=evidence.wanted,
                leases=fencing.leases,
                run_out=fencing.run_out,
            )

        if fencing.may_delete and due():
            await evidence.list(in_round=in_round)
            await fencing.delete(due())


def _left(before: Topology, after: Topology) -> frozenset[str]:
    """Returns the nodes whose process has left, also if another one has joined in its place."""
    return frozenset(
        name
        for name, known in before.nodes.items()
        if name not in after.nodes or after.nodes[name].since != known.since
    )


def have_leases(answers: Mapping[str, NodeAnswer]) -> bool:
    """Returns whether any of these nodes says that it has a Lease."""
    return any(heard.report.node.lease_session for heard in answers.values())


def _without_successor(pod: Pod, known: TopologyNode) -> Pod:
    """Returns a pod whose container runs again as if it hadn't ended: its new process may answer in
    this round, and then its node leaves and joins in one version.
    """
    if pod.terminated:
        return pod
    return replace(pod, restarts=min(pod.restarts, known.restarts))


def _uid(obj: Object) -> str:
    return str(obj["metadata"].get("uid", ""))


def _may_lack(topology: Topology, leases: Mapping[str, Lease]) -> bool:
    """Returns whether a node has a Lease that is none of this topology: another operator may have
    let it join again, and no reset may rest on its absence.
    """
    return any(
        lease.holder and lease.fenced is None and name not in topology.nodes
        for name, lease in leases.items()
    )
