"""The trace of a simulation: its events, and its form as text.

A message is one event, at its arrival, that knows when it was sent; a lost one is an event at its
sender. A client's operation is two events, INVOKE and RETURN, on the client's own lane.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass


class TraceKind(enum.StrEnum):
    """The kind of an event; the comment says which fields are set in addition to time, node and
    text.
    """

    MESSAGE = "message"  # arrived at `node`, sent by `peer` at `since_ms`
    LOST = "lost"  # sent by `node` to `peer`, never arrives
    CRASH = "crash"
    START = "start"  # also the first one
    WIPE = "wipe"  # the node's storage is gone
    CUT = "cut"  # network: the text names the cut links; node is empty
    HEAL = "heal"  # network: the text names the mended links; node is empty
    ROLE = "role"  # `role` and `term`: the node's role from now on
    STAGE = "stage"  # of a change of peers
    STORED = "stored"
    COMMIT = "commit"
    FAULT = "fault"  # any other fault; node may be empty
    INVOKE = "invoke"  # `key`; node is the client
    RETURN = "return"  # `key`; node is the client, `since_ms` when it was invoked
    VIOLATION = "violation"  # a rule was broken; node may be empty


OPERATIONS = frozenset({TraceKind.INVOKE, TraceKind.RETURN})

QUIET_MESSAGES = frozenset({"HEARTBEAT", "HEARTBEAT_REPLY"})
"""First words of messages that come all the time and rarely explain anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """One event of a run. `node` is its lane, `text` its content in a few words.

    The text of a message begins with the name of its kind. `key`: its only key, if it has one.
    """

    time_ms: int
    node: str
    kind: TraceKind
    text: str = ""
    key: str | None = None
    peer: str | None = None
    since_ms: int | None = None
    term: int = 0
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """The last events of a run that explain a result, and the state before them.

    `earlier`: all events before. `pending`: invokes among these whose operations had not returned.
    """

    earlier: Sequence[TraceEvent] = ()
    pending: Sequence[TraceEvent] = ()
    events: Sequence[TraceEvent]

    @property
    def clients(self) -> list[str]:
        """The clients that have a lane, by name; 10 comes after 9."""
        known = {event.node for event in (*self.earlier, *self.events) if event.kind in OPERATIONS}
        return sorted(known & self._named, key=_by_number)

    @property
    def nodes(self) -> list[str]:
        """The nodes that have a lane, by name."""
        return sorted(self._named - set(self.clients), key=_by_number)

    @property
    def _named(self) -> set[str]:
        both = (*self.pending, *self.events)
        return {name for event in both for name in (event.node, event.peer) if name}


def excerpt(
    events: Sequence[TraceEvent],
    *,
    key: str | None = None,
    last: int = 200,
    quiet_too: bool = False,
) -> Excerpt:
    """Returns the last events that explain what happened to `key` (None: to the group).

    Events of other keys are left out, and so are heartbeats unless `quiet_too`.
    """

    def tells(event: TraceEvent) -> bool:
        if event.key is not None and event.kind is not TraceKind.VIOLATION:
            return event.key == key
        if event.kind in (TraceKind.MESSAGE, TraceKind.LOST):
            return quiet_too or event.text.partition(" ")[0] not in QUIET_MESSAGES
        return True

    places = [place for place, event in enumerate(events) if tells(event)][-last:]
    earlier = events[: places[0]] if places else events
    pending: dict[str, TraceEvent] = {}
    for event in earlier:
        if event.kind is TraceKind.INVOKE and tells(event):
            pending[event.node] = event
        elif event.kind is TraceKind.RETURN:
            pending.pop(event.node, None)
    return Excerpt(
        earlier=earlier,
        pending=list(pending.values()),
        events=[events[place] for place in places],
    )


def _by_number(name: str) -> tuple[str, int]:
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0)


_SIGNS = {
    TraceKind.MESSAGE: "◀",
    TraceKind.LOST: "✗",
    TraceKind.CRASH: "☠",
    TraceKind.START: "▲",
    TraceKind.WIPE: "∅",
    TraceKind.CUT: "╳",
    TraceKind.HEAL: "=",
    TraceKind.ROLE: "★",
    TraceKind.STAGE: "◆",
    TraceKind.STORED: "▪",
    TraceKind.COMMIT: "✓",
    TraceKind.FAULT: "!",
    TraceKind.INVOKE: "┌",
    TraceKind.RETURN: "└",
    TraceKind.VIOLATION: "‼",
}


def text_lines(found: Excerpt) -> list[str]:
    """Returns a line per event: time, a column per lane with a sign in the event's lane, and its
    text.

    In a message's line the sender's column shows ○ where it left (● if it never arrives).
    """
    columns = [*found.nodes, *found.clients]
    width = max((len(name) for name in columns), default=1) + 1
    head = " " * 12 + "".join(name.ljust(width) for name in columns)
    told = [*found.pending, *found.events]
    return [head.rstrip(), *(_line(event, columns, width) for event in told)]


def _line(event: TraceEvent, columns: Sequence[str], width: int) -> str:
    signs = {event.node: _SIGNS[event.kind]}
    text = event.text
    if event.kind is TraceKind.MESSAGE:
        assert event.peer is not None, "a message has a sender"
        signs = {event.peer: "○", **signs}
        text = f"{event.peer} → {event.node}: {text}"
        if event.since_ms is not None:
            text += f" ({event.time_ms - event.since_ms} ms)"
    elif event.kind is TraceKind.LOST:
        signs = {event.node: "●"}
        text = f"{event.node} → {event.peer}: {text}, lost"
    elif event.node:
        text = f"{event.node}: {text or event.kind.value}"
    if event.kind is TraceKind.VIOLATION:
        text = f"VIOLATION {text}"
    if not event.node:
        signs = dict.fromkeys(columns, _SIGNS[event.kind])
    cells = "".join(signs.get(name, "│").ljust(width) for name in columns)
    return f"{event.time_ms:>8} ms {cells}{text}"
