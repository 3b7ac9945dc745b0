"""What is worth a Kubernetes Event of a zone: transitions, never states.

    zone as stored ──▶ zone as it is about to be stored     announce(before, after, ...)
    a leader's report of a change that failed               failed_changes(...), once per token

An Event is posted before its transition is stored. An operator that dies between the two finds the
transition still to be made, announces it again under the same name, and is refused the second one:

    kill after "write Progressing=False", before the Event      it would be lost for ever
    kill after the Event, before "write Progressing=False"      the next operator repeats both

So `once`, from which the name is made, must be the same in the next operator, whatever else was
stored meanwhile: a rebalance's end is named by when the condition that it ends began.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from zonequake_operator.groups.reports import Group
from zonequake_operator.high_availability.reset import forced_node
from zonequake_operator.planning.conditions import few
from zonequake_operator.resources.model import (
    Condition,
    ConditionType,
    Partition,
    PartitionKeys,
    Reason,
    Zone,
)
from zonequake_protocol.admin import ReconfigurationStatus, Stage


class EventReason(StrEnum):
    """Reasons of Events; people filter by them, so they stay as they are."""

    DATA_NODES_CHANGED = "DataNodesChanged"
    NO_DATA_NODES = "NoDataNodes"
    REBALANCE_BEGUN = "RebalanceBegun"
    REBALANCE_ENDED = "RebalanceEnded"
    PARTITIONS_WITHOUT_LEADER = "PartitionsWithoutLeader"
    ALL_PARTITIONS_LEAD = "AllPartitionsLead"
    INVALID_FILTER = "InvalidFilter"
    INVALID_SPEC = "InvalidSpec"
    CHANGE_FAILED = "ChangeFailed"
    RETRY_THRESHOLD_PASSED = "RetryThresholdPassed"
    REPLICAS_LOST = "ReplicasLost"
    DATA_LOST = "DataLost"
    PARTITIONS_STOPPED = "PartitionsStopped"
    PARTITIONS_RESET = "PartitionsReset"
    CHAIN_UNWOUND = "ChainUnwound"
    RESET_CARRIED_OUT = "ResetCarriedOut"
    REPLICA_CLEANED = "ReplicaCleaned"
    LEASE_TROUBLE = "LeaseTrouble"
    LEASES_RENEWED = "LeasesRenewed"


_NORMAL = frozenset(
    {
        EventReason.DATA_NODES_CHANGED,
        EventReason.REBALANCE_BEGUN,
        EventReason.REBALANCE_ENDED,
        EventReason.ALL_PARTITIONS_LEAD,
        EventReason.RESET_CARRIED_OUT,
        EventReason.LEASES_RENEWED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """One Event to be: a reason and one sentence. `once` tells its transition from all others."""

    reason: EventReason
    message: str
    once: str

    @property
    def is_warning(self) -> bool:
        """Does somebody perhaps have to act?"""
        return self.reason not in _NORMAL


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedChange:
    """A change of a partition's peers that its leader gave up."""

    partition: int
    token: int
    leader: str
    error: str


def announce_failed(changes: Iterable[FailedChange]) -> list[Announcement]:
    """What to say about changes that failed: one sentence for each leader, however many it gave
    up. A thousand sentences would leave no room for what else happens."""
    by_leader: dict[str, list[FailedChange]] = {}
    for change in changes:
        by_leader.setdefault(change.leader, []).append(change)
    return [
        Announcement(
            reason=EventReason.CHANGE_FAILED,
            message=f"The change of partition {failed[0].partition} with token {failed[0].token} "
            f"failed at its leader {leader}: {failed[0].error}."
            + (f" So did those of {len(failed) - 1} more." if len(failed) > 1 else ""),
            once=" ".join(f"{change.partition} {change.token}" for change in failed),
        )
        for leader, failed in sorted(by_leader.items())
    ]


