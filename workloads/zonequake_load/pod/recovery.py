"""Recovery of a restarted load pod from the history that its predecessors left."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from zonequake_load.operation import TRANSACTION, Function, Type
from zonequake_load.pod.history import SUFFIX, OperationRole


class _KeyOfStep(msgspec.Struct):
    key: str


class _Line(msgspec.Struct):
    type: Type
    f: Literal["read", "write", "cas", "append", "transaction"]
    process: int
    role: OperationRole
    partition: int
    key: str | None = None
    steps: list[_KeyOfStep] = []


@dataclass(slots=True, kw_only=True)
class RecoveredHistory:
    """`touched`: key -> partition of every invoke. `written`: keys with an acknowledged write.

    `finally_read`: the processes whose final read of a key was ok. `damaged`: files with an
    unreadable line that is not their torn last one.
    """

    touched: dict[str, int] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    finally_read: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    damaged: list[str] = field(default_factory=list)


def read_past(directory: Path) -> RecoveredHistory:
    """Read all history files in `directory`. Raises OSError."""
    recovered = RecoveredHistory()
    decoder = msgspec.json.Decoder(_Line)
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        with path.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # torn by a crash
                try:
                    event = decoder.decode(line)
                    if (event.key is None) is not (event.f == TRANSACTION):
                        raise msgspec.ValidationError
                except msgspec.MsgspecError:
                    recovered.damaged.append(path.name)
                    continue
                _take(recovered, event)
    return recovered


def _take(recovered: RecoveredHistory, event: _Line) -> None:
    for step in event.steps:
        recovered.touched[step.key] = event.partition
    if event.key is None:
        return
    recovered.touched[event.key] = event.partition
    if event.type is not Type.OK:
        return
    if event.f == Function.WRITE.value:
        recovered.written.add(event.key)
    elif event.role is OperationRole.FINAL:
        recovered.finally_read[event.key].add(event.process)
