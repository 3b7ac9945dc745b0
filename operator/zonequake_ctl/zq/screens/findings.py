"""Problems and risks of a zone with their causes, as sentences for the person on call.

    majority lost › no leader › one more loss takes the majority › a member is missing › the rest

Partitions that are in the same trouble for the same reason share one sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from zonequake_ctl.zq.screens.namespace_view import NO_ANSWER, NamespaceView, ZoneView
from zonequake_operator.groups.reports import is_majority
from zonequake_operator.high_availability.decisions import KeysDecision
from zonequake_operator.high_availability.reset import forced_node
from zonequake_operator.resources.condition_types import Condition, ConditionType, Reason
from zonequake_operator.resources.model import ConsistencyMode, StorageKind, ZoneSpec
from zonequake_protocol.admin import LeaseTrouble, ReplicaRole, ReplicaStatus

QUIET_REASONS = {
    Reason.PARTITIONS_WITHOUT_LEADER,
    Reason.STARTING,
    Reason.REBALANCING,
    Reason.MEMBERS_MISSING,
    Reason.MAJORITY_LOST,
    Reason.NO_FURTHER_LOSS_ALLOWED,
    Reason.LEASE_NOT_RENEWED,
    Reason.LEASE_EXPIRED,
}
"""Reasons whose content is a few seconds old; data nodes report the same, newer and in more detail.
"""


LOST_REASONS = {Reason.MAJORITY_LOST, Reason.PARTITIONS_WITHOUT_LEADER}
"""The worst reasons, even if only the operator's stored conditions show them."""


EXPECTED_REASONS = {Reason.STARTING, Reason.REBALANCING}
"""Reasons that a healthy zone passes through."""


MAX_ALIKE = 3
"""Troubles that differ in details alone and are shown one by one."""

MAX_OF_A_KIND = 5
"""The most findings of one trouble on different nodes that are shown; the rest is counted."""


class Severity(IntEnum):
    """The severity of a finding; the worst comes first."""

    LOST = 0
    RISK = 1
    WARNING = 2
    NOTE = 3


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ZoneFinding:
    """One sentence; `why` has a line for each cause."""

    severity: Severity
    text: str
    why: tuple[str, ...] = ()


_Trouble = tuple[Severity, str, tuple[str, ...]]
"""Severity, sentence without its partitions, and causes."""


def findings(view: NamespaceView, zone: ZoneView) -> list[ZoneFinding]:
    """All of a zone, the worst first."""
    decisions = zone.decisions(view) if any(one.lost for one in zone.health.values()) else {}
    found = [
        *_partitions(view, zone, decisions),
        *_conditions(view, zone, decisions),
        *_nodes(view, zone),
        *_operator(view, zone),
    ]
    return sorted(found, key=lambda finding: finding.severity)


def _partitions(
    view: NamespaceView, zone: ZoneView, decisions: Mapping[int, KeysDecision]
) -> Iterable[ZoneFinding]:
    alike: dict[_Trouble, list[int]] = {}
    for number, health in zone.health.items():
        stable = health.keys.stable
        if stable is None or health.keys.bootstrap is None or view.reports.keys() == set():
            continue
        size, missing = len(stable.nodes), health.missing
        serving = size - len(missing)
        why = tuple(f"{node} {why_missing(view, zone, number, node)}" for node in missing)
        if health.lost:
            text = f"majority lost, {serving} of {size} members run"
            key = (Severity.LOST, text, (*why, _way_back(zone, number, decisions.get(number))))
        elif health.view.leader is None:
            key = (Severity.LOST, "no leader", why)
        elif health.at_risk:
            text = f"{serving} of {size} members run: one more loss takes the majority"
            key = (Severity.RISK, text, why)
        elif missing:
            key = (Severity.WARNING, f"{serving} of {size} members run", why)
        elif size == 1 and zone.spec is not None and zone.spec.replicas > 1:
            only = stable.nodes[0]
            text = f"1 of {zone.spec.replicas} wanted replicas: if {only} is lost, all data is lost"
            key = (Severity.RISK, text, ())
        elif size > 1 and not is_majority(size - 1, size):
            key = (Severity.NOTE, few_replicas_text(size), ())
        else:
            continue
        alike.setdefault(key, []).append(number)
    yield from _shortened(alike)


