"""What a partition's entries come to, written again in the plainest way.

Keeps every version of every key, so that an answer about any index can be looked up. It knows no
bounds: a simulated run is far below those of the store's table of outcomes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from zonequake_store.client_protocol import RequestId, Value
from zonequake_store.partition import (
    AppendCommand,
    CasCommand,
    Command,
    PlainCommand,
    SetCommand,
    decode_command,
)
from zonequake_store.raft.messages import Entry, EntryKind

ModelValue = int | str | tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Done:
    """What a command came to: `applied` is None for one of the wrong type."""

    index: int
    term: int
    applied: bool | None
    found: ModelValue = None


class Model:
    """A partition's history as one applied it entry by entry."""

    def __init__(self) -> None:
        self.index = 0
        self.updates = 0
        self._versions: dict[str, list[tuple[int, ModelValue]]] = {}
        self._done: dict[tuple[str, int], Done] = {}

    def forked(self, index: int) -> Model:
        """The same up to `index`, without what came behind."""
        other = Model()
        other.index = min(self.index, index)
        other._versions = {
            key: [version for version in versions if version[0] <= index]
            for key, versions in self._versions.items()
        }
        other._done = {name: done for name, done in self._done.items() if done.index <= index}
        other.updates = sum(len(versions) for versions in other._versions.values())
        return other

    def apply(self, entry: Entry) -> None:
        """Apply the next entry; one that was applied before changes nothing."""
        if entry.index != self.index + 1:
            return
        self.index = entry.index
        if entry.kind is EntryKind.COMMAND:
            self._apply(entry.index, entry.term, decode_command(entry.data))

    @property
    def keys(self) -> Iterable[str]:
        """All that were ever written."""
        return self._versions.keys()

    def value_at(self, key: str, index: int) -> ModelValue:
        """What `key` held when `index` was applied."""
        versions = self._versions.get(key, ())
        place = bisect_right(versions, index, key=lambda version: version[0])
        return versions[place - 1][1] if place else None

    def done(self, request_id: RequestId) -> Done | None:
        """What a request came to, the first time."""
        return self._done.get((request_id.client, request_id.sequence))

    def _apply(self, index: int, term: int, command: Command) -> None:
        if isinstance(command, SetCommand | CasCommand | AppendCommand):
            self._apply_plain(index, term, command)

    def _apply_plain(self, index: int, term: int, command: PlainCommand) -> None:
        name = command.request_id
        if name is not None and (name.client, name.sequence) in self._done:
            return
        held = self.value_at(command.key, index)
        new: ModelValue = None
        done = Done(index, term, True)
        match command:
            case AppendCommand(value=value):
                if held is None or isinstance(held, tuple):
                    new = (*(held or ()), value)
            case CasCommand(expected=expected, value=value):
                if not isinstance(held, tuple):
                    if held == expected:
                        new = value
                    else:
                        done = Done(index, term, False, held)
            case SetCommand(value=value):
                if not isinstance(held, tuple):
                    new = value
        if new is not None:
            self._versions.setdefault(command.key, []).append((index, new))
            self.updates += 1
        elif done.applied:
            done = Done(index, term, None)
        if name is not None:
            self._done[name.client, name.sequence] = done


def shown(value: Value) -> ModelValue:
    """A reply's value as the model has it."""
    return tuple(value) if isinstance(value, list) else value
