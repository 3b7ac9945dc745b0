"""Unavailability windows per partition and operation class, from probes (design §7,
Unavailability windows).

A probe succeeds if it is answered within the deadline of its scheduled start; late, failed and
unknown probes have failed. A window is a maximal run of failures between two successes of a
vantage:

    possible   from the finish of the last success to the finish of the next
    certain    from the start of the first failed probe to the start of the last, of one vantage
    proven     the part of the certain one after the last end of a member's pod that the API server
               showed in the window: before it no node may act on a loss

The outage is between the two; a vantage that did not probe for three intervals is *no data*,
neither success nor failure: nothing is certain of that time, and the longest part of a run without
such a silence counts. A window is total if every vantage that probed then saw it, without a
success of its own within.

The cause is the event that happened last before the window began: Prometheus explains windows, it
never measures them. Events of another clock than the probes show neither causes nor a proof.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from zonequake_analysis.inputs.event_shapes import NamedNodes
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.measures.availability.fault_times import ends_of_faults
from zonequake_analysis.measures.availability.not_probed import (
    ProbedPlace,
    began_late,
    never_probed,
    stopped_early,
)
from zonequake_analysis.measures.availability.probes import Island, Vantage
from zonequake_analysis.measures.majorities import TimeRange
from zonequake_analysis.measures.resets import RESET

LOOK_BACK_NS = 5_000_000_000
"""A cause is at most this long before the window: longer than any election or restart here."""

_CAUSES = (
    "fault.start",
    RESET,
    "leader.change",
    "rebalance.stage",
    "node.stopping",
    "node.started",
    "replica.broken",
    "replica.stopped",
    "pod.event",
)
"""Kinds of events that can take a partition away, the more telling first."""

_PROBED_BEFORE = "faults"
"""The phase of a run before which all probes begin."""

_LAST_OF_PROBES = "quiet"
"""The phase of a run with which all probes end."""

_ENDED = ("Failed", "Succeeded")
"""Phases of a pod whose containers have all ended, according to the kubelet."""

_OF_ONE_PARTITION = (RESET, "leader.change", "rebalance.stage", "replica.broken", "replica.stopped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """An event that may have caused a window, `lag_ns` before its first failed probe."""

    kind: str
    what: str
    lag_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailability:
    """One window of one partition and class, over all vantages."""

    zone: str
    partition: int
    function: str
    start_ns: int  # possible bounds
    end_ns: int
    certain_ns: int  # length of the certain part
    proven_ns: int  # the same after the proof of the last loss; certain_ns without proof
    failed: int
    vantages: tuple[str, ...]
    total: bool
    causes: tuple[Cause, ...] | None  # the leading one first; empty: unexplained; None: not known
    has_reset: bool = False  # within the possible bounds

    @property
    def by_reset(self) -> bool | None:
        """Whether a reset may have ended it: then the window took as long as the loss and the
        reset. One before its start ended an earlier window. None: not known.
        """
        return None if self.causes is None else self.has_reset

    @property
    def told_cause(self) -> str:
        """The leading cause in words; empty if nothing explains the window."""
        if self.causes is None:
            return "cause not known: the events are of another clock"
        return self.causes[0].what if self.causes else ""

    @property
    def possible_ns(self) -> int:
        """Length of the window by its possible bounds."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """The result of all probes. `hidden_ns`: no window that began, lasted or ended in a silence was
    longer; 0 without silences. `never_probed`: partitions whose windows no probe would show."""

    windows: tuple[Unavailability, ...]
    vantages: tuple[Vantage, ...]
    silences: tuple[Island, ...]
    hidden_ns: int
    resolution_ns: int  # the longest median interval; 0 without probes
    never_probed: tuple[ProbedPlace, ...] = ()


def availability(
    vantages: Sequence[Vantage],
    islands: Sequence[Island],
    events: Sequence[RecordedEvent],
    *,
    partitions: Iterable[ProbedPlace] = (),
    one_clock: bool = True,
) -> Availability:
    """Returns the windows, the vantages, and the silences of each vantage. `partitions`: all that
    have operations; `one_clock`: the events and the probes are of one."""
    phases: dict[str, int] = {}
    for event in events:
        if event.kind == "run.phase" and one_clock:
            phases.setdefault(event.text("phase"), event.time)
    late = began_late(vantages, phases.get(_PROBED_BEFORE))
    islands = [*islands, *late, *stopped_early(vantages, phases.get(_LAST_OF_PROBES))]
    return Availability(
        windows=tuple(_merge(islands, vantages, _told(events) if one_clock else None)),
        vantages=tuple(vantages),
        silences=tuple(island for island in islands if island.silent),
        hidden_ns=_longest_hidden_ns(islands),
        resolution_ns=max((v.interval_ns for v in vantages), default=0),
        never_probed=tuple(never_probed(vantages, partitions)),
    )


_Acting = tuple[RecordedEvent, int]
"""An event, and until when what it tells of lasted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """The facts of windows that events tell.

    `acting`: what can take a partition away; `members`: by zone and partition, the nodes of each
    state of its resource, by time.
    """

    acting: Sequence[_Acting]
    members: Mapping[tuple[str, int], Sequence[tuple[int, frozenset[str]]]]

    def proof_ns(self, zone: str, partition: int, start_ns: int, end_ns: int) -> int | None:
        """Returns when the last end of a member's pod was shown within these bounds; where no event
        names the members, of any pod.
        """
        states = self.members.get((zone, partition))
        nodes: set[str] = set()
        for at_ns, named in states or ():
            if at_ns > end_ns:
                break
            nodes = {*named} if at_ns <= start_ns else nodes | named
        return max(
            (
                event.time
                for event, _ in self.acting
                if event.kind == "pod.event"
                and event.text("phase") in _ENDED
                and start_ns <= event.time <= end_ns
                and (states is None or (event.text("pod") or event.node) in nodes)
            ),
            default=None,
        )

    def has_reset(self, zone: str, partition: int, start_ns: int, end_ns: int) -> bool:
        """Returns whether a reset of the partition began within these bounds."""
        return any(
            event.kind == RESET
            and (event.zone, event.partition) == (zone, partition)
            and start_ns <= event.time <= end_ns
            for event, _ in self.acting
        )


