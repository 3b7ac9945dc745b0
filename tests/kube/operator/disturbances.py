"""What can go wrong with a watch or a list, once, at a chosen event or answer.

DROPPED   an event never arrives, and the watch goes on
GONE      in place of an event, 410: the watch ends, what it missed is only in a new list
BROKEN    in place of an event, the watch ends, and the next ones are refused with 500
STALE     an answer to a list or read is that of before, and so are the next ones of its kind
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from enum import StrEnum

REFUSALS = 2
"""New watches that are refused after one was broken."""
STALE_ANSWERS = 3
GONE_LINE = json.dumps(
    {
        "type": "ERROR",
        "object": {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": 410,
            "reason": "Expired",
            "message": "too old resource version",
        },
    }
).encode()


class Ill(StrEnum):
    DROPPED = "dropped"
    GONE = "gone"
    BROKEN = "broken"
    STALE = "stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """At the `number`-th event of a watch, or answer of a list, of which the path ends so."""

    ill: Ill
    number: int
    of: str = ""

    def __str__(self) -> str:
        return f"{self.ill} {self.of} {self.number}"


@dataclass(slots=True)
class Watches:
    """What passes, and what is done to it. Counts since it was made."""

    disturbance: Disturbance | None = None
    events: list[str] = field(default_factory=list)
    """The paths of the watches from which events came."""
    answers: list[str] = field(default_factory=list)
    """The paths of lists and reads that could be answered with what was there before."""
    hit: str | None = None
    """What was disturbed."""
    before: dict[str, bytes] = field(default_factory=dict)
    """The last answers, by path and query; a successor goes on with them."""
    _refusals: int = 0
    _stale: tuple[str, bytes, int] | None = None

    def refuses(self) -> bool:
        """Is this new watch refused?"""
        if self._refusals == 0:
            return False
        self._refusals -= 1
        return True

    def at_event(self, path: str, line: bytes) -> Ill | None:
        """What happens to this event of a watch."""
        if json.loads(line)["type"] in ("BOOKMARK", "ERROR"):
            return None
        self.events.append(path)
        due = self.disturbance
        if due is None or due.ill is Ill.STALE or not self._is_it(due, path, self.events):
            return None
        self.hit = f"{due.ill} event of {path.rpartition('/')[2]}"
        if due.ill is Ill.BROKEN:
            self._refusals = REFUSALS
        return due.ill

    def answered(self, path: str, query: str, body: bytes) -> bytes:
        """What is answered to a list or read in place of `body`."""
        key = f"{path}?{query}"
        known = self.before.get(key)
        if self._stale is not None and self._stale[0] == key and self._stale[2] > 0:
            _, old, left = self._stale
            self._stale = (key, old, left - 1)
            return old
        self.before[key] = body
        if known is None or _content(known) == _content(body):
            return body
        self.answers.append(path)
        due = self.disturbance
        if due is None or due.ill is not Ill.STALE or not self._is_it(due, path, self.answers):
            return body
        self.hit = f"stale answer of {path.rpartition('/')[2]}"
        self._stale = (key, known, STALE_ANSWERS - 1)
        return known

    def _is_it(self, due: Disturbance, path: str, seen: list[str]) -> bool:
        if self.hit is not None or not path.endswith(due.of):
            return False
        return sum(one.endswith(due.of) for one in seen) == due.number


async def passing(
    now: Callable[[], Watches], path: str, chunks: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """The lines of one watch that get through; ends where the watch is ended.

    `now`: a watch lives longer than what happens to one of its events.
    """
    buffer = b""
    async for chunk in chunks:
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            ill = now().at_event(path, line)
            if ill is Ill.GONE:
                yield GONE_LINE + b"\n"
            if ill in (Ill.GONE, Ill.BROKEN):
                return
            if ill is None:
                yield line + b"\n"


def _content(body: bytes) -> object:
    """Without the revision at which it was read: that differs though nothing changed."""
    try:
        found = json.loads(body)
    except ValueError:
        return body
    if found.get("kind", "").endswith("List"):
        found.pop("metadata", None)
    return found
