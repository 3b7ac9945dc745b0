"""Rules for the writes of a reset, judged by the true state of the nodes (design §3, holes 6-9,
14).

The operator sees nodes some rounds late. A rule is therefore broken only if the fact that forbids a
write held at the write, and `LATE_US` before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from zonequake_operator.resources.model import PartitionKeys, Topology
from zonequake_simulation.violation import require

if TYPE_CHECKING:
    from zonequake_simulation.checks.group import GroupRules
    from zonequake_simulation.checks.life import Life
    from zonequake_simulation.member import SimulatedNode

LATE_US = 3_000_000

TopologiesSince = Callable[[int], Iterable[Topology]]
"""Returns the topology as it was stored so many µs ago, and each one that was stored since."""


class ResetRules:
    """The resets of one partition. `topologies_since`: of the zone's cluster."""

    def __init__(
        self,
        group: str,
        *,
        rules: GroupRules,
        nodes: Mapping[str, SimulatedNode],
        topologies_since: TopologiesSince,
    ) -> None:
        self._group = group
        self._rules = rules
        self._nodes = nodes
        self._topologies_since = topologies_since

    def written(self, before: PartitionKeys, after: PartitionKeys) -> None:
        """Checks a write that replaces the keys. Raises Violation."""
        if after.is_forced and after.pending != before.pending:
            self._begun(before, after)
        if after.chain != before.chain and before.chain:
            require(
                after.chain[:-1] == before.chain
                or after.chain[:-1] == before.chain[:-1]
                or len(after.chain) == 1,
                "a chain grows by its newest link, or ends with it",
                before=before.chain,
                after=after.chain,
            )
        if before.is_stopped and not after.is_stopped and after.bootstrap is not None:
            require(
                not self._has_stopped(before),
                "a group that stopped counts as stopped until it leads",
                before=before,
                after=after,
            )
        self._aims_at_the_living(before, after)

    def _begun(self, before: PartitionKeys, after: PartitionKeys) -> None:
        assert before.stable is not None, "a reset is of a partition that stands"
        (chosen,) = after.pending_nodes
        require(
            after.reset_revision > before.reset_revision or not self._alone(before),
            "one loss, one reset",
            before=before,
            after=after,
        )
        require(
            after.planned is None or (after.planned.from_reset and chosen in after.planned.nodes),
            "the second phase of a reset holds the first one's node",
            before=before,
            after=after,
        )
        present = self._steady()
        holding = {name for name in present if self._life(name) is not None}
        # While the lock is taken, pending needs its majority too (hole 6).
        halves = [before.stable.nodes]
        if before.pending_lock is not None:
            halves.append(tuple(peer.node for peer in before.pending_lock.peers))
        # Under a forced pending the group is its node alone (hole 7), even if other nodes are
        # present.
        if not before.is_forced and all(
            2 * len(holding.intersection(half)) > len(half) for half in halves
        ):
            # A reset is then allowed only if all members had been stopped, and the chain was
            # unwound.
            require(
                not any(self._led(name) for name in before.stable.nodes),
                "a partition that has a majority is not reset",
                before=before,
                after=after,
                holding=sorted(holding),
            )
        self._awaits_the_newest_link(before)
        self._loses_nothing_that_is_there(before, chosen, holding)

    def _awaits_the_newest_link(self, before: PartitionKeys) -> None:
        """Checks that a group that stopped as a whole continues only with a majority of its newest
        link: the first member that returns may lack acknowledged entries of the others, or be alone
        (holes 7 and 9).
        """
        if not before.chain or not (before.is_stopped or self._has_stopped(before)):
            return
        link, there = before.chain[-1].nodes, self._topology().nodes
        require(
            2 * len(set(link).intersection(there)) > len(link),
            "a restarted group waits for a majority of its newest link",
            keys=before,
            there=sorted(there),
        )

    def _has_stopped(self, keys: PartitionKeys) -> bool:
        """Returns whether each member is out of the topology since `LATE_US` ago, or in it with a
        process that has had no leader.
        """
        steady = self._steady()
        return all(
            self._is_away(name) or (name in steady and not self._led(name))
            for name in keys.stable_nodes | keys.pending_nodes
        )

    def _alone(self, keys: PartitionKeys) -> bool:
        """Returns whether a forced node is present, and was present `LATE_US` before."""
        return (
            keys.is_forced
            and keys.pending_nodes <= self._steady()
            and all(self._life(node) is not None for node in keys.pending_nodes)
        )

    def _loses_nothing_that_is_there(
        self, before: PartitionKeys, chosen: str, holding: set[str]
    ) -> None:
        """Checks that no other candidate has more of what the newest lineage acknowledged."""
        ledger = self._rules.ledger
        number, upto = ledger.acknowledged, ledger.acknowledged_to.get(ledger.acknowledged, 0)
        lineage = ledger.lineages[number]
        has = {
            name: max(
                (i for i in range(1, upto + 1) if lineage.has(i, self._term(life, i))), default=0
            )
            for name in holding | {chosen}
            if (life := self._life(name)) is not None
        }
        members = before.stable_nodes | before.pending_nodes
        for link in before.chain[-1:]:
            members |= frozenset(link.nodes)
        best = max((has.get(name, 0) for name in holding & members), default=0)
        require(
            has.get(chosen, 0) >= min(best, upto),
            "the survivor of a reset has every acknowledged entry that a present candidate has",
            chosen=chosen,
            has=has,
            acknowledged=upto,
            lineage=number,
        )

    def _aims_at_the_living(self, before: PartitionKeys, after: PartitionKeys) -> None:
        """Checks that a new target names no node outside the topology that holds no data."""
        if after.pending == before.pending or after.is_resetting:
            return
        away = {node for node in after.pending_nodes if self._is_away(node)}
        require(
            not away - after.stable_nodes - before.planned_nodes,
            "a highly available partition waits for no absent node",
            before=before,
            after=after,
            away=sorted(away),
        )

    # ── what is true ─────────────────────────────────────────────────────────────────────────

    def _steady(self) -> set[str]:
        """Returns the nodes that are in the topology with their running process, and were `LATE_US`
        before.
        """
        now, then = self._topology().nodes, self._topology(LATE_US).nodes
        return {
            name
            for name, node in self._nodes.items()
            if name in now
            and name in then
            and now[name].since == then[name].since
            and node.alive
            and now[name].process_incarnation == f"{name}-{node.process}"
        }

    def _topology(self, ago_us: int = 0) -> Topology:
        return next(iter(self._topologies_since(ago_us)))

    def _is_away(self, node: str) -> bool:
        return all(node not in found.nodes for found in self._topologies_since(LATE_US))

    def _life(self, node: str) -> Life | None:
        """Returns the state that this node holds, perhaps only on its disk."""
        home = self._nodes[node].home
        return home.known(self._group) if home.present(self._group) is not None else None

    def _led(self, node: str) -> bool:
        """Returns whether its replica runs, and has had a leader."""
        replica = self._nodes[node].replicas.get(self._group)
        return replica is not None and replica.core_now().status().had_leader

    def _term(self, life: Life, index: int) -> int:
        stored = self._rules.ledger.stored[life.peer]
        place = index - stored.first_index
        if place < 0:  # part of a snapshot, which holds what was committed where it was made
            chosen = self._rules.ledger.lineages[self._rules.ledger.acknowledged].chosen
            return chosen.get(index, 0) if stored.start_term else 0
        return stored.terms[place] if place < len(stored.terms) else 0
