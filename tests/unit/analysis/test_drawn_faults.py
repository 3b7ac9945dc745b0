"""A fault is drawn from its start until it was over."""

from __future__ import annotations

import re

import pytest

from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.measures.rebalances import fault_landings
from zonequake_analysis.report.time_rows import Axis, behind, fault_rows

SECOND = 1_000_000_000
AXIS = Axis(start_ns=0, end_ns=100 * SECOND)


@pytest.mark.parametrize(
    ("told", "width_s"),
    [
        ({"start": 10, "effective": 11, "stop": 20, "recovered": 30}, "20"),
        # Nothing says that it ever recovered: it lasted to the end of the run.
        ({"start": 10, "effective": 11, "stop": 20}, "90"),
        ({"start": 10, "effective": 11}, "90"),
        ({"start": 10}, "90"),
        ({"start": 10, "effective": 11, "missed": 99}, "90"),
        # Given up without an effect, it was cleaned up at once.
        ({"start": 10, "missed": 12}, "2"),
    ],
)
def test_a_fault_is_drawn_until_it_was_over(told: dict[str, int], width_s: str) -> None:
    data: dict[str, object] = {"fault": "kill", "type": "pod_kill"}
    events = [
        RecordedEvent(kind=f"fault.{kind}", time=at_s * SECOND, data=data)
        for kind, at_s in told.items()
    ]
    faults = fault_landings(events)
    for drawn in (fault_rows(AXIS, faults), behind(AXIS, faults, events)):
        (found,) = re.findall(r'<rect x="10" y="\d" width="([\d.]+)"', drawn)
        assert found == width_s
