"""A zone's conditions, and a partition's state: sentences with numbers and names for people."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from zonequake_operator.first_few import MAX_NAMED, few
from zonequake_operator.groups.reports import Group, is_majority
from zonequake_operator.rebalance.volatile_switch import lost
from zonequake_operator.resources.condition_types import Condition, ConditionType, Reason
from zonequake_operator.resources.leases import NodeLeaseTrouble, TroubleKind
from zonequake_operator.resources.model import (
    ChangeAttempts,
    PartitionKeys,
    PartitionState,
    PartitionStatus,
    PartitionSummary,
    ZoneSpec,
    ZoneStatus,
)
from zonequake_operator.resources.rights import Right, advice
from zonequake_operator.resources.stored_shapes import to_rfc3339
from zonequake_protocol.admin import PeerName, ReplicaRole, Stage

MAX_MESSAGE = 4096
"""Characters. It may quote what a data node said, which knows no limit; but the schema does, and
with a longer one the whole status would be refused, its timers and revision too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """One partition, diagnosed.

    `missing`: members of stable that don't serve; `broken`: why some of them cannot, by node.
    `at_risk`: one more loss takes the majority. `lost`: the majority is gone. `emptied`: members
    that came back with nothing. `retried`: how often the present change was asked for, and what its
    leader said last. `awaits`: a sentence on what its reset or its chain waits for.
    """

    keys: PartitionKeys
    view: PartitionStatus
    missing: tuple[str, ...]
    broken: Mapping[str, str]
    at_risk: bool
    lost: bool
    emptied: tuple[str, ...] = ()
    retried: int = 0
    error: str | None = None
    awaits: str = ""

    @property
    def is_moving(self) -> bool:
        """Returns whether a change is wanted, or the group still runs one."""
        return self.keys.pending is not None or self.view.stage is not Stage.NONE


def diagnose(
    keys: PartitionKeys,
    group: Group,
    before: PartitionStatus,
    attempts: ChangeAttempts | None = None,
) -> Health:
    """Returns the state of one partition by its keys, its group's reports and the stored view
    `before`.

    `attempts`: how often a change of its peers was asked for.

    A group that never led has no state. The stored state shows which groups did, so that a
    restarted operator knows it too.
    """
    nodes = keys.stable.nodes if keys.stable else ()
    leading = group.leading
    serving = _serving(nodes, group)
    majority = bool(nodes) and is_majority(len(serving), len(nodes))
    missing = tuple(node for node in nodes if node not in serving)
    state: PartitionState | None
    if leading is not None:
        state = PartitionState.DEGRADED if missing else PartitionState.AVAILABLE
    elif before.state is None:
        state = None
    elif serving and not majority and keys.bootstrap is not None:
        state = PartitionState.READ_ONLY
    else:
        state = PartitionState.UNAVAILABLE
    return Health(
        keys=keys,
        view=PartitionStatus(
            leader=group.leader,
            term=leading.term if leading else 0,
            stage=leading.stage if leading else Stage.NONE,
            state=state,
        ),
        missing=missing,
        broken={
            node: group.replicas[node].broken_reason or ""
            for node in nodes
            if node in group.replicas and group.replicas[node].role is ReplicaRole.BROKEN
        },
        at_risk=len(nodes) > 1 and bool(missing) and not is_majority(len(serving) - 1, len(nodes)),
        lost=keys.bootstrap is not None and not majority,
        emptied=_emptied_members(keys, group) if missing else (),
        retried=attempts.count if attempts and attempts.token == keys.configuration_token else 0,
        error=leading.reconfiguration_error if leading else None,
    )


def _serving(nodes: Sequence[str], group: Group) -> list[str]:
    """Returns the members whose replicas run under the incarnations that their leader counts."""
    running = [node for node in nodes if group.is_running(node)]
    leading = group.leading
    if leading is None:
        return running
    counted = leading.configuration.peers if leading.configuration else ()
    return [node for node in running if PeerName(node, group.replicas[node].incarnation) in counted]


def _emptied_members(keys: PartitionKeys, group: Group) -> tuple[str, ...]:
    if keys.bootstrap is None or keys.stable is None:
        return ()
    return tuple(sorted(lost(keys, group) & frozenset(keys.stable.nodes)))


def summarise(health: Mapping[int, Health], total: int) -> PartitionSummary:
    """Numbers for `kubectl get dz`."""
    served = (PartitionState.AVAILABLE, PartitionState.DEGRADED)
    return PartitionSummary(
        total=total,
        available=sum(h.view.state in served for h in health.values()),
        moving=sum(h.is_moving for h in health.values()),
        at_risk=sum(h.at_risk or h.lost for h in health.values()),
    )