def announce(before: Zone, after: Zone, since: Mapping[str, str]) -> tuple[Announcement, ...]:
    """What to say about a zone that is stored as `before` and will be as `after`.

    `since`: the stored conditions' transition times, by type.
    """
    said = (
        _problem(before, after, Reason.INVALID_SPEC, EventReason.INVALID_SPEC),
        _problem(before, after, Reason.INVALID_FILTER, EventReason.INVALID_FILTER),
        _data_nodes(before, after),
        _rebalance(before, after, since),
        _retries(before, after, since),
        _leases(before, after, since),
        _leaders(before, after),
    )
    return tuple(one for one in said if one is not None)


def announce_keys(
    before: Mapping[int, Partition], after: Mapping[int, PartitionKeys]
) -> tuple[Announcement, ...]:
    """What to say about partitions whose keys are about to be stored: one sentence for all of them.

    `after`: the new keys, by partition; `before` holds at least these partitions.
    """
    emptied = {
        n: keys.bootstrap_lineage
        for n, keys in after.items()
        if keys.bootstrap_lineage and keys.bootstrap is None and before[n].keys.bootstrap
    }
    lost: dict[str, list[int]] = {}
    for n, keys in sorted(after.items()):
        for node in sorted({*keys.switch_reduce} - {*before[n].keys.switch_reduce}):
            lost.setdefault(node, []).append(n)
    said = [
        Announcement(
            reason=EventReason.REPLICAS_LOST,
            message=f"{node} came back without its replicas of {len(numbers)} partitions: "
            f"{few(numbers)}. It leaves their groups before it comes back to them.",
            once=" ".join([node, *(_at(n, before[n].keys) for n in numbers)]),
        )
        for node, numbers in sorted(lost.items())
    ]
    if emptied:
        said.append(
            Announcement(
                reason=EventReason.DATA_LOST,
                message=f"Every replica of {len(emptied)} partitions came back with nothing: "
                f"{few(sorted(emptied))}. Their data is lost, and their groups begin anew.",
                once=" ".join(_at(n, before[n].keys) for n in sorted(emptied)),
            )
        )
    return (*said, *_stopped(before, after), *_resets(before, after))


def _stopped(
    before: Mapping[int, Partition], after: Mapping[int, PartitionKeys]
) -> list[Announcement]:
    """Which groups have no member alive any more; not of those that go on in the same write."""
    stopped = [
        n
        for n, keys in sorted(after.items())
        if keys.is_stopped and not before[n].keys.is_stopped and not keys.is_forced
    ]
    if not stopped:
        return []
    return [
        Announcement(
            reason=EventReason.PARTITIONS_STOPPED,
            message=f"All nodes of {len(stopped)} partitions have stopped: {few(stopped)}. They "
            "wait for a majority of their nodes to come back; no timer resets them.",
            once=" ".join(_at(n, before[n].keys) for n in stopped),
        )
    ]


def _resets(
    before: Mapping[int, Partition], after: Mapping[int, PartitionKeys]
) -> list[Announcement]:
    """What has been given up, from whom partitions go on, and when they serve again."""
    begun: dict[str, list[int]] = {}
    taken_back: dict[str, list[int]] = {}
    unwound: dict[tuple[str, str], list[int]] = {}
    done: list[int] = []
    for n, keys in sorted(after.items()):
        old, survivor = before[n].keys, forced_node(keys)
        if survivor is not None and keys.configuration_token != old.configuration_token:
            link = _older_link(old, keys)
            if len(keys.chain) < len(old.chain):  # only a person gives links up
                taken_back.setdefault(survivor, []).append(n)
            elif link is None:
                begun.setdefault(survivor, []).append(n)
            else:
                unwound.setdefault((survivor, link), []).append(n)
        elif survivor is None and forced_node(old) is not None:
            done.append(n)
    said = [
        Announcement(
            reason=EventReason.PARTITIONS_RESET,
            message=f"{survivor} has the newest data that is left of {len(numbers)} partitions and "
            f"goes on alone: {few(numbers)}. What it lacks is given up.",
            once=" ".join([survivor, *(_at(n, before[n].keys) for n in numbers)]),
        )
        for survivor, numbers in sorted(begun.items())
    ]
    said += [
        Announcement(
            reason=EventReason.PARTITIONS_RESET,
            message=f"{survivor} was chosen by hand and goes on alone with older data of "
            f"{len(numbers)} partitions: {few(numbers)}. What was written since is given up.",
            once=" ".join([survivor, *(_at(n, before[n].keys) for n in numbers)]),
        )
        for survivor, numbers in sorted(taken_back.items())
    ]
    said += [
        Announcement(
            reason=EventReason.CHAIN_UNWOUND,
            message=f"All nodes of {len(numbers)} partitions had stopped: {few(numbers)}. They go "
            f"on from {survivor}, because users wrote last under {link}; what was written apart "
            "from it is given up.",
            once=" ".join([survivor, *(_at(n, before[n].keys) for n in numbers)]),
        )
        for (survivor, link), numbers in sorted(unwound.items())
    ]
    if done:
        said.append(
            Announcement(
                reason=EventReason.RESET_CARRIED_OUT,
                message=f"{len(done)} partitions that were reset serve again: {few(done)}.",
                once=" ".join(_at(n, before[n].keys) for n in done),
            )
        )
    return said


