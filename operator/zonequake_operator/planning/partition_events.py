"""The Kubernetes Events of a zone's partitions: one sentence for many of them.

keys as stored ──▶ keys as they are about to be stored    announce_keys(before, after)
a leader's report of a change that failed                 failed_changes(...), once per token
an order that erases a replica                            announce_cleaned(...)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zonequake_operator.first_few import few
from zonequake_operator.groups.reports import Group
from zonequake_operator.high_availability.reset import forced_node
from zonequake_operator.planning.kubernetes_events import Announcement, EventReason
from zonequake_operator.resources.model import Partition, PartitionKeys
from zonequake_protocol.admin import ReconfigurationStatus, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedChange:
    """A change of a partition's peers that its leader gave up."""

    partition: int
    token: int
    leader: str
    error: str


def announce_failed(changes: Iterable[FailedChange]) -> list[Announcement]:
    """Returns the announcements of failed changes: one sentence for each leader, however many it
    gave up. A thousand sentences would leave no room for other events.
    """
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


def announce_keys(
    before: Mapping[int, Partition], after: Mapping[int, PartitionKeys]
) -> tuple[Announcement, ...]:
    """Returns the announcements of partitions whose keys are about to be stored: one sentence for
    all of them.

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
                f"{few(sorted(emptied))}. Their data is lost, and their groups start over.",
                once=" ".join(_at(n, before[n].keys) for n in sorted(emptied)),
            )
        )
    return (*said, *_stopped(before, after), *_resets(before, after))


def _stopped(
    before: Mapping[int, Partition], after: Mapping[int, PartitionKeys]
) -> list[Announcement]:
    """Returns which groups have no member alive any more; not of those that go on in the same
    write.
    """
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
    """Returns announcements of the data given up, the nodes from which partitions go on, and
    partitions that serve again.
    """
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
    """Describes the link that a reset goes back to; returns None if it is the newest one."""
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
    """Returns the announcements of cleaned replicas: one sentence for each node."""
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
