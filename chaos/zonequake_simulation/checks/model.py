"""A plain, independent model of the state that a partition's entries produce.

Keeps every version of every key, so that the answer at any index can be looked up. It has no size
limits: a simulated run is far below those of the store's tables.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from zonequake_protocol.client import RequestId, Value
from zonequake_store.raft.messages import Entry, EntryKind
from zonequake_store.state.commands import (
    AppendCommand,
    CasCommand,
    Command,
    PlainCommand,
    SetCommand,
    decode_command,
)
from zonequake_store.state.counters import Range
from zonequake_store.state.transactions import (
    CommitCommand,
    DecideCommand,
    ForgetCommand,
    PrepareCommand,
    RefuseCommand,
    RollbackCommand,
    StepKind,
    TransactionId,
    TransactionStep,
)

ModelValue = int | str | tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The outcome of a command: `applied` is None for one of the wrong type."""

    index: int
    term: int
    applied: bool | None
    found: ModelValue = None


class TransactionMoment(enum.Enum):
    """The effect of an entry on a transaction in one partition."""

    PREPARED = "prepared"
    DECIDED = "decided"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"  # having been prepared


@dataclass(frozen=True, slots=True)
class TransactionEvent:
    """A moment of a transaction; `decision` is the entry that made it DECIDED."""

    moment: TransactionMoment
    transaction: TransactionId
    decision: DecideCommand | None = None


@dataclass(slots=True)
class PreparedPart:
    """A part that is prepared from entry `since` on, until it is ended by entry `until`."""

    steps: tuple[TransactionStep, ...]
    since: int
    numbers: range
    until: int | None = None

    def writes(self, key: str) -> bool:
        """Returns whether the part is about to write this key."""
        return any(step.key == key and step.kind is not StepKind.READ for step in self.steps)