def _older_link(old: PartitionKeys, keys: PartitionKeys) -> str | None:
    """The link that a reset goes back to, in words; None if it is the newest one."""
    together = keys.planned or keys.pending
    assert together is not None
    for number in range(len(old.chain) - 1, -1, -1):
        link = old.chain[number]
        if set(together.nodes) <= set(link.nodes):
            newest = number == len(old.chain) - 1
            place = f"link {number + 1} of {len(old.chain)} of their chain"
            return None if newest else f"{place} ({few(link.nodes)})"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """A replica from before the last reset that is erased: it comes back by a full rebalance."""

    partition: int
    node: str
    incarnation: str


def announce_cleaned(cleanings: Iterable[Cleaning]) -> list[Announcement]:
    """What to say about them: one sentence for each node."""
    by_node: dict[str, list[Cleaning]] = {}
    for cleaning in cleanings:
        by_node.setdefault(cleaning.node, []).append(cleaning)
    return [
        Announcement(
            reason=EventReason.REPLICA_CLEANED,
            message=f"The replica on {node} is from before the last reset and is erased; it comes "
            f"back by a full rebalance. Partitions: {few([each.partition for each in cleaned])}.",
            once=" ".join([node, *(f"{each.partition} {each.incarnation}" for each in cleaned)]),
        )
        for node, cleaned in sorted(by_node.items())
    ]


def _at(number: int, keys: PartitionKeys) -> str:
    return f"{number}:{keys.configuration_token}"


def failed_changes(
    partitions: Mapping[int, Partition], groups: Mapping[int, Group]
) -> tuple[FailedChange, ...]:
    """Changes that a present leader gave up, not we, and that are still wanted."""
    failed = []
    for number, group in groups.items():
        keys, leading = partitions[number].keys, group.leading
        if group.leader is None or leading is None or leading.reconfiguration_error is None:
            continue
        if leading.reconfiguration_status is ReconfigurationStatus.CANCELLED:
            continue
        if leading.stage is Stage.NONE and keys.pending is not None:
            failed.append(
                FailedChange(
                    partition=number,
                    token=keys.configuration_token,
                    leader=group.leader,
                    error=leading.reconfiguration_error,
                )
            )
    return tuple(failed)


def _problem(before: Zone, after: Zone, of: Reason, reason: EventReason) -> Announcement | None:
    now, then = _condition(after, ConditionType.READY), _condition(before, ConditionType.READY)
    if now is None or now.reason is not of:
        return None
    if then is not None and (then.reason, then.message) == (now.reason, now.message):
        return None
    return Announcement(
        reason=reason, message=now.message, once=f"{after.generation} {now.message}"
    )


