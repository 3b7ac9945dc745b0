"""A window is explained by the faults that acted then, each by its own times."""

from __future__ import annotations

import pytest

from tests.unit.analysis.made_up_probes import SECOND, island, vantage
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.measures.availability.windows import availability

KILL = {"fault": "kill", "type": "pod_kill"}
ROLL = {"fault": "roll", "type": "rolling_restart"}
STEP = {"fault": "roll", "type": "graceful_delete"}
UNTYPED = {"fault": "kill"}
"""So a fault that was not waited for recovers."""


def cause(*told: tuple[str, float, dict[str, str]]) -> tuple[str, float] | None:
    """What explains a window from 50 s on, and how many seconds before it that began."""
    events = [
        RecordedEvent(kind=f"fault.{kind}", time=int(at_s * SECOND), data=dict(data))
        for kind, at_s, data in told
    ]
    (found,) = availability([vantage(last_s=60)], [island(50, 56)], events).windows
    assert found.causes is not None
    return (found.causes[0].what, found.causes[0].lag_ns / SECOND) if found.causes else None


WHOLE_KILL = "kill (pod_kill)"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        # Repeated: the first one was over, the second one had not begun.
        (
            [
                ("start", 1, KILL),
                ("recovered", 2, KILL),
                ("start", 90, KILL),
                ("recovered", 91, KILL),
            ],
            None,
        ),
        # Not waited for: what began first recovers first.
        (
            [
                ("start", 1, KILL),
                ("start", 3, KILL),
                ("recovered", 40, UNTYPED),
                ("recovered", 70, UNTYPED),
            ],
            (WHOLE_KILL, 47),
        ),
        (
            [
                ("start", 1, KILL),
                ("start", 3, KILL),
                ("recovered", 40, UNTYPED),
                ("recovered", 41, UNTYPED),
            ],
            None,
        ),
        # A step of a fault has times of its own, and so has the whole.
        (
            [
                ("start", 1, ROLL),
                ("start", 2, STEP),
                ("recovered", 4, STEP),
                ("start", 90, STEP),
                ("recovered", 92, STEP),
                ("recovered", 95, ROLL),
            ],
            ("roll (rolling_restart)", 49),
        ),
        (
            [
                ("start", 1, ROLL),
                ("start", 2, STEP),
                ("recovered", 4, STEP),
                ("recovered", 6, ROLL),
                ("start", 90, KILL),
                ("recovered", 95, KILL),
            ],
            None,
        ),
        # One that never recovered lasted; one that had no effect was over when that was known.
        ([("start", 1, KILL), ("effective", 2, KILL)], (WHOLE_KILL, 49)),
        ([("start", 1, KILL), ("missed", 3, UNTYPED)], None),
        (
            [("start", 1, KILL), ("effective", 2, KILL), ("missed", 99, UNTYPED)],
            (WHOLE_KILL, 49),
        ),
        (
            [
                ("start", 1, KILL),
                ("effective", 2, KILL),
                ("recovered", 3, KILL),
                ("start", 5, KILL),
                ("missed", 9, UNTYPED),
                ("recovered", 99, UNTYPED),
            ],
            None,
        ),
    ],
)
def test_a_fault_explains_a_window_by_its_own_times(
    told: list[tuple[str, float, dict[str, str]]], expected: tuple[str, float] | None
) -> None:
    assert cause(*told) == expected
