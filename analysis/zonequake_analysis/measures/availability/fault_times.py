"""When each injection of a fault was over, from the runner's events. Pure.

A name has several injections if its fault is repeated, or if it reports its steps, each of a type
of its own. They recover in the order of their starts, if they recover at all:

    kill          start ─ recovered            start ─ recovered          each its own
    roll          start ──────────────────────────────────── recovered    of the whole
      its steps       start ─ recovered   start ─ recovered               of another type
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.inputs.shapes import NEVER_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultEnd:
    """The end of a fault, or of one of its times. `over_ns`: None if no event says so."""

    over_ns: int | None

    def over_by(self, end_ns: int) -> int:
        """Returns when it was over; `end_ns`, the end of the run, if no event says so."""
        return end_ns if self.over_ns is None else self.over_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition(FaultEnd):
    """One of the times that a fault began."""

    start_ns: int
    targets: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _OpenInjection:
    """An injection whose end was not seen yet; `position`: of its start among the events."""

    position: int
    type: str
    is_effective: bool = False


def ends_of_faults(events: Sequence[RecordedEvent]) -> dict[int, int]:
    """Returns when each `fault.start` was over, by its position in `events`, which are in order.

    It is over when it has recovered, or was given up without a proof of its effect; NEVER_NS: no
    event says so.
    """
    ends: dict[int, int] = {}
    running: dict[str, list[_OpenInjection]] = defaultdict(list)
    for position, event in enumerate(events):
        own = running[event.text("fault")] if event.kind.startswith("fault.") else []
        alike = [one for one in own if event.text("type") in ("", one.type)]
        match event.kind:
            case "fault.start":
                ends[position] = NEVER_NS
                own.append(_OpenInjection(position=position, type=event.text("type")))
            case "fault.effective" if alike:
                alike[-1].is_effective = True
            case "fault.recovered" if alike:
                ends[alike[0].position] = event.time
                own.remove(alike[0])
            case "fault.missed":
                for one in [one for one in own if not one.is_effective]:
                    ends[one.position] = event.time
                    own.remove(one)
    return ends
