"""Rebalances per partition with their stage times, and where each fault landed, from the events.

A rebalance is known by its partition and configuration token:

    CATCHING_UP → CAUGHT_UP → JOINT → STABLE, then NONE with a reason if it went back

A rebalance has ended with the `NONE` that follows STABLE, when a newer token took over, or when the
partition's `pending` is empty at that token. If the resource wasn't watched, STABLE is enough. A
`pending` that is still there at the end, and that no leader took up, has not ended either; but if
it is forced it is a reset, which `resets` knows.

The leader's own last event outranks all that. A leader in another stage than NONE still works on a
change, whichever process asked for it and whatever the resource says:

    partition.changed (token 4, pending empty), CAUGHT_UP (token 4), end of the run: not ended

A stage ends without a NONE only with its leader, when another term begins or its replica stops. A
later lineage's terms are all above those of an earlier one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.inputs.shapes import NEVER_NS
from zonequake_analysis.measures.availability.fault_times import (
    FaultEnd,
    Repetition,
    ends_of_faults,
)

STAGES = ("CATCHING_UP", "CAUGHT_UP", "JOINT", "STABLE")

_STEPPED_DOWN = "LEADER_STEPPED_DOWN"
"""The status of a NONE with which a leadership ended."""


@dataclass(slots=True, kw_only=True)
class Rebalance:
    """One change of one partition's configuration. Times in ns, None if the stage never came."""

    zone: str
    partition: int
    token: int
    peers: tuple[str, ...] = ()
    adding: tuple[str, ...] = ()
    stage_ns: dict[str, int] = field(default_factory=dict)  # first time of each stage
    attempts: int = 0  # how often it entered CATCHING_UP
    fell_back: list[str] = field(default_factory=list)  # reasons of NONE
    ended_ns: int | None = None
    ended_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyJoint:
    """A joint configuration appended before the peers it adds had caught up."""

    zone: str
    partition: int
    token: int
    at_ns: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultLanding(FaultEnd):
    """The landing of one fault: its begin and end, and the stage of the rebalance that it hit.

    A fault may be repeated: it began `times` times, at least once, and its effect was proven
    `effective` times. Begin, stage and target are those of the first time, the end is that of the
    last; as long as one of them lasts none has recovered, though a step of it may have.

    `each`: the times that it began, in order; empty if it never did, though `times` is 1 then.
    `over_ns`: when the last of them was over, see `ends_of_faults`; None if no event says so.
    """

    name: str
    times: int
    effective: int
    type: str
    targets: tuple[str, ...]
    each: tuple[Repetition, ...]
    start_ns: int | None
    effective_ns: int | None
    stop_ns: int | None
    recovered_ns: int | None
    asked: str
    landed: str
    progress: float | None
    partition: int | None
    missed: str  # why, empty if it did not miss

    @property
    def hit(self) -> bool:
        """Whether it was installed and, if a stage was asked for, landed in it."""
        return self.effective_ns is not None and not self.missed


def rebalances(events: Sequence[RecordedEvent]) -> list[Rebalance]:
    """Returns every rebalance in the events, by time, zone and partition; one without a stage is a
    `pending` that no leader took up.
    """
    found: dict[tuple[str, int, int], Rebalance] = {}
    for event in events:
        if event.partition is None or event.kind not in ("rebalance.stage", "partition.changed"):
            continue
        place = (event.zone or "", event.partition)
        token = int(event.number("token") or 0)
        if event.kind == "partition.changed":
            _watch_keys(found, place, token, event)
            continue
        rebalance = found.setdefault(
            (*place, token), Rebalance(zone=place[0], partition=place[1], token=token)
        )
        stage = event.text("stage")
        if stage in STAGES:
            rebalance.stage_ns.setdefault(stage, event.time)
            rebalance.peers = _nodes(event, "peers") or rebalance.peers
            rebalance.adding = _nodes(event, "adding") or rebalance.adding
            rebalance.attempts += stage == "CATCHING_UP"
        if stage == "NONE":
            if event.text("reason") or "STABLE" not in rebalance.stage_ns:
                rebalance.fell_back.append(event.text("reason") or "no reason given")
            else:
                _end(rebalance, event.time, "applied")
        if stage == "CATCHING_UP":
            for (zone, partition, earlier), other in found.items():
                if (zone, partition) == place and earlier < token:
                    _end(other, event.time, f"replaced by token {token}")
    watched = {(e.zone or "", e.partition) for e in events if e.kind == "partition.changed"}
    for rebalance in found.values():
        if (rebalance.zone, rebalance.partition) not in watched and "STABLE" in rebalance.stage_ns:
            _end(rebalance, rebalance.stage_ns["STABLE"], "stable")
    for name in _still_running(events):
        found[name].ended_ns, found[name].ended_by = None, ""
    moved = [(min(r.stage_ns.values()), r) for r in found.values() if r.stage_ns]
    moved += _never_taken_up(events, [r for _, r in moved])
    moved.sort(key=lambda pair: (pair[0], pair[1].zone, pair[1].partition))
    return [rebalance for _, rebalance in moved]


