"""Writes `events.jsonl` (docs/interfaces.md, "Events"): one line each, whole and flushed.

Lines of the runner have `source: runner`. The data nodes' own records are appended at the end with
`source: store`, in their own times.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from zonequake_chaos.record.clock import Moment, RunClock
from zonequake_protocol.admin import StoreEvent


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line."""

    schema: int = 1
    kind: str
    time: int
    wall: int
    clock: str
    source: str
    zone: str | None = None
    partition: int | None = None
    node: str | None = None
    data: dict[str, object] = {}


class EventLog:
    """Appends events to a file; may be called from any thread or task.

    `problem`: why events are missing. A full disk must not stop the healing of faults.
    """

    def __init__(self, path: Path, clock: RunClock) -> None:
        self._clock = clock
        self._path = path
        self._file = path.open("ab", buffering=0)
        self._lock = threading.Lock()
        self._encoder = msgspec.json.Encoder()
        self.problem: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def emit(
        self,
        kind: str,
        data: Mapping[str, object],
        *,
        place: tuple[str, int] | None = None,
        node: str | None = None,
        at: Moment | None = None,
    ) -> RunEvent:
        """Writes one event of the runner, now or at the moment `at`."""
        moment = at or self._clock.now()
        zone, partition = place if place is not None else (None, None)
        event = RunEvent(
            kind=kind,
            time=moment.time_ns,
            wall=moment.wall_ns,
            clock=moment.clock,
            source="runner",
            zone=zone,
            partition=partition,
            node=node,
            data=dict(data),
        )
        self._write([event])
        return event

    def append_store_events(self, node: str, events: Iterable[StoreEvent]) -> None:
        """Writes the events that data node `node` recorded itself."""
        self._write(from_store(node, event) for event in events)

    def _write(self, events: Iterable[RunEvent]) -> None:
        lines = b"".join(self._encoder.encode(event) + b"\n" for event in events)
        with self._lock:
            try:
                written = self._file.write(lines)
            except OSError as error:
                self.problem = self.problem or f"events are missing in {self._path}: {error}"
            else:
                if written != len(lines):
                    self.problem = self.problem or f"events are missing in {self._path}: disk full"


def from_store(node: str, event: StoreEvent) -> RunEvent:
    """Returns a data node's event as a line of the run."""
    return RunEvent(
        kind=event.kind,
        time=event.time,
        wall=event.wall,
        clock=event.clock,
        source="store",
        zone=event.zone,
        partition=event.partition,
        node=node,
        data=event.data,
    )
