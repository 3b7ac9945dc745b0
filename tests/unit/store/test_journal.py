"""The journal: events survive a restart, and a torn line of a killed process."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from zonequake_protocol.admin import StoreEvent
from zonequake_store.serving.journal import EventJournal, JournalClock


def clock() -> JournalClock:
    ticks = iter(range(1, 1_000_000))
    return JournalClock(monotonic_ns=lambda: next(ticks), wall_ns=lambda: 7, name="boot")


def decoded(journal: EventJournal, after: int = 0) -> list[StoreEvent]:
    return [msgspec.json.decode(line, type=StoreEvent) for line in journal.after(after)]


def test_numbers_go_on_after_a_restart(tmp_path: Path) -> None:
    first = EventJournal(tmp_path / "events.jsonl", clock())
    first.add("node.started", data={"process_incarnation": "a"})
    first.add("replica.started", zone="z", partition=3, data={"reason": "start order"})
    first.close()
    second = EventJournal(tmp_path / "events.jsonl", clock())
    second.add("node.started", data={"process_incarnation": "b"})
    events = decoded(second)
    assert [event.seq for event in events] == [1, 2, 3]
    assert (events[1].zone, events[1].partition) == ("z", 3)
    assert [event.seq for event in decoded(second, after=2)] == [3]
    assert decoded(second, after=3) == []
    second.close()


@pytest.mark.parametrize("kind", ["rebalance.stage", "group.reset"])
def test_a_stage_and_a_reset_are_on_disk_at_once_and_other_events_after_a_flush(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "events.jsonl"
    journal = EventJournal(path, clock())
    journal.add("replica.started", data={})
    assert path.read_bytes() == b""
    journal.add(kind, data={})
    assert path.read_bytes().count(b"\n") == 2
    journal.close()


def test_the_oldest_events_leave_the_file_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zonequake_store.serving.journal._KEPT_EVENTS", 10)
    path = tmp_path / "events.jsonl"
    journal = EventJournal(path, clock())
    for _ in range(95):
        journal.add("replica.started", data={})
    journal.flush()
    assert path.read_bytes().count(b"\n") <= 20
    before = [event.seq for event in decoded(journal)]
    assert before == list(range(before[0], 96))
    assert len(before) >= 10
    journal.close()
    again = EventJournal(path, clock())
    assert decoded(again)[-1].seq == 95
    assert [event.seq for event in decoded(again, after=93)] == [94, 95]
    again.close()


def test_a_torn_last_line_is_cut_and_its_number_used_again(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    journal = EventJournal(path, clock())
    journal.add("node.started", data={})
    journal.add("node.stopping", data={})
    journal.close()
    path.write_bytes(path.read_bytes()[:-5])
    again = EventJournal(path, clock())
    again.add("node.started", data={})
    assert [(event.seq, event.kind) for event in decoded(again)] == [
        (1, "node.started"),
        (2, "node.started"),
    ]
    again.close()