def _never_taken_up(
    events: Sequence[RecordedEvent], moved: Sequence[Rebalance]
) -> Iterator[tuple[int, Rebalance]]:
    """Yields each partition's last `pending` if no leader had a stage with its token, or a later
    one, and when it was seen.
    """
    last = {(e.zone or "", e.partition): e for e in events if e.kind == "partition.changed"}
    newest: dict[tuple[str, int], int] = defaultdict(int)
    for one in moved:
        newest[one.zone, one.partition] = max(newest[one.zone, one.partition], one.token)
    for (zone, partition), event in last.items():
        pending, token = _nodes(event, "pending"), int(event.number("token") or 0)
        forced = event.data.get("forced")
        is_forced = isinstance(forced, list) and "pending" in forced
        if partition is None or not pending or is_forced or token <= newest[zone, partition]:
            continue
        stable = _nodes(event, "stable")
        yield (
            event.time,
            Rebalance(
                zone=zone,
                partition=partition,
                token=token,
                peers=pending,
                adding=tuple(node for node in pending if node not in stable),
            ),
        )


def _still_running(events: Sequence[RecordedEvent]) -> Iterator[tuple[str, int, int]]:
    """Yields (zone, partition, token) of every stage other than NONE that no later event ends."""
    last: dict[tuple[str, int], RecordedEvent] = {}
    for event in events:
        if event.partition is None:
            continue
        place = (event.zone or "", event.partition)
        stage = last.get(place)
        if event.kind == "rebalance.stage":
            if stage is None or _term(event) >= _term(stage):
                last[place] = event
        elif stage is not None and (
            (event.kind == "leader.change" and _term(event) > _term(stage))
            or (event.kind == "replica.stopped" and event.node == stage.node)
        ):
            del last[place]
    for (zone, partition), event in last.items():
        if event.text("stage") in STAGES:
            yield zone, partition, int(event.number("token") or 0)


def _term(event: RecordedEvent) -> tuple[float, float]:
    """Returns the lineage and the number in it: a reset may go on from a lower number."""
    return event.number("lineage") or 0, event.number("term") or 0


def _watch_keys(
    found: dict[tuple[str, int, int], Rebalance],
    place: tuple[str, int],
    token: int,
    event: RecordedEvent,
) -> None:
    """Reads `partition.changed`: without pending, every rebalance up to its token has ended."""
    if event.data.get("pending"):
        return
    for (zone, partition, earlier), rebalance in found.items():
        if (zone, partition) == place and earlier <= token:
            _end(rebalance, event.time, "pending empty")


def _end(rebalance: Rebalance, at_ns: int, by: str) -> None:
    if rebalance.ended_ns is None:
        rebalance.ended_ns, rebalance.ended_by = at_ns, by


def _nodes(event: RecordedEvent, name: str) -> tuple[str, ...]:
    """Returns names of peers, given as names, as [node, incarnation] or as objects with `node`."""
    given = event.data.get(name)
    if not isinstance(given, list):
        return ()
    names = []
    for peer in given:
        if isinstance(peer, dict):
            names.append(str(peer.get("node", "")))
        elif isinstance(peer, list) and peer:
            names.append(str(peer[0]))
        else:
            names.append(str(peer))
    return tuple(names)


@dataclass(slots=True, kw_only=True)
class _Attempt:
    """A leader's work on a change since its last CATCHING_UP; no token: it has none in work."""

    token: float | None = None
    is_caught_up: bool = False