def judge(
    *,
    generation: int,
    spec: ZoneSpec,
    status: ZoneStatus,
    health: Mapping[int, Health],
    filter_problem: str | None,
    data_nodes: Sequence[str],
    retry_threshold: int,
    lease_troubles: Mapping[str, NodeLeaseTrouble] | None = None,
    missing_rights: Collection[Right] = (),
    in_the_way: str = "",
) -> tuple[Condition, ...]:
    """Returns all conditions of a zone whose spec could be read.

    `lease_troubles`: troubles of nodes that its partitions are on; None if it needs no Leases.
    `missing_rights`: of the operator's account. `in_the_way`: why partitions can't be created.
    """
    return (
        _ready(spec, health, filter_problem, data_nodes, in_the_way),
        _synced(generation, status, health, filter_problem),
        _progressing(health, retry_threshold),
        _degraded(spec, health, data_nodes),
        _data_at_risk(health),
        *(() if lease_troubles is None else (_lease_trouble(lease_troubles),)),
        _permitted(missing_rights),
        _paused(spec),
    )


def invalid_spec(problem: str) -> tuple[Condition, ...]:
    """Returns the conditions of a zone whose spec can't be read; it keeps its partitions."""
    return (
        _condition(ConditionType.READY, False, Reason.INVALID_SPEC, problem),
        _condition(ConditionType.SYNCED, False, Reason.INVALID_SPEC, problem),
    )


def _ready(
    spec: ZoneSpec,
    health: Mapping[int, Health],
    filter_problem: str | None,
    data_nodes: Sequence[str],
    in_the_way: str,
) -> Condition:
    of = ConditionType.READY
    if filter_problem is not None:
        return _condition(of, False, Reason.INVALID_FILTER, filter_problem)
    if in_the_way:
        return _condition(of, False, Reason.PARTITIONS_IN_THE_WAY, in_the_way)
    if not data_nodes:
        suffix = f" that match {spec.filter}" if spec.filter else ""
        assigned = any(one.keys.stable for one in health.values())
        kept = " The assignments stay as they are." if assigned else ""
        return _condition(
            of, False, Reason.NO_DATA_NODES, f"There are no data nodes{suffix}.{kept}"
        )
    fresh = [n for n in range(spec.partitions) if n not in health or not health[n].keys.bootstrap]
    if fresh:
        return _condition(
            of,
            False,
            Reason.STARTING,
            f"{len(fresh)} of {spec.partitions} partitions haven't started yet: {few(fresh)}.",
        )
    silent = [n for n, h in health.items() if h.view.leader is None]
    if silent:
        return _condition(
            of,
            False,
            Reason.PARTITIONS_WITHOUT_LEADER,
            f"{len(silent)} of {spec.partitions} partitions have no leader: {few(silent)}.",
        )
    return _condition(
        of, True, Reason.ALL_PARTITIONS_SERVE, f"All {spec.partitions} partitions have a leader."
    )


def _synced(
    generation: int,
    status: ZoneStatus,
    health: Mapping[int, Health],
    filter_problem: str | None,
) -> Condition:
    of = ConditionType.SYNCED
    if filter_problem is not None:
        return _condition(of, False, Reason.INVALID_FILTER, filter_problem)
    moving = [n for n, h in health.items() if h.is_moving]
    if status.observed_generation != generation or status.handled_revision != status.revision:
        return _condition(
            of,
            False,
            Reason.APPLYING,
            f"Revision {status.revision} is being applied, {status.handled_revision} was the last.",
        )
    if moving:
        return _condition(of, False, Reason.REBALANCING, f"{len(moving)} partitions are moving.")
    return _condition(
        of, True, Reason.SPEC_APPLIED, f"Revision {status.revision} is applied everywhere."
    )


def _progressing(health: Mapping[int, Health], retry_threshold: int) -> Condition:
    moving = [n for n, h in health.items() if h.is_moving]
    if not moving:
        return _condition(ConditionType.PROGRESSING, False, Reason.IDLE, "No partition is moving.")
    retried = {n: h for n, h in health.items() if h.retried > retry_threshold}
    if retried:
        number, worst = max(retried.items(), key=lambda item: item[1].retried)
        said = f"; its leader said: {worst.error}" if worst.error else ""
        return _condition(
            ConditionType.PROGRESSING,
            True,
            Reason.RETRY_THRESHOLD_PASSED,
            f"{len(retried)} partitions make no progress: {few(list(retried))}. The change of "
            f"partition {number} was asked for {worst.retried} times{said}. "
            "It is retried forever.",
        )
    planned = sum(h.keys.planned is not None for h in health.values())
    return _condition(
        ConditionType.PROGRESSING,
        True,
        Reason.REBALANCING,
        f"{len(moving)} partitions are moving: {few(moving)}; {planned} have a planned move.",
    )


def _degraded(spec: ZoneSpec, health: Mapping[int, Health], data_nodes: Sequence[str]) -> Condition:
    of = ConditionType.DEGRADED
    missing = [n for n, h in health.items() if h.missing]
    if missing:
        nodes = sorted({node for h in health.values() for node in h.missing})
        return _condition(
            of,
            True,
            Reason.MEMBERS_MISSING,
            f"{len(missing)} partitions miss members on {few(nodes)}.{_broken(health)}",
        )
    if len(data_nodes) < spec.replicas:
        return _condition(
            of,
            True,
            Reason.FEWER_NODES_THAN_REPLICAS,
            f"{spec.replicas} replicas are wanted, but there are {len(data_nodes)} data nodes.",
        )
    return _condition(
        of, False, Reason.ALL_MEMBERS_SERVE, "Every member of every partition serves."
    )