def _data_nodes(before: Zone, after: Zone) -> Announcement | None:
    then, now = (
        zone.status.data_nodes.nodes if zone.status.data_nodes else frozenset[str]()
        for zone in (before, after)
    )
    if then == now:
        return None
    changes = [
        f"{few(sorted(nodes))} {verb}"
        for nodes, verb in ((now - then, "joined"), (then - now, "left"))
        if nodes
    ]
    changed = f"with revision {after.status.revision}: {'; '.join(changes)}."
    # By the sentence: a revision that wasn't stored may come again with other nodes.
    if not now:
        message = f"There are no data nodes {changed}"
        return Announcement(reason=EventReason.NO_DATA_NODES, message=message, once=message)
    nodes = "1 data node" if len(now) == 1 else f"{len(now)} data nodes"
    verb = "is" if len(now) == 1 else "are"
    message = f"There {verb} {nodes} {changed}"
    return Announcement(reason=EventReason.DATA_NODES_CHANGED, message=message, once=message)


def _rebalance(before: Zone, after: Zone, since: Mapping[str, str]) -> Announcement | None:
    moved, moves = (_is_true(zone, ConditionType.PROGRESSING) for zone in (before, after))
    total, revision = after.summary.total, after.status.revision
    # Not by the resource's version: other conditions may flip before this one does.
    once = since.get(ConditionType.PROGRESSING, "")
    if moves and not moved:
        return Announcement(
            reason=EventReason.REBALANCE_BEGUN,
            message=f"{after.summary.moving} of {total} partitions begin to move with revision "
            f"{revision}.",
            once=once,
        )
    if moved and not moves and _condition(after, ConditionType.PROGRESSING) is not None:
        return Announcement(
            reason=EventReason.REBALANCE_ENDED,
            message=f"None of {total} partitions is moving any more, at revision {revision}.",
            once=once,
        )
    return None


def _retries(before: Zone, after: Zone, since: Mapping[str, str]) -> Announcement | None:
    now, then = (_condition(zone, ConditionType.PROGRESSING) for zone in (after, before))
    passed = Reason.RETRY_THRESHOLD_PASSED
    if now is None or now.reason is not passed or (then is not None and then.reason is passed):
        return None
    return Announcement(
        reason=EventReason.RETRY_THRESHOLD_PASSED,
        message=now.message,
        once=since.get(ConditionType.PROGRESSING, ""),
    )


def _leases(before: Zone, after: Zone, since: Mapping[str, str]) -> Announcement | None:
    """Trouble that begins, ends, or becomes another kind: that a Lease has run out is worth more
    than that it may."""
    now, then = (_condition(zone, ConditionType.LEASE_TROUBLE) for zone in (after, before))
    if now is None or (then.reason if then else Reason.LEASES_RENEWED) is now.reason:
        return None
    return Announcement(
        reason=EventReason.LEASE_TROUBLE if now.status else EventReason.LEASES_RENEWED,
        message=now.message,
        once=f"{now.reason} {since.get(ConditionType.LEASE_TROUBLE, '')}",
    )


def _leaders(before: Zone, after: Zone) -> Announcement | None:
    """By the numbers, which stand beside whatever reason `Ready` has.

    A new zone has led nothing yet, so that its start is no warning.
    """
    then, now = before.summary, after.summary
    led = 0 < then.total == then.available
    leads = 0 < now.total == now.available
    if leads and not led:
        return Announcement(
            reason=EventReason.ALL_PARTITIONS_LEAD,
            message=f"All {now.total} partitions have a leader.",
            once=before.resource_version,
        )
    if led and not leads:
        message = f"{now.total - now.available} of {now.total} partitions have no leader."
        ready = _condition(after, ConditionType.READY)
        if ready is not None and ready.reason is Reason.PARTITIONS_WITHOUT_LEADER:
            message = ready.message  # it names them
        return Announcement(
            reason=EventReason.PARTITIONS_WITHOUT_LEADER,
            message=message,
            once=before.resource_version,
        )
    return None


def _condition(zone: Zone, of: ConditionType) -> Condition | None:
    return next((c for c in zone.conditions if c.type is of), None)


def _is_true(zone: Zone, of: ConditionType) -> bool:
    condition = _condition(zone, of)
    return condition is not None and condition.status
