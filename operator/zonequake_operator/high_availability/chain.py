"""The assignments chain of one partition (document `high-availability`, "Chain of assignments" and
"Chain unwind"; design §3, hole 9).

    graceful change      [A,B,C]                        one link: nothing has been given up
    forced reset         [A,B,C] ─▶ [A]                 addLast
    its second phase     [A,B,C] ─▶ [A,B]               replaceLast

The chain is written together with `stable`, and names the sets that may hold the newest user data
when all nodes come back at once. `unwind` finds the one that does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from zonequake_operator.groups.reports import is_majority
from zonequake_operator.resources.model import (
    AssignmentSet,
    AssignmentsLink,
    ConsistencyMode,
    PartitionKeys,
)
from zonequake_protocol.admin import ReplicaStatus

MAX_LINKS = 16
"""More than ordinary life makes: each reset leaves less than a majority of the set before it, so
that seven nodes end after three links, and a graceful change leaves one. What makes more is a whole
group that is stopped again and again: each unwinding adds one."""


def first(stable: AssignmentSet) -> tuple[AssignmentsLink, ...]:
    """Returns the chain of a partition that takes its first stable set: all user entries come
    later.
    """
    return (AssignmentsLink(nodes=stable.nodes, term=0, index=0),)


def adopted(stable: AssignmentSet, leading: ReplicaStatus) -> tuple[AssignmentsLink, ...]:
    """Returns the chain of a living group whose keys were lost, from this leader's report.

    What its last reset gave up stays shut out: otherwise an old majority that comes back could
    start, and lead.
    """
    configuration = leading.configuration
    if configuration is None or not configuration.lineage:
        return ()
    term, index = _position(leading)
    return (
        AssignmentsLink(nodes=stable.nodes, term=term, index=index, token=configuration.lineage),
    )


def kept(before: PartitionKeys, after: PartitionKeys, mode: ConsistencyMode) -> PartitionKeys:
    """`after` with the chain that this zone keeps.

    A HighAvailability zone's begins with the first stable set. A StrongConsistency zone needs none
    before its first reset by hand, and from then on to know what to shut out.
    """
    if mode is ConsistencyMode.HIGH_AVAILABILITY:
        if after.bootstrap is None and after.stable is not None:
            return replace(after, chain=first(after.stable))
        return after
    begins = before.bootstrap is None  # it has none then, unless it was adopted
    return after if before.chain or before.is_forced or begins else replace(after, chain=())


def after_switch(
    keys: PartitionKeys,
    switched_from_pending: AssignmentSet,
    new_stable: AssignmentSet,
    leading: ReplicaStatus,
) -> tuple[AssignmentsLink, ...]:
    """Returns the chain that goes into the write of a stable switch.

    "newChain = AssignmentsChain.of(term, index, newStable)", or `replaceLast`, or `addLast`, by the
    flags of the pending that was applied.

    `replaceLast` moves a link after what was written since its reset. A alone is writable at once:
    an entry that it takes before B has caught up stands below the link [A, B], and would not count
    as written under it. So a replaced link remembers where the reset stood.

    Args:
        keys: as they are before the switch.
        switched_from_pending: the pending set that the group has applied.
        new_stable: what `stable` becomes.
        leading: the leader's report that shows it applied.
    """
    assert leading.configuration is not None
    term, index = _position(leading)
    last = keys.chain[-1] if keys.chain else None
    if switched_from_pending.force:
        token = leading.configuration.token
        added = AssignmentsLink(nodes=new_stable.nodes, term=term, index=index, token=token)
        return _without_superseded((*keys.chain, added))
    token = last.token if last else leading.configuration.lineage
    if not switched_from_pending.from_reset:
        return (AssignmentsLink(nodes=new_stable.nodes, term=term, index=index, token=token),)
    since_term, since_index = last.since if last else (None, None)
    replaced = AssignmentsLink(
        nodes=new_stable.nodes,
        term=term,
        index=index,
        token=token,
        since_term=since_term,
        since_index=since_index,
    )
    return _without_superseded((*keys.chain[:-1], replaced))


def _without_superseded(chain: tuple[AssignmentsLink, ...]) -> tuple[AssignmentsLink, ...]:
    """Returns a chain longer than MAX_LINKS without its redundant links.

        [A,B,C] ─▶ [A] ─▶ [A] ─▶ … ─▶ [A]          becomes   [A,B,C] ─▶ [A]
        [A,B,C] ─▶ [C] ─▶ [A,B,C] ─▶ … ─▶ [A,B,C]  becomes   [A,B,C]

    The newest link takes the place of those before it, as long as it holds a majority of their
    nodes. A link is judged once a majority of it has reported, which includes a node with the
    newest link's data, which stands above all of the older one's. What was written under those that
    it replaces counts as written under it (`since`).
    """
    if len(chain) <= MAX_LINKS:
        return chain
    *older, newest = chain
    since_term, since_index = newest.since
    while older and _holds_majority(newest, older[-1]):
        since_term, since_index = older.pop().since
    merged = msgspec.structs.replace(newest, since_term=since_term, since_index=since_index)
    return (*older, merged)


def _holds_majority(newer: AssignmentsLink, older: AssignmentsLink) -> bool:
    return is_majority(len({*newer.nodes} & {*older.nodes}), len(older.nodes))


def _position(leading: ReplicaStatus) -> tuple[int, int]:
    """Returns where the leader's configuration stands: (whole term, index) of lastCfgIdx.

    Not where it was appended last: every new leader repeats it, and user commands between the two
    would count as older than the link that they were written under.
    """
    configuration = leading.configuration
    assert configuration is not None
    if leading.last_configuration_index and leading.applied >= configuration.index:
        return leading.last_configuration_term, leading.last_configuration_index
    return leading.term, configuration.index


# -------------------------------------------------------------------------------- Chain unwind


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwoundChain:
    """The link (the oldest is 0) that a restarted group forms on, and the source of its data."""

    link: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnjudgedLink:
    """A link that can't be judged yet: `more` of `nodes` have to report."""

    link: int
    nodes: tuple[str, ...]
    more: int


def unwind(
    chain: tuple[AssignmentsLink, ...], reported: Mapping[str, ReplicaStatus | None]
) -> UnwoundChain | UnjudgedLink:
    """Find the chosen link and its source (hole 9).

    "From the newest link back, the chosen link is the first one of which a node of its own set
    reports a user entry in its log whose (term, index) lies lexicographically above that link's
    own; none: the oldest link. A link is judged once a majority of its set has reported." In the
    chosen link, the member with the newest last user entry is the source; ties by name.

    Args:
        chain: oldest link first, not empty.
        reported: what nodes hold; None: nothing.
    """
    for number in range(len(chain) - 1, -1, -1):
        link = chain[number]
        heard = {node: reported[node] for node in link.nodes if node in reported}
        needed = len(link.nodes) // 2 + 1
        holding = {node: status for node, status in heard.items() if status is not None}
        if not is_majority(len(heard), len(link.nodes)) or (number == 0 and not holding):
            silent = tuple(node for node in link.nodes if node not in heard)
            return UnjudgedLink(link=number, nodes=silent, more=max(needed - len(heard), 1))
        if number == 0 or any(s.has_user_inputs(*link.since) for s in holding.values()):
            return UnwoundChain(link=number, source=_newest_user_entry(holding))
    raise ValueError("found a chain without links, expected at least one")


def _newest_user_entry(holding: Mapping[str, ReplicaStatus]) -> str:
    return min(
        holding,
        key=lambda node: (-holding[node].last_user_term, -holding[node].last_user_index, node),
    )