class Model:
    """A partition's history, built by applying its entries one by one."""

    def __init__(self) -> None:
        self.index = 0
        self.parts: dict[TransactionId, PreparedPart] = {}
        """All parts that were ever prepared."""
        self.counters: list[tuple[int, int, tuple[Range, ...]]] = [(0, 0, ())]
        """Watermarks and ranges, by index."""
        self._entries: list[Entry] = []
        self._versions: dict[str, list[tuple[int, ModelValue]]] = {}
        self._writes: dict[int, list[str]] = {}
        self._done: dict[tuple[str, int], CommandResult] = {}
        self._ended: set[TransactionId] = set()
        self._decisions: dict[TransactionId, tuple[int, int | None]] = {}
        """Decisions that concern other partitions: (index of the decision, index at which it was
        forgotten).
        """
        self._floors: dict[str, tuple[int, int]] = {}  # by coordinator: term, number
        self._lwm = self._hwm = 0
        self._ahead: set[int] = set()

    def forked(self, index: int) -> Model:
        """Returns a copy of the model up to `index`."""
        other = Model()
        for entry in self._entries[:index]:
            other.apply(entry)
        return other

    def apply(self, entry: Entry) -> list[TransactionEvent]:
        """Applies the next entry; one that was applied before changes nothing."""
        if entry.index != self.index + 1:
            return []
        self.index = entry.index
        self._entries.append(entry)
        happened: list[TransactionEvent] = []
        if entry.kind is EntryKind.COMMAND:
            happened = self._apply(entry.index, entry.term, decode_command(entry.data))
        self.counters.append((self._lwm, self._hwm, tuple(_ranges(self._ahead))))
        return happened

    @property
    def keys(self) -> Iterable[str]:
        """Returns all keys that were ever written."""
        return self._versions.keys()

    def value_at(self, key: str, index: int) -> ModelValue:
        """Returns the value of `key` when `index` was applied."""
        versions = self._versions.get(key, ())
        place = bisect_right(versions, index, key=lambda version: version[0])
        return versions[place - 1][1] if place else None

    @property
    def lists(self) -> dict[str, tuple[int, ...]]:
        """Returns the present lists, by key."""
        held = {key: versions[-1][1] for key, versions in self._versions.items()}
        return {key: value for key, value in held.items() if isinstance(value, tuple)}

    def written_by(self, first: int, last: int) -> set[str]:
        """Returns the keys that these entries wrote."""
        return {key for index in range(first, last + 1) for key in self._writes.get(index, ())}

    def writer_at(self, key: str, index: int) -> TransactionId | None:
        """Returns a transaction that is prepared at `index`, and about to write `key`."""
        for transaction, part in self.parts.items():
            is_open = part.since <= index and (part.until is None or index < part.until)
            if is_open and part.writes(key):
                return transaction
        return None

    def prepared_at(self, index: int) -> set[TransactionId]:
        """Returns the transactions that wait for their decision at `index`."""
        spans = {name: (part.since, part.until) for name, part in self.parts.items()}
        return _open_at(spans, index)

    def decided_at(self, index: int) -> set[TransactionId]:
        """Returns the decisions that are kept for other partitions at `index`."""
        return _open_at(self._decisions, index)

    def done_by(self, index: int) -> Iterator[tuple[str, int, CommandResult]]:
        """Returns clients, sequences and outcomes of all requests up to this entry."""
        for (client, sequence), done in self._done.items():
            if done.index <= index:
                yield client, sequence, done

    def done(self, request_id: RequestId) -> CommandResult | None:
        """Returns the outcome of a request, the first time that it was applied."""
        return self._done.get((request_id.client, request_id.sequence))

    @property
    def open(self) -> dict[TransactionId, PreparedPart]:
        """The transactions that are prepared and have not ended."""
        return {name: part for name, part in self.parts.items() if part.until is None}

    # ── entries ──────────────────────────────────────────────────────────────────────────────

    def _apply(self, index: int, term: int, command: Command) -> list[TransactionEvent]:
        match command:
            case SetCommand() | CasCommand() | AppendCommand():
                self._apply_plain(index, term, command)
            case PrepareCommand():
                return self._prepare(index, command)
            case DecideCommand():
                return self._decide(index, term, command)
            case RefuseCommand():
                return self._refuse(index, term, command)
            case CommitCommand():
                return self._end(command.transaction, index, commit=True)
            case RollbackCommand():
                return self._end(command.transaction, index, commit=False)
            case ForgetCommand():
                for transaction in command.transactions:
                    since, until = self._decisions.get(transaction, (index, index))
                    self._decisions[transaction] = (since, index if until is None else until)
        return []

    def _apply_plain(self, index: int, term: int, command: PlainCommand) -> None:
        name = command.request_id
        if name is not None and not self._is_new(name, index):
            return
        if self._is_locked([command.key]):
            return
        held = self.value_at(command.key, index)
        new = _changed(held, command)
        done = CommandResult(index, term, True)
        if new is not None:
            self._hwm += 1
            self._count(range(self._hwm, self._hwm + 1))
            self._write(index, command.key, new)
        elif isinstance(command, CasCommand) and not isinstance(held, tuple):
            done = CommandResult(index, term, False, held)
        else:
            done = CommandResult(index, term, None)
        if name is not None:
            self._done[name.client, name.sequence] = done

    def _prepare(self, index: int, command: PrepareCommand) -> list[TransactionEvent]:
        transaction = command.transaction
        self._reach(transaction, command.floor)
        late = (transaction.term, transaction.number) < self._floors[transaction.group]
        if late or transaction in self._ended or transaction in self.parts:
            return []
        if self._is_locked(step.key for step in command.steps):
            return []
        new = self._after(command.steps)
        if new is None:
            return []
        numbers = range(self._hwm + 1, self._hwm + 1 + len(new))
        self._hwm += len(new)
        self.parts[transaction] = PreparedPart(command.steps, index, numbers)
        return [TransactionEvent(TransactionMoment.PREPARED, transaction)]

    def _decide(self, index: int, term: int, command: DecideCommand) -> list[TransactionEvent]:
        transaction, name = command.transaction, command.request_id
        known = not self._is_new(name, index)
        if known or transaction not in self.open or transaction.term != term:
            return self._end(transaction, index, commit=False)
        self._done[name.client, name.sequence] = CommandResult(index, term, True)
        if command.others:
            self._decisions[transaction] = (index, None)
        decided = TransactionEvent(TransactionMoment.DECIDED, transaction, command)
        return [decided, *self._end(transaction, index, commit=True)]

    def _refuse(self, index: int, term: int, command: RefuseCommand) -> list[TransactionEvent]:
        name = command.request_id
        if self._is_new(name, index):
            done = CommandResult(index, term, False, command.found)
            self._done[name.client, name.sequence] = done
        return self._end(command.transaction, index, commit=False)

    def _end(
        self, transaction: TransactionId, index: int, *, commit: bool
    ) -> list[TransactionEvent]:
        self._reach(transaction, 0)
        self._ended.add(transaction)
        part = self.open.get(transaction)
        if part is None:
            return []
        part.until = index
        self._count(part.numbers)
        if not commit:
            return [TransactionEvent(TransactionMoment.ROLLED_BACK, transaction)]
        new = self._after(part.steps)
        assert new is not None, "what is locked does not change"
        for key, value in new.items():
            self._write(index, key, value)
        return [TransactionEvent(TransactionMoment.COMMITTED, transaction)]

    # ── parts of these ───────────────────────────────────────────────────────────────────────

    def _reach(self, transaction: TransactionId, floor: int) -> None:
        known = self._floors.get(transaction.group, (0, 0))
        self._floors[transaction.group] = max(known, (transaction.term, floor))

    def _is_new(self, name: RequestId, index: int) -> bool:
        """Returns whether a request wasn't applied before and may be now: its client must have seen
        nothing at this index, as it has if a reset took that entry away.
        """
        return (name.client, name.sequence) not in self._done and name.since < index

    def _is_locked(self, keys: Iterable[str]) -> bool:
        locked = {step.key for part in self.open.values() for step in part.steps}
        return not locked.isdisjoint(keys)

    def _after(self, steps: tuple[TransactionStep, ...]) -> dict[str, ModelValue] | None:
        """Returns what the written keys hold after these steps; None if one of them can't be
        done.
        """
        new: dict[str, ModelValue] = {}
        for step in steps:
            if step.kind is not StepKind.READ:
                held = new.get(step.key, self.value_at(step.key, self.index))
                new[step.key] = _changed(held, _plain(step))
                if new[step.key] is None:
                    return None
        return new

    def _write(self, index: int, key: str, value: ModelValue) -> None:
        self._versions.setdefault(key, []).append((index, value))
        self._writes.setdefault(index, []).append(key)

    def _count(self, numbers: range) -> None:
        self._ahead.update(numbers)
        while self._lwm + 1 in self._ahead:
            self._lwm += 1
            self._ahead.remove(self._lwm)


