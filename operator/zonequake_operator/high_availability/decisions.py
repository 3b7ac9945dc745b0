"""The changes of a partition's keys for high availability; they come before those of its rebalance.

a leader whose read index works       nothing: the partition serves
a person has asked for it             `reset`: two phases
its whole group has stopped           `cold_start`: it recovers, or the chain is unwound
a reset is due, no majority           `reset`: two phases
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from zonequake_operator.first_few import few
from zonequake_operator.groups.evidence import next_token
from zonequake_operator.groups.reports import Group
from zonequake_operator.high_availability import chain, cold_start, reset
from zonequake_operator.high_availability.reset import ReplicaHolders, UndecidedReset
from zonequake_operator.resources.model import (
    ConsistencyMode,
    Partition,
    PartitionKeys,
    ResetDue,
    ResetRequest,
    StorageKind,
    ZoneSnapshot,
    ZoneSpec,
    ZoneStatus,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysDecision:
    """The keys to be stored, and the nodes that this waits for.

    `withheld`: no node gets permission to start before the chain is unwound. `awaits`: why a reset
    or an unwinding can't be decided yet, or the nodes that a stopped group waits for. `inspect`:
    waiting replicas whose state has to be seen.
    """

    keys: PartitionKeys
    withheld: bool = False
    awaits: UndecidedReset | chain.UnjudgedLink | cold_start.AwaitedNodes | None = None
    inspect: frozenset[str] = frozenset()

    def sentence(self, partition: str, storage: StorageKind = StorageKind.PERSISTENT) -> str:
        """Returns a sentence on what this partition waits for; empty if for nothing. `partition`:
        its name in the sentence.
        """
        awaits, keys = self.awaits, self.keys
        if awaits is None:
            return ""
        subject = f"{partition[0].upper()}{partition[1:]}"
        if isinstance(awaits, cold_start.AwaitedNodes):
            if storage is StorageKind.VOLATILE:
                return (
                    f"{subject} waits for {few(awaits.of)}: all its nodes had stopped, and its "
                    "data is gone with them; it starts over, empty, once all of them are back."
                )
            return (
                f"{subject} waits for {awaits.more} more of {few(awaits.nodes)} to come back with "
                f"its data: all its nodes had stopped, and those back may lack what a majority of "
                f"{few(awaits.of)} has acknowledged; or it is reset by hand (zonequake reset)."
            )
        if isinstance(awaits, chain.UnjudgedLink):
            nodes = few(awaits.nodes) or "a node that holds its data"
            return (
                f"{subject} waits for {awaits.more} more of {nodes} to "
                "report: all its nodes had stopped, and the newest user data may be under link "
                f"{awaits.link + 1} of {len(keys.chain)} of its chain "
                f"({few(keys.chain[awaits.link].nodes)}); or it is reset by hand (zonequake reset)."
            )
        if awaits.unheard:
            return f"The reset of {partition} waits for {few(awaits.unheard)} to report."
        newest = keys.chain[-1].nodes if keys.chain else ()
        return (
            f"No live node holds the newest data of {partition}: it waits for one of "
            f"{few(newest)}, or is reset by hand to older data (zonequake reset)."
        )


def judge(
    keys: PartitionKeys,
    holders: ReplicaHolders,
    *,
    due: ResetDue | None,
    revision: int,
    automatic: bool = True,
    by_hand: ResetRequest | None = None,
) -> KeysDecision:
    """Judges a partition of a HighAvailability zone, or one that is to be reset by hand.

    Args:
        keys: as stored.
        holders: what is known of its replicas.
        due: the newest reset timer that fired.
        revision: the zone's; a reset raises the partition's revisions to it.
        automatic: the zone is a HighAvailability one.
        by_hand: a person's request for a reset. It needs no timer and unwinds no chain, but it is
            refused like any other while a majority or its leader may be alive, and forever once
            the majority that was missing then came back: the request does not cover a later loss. A
            chain that can't be unwound yet is no majority.
    """
    if keys.bootstrap is None or keys.stable is None:
        return KeysDecision(keys=keys)
    if holders.group.confirmed:
        return KeysDecision(keys=cold_start.not_stopped(keys))
    if automatic and cold_start.has_just_stopped(keys, holders):
        keys = cold_start.as_stopped(keys)
    unwinds = automatic and cold_start.must_unwind(keys, holders)
    unwound = _unwind(keys, holders, revision) if unwinds else None
    if by_hand and by_hand.survivor and not reset.is_there(by_hand.survivor, holders):
        by_hand = None  # it is for what isn't there any more
    if by_hand and (
        reset.has_lost_majority(keys, holders, by_hand.topology_version)
        or (unwound is not None and unwound.awaits is not None)
    ):
        found = _reset(keys, holders, revision, by_hand)
        decided = cold_start.by_hand(keys, found.keys) if automatic else found.keys
        return replace(found, keys=decided, withheld=unwinds)
    if not automatic:
        return KeysDecision(keys=keys)
    if unwound is not None:
        return unwound
    if keys.is_stopped:
        return _recover(keys, holders, revision)
    if due is not None and is_due(keys, holders, due):
        return _reset(keys, holders, revision)
    return KeysDecision(keys=keys)


def _unwind(keys: PartitionKeys, holders: ReplicaHolders, revision: int) -> KeysDecision:
    token = next_token(keys, holders.group)
    unwound = cold_start.unwind(keys, holders, revision=revision, token=token)
    if isinstance(unwound, chain.UnjudgedLink):
        hidden = {n for link in keys.chain for n in link.nodes if holders.is_hidden(n)}
        return KeysDecision(keys=keys, withheld=True, awaits=unwound, inspect=frozenset(hidden))
    return KeysDecision(keys=unwound, withheld=True)


def _recover(keys: PartitionKeys, holders: ReplicaHolders, revision: int) -> KeysDecision:
    """Ordinary recovery of a group that stopped as a whole: its majority must come back.

    Once all members are there, no further node can bring data. If too many of them came back empty,
    the others hold all data that is left.
    """
    awaits = cold_start.awaited(keys, holders)
    if awaits is None or keys.is_forced:
        return KeysDecision(keys=keys)
    if cold_start.all_are_back(keys, holders) and holders.hold(keys) & keys.stable_nodes:
        return _reset(keys, holders, revision)
    return KeysDecision(keys=keys, awaits=awaits)


def _reset(
    keys: PartitionKeys, holders: ReplicaHolders, revision: int, by_hand: ResetRequest | None = None
) -> KeysDecision:
    token = next_token(keys, holders.group)
    survivor = by_hand.survivor if by_hand is not None else None
    if survivor is not None:
        after = reset.reset_to(keys, holders, survivor, revision=revision, token=token)
    else:
        after = reset.reset_partition(keys, holders, revision=revision, token=token)
    if isinstance(after, UndecidedReset):
        hidden = frozenset(n for n in after.unheard if holders.is_hidden(n))
        return KeysDecision(keys=keys, awaits=after, inspect=hidden)
    return KeysDecision(keys=after)


def is_due(keys: PartitionKeys, holders: ReplicaHolders, due: ResetDue) -> bool:
    """Returns whether the majority is missing for which the timer fired, and no reset was written
    for that loss.

    It is void for a group that has stopped as a whole since.
    """
    if keys.is_stopped:
        return False
    return keys.reset_revision < due.revision and reset.has_lost_majority(
        keys, holders, due.topology_version
    )


# ------------------------------------------------------------------------------- The whole zone


def judge_zone(
    snapshot: ZoneSnapshot, spec: ZoneSpec, status: ZoneStatus, groups: Mapping[int, Group]
) -> dict[int, KeysDecision]:
    """Judges each partition; in a StrongConsistency zone those asked for by hand."""
    automatic = spec.consistency_mode is ConsistencyMode.HIGH_AVAILABILITY
    requests = snapshot.zone.reset_requests
    if not automatic and not requests:
        return {}
    return {
        partition.number: judge(
            partition.keys,
            holders,
            due=status.reset_due,
            revision=status.revision,
            automatic=automatic,
            by_hand=asked_for(partition, requests),
        )
        for partition, holders in each_with_holders(snapshot, groups)
        if automatic or asked_for(partition, requests)
    }


def asked_for(partition: Partition, requests: Mapping[int, ResetRequest]) -> ResetRequest | None:
    """Returns the request for a reset by hand, if it is for the present keys.

    A reset raises the token, so that no request is carried out twice, not even in a zone whose
    revision stays: nothing compares a request with revisions.
    """
    request = requests.get(partition.number)
    is_for_them = request is not None and request.token == partition.keys.configuration_token
    return request if is_for_them else None


def without_done_reset(
    snapshot: ZoneSnapshot, status: ZoneStatus, groups: Mapping[int, Group]
) -> ZoneStatus:
    """Returns the zone's status without a due reset that no partition needs (any more).

    A due reset is judged "until the majority is back or the reset is written" (hole 6).
    """
    due = status.reset_due
    if due is None or any(is_due(p.keys, h, due) for p, h in each_with_holders(snapshot, groups)):
        return status
    return replace(status, reset_due=None)


def each_with_holders(
    snapshot: ZoneSnapshot, groups: Mapping[int, Group]
) -> Iterator[tuple[Partition, ReplicaHolders]]:
    """Yields the zone's partitions, each with what is known of its replicas.

    A node whose last answer is from before a node was counted out counts as silent: until then
    members may have replicated to it, and the survivor is the one with the newest log.
    """
    answered = frozenset(snapshot.reports) - snapshot.outdated
    for number, partition in snapshot.partitions.items():
        group = groups[number]
        inspected = {
            node: found[group.name]
            for node, found in snapshot.inspected.items()
            if group.name in found
        }
        holders = ReplicaHolders(
            group=group, topology=snapshot.topology, answered=answered, inspected=inspected
        )
        yield partition, holders
