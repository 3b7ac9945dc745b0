"""The rebalance of one partition (document `rebalance`; design §3, holes 1-5, 10, 13, 15).

    wish ──▶ pending ──start nodes, changePeers──▶ CATCHING_UP ──lock, grant──▶ JOINT ─▶ STABLE
      │         ▲                                                                          │
      └▶ planned└──────────────────── stable switch: stable = pending, pending = planned ◀─┘

`decide` says what the keys must become; `orders`, from stored keys alone, what to tell the nodes.
Steps of an in-memory switch, which go before planned, are in `volatile_switch`.

The document's "current node is the leader" is the operator acting on the leader's own report; its
`onLeaderElected` and `onReconfigurationError` are the same code seeing another leader, or a leader
that is back in STAGE_NONE.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from zonequake_operator.groups.evidence import (
    in_order,
    is_applied,
    is_cancelled,
    is_carried,
    lost_majority,
    majority_holds,
    named_peers,
    next_token,
    someone_has_data,
)
from zonequake_operator.groups.reports import Group, is_majority
from zonequake_operator.high_availability import chain, reset
from zonequake_operator.rebalance import ha_wish, volatile_switch
from zonequake_operator.resources.model import (
    AssignmentSet,
    ChangePeersMode,
    ConsistencyMode,
    PartitionKeys,
    StorageKind,
    TokenPeers,
)
from zonequake_protocol.admin import PeerName, ReplicaStatus, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedKeys:
    """The wished state of the partition.

    `calculated` is calcPartAssignments(), None if there are no data nodes. `due`: the zone's
    revision is above the partition's trigger revision. `held`: nodes that the scale-up timer still
    holds.
    """

    calculated: AssignmentSet | None
    revision: int
    due: bool
    mode: ChangePeersMode = ChangePeersMode.QUEUE
    consistency_mode: ConsistencyMode = ConsistencyMode.STRONG_CONSISTENCY
    storage: StorageKind = StorageKind.PERSISTENT
    held: frozenset[str] = frozenset()

    def wanted(
        self, keys: PartitionKeys, alive: frozenset[str], *, waits: bool = False
    ) -> AssignmentSet | None:
        """Returns the wish of a partition with these keys; None if there is none.

        `waits`: it takes its turn after pending.
        """
        if self.consistency_mode is ConsistencyMode.HIGH_AVAILABILITY:
            return ha_wish.highly_available(
                self.calculated, keys, alive=alive, held=self.held, waits=waits
            )
        return self.calculated


def decide(
    keys: PartitionKeys, group: Group, wish: WantedKeys, alive: frozenset[str]
) -> PartitionKeys:
    """Returns the keys to store; equal keys if nothing is due. `alive`: nodes in the topology."""
    after, made_due = _on_report(keys, group, wish, alive)
    if wish.due or made_due or must_reduce(after):
        promoted = made_due and keys.planned is not None and after.planned is None
        waits = _waits(after, wish, alive, promoted=promoted)
        after = _on_wish(after, group, wish, alive, waits=waits)
    return chain.kept(keys, after, wish.consistency_mode)


# ---------------------------------------------------------------- Write new pending assignments (1)


def _on_wish(
    keys: PartitionKeys,
    group: Group,
    wish: WantedKeys,
    alive: frozenset[str],
    *,
    waits: bool,
) -> PartitionKeys:
    """Takes the trigger step: `metastoreInvoke` of the document, with holes 1, 5, 10 and 13."""
    wanted = wish.wanted(keys, alive, waits=waits)
    if wanted is None and not must_reduce(keys):
        return keys  # hole 10: "Empty data nodes never become assignments"
    after = _with_wish(keys, wanted, group, wish.mode, alive)
    if after == keys:
        return keys  # the zone's handled revision stands for it (design §3, Revision)
    return replace(after, change_trigger_revision=max(wish.revision, keys.change_trigger_revision))


def _waits(keys: PartitionKeys, wish: WantedKeys, alive: frozenset[str], *, promoted: bool) -> bool:
    """Returns whether a wish takes its turn after pending, which is completed first.

    A step of a switch leads back to stable. `promoted`: nothing else made the partition due.
    """
    if keys.pending is None or is_blocked(keys, alive) or volatile_switch.is_switch_step(keys):
        return False
    is_alone = promoted and not wish.due and wish.mode is ChangePeersMode.CANCEL
    return is_alone or wish.mode is ChangePeersMode.QUEUE or counts_as_locked(keys)


def _with_wish(
    keys: PartitionKeys,
    wanted: AssignmentSet | None,
    group: Group,
    mode: ChangePeersMode,
    alive: frozenset[str],
) -> PartitionKeys:
    pending = keys.pending
    if wanted is None or (pending is None and keys.switch_reduce and keys.bootstrap is not None):
        # "On assignments.switch.reduce change": pending = calc - switch.reduce
        return _reduced(keys, wanted, group)
    if keys.bootstrap is None:
        # "takes its first non-empty calculated set directly as stable"; and again as long as no
        # member has received its first configuration.
        if keys.stable == wanted:
            return keys
        return replace(keys, stable=wanted, configuration_token=next_token(keys, group))
    if pending is None:
        if keys.stable != wanted:
            # "if empty(pending) && stable != calcPartAssighments(): pending = calc…()"
            return _set_pending(keys, wanted, group)
        return replace(keys, planned=None)  # hole 1: an orphan would stay
    if is_blocked(keys, alive):
        # hole 13: "the wish (less switchReduce) replaces it in every mode"
        kept = tuple(node for node in keys.switch_append if node in wanted.nodes)
        return replace(_reduced(keys, wanted, group), switch_append=kept)
    if pending.nodes == wanted.nodes:
        return replace(keys, planned=None)  # "else remove(partition.assignments.planned)"
    if mode is ChangePeersMode.UPDATE and not counts_as_locked(keys):
        # Approach 1: "if empty(partition.assignments.pending.lock): pending = …"
        return _set_pending(keys, wanted, group)
    if keys.planned is not None and keys.planned.nodes == wanted.nodes:
        return keys  # hole 13: "one equal to planned leaves planned and its flag"
    return replace(keys, planned=_in_place_of(keys.planned, wanted))  # "planned = calc…()"


def counts_as_locked(keys: PartitionKeys) -> bool:
    """Returns whether no wish may replace pending (hole 13): its lock is taken, or it is forced,
    fromReset, or a step of a switch.
    """
    return keys.pending is not None and (
        keys.pending_lock is not None or keys.is_resetting or volatile_switch.is_switch_step(keys)
    )


def gives_way(keys: PartitionKeys, mode: ChangePeersMode) -> bool:
    """Returns whether the running change must be cancelled, so that planned takes its place
    (approach 2).
    """
    return (
        mode is ChangePeersMode.CANCEL
        and keys.pending is not None
        and keys.planned is not None
        and not counts_as_locked(keys)
    )


def is_blocked(keys: PartitionKeys, alive: frozenset[str]) -> bool:
    """Returns whether this pending can't be reached now (hole 13).

    Not forced, lock empty, and a node of it outside stable isn't alive, or its alive nodes are no
    majority. A node that lost its replica doesn't count: no lock is granted with it.
    """
    pending = keys.pending_nodes
    if keys.pending is None or keys.is_forced or keys.pending_lock is not None:
        return False
    joining = pending - keys.stable_nodes
    holding = (alive & pending) - frozenset(keys.switch_reduce)
    return not (joining <= alive and is_majority(len(holding), len(pending)))


def must_reduce(keys: PartitionKeys) -> bool:
    """Hole 5: "A non-empty switchReduce with empty pending is always due".

    So is one that leaves pending, as yet unlocked, no majority: no event would ever replace it.
    """
    if keys.bootstrap is None or not keys.switch_reduce:
        return False
    if keys.pending is None:
        return True
    left = keys.pending_nodes - frozenset(keys.switch_reduce)
    return (
        not keys.is_forced
        and keys.pending_lock is None
        and not is_majority(len(left), len(keys.pending.nodes))
    )


def _reduced(keys: PartitionKeys, wanted: AssignmentSet | None, group: Group) -> PartitionKeys:
    left = volatile_switch.less_reduced(wanted, keys)
    if left is None:
        return keys  # no replica holds data: a full restart, or a reset by hand
    if keys.pending is not None and keys.pending.nodes == left.nodes:
        return replace(keys, planned=None)
    return _set_pending(keys, _in_place_of(keys.pending, left), group)


def _in_place_of(before: AssignmentSet | None, wanted: AssignmentSet) -> AssignmentSet:
    """Hole 13: "What replaces a fromReset set and adds no node to it stays fromReset"."""
    if before is not None and before.from_reset and set(wanted.nodes) <= set(before.nodes):
        return msgspec.structs.replace(wanted, from_reset=True)
    return wanted


def _set_pending(keys: PartitionKeys, pending: AssignmentSet, group: Group) -> PartitionKeys:
    # "A wish that becomes pending removes planned" (hole 13).
    return replace(
        keys,
        pending=pending,
        planned=None,
        pending_lock=None,
        configuration_token=next_token(keys, group),
    )


# ------------------------------------------------------------------- What the leader's report means


def _on_report(
    keys: PartitionKeys, group: Group, wish: WantedKeys, alive: frozenset[str]
) -> tuple[PartitionKeys, bool]:
    """Keys after the group's reports, and whether the partition is due again."""
    if any(replica.token > keys.configuration_token for replica in group.replicas.values()):
        # Only when the keys were lost or restored from a copy; our orders would all be stale.
        keys = replace(keys, configuration_token=next_token(keys, group))
    if keys.bootstrap is None:
        after = _on_first_reports(keys, group)
        # A group that starts over has lost the wish that its switch keys, pending or planned held.
        return after, after.bootstrap is not None and after.bootstrap_lineage > 0
    if volatile_switch.is_full_restart(keys, group, wish.storage):
        return volatile_switch.begun_anew(keys, next_token(keys, group)), False
    keys = volatile_switch.with_lost(keys, group)
    leading = group.leading
    if leading is None or leading.configuration is None or keys.stable is None:
        return keys, False
    if keys.pending is None:
        wanted = group.confirmed and not keys.switch_reduce
        return (_on_nothing_wanted(keys, group, wish, alive) if wanted else keys), False
    if keys.is_forced and not reset.is_carried_out(keys, leading):
        return keys, False  # only the survivor, leading alone by this reset, ends it
    if keys.is_forced or is_applied(keys.pending, leading, group, keys.switch_reduce):
        # Hole 13: "After a stable switch that promoted planned, the partition is due again"; hole
        # 8: so it is after a reset's last phase.
        after = _stable_switch(keys, group, wish)
        reset_ends = keys.is_resetting and not after.is_resetting
        return after, reset_ends or (keys.planned is not None and after.planned is None)
    if group.confirmed and leading.stage in (Stage.NONE, Stage.CATCHING_UP):
        keys = volatile_switch.without_moot(keys, group)
    if leading.stage is Stage.NONE:
        return _on_stage_none(keys, leading, group, wish.mode)
    if leading.stage is Stage.CATCHING_UP:
        return _on_catching_up(keys, leading, group, alive)
    return keys, False


