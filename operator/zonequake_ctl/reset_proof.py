"""The proof for a reset by hand: whether a partition has lost its majority, and the nodes to which
it may be reset (document `high-availability`, "manual partition disaster recovery"; design §3, hole
7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zonequake_ctl.reset_choices import SurvivorChoice, choice_on, choices, hold_the_newest
from zonequake_ctl.zq.screens.findings import partitions_text
from zonequake_operator.high_availability.cold_start import awaits_its_chain, must_unwind
from zonequake_operator.high_availability.reset import (
    ReplicaHolders,
    forced_node,
    has_lost_majority,
)
from zonequake_operator.resources.model import Partition, ResetRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class MajorityReport:
    """The known state of one partition's majority, as sentences for people.

    `stable`: its members. `holders`: those of them that are there and still have its data.
    `topology_version`: of what was looked at. `survivor`: which of the `choices` goes on, if it was
    named or none of them holds the newest data; None: the operator chooses.
    """

    partition: Partition
    stable: tuple[str, ...]
    holders: tuple[str, ...]
    proof: tuple[str, ...]
    refused: str | None
    topology_version: int
    is_led: bool = False
    choices: tuple[SurvivorChoice, ...] = ()
    survivor: SurvivorChoice | None = None

    @property
    def request(self) -> ResetRequest:
        """The request that does what was shown. Token and version name the loss."""
        return ResetRequest(
            token=self.partition.keys.configuration_token,
            topology_version=self.topology_version,
            survivor=None if self.survivor is None else self.survivor.peer,
        )

    def lines(self) -> list[str]:
        """For people."""
        return self.lines_for([self.partition.number])

    def lines_for(self, numbers: Sequence[int]) -> list[str]:
        """For people, of several partitions of which the same is known."""
        shown = [f"{partitions_text(numbers)}: stable {', '.join(self.stable)}"]
        shown += [f"  {line}" for line in self.proof]
        if self.refused is not None:
            return [*shown, f"  not reset: {self.refused}"]
        if self.survivor is not None:
            if not self.holders:
                shown.append("  no node that is there has its newest data")
            shown += [f"    {line}" for choice in self.choices for line in choice.lines()]
            return [*shown, f"  goes on from {self.survivor.peer.node}; --survivor NODE chooses"]
        which = ", ".join(self.holders)
        return [*shown, f"  goes on from the newest data of {which}; what that lacks is given up"]


def prove(
    partition: Partition, holders: ReplicaHolders, named: str | None = None
) -> MajorityReport:
    """Returns the proof whether this partition has lost its majority, as far as resources and data
    nodes show.

    Applies the operator's own rule for such a request (`reset.has_lost_majority`). A chain that
    can't be unwound yet doesn't count as a majority. `named`: the node that is to go on.
    """
    keys, topology = partition.keys, holders.topology
    nodes = tuple(sorted(keys.stable.nodes)) if keys.stable else ()
    alive = [node for node in nodes if node in topology.nodes]
    held = hold_the_newest(keys, holders)
    heard = holders.answered & set(nodes)
    leader = holders.group.leader or (None if heard else partition.view.leader)
    forced = forced_node(keys)
    found = choices(keys, holders)
    survivor = None
    if named is not None:
        survivor = choice_on(found, named)
    elif not held and found:
        survivor = found[0]
    refused = None
    if not nodes or keys.bootstrap is None:
        refused = "it holds no data yet"
    elif forced is not None and forced in topology.nodes and not must_unwind(keys, holders):
        refused = f"a reset to {forced} is under way"
    elif leader is not None:
        refused = f"{leader} leads it"
    elif not has_lost_majority(keys, holders, topology.version) and not awaits_its_chain(
        keys, holders
    ):
        refused = "its majority has not left; a node that doesn't answer may still run"
    elif named is not None and survivor is None:
        refused = f"{named} holds nothing of it, or can't be asked"
    elif not held and survivor is None:
        refused = (
            "none of its nodes that are there has its data any more"
            if alive
            else "none of its nodes is there"
        )
    return MajorityReport(
        partition=partition,
        stable=nodes,
        holders=held,
        proof=tuple(_said(node, holders, has_data=node in holders.hold(keys)) for node in nodes),
        refused=refused,
        topology_version=topology.version,
        is_led=leader is not None,
        choices=found,
        survivor=survivor,
    )


def _said(node: str, holders: ReplicaHolders, *, has_data: bool) -> str:
    """One node: whether it is there, and what is left on it."""
    topology = holders.topology
    if node not in topology.nodes:
        left = topology.departed.get(node)
        return f"{node} has left" + (f" with version {left.left}" if left else "")
    there = f"{node} is in the topology since version {topology.nodes[node].since}"
    if node not in holders.answered:
        return f"{there}, and doesn't answer" if holders.answered else there
    if has_data:
        return there
    if holders.is_broken(node):
        why = holders.group.replicas[node].broken_reason or "its node gives no reason"
        return f"{there}, but its replica is broken: {why}"
    return f"{there}, but came back with nothing"