def early_joints(events: Sequence[RecordedEvent]) -> list[EarlyJoint]:
    """Returns the joint configurations that came before their new peers had caught up (stage
    order).

    After a CATCHING_UP, JOINT is legal only after a CAUGHT_UP that followed it, of the same token;
    and if the event states progress, it must be complete for every peer. A leader whose first stage
    is JOINT goes on with the joint configuration of an earlier one.

        CATCHING_UP, CAUGHT_UP, NONE (n3 is silent), CATCHING_UP, JOINT    too early
        JOINT (a new leader's first stage)                                 legal

    """
    attempts: dict[tuple[object, ...], _Attempt] = {}
    found = []
    for event in events:
        if event.kind != "rebalance.stage":
            continue
        leadership = (event.zone, event.partition, event.node, _term(event))
        stage, token = event.text("stage"), event.number("token")
        attempt = attempts.get(leadership)
        if stage == "CATCHING_UP":
            attempts[leadership] = _Attempt(token=token)
        elif stage == "NONE" and event.text("status") == _STEPPED_DOWN:
            attempts.pop(leadership, None)  # recorded later, perhaps in the term of the next one
        elif stage == "NONE":
            attempts[leadership] = _Attempt()
        elif stage == "CAUGHT_UP" and attempt is not None and attempt.token == token:
            attempt.is_caught_up = True
        if stage not in ("JOINT", "CAUGHT_UP"):
            continue
        is_early = attempt is not None and not (attempt.is_caught_up and attempt.token == token)
        behind = _behind(event)
        if behind:
            why = f"{stage} while {behind}"
        elif stage == "JOINT" and _adds(event) and is_early:
            why = "JOINT without CAUGHT_UP since the last CATCHING_UP"
        else:
            continue
        found.append(
            EarlyJoint(
                zone=event.zone or "",
                partition=event.partition or 0,
                token=int(token or 0),
                at_ns=event.time,
                why=why,
            )
        )
    return found


def _adds(event: RecordedEvent) -> bool:
    """Returns whether the change adds peers; a change that only removes has none to catch up."""
    return bool(event.data.get("adding"))


def _behind(event: RecordedEvent) -> str:
    """Returns which peers the event itself shows as not caught up, empty if none."""
    progress = event.data.get("progress")
    if isinstance(progress, int | float) and progress < 1 and _adds(event):
        return f"progress was {progress:.0%}"
    peers: list[tuple[str, object]] = []
    if isinstance(progress, dict):
        peers = [(str(node), value) for node, value in progress.items()]
    elif isinstance(progress, list):
        for entry in progress:
            if isinstance(entry, dict):
                peer = entry.get("peer", entry.get("node", ""))
                name = peer.get("node", "") if isinstance(peer, dict) else peer
                peers.append((str(name), entry.get("fraction", entry.get("progress"))))
    late = [f"{n} at {v:.0%}" for n, v in peers if isinstance(v, int | float) and v < 1]
    return ", ".join(late)


def fault_landings(events: Sequence[RecordedEvent]) -> list[FaultLanding]:
    """Returns every fault of the run in order of its first event, and where it landed."""
    by_name: dict[str, list[RecordedEvent]] = defaultdict(list)
    for event in events:
        if event.kind.startswith("fault."):
            by_name[event.text("fault")].append(event)
    begun: dict[tuple[str, str], list[Repetition]] = defaultdict(list)
    for position, end_ns in ends_of_faults(events).items():
        event = events[position]
        begun[event.text("fault"), event.text("type")].append(
            Repetition(
                start_ns=event.time,
                over_ns=None if end_ns == NEVER_NS else end_ns,
                targets=_nodes(event, "targets"),
            )
        )
    landings = []
    for name, own in by_name.items():

        def first(kind: str, own: list[RecordedEvent] = own) -> RecordedEvent | None:
            return next((event for event in own if event.kind == kind), None)

        def last_ns(kind: str, own: list[RecordedEvent] = own) -> int | None:
            return max((event.time for event in own if event.kind == kind), default=None)

        start, hit, missed = first("fault.start"), first("fault.hit"), first("fault.missed")
        effective = first("fault.effective")
        described = start or effective or own[0]
        # A rolling restart also reports each of its nodes, as a fault of another type.
        whole = [event.kind for event in own if event.text("type") == described.text("type")]
        each = begun.get((name, described.text("type")), [])
        over = [one.over_ns for one in each if one.over_ns is not None]
        lasts = len(over) < len(each)
        landings.append(
            FaultLanding(
                name=name,
                times=max(1, whole.count("fault.start")),
                effective=whole.count("fault.effective"),
                type=described.text("type"),
                targets=_nodes(described, "targets"),
                each=tuple(each),
                start_ns=start.time if start else None,
                effective_ns=effective.time if effective else None,
                stop_ns=last_ns("fault.stop"),
                recovered_ns=None if lasts else last_ns("fault.recovered"),
                over_ns=None if lasts else max(over, default=None),
                asked=_words(hit.data.get("asked")) if hit else "",
                landed=_words(hit.data.get("stage")) if hit else "",
                progress=hit.number("progress") if hit else None,
                partition=_partition(hit),
                missed=missed.text("reason") or "missed" if missed else "",
            )
        )
    return landings


def _partition(hit: RecordedEvent | None) -> int | None:
    if hit is None:
        return None
    number = hit.number("partition")
    return hit.partition if number is None else int(number)


def _words(value: object) -> str:
    if isinstance(value, list):
        return " or ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {_words(inner)}" for name, inner in value.items())
    return "" if value is None else str(value)