def _on_first_reports(keys: PartitionKeys, group: Group) -> PartitionKeys:
    leading = group.leading
    if leading is not None and leading.configuration is not None:
        # The Partition was lost and made again, but its group lives: its configuration counts.
        configuration = leading.configuration
        if not group.confirmed or configuration.old_peers:
            return keys
        stable = AssignmentSet.of(*(peer.node for peer in configuration.peers))
        return PartitionKeys(
            stable=stable,
            chain=chain.adopted(stable, leading),
            configuration_token=next_token(keys, group),
            bootstrap_lineage=keys.bootstrap_lineage,
            bootstrap=TokenPeers(
                token=configuration.token, peers=tuple(sorted(configuration.peers))
            ),
            change_trigger_revision=keys.change_trigger_revision,
        )
    if keys.stable is None or someone_has_data(keys, group):
        return keys
    if not all(group.is_running(node) for node in keys.stable.nodes):
        return keys
    if any(group.replicas[node].token < keys.configuration_token for node in keys.stable.nodes):
        # It stayed from an earlier set: an order to erase it may be under way, or be newer than
        # this report, and a first configuration can't be decided twice.
        return keys
    peers = tuple(PeerName(n, group.replicas[n].incarnation) for n in keys.stable.nodes)
    token = keys.configuration_token
    return replace(
        keys,
        bootstrap=TokenPeers(token=token, peers=peers),
        bootstrap_lineage=token if keys.bootstrap_lineage else 0,
    )


