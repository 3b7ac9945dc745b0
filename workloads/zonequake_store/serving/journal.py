"""The node's journal: events of its replicas, kept across restarts.

One line of JSON per event in `<data>/events.jsonl`; the oldest go when there are many. Lines are
buffered and written each second, and at once if a process waits for them (a stage, a leader) or
judges by them (a reset): a SIGKILL costs at most a second of the less important ones. A torn last
line of a killed process is cut at the next start. A disk that takes nothing ends no node for its
journal: events stay in memory, and the file is started over with them once there is room.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from zonequake_protocol.admin import StoreEvent

# Kinds that a chaos run decides or judges by: they are on disk before any process can act on them.
_AT_ONCE = frozenset(
    {
        "group.reset",
        "leader.change",
        "rebalance.stage",
        "node.started",
        "node.stopping",
        "storage.failed",
        "storage.full",
    }
)

# The least number of newest events that is kept, in memory and on disk; the most is twice that.
_KEPT_EVENTS = 20_000

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[StoreEvent] = msgspec.json.Decoder(StoreEvent)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalClock:
    """The clocks of an event's times. `name` names the monotonic clock (the boot id)."""

    monotonic_ns: Callable[[], int]
    wall_ns: Callable[[], int]
    name: str


class EventJournal:
    """The events of one node."""

    def __init__(self, path: Path, clock: JournalClock) -> None:
        self._path = path
        self._clock = clock
        self._events = _read(path)
        if len(self._events) > _KEPT_EVENTS:
            self._events = self._events[-_KEPT_EVENTS:]
        self._file: io.FileIO | None = None
        self._buffer: list[bytes] = []
        self._seq = self._events[-1].seq if self._events else 0
        self._begin_file()

    def add(
        self,
        kind: str,
        *,
        zone: str | None = None,
        partition: int | None = None,
        data: dict[str, object],
    ) -> None:
        """Note an event."""
        self._seq += 1
        event = StoreEvent(
            seq=self._seq,
            kind=kind,
            time=self._clock.monotonic_ns(),
            wall=self._clock.wall_ns(),
            clock=self._clock.name,
            zone=zone,
            partition=partition,
            data=data,
        )
        self._events.append(event)
        if len(self._events) > 2 * _KEPT_EVENTS:
            self._trim()
        else:
            self._buffer.append(_encoder.encode(event) + b"\n")
        if kind in _AT_ONCE:
            self.flush()

    def after(self, seq: int) -> Iterator[bytes]:
        """Returns the lines of the events after `seq`, oldest first."""
        first = self._events[0].seq if self._events else 0
        for event in self._events[max(0, seq - first + 1) :]:
            yield _encoder.encode(event) + b"\n"

    def flush(self) -> None:
        """Hand the buffered lines to the kernel: safe from a SIGKILL, not from a power loss."""
        if self._file is None:
            self._begin_file()
        elif self._buffer:
            lines, self._buffer = b"".join(self._buffer), []
            try:
                written = self._file.write(lines)
            except OSError:
                written = 0
            if written != len(lines):
                self._end_file()

    def _trim(self) -> None:
        """Begin the file again with the newest events, the buffered ones among them."""
        del self._events[:-_KEPT_EVENTS]
        self._end_file()
        self._begin_file()

    def _begin_file(self) -> None:
        """Write all events that are kept; nothing if the disk takes them not."""
        try:
            _replace(self._path, self._events)
            self._file = self._path.open("ab", buffering=0)
        except OSError:
            self._end_file()
        self._buffer.clear()

    def _end_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        """Write the rest and close the file."""
        self.flush()
        self._end_file()


def _read(path: Path) -> list[StoreEvent]:
    events: list[StoreEvent] = []
    if path.exists():
        for line in path.read_bytes().splitlines():
            try:
                events.append(_decoder.decode(line))
            except msgspec.DecodeError:
                break
    return events


def _replace(path: Path, events: list[StoreEvent]) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_bytes(b"".join(_encoder.encode(event) + b"\n" for event in events))
    fresh.replace(path)
