"""The share of the requested load of a scenario that was there. Pure.

    before │ control │ faults │ recovery │ quiet      the load runs up to the quiet time

An operation of the load counts at its scheduled time, whatever its outcome: an operation that the
store did not answer was still asked of it. A pod drops operations that it can't begin in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.measures.availability.fault_times import ends_of_faults
from zonequake_analysis.measures.timeline import Timeline

_FIRST_PHASE = "before"
_PHASES_OF_LOAD = (_FIRST_PHASE, "control", "faults", "recovery")
_PAUSE = "load_pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRate:
    """Operations that ended in the phases of load, and the requested rate; None: not known.

    `seconds`: the length of these phases without the planned pauses. `is_ceiling`: the loop was
    closed, so that the rate is the most that it may reach.
    """

    asked_per_s: float | None
    operations: int
    seconds: float
    is_ceiling: bool = False

    @property
    def delivered_per_s(self) -> float:
        return self.operations / self.seconds if self.seconds else 0.0


def load_rate(
    asked_per_s: float | None,
    drawn: Timeline,
    events: Sequence[RecordedEvent],
    *,
    is_ceiling: bool = False,
) -> LoadRate | None:
    """Returns the load of a run; None if the events don't say when its phases began.

    A pause that is repeated has load between its times.
    """
    phases = [(event.time, event.text("phase")) for event in events if event.kind == "run.phase"]
    begin_ns = next((at for at, name in phases if name == _FIRST_PHASE), None)
    if begin_ns is None:
        return None
    later = [at for at, name in phases if at >= begin_ns and name not in _PHASES_OF_LOAD]
    first = drawn.slice_of(begin_ns)
    last = drawn.slice_of(min(later, default=drawn.end_ns))
    paused = set[int]()
    for position, end_ns in ends_of_faults(events).items():
        if events[position].text("type") == _PAUSE:
            begin, end = map(drawn.slice_of, (events[position].time, end_ns))
            paused.update(range(begin, end))
    slices = [at for at in range(first, last) if at not in paused]
    counted = sum(int((one.ok[slices] + one.bad[slices]).sum()) for one in drawn.latencies.values())
    return LoadRate(
        asked_per_s=asked_per_s,
        operations=counted,
        seconds=len(slices) * drawn.slice_ns / 1e9,
        is_ceiling=is_ceiling,
    )
