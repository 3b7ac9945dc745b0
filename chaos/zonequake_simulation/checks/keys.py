"""Rules for a partition's keys, judged at each write, from outside (design §3).

They don't use the operator's rules: the nodes show what was committed and which processes run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonequake_operator.resources.model import AssignmentSet, PartitionKeys
from zonequake_protocol.admin import Grant
from zonequake_simulation.checks.reset_keys import ResetRules
from zonequake_simulation.small_operator import leader_of
from zonequake_simulation.violation import require
from zonequake_store.raft.messages import Configuration, Peer
from zonequake_store.replica.status import peers_of

if TYPE_CHECKING:
    from zonequake_simulation.checks.group import GroupRules
    from zonequake_simulation.member import SimulatedNode


class KeyRules:
    """The keys of one partition."""

    def __init__(
        self,
        group: str,
        *,
        rules: GroupRules,
        nodes: dict[str, SimulatedNode],
        resets: ResetRules | None,
    ) -> None:
        self._resets = resets
        self.locks: set[tuple[int, tuple[tuple[str, str], ...]]] = set()
        """(token, peers) of every lock so far."""
        self._group = group
        self.group = rules
        self._nodes = nodes

    def written(self, before: PartitionKeys, after: PartitionKeys) -> None:
        """Checks a write that replaces the keys. Raises Violation."""
        for name in ("configuration_token", "change_trigger_revision", "reset_revision"):
            require(
                getattr(after, name) >= getattr(before, name),
                f"{name} of a partition never falls",
                before=before,
                after=after,
            )
        self._sets_are_wished(after)
        self._pending(before, after)
        self._lock(before, after)
        self._locked(before, after)
        self._stable(before, after)
        self._planned(before, after)
        if self._resets is not None:
            self._resets.written(before, after)

    def _sets_are_wished(self, after: PartitionKeys) -> None:
        for wanted in (after.stable, after.pending, after.planned):
            require(
                wanted is None or bool(wanted.nodes),
                "empty data nodes never become assignments",
                keys=after,
            )
        require(
            after.planned is None or after.pending is not None,
            "a planned set waits for the pending set",
            keys=after,
        )

    def _pending(self, before: PartitionKeys, after: PartitionKeys) -> None:
        if after.pending is None or after.pending == before.pending:
            return
        only_granted = before.pending is None and _nodes(after.pending) == _nodes(before.stable)
        require(
            after.configuration_token > before.configuration_token or only_granted,
            "another pending has another token",
            before=before,
            after=after,
        )

    def _lock(self, before: PartitionKeys, after: PartitionKeys) -> None:
        lock = after.pending_lock
        if lock is not None and lock != before.pending_lock:
            require(
                after.pending is not None
                and lock.token == after.configuration_token
                and tuple(peer.node for peer in lock.peers) == after.pending.nodes,
                "the lock names the pending set",
                keys=after,
            )
            self.locks.add((lock.token, tuple((p.node, p.incarnation) for p in lock.peers)))
        if before.pending_lock is not None and after.pending_lock is None:
            switched = after.stable is not None and _nodes(after.stable) == _nodes(before.pending)
            require(
                switched or after.configuration_token > before.configuration_token,
                "a lock is released by the stable switch, or under another token",
                before=before,
                after=after,
            )

    def _locked(self, before: PartitionKeys, after: PartitionKeys) -> None:
        """Checks a lock that is released, or whose peers are replaced: the group must not be
        changing to it. A leader of an older term proves nothing: a newer one may have reported
        before it died that it doesn't run the locked change (hole 15). Nor does a leader whose
        peers lost their majority for good: it never completes the change.
        """
        lock = before.pending_lock
        if lock is None or before.pending is None or after.pending_lock == lock:
            return
        if after.is_forced:
            return
        if after.stable is not None and _nodes(after.stable) == _nodes(before.pending):
            return
        wanted = {(peer.node, peer.incarnation) for peer in lock.peers}
        homes = (node.home.present(self._group) for node in self._nodes.values())
        present = {(peer.node, peer.incarnation) for peer in homes if peer is not None}
        if 2 * len(present & wanted) <= len(wanted):
            return
        found = leader_of(self._nodes, self._group)
        leads = found is not None and found[1].term == max(self.group.raft.leaders, default=0)
        configuration = found[1].configuration if found is not None and leads else None
        require(
            configuration is None
            or configuration.token != lock.token
            or {(peer.node, peer.incarnation) for peer in configuration.peers} != wanted,
            "only its switch or a reset replaces a locked configuration",
            before=before,
            after=after,
            leader=found[1] if found is not None else None,
        )

    def _begins_anew(self, before: PartitionKeys, after: PartitionKeys) -> None:
        """Checks that no member could lead by any configuration when a group starts over."""
        present = {node.home.present(self._group) for node in self._nodes.values()}
        known = {
            configuration
            for node in self._nodes.values()
            for configuration in node.home.configurations(self._group)
        }
        require(
            not any(
                all(
                    2 * len(present.intersection(half)) > len(half)
                    for half in (configuration.peers, configuration.old_peers)
                    if half
                )
                for configuration in known
            ),
            "a group starts over only when no member can lead it any more",
            before=before,
            after=after,
            known=known,
        )

    def _stable(self, before: PartitionKeys, after: PartitionKeys) -> None:
        if before.bootstrap is None or after.stable is None:
            return
        if after.bootstrap is None:  # a wish may come with it: no member got another one
            self._begins_anew(before, after)
            return
        if after.stable == before.stable:
            return
        require(
            _nodes(after.stable) in self._applied(),
            "stable is the set that the group has applied",
            before=before,
            after=after,
        )
        require(
            before.pending is not None and _nodes(after.stable) == _nodes(before.pending),
            "the stable switch installs the pending set",
            before=before,
            after=after,
        )

    def _applied(self) -> set[frozenset[str]]:
        """Returns the sets of every committed configuration that is known anywhere."""
        found = set(self.group.reconfiguration.applied)
        for node in self._nodes.values():
            life = node.home.lives.get(self._group)
            if life is not None:
                log = life.core.log
                found.update(
                    frozenset(peer.node for peer in configuration.peers)
                    for index, configuration in log._configurations
                    if index <= log.commit and not configuration.is_joint
                )
        return found

    def _planned(self, before: PartitionKeys, after: PartitionKeys) -> None:
        if before.planned is None or after.planned is not None or before.pending is None:
            return
        require(
            after.pending is not None,
            "a planned set is promoted or replaced",
            before=before,
            after=after,
        )

    def granting(self, leader: Peer, order: Grant) -> None:
        """Checks a grant that is about to be carried out: it must be for the locked set."""
        if (order.token, tuple((p.node, p.incarnation) for p in order.peers)) in self.locks:
            self.group.reconfiguration.grants.add(
                (leader, order.term, order.token, peers_of(order.peers))
            )

    def is_needed(self, node: SimulatedNode) -> str | None:
        """Returns how the group's newest committed configuration names this node's replica, if it
        does."""
        life = node.home.known(self._group)
        if life is None or node.home.present(self._group) is None:
            return None
        newest: tuple[tuple[int, int], Configuration] | None = None
        for other in self._nodes.values():
            known = other.home.known(self._group)
            if known is None:
                continue
            log = known.core.log
            # All: the committed one may stand before several that new leaders have appended.
            for index, configuration in log._configurations:
                place = configuration.lineage, index
                if index <= log.commit and (newest is None or place > newest[0]):
                    newest = place, configuration
        if newest is None or life.peer not in newest[1].members:
            return None
        return str(newest[1])


def _nodes(wanted: AssignmentSet | None) -> frozenset[str]:
    return frozenset(wanted.nodes if wanted is not None else ())
