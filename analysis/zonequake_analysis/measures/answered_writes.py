"""The writes of a history that were answered, to compare with what the store counted. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.measures.timeline import Timeline

_WRITES = ("write", "append", "cas")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryWrites:
    """Writes, appends and cas of all roles, in all zones of the history.

    `answered`: those with an answer, also a cas that was refused. `open`: those that may have taken
    effect. `last_ms`: the end of the last one that was answered, unix ms; None if none was.
    `leaders`: the nodes that led a partition of these zones, as the journals have them.
    """

    zones: frozenset[str]
    answered: int
    open: int
    last_ms: int | None
    leaders: frozenset[str]


def answered_writes(
    drawn: Timeline, events: Iterable[RecordedEvent], *, wall_offset_ns: int
) -> HistoryWrites:
    """Returns the writes of a run's timeline, and the nodes that may have answered them."""
    zones = frozenset(row.zone for row in drawn.partitions)
    last_ns = drawn.last_write_ns
    return HistoryWrites(
        zones=zones,
        answered=_writes(drawn, "ok"),
        open=_writes(drawn, "info"),
        last_ms=None if last_ns is None else (last_ns + wall_offset_ns) // 1_000_000,
        leaders=frozenset(
            event.text("leader")
            for event in events
            if event.kind == "leader.change" and event.zone in zones and event.text("leader")
        ),
    )


def _writes(drawn: Timeline, outcome: str) -> int:
    return sum(
        number
        for (_, f, its_outcome), number in drawn.counts.items()
        if f in _WRITES and its_outcome == outcome
    )