def _broken(health: Mapping[int, Health]) -> str:
    """Returns which members found that their files can't be used, and why the first one can't."""
    broken = [(n, node, why) for n, h in health.items() for node, why in sorted(h.broken.items())]
    if not broken:
        return ""
    places = few([f"partition {number} on {node}" for number, node, _ in broken])
    return f" Broken: {places}; the first one because {broken[0][2]}."


def _data_at_risk(health: Mapping[int, Health]) -> Condition:
    of = ConditionType.DATA_AT_RISK
    gone = [n for n, h in health.items() if h.lost]
    if gone:
        return _condition(
            of,
            True,
            Reason.MAJORITY_LOST,
            f"{len(gone)} partitions have lost their majority: {few(gone)}."
            f"{_emptied(health)}{_awaited(health)}",
        )
    at_risk = [n for n, h in health.items() if h.at_risk]
    if at_risk:
        return _condition(
            of,
            True,
            Reason.NO_FURTHER_LOSS_ALLOWED,
            f"One more lost node takes the majority of {len(at_risk)} partitions: {few(at_risk)}.",
        )
    return _condition(
        of,
        False,
        Reason.LOSS_TOLERATED,
        "Every partition has more members than its majority needs."
        if any(h.keys.stable and len(h.keys.stable.nodes) > 2 for h in health.values())
        else "No member of any partition is missing.",
    )


def _emptied(health: Mapping[int, Health]) -> str:
    """Returns a sentence on the nodes that a partition with emptied members waits for."""
    for number, one in health.items():
        if one.lost and one.emptied and one.keys.stable:
            # The members that run with data are no majority, or the group would have a leader.
            away = [node for node in one.missing if node not in one.emptied]
            waits = f"waits for {few(away)}" if away else "can only be reset by hand"
            return f" Partition {number} {waits}: {few(one.emptied)} came back with nothing."
    return ""


def _awaited(health: Mapping[int, Health]) -> str:
    """Returns a sentence on what the first undecided reset or chain waits for."""
    return next((f" {one.awaits}" for one in health.values() if one.awaits), "")


_LEASE_REASONS = {
    TroubleKind.FENCED: Reason.LEASE_FENCED,
    TroubleKind.EXPIRED: Reason.LEASE_EXPIRED,
    TroubleKind.NOT_RENEWED: Reason.LEASE_NOT_RENEWED,
}
_WHAT_IT_MEANS = {
    TroubleKind.FENCED: "acknowledges nothing of HighAvailability zones and has left, until it has "
    "taken its Lease again",
    TroubleKind.EXPIRED: "acknowledges nothing of HighAvailability zones, and will count as left",
    TroubleKind.NOT_RENEWED: "acknowledges until its Lease runs out, then nothing of "
    "HighAvailability zones",
}
_MAX_WHY = 300
"""Characters of what came of a node's last call: messages have a limit."""


def _lease_trouble(troubles: Mapping[str, NodeLeaseTrouble]) -> Condition:
    of = ConditionType.LEASE_TROUBLE
    if not troubles:
        return _condition(of, False, Reason.LEASES_RENEWED, "No node's Lease is overdue.")
    order = list(TroubleKind)
    worst = sorted(troubles, key=lambda node: (order.index(troubles[node].kind), node))
    shown = [
        f"{node} {_WHAT_IT_MEANS[troubles[node].kind]}{_unrenewed_since(troubles[node])}: "
        f"{troubles[node].why[:_MAX_WHY]}"
        for node in worst[:MAX_NAMED]
    ]
    more = f" {len(worst) - MAX_NAMED} more nodes are in trouble." if worst[MAX_NAMED:] else ""
    return _condition(
        of,
        True,
        _LEASE_REASONS[troubles[worst[0]].kind],
        f"{'. '.join(shown)}.{more} Make sure that it reaches the API server: see its log, its "
        "network policies and its right to leases.",
    )


def _unrenewed_since(trouble: NodeLeaseTrouble) -> str:
    if not trouble.since_ms:
        return ""
    return f" (unrenewed since {to_rfc3339(trouble.since_ms // 1000 * 1000)})"


def _permitted(missing: Collection[Right]) -> Condition:
    of = ConditionType.PERMITTED
    if missing:
        return _condition(of, False, Reason.RIGHTS_MISSING, advice(missing))
    return _condition(of, True, Reason.ALL_RIGHTS_GRANTED, "The operator has every right it needs.")


def _paused(spec: ZoneSpec) -> Condition:
    if spec.paused:
        return _condition(
            ConditionType.PAUSED,
            True,
            Reason.PAUSED_BY_SPEC,
            "Nothing is changed; restarted replicas are started again. To resume, set spec.paused "
            "to false.",
        )
    return _condition(ConditionType.PAUSED, False, Reason.ACTING, "The operator acts on the zone.")


def _condition(of: ConditionType, status: bool, reason: Reason, message: str) -> Condition:
    if len(message) > MAX_MESSAGE:
        message = f"{message[: MAX_MESSAGE - 1]}…"
    return Condition(type=of, status=status, reason=reason, message=message)
