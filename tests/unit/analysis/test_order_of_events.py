"""Events of several machines stand in the order in which they happened, not in that of uptimes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zonequake_analysis.inputs.run_folder import RecordedEvent, read_events
from zonequake_analysis.measures.rebalances import rebalances

SECOND = 1_000_000_000
BEGAN_S = 1_790_000_000
UP_S = {"old": 9_000_000, "young": 500}
"""For how long each machine had run when the first event happened."""

Told = tuple[str, float, str, dict[str, object]]

MOVED: list[Told] = [
    ("old", 1, "rebalance.stage", {"stage": "CATCHING_UP", "token": 4, "term": 1}),
    ("young", 5, "leader.change", {"leader": "n2", "term": 2}),
    ("young", 6, "rebalance.stage", {"stage": "CATCHING_UP", "token": 5, "term": 2}),
    ("young", 8, "rebalance.stage", {"stage": "STABLE", "token": 5, "term": 2}),
    ("young", 9, "rebalance.stage", {"stage": "NONE", "token": 5, "term": 2}),
]
"""A leader's machine dies as a peer catches up; the next leader carries out a newer change."""


def read(run: Path, told: list[Told], **more: object) -> list[RecordedEvent]:
    lines = [
        {
            "kind": kind,
            "time": int((UP_S[clock] + at_s) * SECOND),
            "wall": int((BEGAN_S + at_s) * SECOND),
            "clock": clock,
            "zone": "z",
            "partition": 0,
            "data": data,
        }
        | more
        for clock, at_s, kind, data in told
    ]
    (run / "events.jsonl").write_text("\n".join(map(json.dumps, lines)))
    events, bad = read_events(run)
    assert not bad
    return events


def test_a_change_that_a_later_leader_replaced_has_ended(tmp_path: Path) -> None:
    events = read(tmp_path, MOVED)
    assert [event.clock for event in events] == [clock for clock, *_ in MOVED]
    ended = {one.token: one.ended_by for one in rebalances(events)}
    assert ended == {4: "replaced by token 5", 5: "applied"}


def test_a_step_of_the_time_of_day_changes_no_order_within_a_clock(tmp_path: Path) -> None:
    events = read(tmp_path, MOVED)
    late = RecordedEvent(kind="node.stopping", time=events[0].time + 1, clock="old")
    lines = [*(tmp_path / "events.jsonl").read_text().splitlines()]
    stepped = {"kind": late.kind, "time": late.time, "clock": "old", "wall": 7 * SECOND}
    lines.insert(0, json.dumps(stepped))
    lines.append(json.dumps(stepped | {"time": late.time + 1, "wall": BEGAN_S * SECOND}))
    (tmp_path / "events.jsonl").write_text("\n".join(lines))
    of_old = [event.time for event in read_events(tmp_path)[0] if event.clock == "old"]
    assert of_old == sorted(of_old)


@pytest.mark.parametrize("more", [{"wall": 0}, {"clock": ""}, {"clock": "one"}])
def test_events_of_one_clock_or_without_a_time_of_day_stand_by_their_times(
    tmp_path: Path, more: dict[str, object]
) -> None:
    times = [event.time for event in read(tmp_path, MOVED, **more)]
    assert times == sorted(times)