def _on_nothing_wanted(
    keys: PartitionKeys, group: Group, wish: WantedKeys, alive: frozenset[str]
) -> PartitionKeys:
    """Returns `stable` under a new token, that is one more change, if the group has or approaches
    another set.

    Either the keys come from a copy, or its leader runs an unwanted change: an order that was under
    way came after the stable switch. A leader waits for its grant forever, and meets later changes
    with `busy`, so that change is replaced by one that can complete.
    """
    leading, stable = group.leading, keys.stable
    assert leading is not None
    assert stable is not None
    if leading.stage is Stage.NONE and not is_carried(stable, leading, group):
        # As with a blocked pending (hole 13): a node that isn't there, written by hand or from an
        # old copy, would be waited for until something else happens to the zone.
        is_there = set(stable.nodes) <= alive | group.configured_nodes
        goal = stable if is_there else wish.wanted(keys, alive) or stable
        return _set_pending(keys, goal, group)
    if leading.stage is Stage.CATCHING_UP:
        wanted = replace(keys, pending=stable)
        asked = (leading.stage_token, in_order(leading.stage_peers))
        if asked == (keys.configuration_token, named_peers(wanted, group)):
            return wanted  # it only lacks its grant
        return _set_pending(keys, stable, group)
    return keys


def _stable_switch(keys: PartitionKeys, group: Group, wish: WantedKeys) -> PartitionKeys:
    """onNewPeersConfigurationApplied: "stable = appliedPeers", pending = the next step of a switch,
    else planned, else empty."""
    leading = group.leading
    assert leading is not None
    assert keys.pending is not None
    stable = AssignmentSet(nodes=keys.pending.nodes)
    done = volatile_switch.on_rebalance_done(keys, stable, wish.calculated)
    after = replace(keys, switch_reduce=done.switch_reduce, switch_append=done.switch_append)
    if done.pending is not None:
        after = replace(_set_pending(after, done.pending, group), planned=keys.planned)
    elif keys.planned is not None:
        after = _set_pending(after, keys.planned, group)
    else:
        after = replace(after, pending=None, pending_lock=None)
    links = chain.after_switch(keys, keys.pending, stable, leading)
    return replace(after, stable=stable, chain=links)