def _shortened(alike: Mapping[_Trouble, list[int]]) -> Iterable[ZoneFinding]:
    """Returns a sentence for each trouble, as many as fit on a screen.

    Troubles that differ only in the words after a colon share one: a damaged disk has other words
    for each of its replicas. Of those that differ in their nodes, those with most partitions are
    shown.
    """
    kinds: dict[_Trouble, list[_Trouble]] = {}
    for trouble in alike:
        severity, text, why = trouble
        kind = (severity, text, tuple(each.partition(": ")[0] for each in why))
        kinds.setdefault(kind, []).append(trouble)
    merged: dict[tuple[Severity, str], list[tuple[list[int], tuple[str, ...]]]] = {}
    for (severity, text, _), same in kinds.items():
        shown = merged.setdefault((severity, text), [])
        if len(same) > MAX_ALIKE:
            numbers = [number for trouble in same for number in alike[trouble]]
            first = f"reported by partition {numbers[0]}; the others differ in details"
            shown.append((numbers, (*same[0][2], first)))
        else:
            shown += [(alike[trouble], trouble[2]) for trouble in same]
    for (severity, text), shown in merged.items():
        shown.sort(key=lambda one: -len(one[0]))
        rest = [number for numbers, _ in shown[MAX_OF_A_KIND:] for number in numbers]
        if rest:
            shown[MAX_OF_A_KIND:] = [(rest, ("the same, with other nodes",))]
        for numbers, why in shown:
            found = f"{partitions_text(numbers)}: {text}"
            yield ZoneFinding(severity=severity, text=found, why=why)


def _way_back(zone: ZoneView, number: int, decision: KeysDecision | None) -> str:
    """Returns what has to happen before a partition without its majority is served again."""
    health, spec = zone.health[number], zone.spec
    stable = health.keys.stable
    assert stable is not None
    if decision is not None and decision.awaits is not None:
        if decision.inspect:
            unread = ", ".join(sorted(decision.inspect))
            return f"it depends on the data of replicas that wait for their start order ({unread})"
        storage = spec.storage if spec is not None else StorageKind.PERSISTENT
        return decision.sentence("the partition", storage)
    node = None if decision is None else forced_node(decision.keys)
    if decision is not None and decision.keys != health.keys and node is not None:
        return f"it goes on from {node} as soon as the operator acts"
    held = len(stable.nodes) - len(health.emptied) - len(health.broken)
    needed, serving = len(stable.nodes) // 2 + 1, len(stable.nodes) - len(health.missing)
    if held < needed:
        back = (
            f"only {held} of {len(stable.nodes)} members can still have its data, fewer than a "
            "majority: it doesn't come back by itself"
        )
        if spec is not None and spec.storage is StorageKind.VOLATILE:
            back += ", unless the others lose theirs too and it starts over, empty"
    else:
        more = needed - serving
        back = f"it is served again once {more} of them {'is' if more == 1 else 'are'} back"
    if spec is None or spec.consistency_mode is not ConsistencyMode.HIGH_AVAILABILITY:
        return f"{back}; {_mode(spec)} is reset by hand alone (zonequake reset {zone.zone.name})"
    if decision is not None and decision.keys.is_stopped:
        return f"{back}; all its nodes had stopped, so that no timer resets it"
    after = f"{spec.reset_timeout_s} s after they have left"
    after += " and the zone is resumed" if spec.paused else ""
    return f"{back}, or {after} it is reset without them"


def _mode(spec: ZoneSpec | None) -> str:
    return spec.consistency_mode.value if spec is not None else "a zone whose spec can't be read"


def why_missing(view: NamespaceView, zone: ZoneView, number: int, node: str) -> str:
    """Returns why a node's replica doesn't serve, as far as it can be seen from outside."""
    if node not in view.topology.nodes:
        if node not in view.topology.departed:
            return "has not joined yet"
        report = view.reports.get(node)
        answers = report is not None and report.node.lease_trouble is not None
        return "has left: it answers, but its Lease ran out" if answers else "has left"
    if node not in view.reports:
        why = view.unheard.get(node, "it has no pod")
        return "doesn't answer" if why == NO_ANSWER else f"can't be asked: {why}"
    replica = zone.groups[number].replicas.get(node)
    if replica is None:
        emptied = node in zone.health[number].emptied
        return "came back with nothing" if emptied else "holds no replica of it"
    return _why_replica(replica)


def _why_replica(replica: ReplicaStatus) -> str:
    if replica.role is ReplicaRole.BROKEN:
        return f"is broken: {replica.broken_reason or 'its node gives no reason'}"
    if replica.role is ReplicaRole.WAITING:
        return "waits for its start order"
    if replica.abstains:
        return "abstains: the partition was reset while it was away, and its log is another one"
    return "is back without its data, as another incarnation that is no member yet"


