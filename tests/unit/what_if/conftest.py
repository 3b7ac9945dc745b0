"""Asks what-if a question, and reads the answer at any time of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from zonequake_ctl.what_if.explain import because
from zonequake_ctl.what_if.lines import line
from zonequake_ctl.what_if.reading.fields import read
from zonequake_ctl.what_if.timeline import run

Line = dict[str, Any]


class Answer:
    """The lines of an answer, as a reader of the command's output gets them."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines

    def at(self, seconds: float) -> Line:
        """The state at that time, after all that happened then."""
        return [one for one in self.lines if one["at"] <= seconds][-1]

    def keys(self, seconds: float, partition: int = 0) -> Line:
        """A partition's keys at that time."""
        return cast("Line", self.at(seconds)["partitions"][str(partition)])

    def sets(self, seconds: float, partition: int = 0) -> tuple[str, str, str]:
        """Stable, pending and planned at that time as words: ABC; A! is forced, AB* fromReset."""
        keys = self.keys(seconds, partition)
        return "".join(keys["stable"] or ""), _word(keys["pending"]), _word(keys["planned"])

    def actions(self, seconds: float | None = None) -> list[str]:
        """What nodes were told at that time, or ever: "changePeers A ABD"."""
        chosen = [one for one in self.lines if seconds is None or one["at"] == seconds]
        return [
            f"{a['do']} {a['node']} {''.join(a.get('peers', []))}".strip()
            for one in chosen
            for a in one["actions"]
        ]

    def changes(self) -> list[float]:
        """The times at which anything changed."""
        return [one["at"] for one in self.lines]


def _word(found: Line | None) -> str:
    if found is None:
        return ""
    flag = "!" if found["force"] else "*" if found["fromReset"] else ""
    return "".join(found["nodes"]) + flag


Ask = Callable[..., Answer]


@pytest.fixture
def ask() -> Ask:
    """The answer to a file's text; `explain` as on the command line."""

    def answer(text: str, *, explain: bool = False) -> Answer:
        lines = []
        for step in run(read(text)):
            shown = line(step.cause, step.state, step.actions)
            if explain:
                shown["because"] = because(step)
            lines.append(json.loads(msgspec.json.encode(shown)))
        return Answer(lines)

    return answer
