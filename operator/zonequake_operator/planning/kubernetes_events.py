"""The Kubernetes Events of a zone: transitions, never states.

    zone as stored ──▶ zone as it is about to be stored     announce(before, after, ...)
    what happens to single partitions                       `partition_events`

An Event is posted before its transition is stored. An operator that dies between the two finds the
transition still to be made, announces it again under the same name, and is refused the second one:

    kill after "write Progressing=False", before the Event      it would be lost forever
    kill after the Event, before "write Progressing=False"      the next operator repeats both

So `once`, from which the name is made, must be the same in the next operator, whatever else was
stored meanwhile: a rebalance's end is named by when the condition that it ends began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from zonequake_operator.first_few import few
from zonequake_operator.resources.condition_types import Condition, ConditionType, Reason
from zonequake_operator.resources.model import Zone


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
        """Returns whether a person may have to act."""
        return self.reason not in _NORMAL


def announce(before: Zone, after: Zone, since: Mapping[str, str]) -> tuple[Announcement, ...]:
    """Returns the announcements on a zone that is stored as `before` and will be as `after`.

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
    # Named by the sentence: a revision that wasn't stored may come again with other nodes.
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
    """Announces that all partitions have a leader, or no longer. Compares their numbers, because
    `Ready` may have any reason.

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