def _conditions(
    view: NamespaceView, zone: ZoneView, decisions: Mapping[int, KeysDecision]
) -> Iterable[ZoneFinding]:
    for condition in zone.zone.conditions:
        if condition.is_well:
            continue
        if condition.reason in QUIET_REASONS and zone.reports:
            # After the first sentence, which only counts, the message may name awaited nodes.
            waits = condition.message.partition(". ")[2]
            said = any(decision.awaits for decision in decisions.values())
            said |= any(one.lost and one.emptied for one in zone.health.values())
            if condition.reason is Reason.MAJORITY_LOST and waits and not said:
                yield ZoneFinding(severity=Severity.RISK, text=waits)
            continue
        text = f"{condition.reason.value}: {condition.message}"
        since_ms = zone.since_ms.get(condition.type.value)
        age = f" (for {duration_text((view.now_ms - since_ms) / 1000)})" if since_ms else ""
        yield ZoneFinding(
            severity=_severity(condition),
            text=f"{text}{age}",
        )


def _severity(condition: Condition) -> Severity:
    if condition.reason in LOST_REASONS:
        return Severity.LOST
    if condition.type is ConditionType.SYNCED or condition.reason in EXPECTED_REASONS:
        return Severity.NOTE
    return Severity.WARNING


def _nodes(view: NamespaceView, zone: ZoneView) -> Iterable[ZoneFinding]:
    for node, report in sorted(view.reports.items()):
        problem = report.node.storage_problem
        if problem is not None:
            yield ZoneFinding(severity=Severity.RISK, text=f"{node} takes no writes: {problem}")
    if zone.spec and zone.spec.consistency_mode is ConsistencyMode.HIGH_AVAILABILITY:
        yield from _leases(view)
    held = {node for p in zone.partitions.values() if p.keys.stable for node in p.keys.stable.nodes}
    silent = sorted((view.topology.nodes.keys() - view.reports.keys()) - held)
    if silent and view.reports:
        yield ZoneFinding(severity=Severity.NOTE, text=f"{', '.join(silent)} doesn't answer")
    if not view.reports and (view.topology.nodes or held):
        reasons = sorted(set(view.unheard.values())) or ["there are no pods"]
        yield ZoneFinding(
            severity=Severity.WARNING,
            text="No data node could be asked, so that all below is what the operator stored last",
            why=tuple(reasons[:3]),
        )


def _leases(view: NamespaceView) -> Iterable[ZoneFinding]:
    """Reads Lease troubles from the nodes' own reports: they are newer than the condition, and
    available while the API server takes no writes.
    """
    for node, report in sorted(view.reports.items()):
        trouble, since_ms = report.node.lease_trouble, report.node.lease_unrenewed_since_ms
        if trouble is None:
            continue
        unrenewed = f"its Lease is unrenewed for {duration_text((view.now_ms - since_ms) / 1000)}"
        if trouble is LeaseTrouble.EXPIRED:
            text = f"{node} acknowledges nothing of HighAvailability zones: {unrenewed}"
        else:
            text = f"{node} will soon acknowledge nothing of HighAvailability zones: {unrenewed}"
        why = report.node.lease_problem or "the reason is unknown"
        yield ZoneFinding(severity=Severity.RISK, text=text, why=(why,))


def _operator(view: NamespaceView, zone: ZoneView) -> Iterable[ZoneFinding]:
    operator = view.operator
    seen, generation = zone.zone.status.observed_generation, zone.zone.generation
    if seen < generation:
        text = f"The operator has not processed the spec yet (generation {generation})"
        yield ZoneFinding(severity=Severity.NOTE, text=text)
    if operator is not None and operator.ready == 0:
        text = "No operator runs" if operator.pods == 0 else "The operator isn't ready"
        yield ZoneFinding(
            severity=Severity.WARNING,
            text=f"{text}: nothing is started, moved or written until one does",
        )


def partitions_text(numbers: Iterable[int]) -> str:
    """`partition 3`, or `partitions 0-3, 7`."""
    ranges = _ranges(sorted(numbers))
    shown = [f"{a}" if a == b else f"{a}-{b}" if b > a + 1 else f"{a}, {b}" for a, b in ranges[:8]]
    count = sum(b - a + 1 for a, b in ranges)
    more = count - sum(b - a + 1 for a, b in ranges[:8])
    text = ", ".join(shown) + (f" and {more} more" if more else "")
    return f"partition {text}" if count == 1 else f"{count} partitions ({text})"


def few_replicas_text(count: int) -> str:
    """For two: a group that no loss leaves with a majority."""
    return f"{count} replicas: the loss of any one takes the majority"


def duration_text(duration_s: float) -> str:
    """`4 s`, `3 min`, `2 h`, `5 d`."""
    for limit_s, unit_s, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if duration_s < limit_s:
            return f"{max(0, round(duration_s / unit_s))} {unit}"
    return f"{round(duration_s / 86_400)} d"


def _ranges(numbers: list[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
