"""A fault is drawn from its start until it was over; nothing is drawn by another clock."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.spark.report.made_up_pages import made_up_judgement
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.measures.rebalances import fault_landings
from zonequake_analysis.report.page import render_page
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


def test_events_of_another_clock_than_the_history_are_not_drawn(tmp_path: Path) -> None:
    made = made_up_judgement(partitions=1)
    marks = (
        'class="phase p',
        'class="phase-edge"',
        'class="fault-bar"',
        'height="1" class="fault"',
        'class="leader"',
        'class="stage ',
    )
    words = "as the events and the history are of several clocks"
    page = render_page(tmp_path, made, told=lambda _: None)
    assert [mark for mark in marks if mark not in page] == []
    assert words not in page
    made = replace(made, evidence=replace(made.evidence, one_clock=False))
    page = render_page(tmp_path, made, told=lambda _: None)
    assert [mark for mark in marks if mark in page] == []
    assert page.count(words) == 1
