"""Numbers of resets by zone, as the run's events have them, to compare with counters. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.measures.resets import RESET


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedResets:
    """Resets by zone. `begun`: those that data nodes recorded; `empty`: those of them that began
    with nothing; `seen`: those of them that the metrics are old enough to show. `only_decided`:
    forced sets in a resource of which no data node recorded a beginning: replaced, or too late.
    """

    begun: Counter[str] = field(default_factory=Counter)
    empty: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    only_decided: Counter[str] = field(default_factory=Counter)


def recorded_resets(events: Sequence[RecordedEvent], *, until_ns: int) -> RecordedResets:
    """Returns the resets of a run; `seen` are those before `until_ns`."""
    found = [event for event in events if event.kind == RESET]
    begun = _places(found, "lineage")
    decided = _places(filter(_is_forced, events), "token")
    return RecordedResets(
        begun=_by_zone(begun),
        empty=_by_zone(_places((e for e in found if not e.number("last_index")), "lineage")),
        seen=_by_zone(_places((e for e in found if e.time < until_ns), "lineage")),
        only_decided=_by_zone(decided - begun),
    )


_Place = tuple[str, int | None, int | None]


def _is_forced(event: RecordedEvent) -> bool:
    flagged = event.data.get("forced")
    return event.kind == "partition.changed" and isinstance(flagged, list) and "pending" in flagged


def _places(events: Iterable[RecordedEvent], name: str) -> set[_Place]:
    """Returns zone, partition and token: a reset's lineage is the token of its forced set."""
    return {(event.zone or "", event.partition, _whole(event.number(name))) for event in events}


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def _by_zone(places: Iterable[_Place]) -> Counter[str]:
    return Counter(zone for zone, _, _ in places)