def _open_at(
    spans: Mapping[TransactionId, tuple[int, int | None]], index: int
) -> set[TransactionId]:
    return {
        name
        for name, (since, until) in spans.items()
        if since <= index and (until is None or index < until)
    }


def _changed(held: ModelValue, command: PlainCommand) -> ModelValue:
    """Returns what the key holds then; None if the command changes nothing."""
    match command:
        case AppendCommand(value=value):
            if held is None or isinstance(held, tuple):
                return (*(held or ()), value)
        case CasCommand(expected=expected, value=value):
            if held == expected and not isinstance(held, tuple):
                return value
        case SetCommand(value=value):
            if not isinstance(held, tuple):
                return value
    return None


def _plain(step: TransactionStep) -> PlainCommand:
    """Returns a writing step as a separate command."""
    assert step.value is not None, "it writes"
    if step.kind is StepKind.CAS:
        return CasCommand(step.key, step.expected, step.value)
    if step.kind is StepKind.APPEND:
        assert isinstance(step.value, int), "lists hold numbers"
        return AppendCommand(step.key, step.value)
    return SetCommand(step.key, step.value)


def _ranges(numbers: set[int]) -> list[Range]:
    """Returns numbers as ranges (number before the first, count)."""
    found: list[Range] = []
    for number in sorted(numbers):
        start, delta = found[-1] if found else (-1, 0)
        if start + delta + 1 == number and delta:
            found[-1] = (start, delta + 1)
        else:
            found.append((number - 1, 1))
    return found


def shown(value: Value) -> ModelValue:
    """Returns a reply's value in the model's form."""
    return tuple(value) if isinstance(value, list) else value