def _told(events: Sequence[RecordedEvent]) -> _Told:
    ends = ends_of_faults(events)
    members: dict[tuple[str, int], list[tuple[int, frozenset[str]]]] = defaultdict(list)
    for event in events:
        if event.kind == "partition.changed" and event.partition is not None:
            named = msgspec.convert(event.data, NamedNodes)
            nodes = frozenset([*(named.stable or ()), *(named.pending or ())])
            members[event.zone or "", event.partition].append((event.time, nodes))
    acting = [
        (event, ends.get(position, event.time))
        for position, event in enumerate(events)
        if event.kind in _CAUSES
    ]
    return _Told(acting=acting, members=members)


_Series = tuple[str, int, str, str]
_Silences = Mapping[_Series, Sequence[TimeRange]]


def _series(island: Island) -> _Series:
    return island.zone, island.partition, island.function, island.vantage


def _longest_hidden_ns(islands: Iterable[Island]) -> int:
    """Returns the longest possible window with a silence in it.

    Every probe that a vantage didn't send may have failed: then its silence and the failures that
    touch it are one window.

        ok  fail  fail  (silence)  fail  ok      the window is known to be no longer than this
    """
    of_vantage: dict[_Series, list[Island]] = defaultdict(list)
    for island in islands:
        of_vantage[_series(island)].append(island)
    longest_ns = 0
    for series_islands in of_vantage.values():
        begin_ns = end_ns = 0
        silent = False
        for island in sorted(series_islands, key=lambda island: island.possible):
            if island.possible[0] > end_ns:
                begin_ns, end_ns, silent = *island.possible, False
            end_ns = max(end_ns, island.possible[1])
            silent = silent or island.silent
            if silent:
                longest_ns = max(longest_ns, end_ns - begin_ns)
    return longest_ns


def _merge(
    found: Iterable[Island], vantages: Sequence[Vantage], told: _Told | None
) -> list[Unavailability]:
    """Joins the vantages' runs that overlap in their possible parts into windows."""
    by_place: dict[tuple[str, int, str], list[Island]] = defaultdict(list)
    silences: dict[_Series, list[TimeRange]] = defaultdict(list)
    for island in found:
        if island.silent:
            silences[_series(island)].append(island.possible)
        else:
            by_place[island.zone, island.partition, island.function].append(island)
    watching: dict[tuple[str, int, str], list[Vantage]] = defaultdict(list)
    for vantage in vantages:
        watching[vantage.zone, vantage.partition, vantage.function].append(vantage)
    windows = []
    for place, islands in sorted(by_place.items()):
        islands.sort(key=lambda island: island.possible)
        group: list[Island] = []
        ends: dict[str, int] = {}
        for island in islands:
            # Between two runs of one vantage it had a success, which may have been under way as the
            # second one began.
            others = (end for vantage, end in ends.items() if vantage != island.vantage)
            if group and island.possible[0] > max(others, default=0):
                windows.append(_window(group, watching[place], silences, told))
                group, ends = [], {}
            group.append(island)
            ends[island.vantage] = max(ends.get(island.vantage, 0), island.possible[1])
        windows.append(_window(group, watching[place], silences, told))
    return sorted(windows, key=lambda window: window.start_ns)