def _on_stage_none(
    keys: PartitionKeys, leading: ReplicaStatus, group: Group, mode: ChangePeersMode
) -> tuple[PartitionKeys, bool]:
    """onLeaderElected, onReconfigurationError: the change must be started (again)."""
    assert leading.configuration is not None
    assert keys.pending is not None
    if is_carried(keys.pending, leading, group, keys.switch_reduce):
        return keys, False  # an earlier leader's last step, which this one is committing
    if keys.pending_lock is not None:
        return _release(keys, group)
    if gives_way(keys, mode) and is_cancelled(keys, leading):
        # "If it returns true - move planned peers to pending in metastore"
        assert keys.planned is not None
        return _set_pending(keys, keys.planned, group), False
    if leading.configuration.token >= keys.configuration_token:
        return replace(keys, configuration_token=next_token(keys, group)), False
    return keys, False


def _release(keys: PartitionKeys, group: Group) -> tuple[PartitionKeys, bool]:
    """Empties the lock, as the leader doesn't run what was locked: no leader does or will.

    Hole 15: "else STAGE_NONE at the current term empties the lock and makes the partition due".
    The new token shuts out a grant that is still under way: this leader may have gone back to
    NONE, and would take it once it has caught up the same peers again.
    """
    if not group.confirmed:
        return keys, False
    token = next_token(keys, group)
    return replace(keys, pending_lock=None, configuration_token=token), True


def _on_catching_up(
    keys: PartitionKeys, leading: ReplicaStatus, group: Group, alive: frozenset[str]
) -> tuple[PartitionKeys, bool]:
    if leading.stage_token < keys.configuration_token:
        # An older change, which gives way to ours. It has come after the lock only by an order that
        # was under way: then no leader runs what was locked.
        return _release(keys, group) if keys.pending_lock is not None else (keys, False)
    peers = named_peers(keys, group)
    if peers is None:
        return keys, False
    runs = TokenPeers(token=leading.stage_token, peers=in_order(leading.stage_peers))
    if keys.pending_lock == runs:
        # The grant may have come to the leader since it reported this: a peer that lost its storage
        # is replaced after the change. If their majority is lost no grant will ever follow. One
        # that is under way comes before our next change, and then it is the group that can't be
        # helped, or after it, and is refused.
        return _release(keys, group) if lost_majority(runs.peers, group) else (keys, False)
    if leading.stage_token > keys.configuration_token or runs.peers != peers:
        # A peer lost its storage meanwhile: name it again, under a new token.
        token = next_token(keys, group)
        return replace(keys, pending_lock=None, configuration_token=token), False
    if leading.caught_up and majority_holds(peers, group, alive):
        # tryCatchUpFinish: "if peers == partition.assignments.pending: pending.lock = true".
        return replace(keys, pending_lock=runs), False
    return keys, False