def _watched(island: Island, silences: _Silences) -> Iterator[TimeRange]:
    """Yields the certain parts of a run of failures, without the silences in it."""
    begin_ns, end_ns = island.certain
    for silent_ns, until_ns in sorted(silences.get(_series(island), ())):
        if begin_ns <= silent_ns and until_ns <= end_ns:
            yield begin_ns, silent_ns
            begin_ns = until_ns
    yield begin_ns, end_ns


def _window(
    group: Sequence[Island],
    watching: Sequence[Vantage],
    silences: _Silences,
    told: _Told | None,
) -> Unavailability:
    zone, partition, function = group[0].zone, group[0].partition, group[0].function
    saw = {island.vantage for island in group}
    first_failed = min(island.certain[0] for island in group)
    last_failed = max(island.certain[1] for island in group)
    looked = {
        v.vantage
        for v in watching
        if v.first_ns <= last_failed
        and v.last_ns >= first_failed
        and not any(
            begin_ns < first_failed and last_failed < until_ns
            for begin_ns, until_ns in silences.get((zone, partition, function, v.vantage), ())
        )
    }
    watched = [part for island in group for part in _watched(island, silences)]
    certain = max(until - begin for begin, until in watched)
    # A total window is bounded by the tightest of the vantages' successes, unless one vantage alone
    # was certainly without an answer for longer.
    start = max(i.possible[0] for i in group)
    end = min(i.possible[1] for i in group)
    total = looked <= saw and len(saw) == len(group) and start < end
    if not total or certain > end - start:
        start = min(i.possible[0] for i in group)
        end = max(i.possible[1] for i in group)
    proof = None if told is None else told.proof_ns(zone, partition, start, end)
    proven = certain
    if proof is not None:
        proven = max(max(0, until - max(begin, proof)) for begin, until in watched)
    return Unavailability(
        zone=zone,
        partition=partition,
        function=function,
        start_ns=start,
        end_ns=end,
        certain_ns=certain,
        proven_ns=proven,
        failed=sum(island.failed for island in group),
        vantages=tuple(sorted(saw)),
        total=total,
        causes=None
        if told is None
        else tuple(_causes(zone, partition, first_failed, end, told.acting)),
        has_reset=told is not None and told.has_reset(zone, partition, start, end),
    )


def _causes(
    zone: str, partition: int, first_failed_ns: int, end_ns: int, acting: Sequence[_Acting]
) -> list[Cause]:
    """Returns the nearest event of each kind that can explain a window, the most telling kind
    first.

    A fault acts from its start until it has recovered, so one that began long before still counts.
    """
    found = []
    for event, until_ns in acting:
        if event.time > end_ns:
            continue
        if event.kind in _OF_ONE_PARTITION and (event.zone, event.partition) != (zone, partition):
            continue
        if event.time < first_failed_ns - LOOK_BACK_NS and until_ns < first_failed_ns:
            continue
        lag = first_failed_ns - event.time
        rank = (_CAUSES.index(event.kind), abs(lag))
        found.append((rank, Cause(kind=event.kind, what=describe(event), lag_ns=lag)))
    found.sort(key=lambda pair: pair[0])
    named: dict[str, Cause] = {}
    for _, cause in found:
        named.setdefault(cause.kind, cause)
    return list(named.values())


def describe(event: RecordedEvent) -> str:
    """Returns an event in a few words."""
    match event.kind.partition(".")[0]:
        case "fault":
            targets = event.data.get("targets")
            on = (
                f" on {', '.join(map(str, targets))}"
                if isinstance(targets, list) and targets
                else ""
            )
            return f"{event.text('fault')} ({event.text('type')}{on})"
        case "group":
            return f"reset: {event.node} goes on alone in lineage {event.text('lineage')}"
        case "leader":
            leads = event.text("leader")
            return f"{f'leader {leads}' if leads else 'no leader'} in term {event.text('term')}"
        case "rebalance":
            return f"stage {event.text('stage')} of token {event.text('token')}"
        case "pod":
            return f"{event.text('pod') or event.node} {event.text('type')} {event.text('reason')}"
        case _:
            return f"{event.kind} {event.node or ''}".strip()
