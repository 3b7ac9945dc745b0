"""A partition's state machine: what a committed command does.

Pure and deterministic: every replica that applies the same entries in the same order holds the
same cells, the same client table and gives the same outcomes. It knows no clock and no disk; the
cells come through the `Cells` protocol.

A key holds either a register (integer or text) or a list (append). Which one is decided by its
first write; a command of the other kind is refused (`WRONG_TYPE`) and changes nothing.

**Once.** A command with a `request_id` is applied once; its repetition gets the first outcome, with
the first term and index. The table of outcomes is bounded, and evicts by rules that depend on the
entries alone, so that all replicas evict alike: per client the lowest sequences go first, and the
client that was quiet for longest goes as a whole. A repetition whose outcome was evicted is
`FORGOTTEN`: it is not applied again, and the client learns that nothing is known.

    in results                         ──► the first outcome
    sequence ≤ floor, or since < mark  ──► FORGOTTEN
    else                               ──► applied now

The **mark** is an index: whatever was evicted with a whole client was applied below it. A request
with `since` ≥ mark was first sent when its client had seen entry `since`, so that it can only have
been applied behind it: if it had been, its client would still be here. The mark is read off the
table: 0 until that is full, then the index at which the quietest client was last heard. A client
that comes when it is full keeps the mark of that moment. For example, with room for two clients:

    1: a#1   2: b#1   3: c#1 since 2 evicts a   4: a#1 since 0 again ──► FORGOTTEN, as 0 < 2
    5: a#2 since 4 evicts b, mark 2             6: a#1 since 0 again ──► FORGOTTEN, as 0 < 2
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Protocol

import msgspec
import xxhash

from zonequake_store.client_protocol import RequestId
from zonequake_store.counters import PartitionUpdateCounter, Range
from zonequake_store.lineage import lineage_of

# 4,096 clients times a few results keep a group's table in the low megabytes.
MAX_CLIENTS = 4096
MAX_RESULTS_PER_CLIENT = 256

# LMDB's keys hold 511 bytes, of which a data number and a kind take 9.
MAX_KEY_BYTES = 480

CellValue = int | str | tuple[int, ...]


class Cell(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One key's content, never changed in place. `index`: of the entry that wrote it last."""

    value: CellValue
    index: int
    filler: bytes = b""


class Cells(Protocol):
    """The key-value store under a state machine."""

    def get(self, key: str) -> Cell | None:
        """The cell of `key`, or None."""

    def put(self, key: str, cell: Cell) -> None:
        """Replace the cell of `key`."""


class SetCommand(msgspec.Struct, frozen=True, array_like=True, tag="w", gc=False):
    """Set a register."""

    key: str
    value: int | str
    filler: bytes = b""
    request_id: RequestId | None = None


class CasCommand(msgspec.Struct, frozen=True, array_like=True, tag="c", gc=False):
    """Set a register if it holds `expected` (None: absent)."""

    key: str
    expected: int | str | None
    value: int | str
    request_id: RequestId | None = None


class AppendCommand(msgspec.Struct, frozen=True, array_like=True, tag="a", gc=False):
    """Append an element to a list."""

    key: str
    value: int
    request_id: RequestId | None = None


Command = SetCommand | CasCommand | AppendCommand

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)
encode_cell = _encoder.encode
decode_cell = msgspec.msgpack.Decoder(Cell).decode


def encode_command(command: Command) -> bytes:
    """A command as the data of a log entry."""
    return _encoder.encode(command)


def decode_command(data: bytes) -> Command:
    """The command in a log entry's data; raises msgspec.DecodeError."""
    return _decoder.decode(data)


class Verdict(enum.IntEnum):
    """What applying a command came to."""

    DONE = 0
    UNEQUAL = 1  # a cas that found another value
    WRONG_TYPE = 2
    FORGOTTEN = 3


class Outcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a command came to, and where in the partition's order.

    `value` is the value written; of an UNEQUAL cas it is the value found.
    """

    verdict: Verdict
    term: int
    index: int
    value: int | str | tuple[int, ...] | None = None


class AppliedState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a replica has applied its log; stored in one transaction with the cells.

    `last_user_index` and `last_configuration_index` are the last applied entries of their kinds;
    `lwm`, `hwm` and `ranges` are the update counter.
    """

    index: int = 0
    term: int = 0
    lineage: int = 0
    last_user_index: int = 0
    last_configuration_index: int = 0
    lwm: int = 0
    hwm: int = 0
    ranges: tuple[Range, ...] = ()


class Session(msgspec.Struct, array_like=True):
    """A client's remembered outcomes by sequence; all of `floor` and below are forgotten.

    `mark`: what an earlier session of this client did, if any, was applied below this index.
    """

    last_index: int = 0
    floor: int = 0
    results: dict[int, Outcome] = {}
    mark: int = 0


class ClientTable:
    """Outcomes of requests with an id: bounded, and the same on every replica."""

    def __init__(self, sessions: Iterable[tuple[str, Session]] = ()) -> None:
        # Ordered by the entry that used a session last: the first is the longest quiet. Indexes
        # are unique, so that a table read back from disk has the order it had.
        self.sessions: dict[str, Session] = dict(
            sorted(sessions, key=lambda item: item[1].last_index)
        )
        self.changed: set[str] = set()
        self.evicted: set[str] = set()

    def lookup(self, request_id: RequestId, term: int, index: int) -> Outcome | None:
        """The first outcome of this request, FORGOTTEN, or None if it is new."""
        session = self.sessions.get(request_id.client)
        if session is None:
            forgotten = request_id.since < self._mark()
        elif request_id.sequence in session.results:
            return session.results[request_id.sequence]
        else:
            forgotten = request_id.sequence <= session.floor or request_id.since < session.mark
        return Outcome(Verdict.FORGOTTEN, term, index) if forgotten else None

    def _mark(self) -> int:
        """What was evicted with whole clients was applied below this index."""
        if len(self.sessions) < MAX_CLIENTS:
            return 0
        return next(iter(self.sessions.values())).last_index

    def remember(self, request_id: RequestId, outcome: Outcome) -> None:
        """Note the outcome of a request that `lookup` called new; evict what is too much."""
        client = request_id.client
        session = self.sessions.pop(client, None)
        if session is None:
            session = Session(results={}, mark=self._mark())
            if len(self.sessions) >= MAX_CLIENTS:
                quietest = next(iter(self.sessions))
                del self.sessions[quietest]
                self.changed.discard(quietest)
                self.evicted.add(quietest)
        self.sessions[client] = session
        session.last_index = outcome.index
        session.results[request_id.sequence] = outcome
        if len(session.results) > MAX_RESULTS_PER_CLIENT:
            session.floor = min(session.results)
            del session.results[session.floor]
        self.changed.add(client)
        self.evicted.discard(client)


class Partition:
    """One partition's applied state.

    `deduplicate=False` is the planted fault `forget-request-id`: repetitions are applied again.
    """

    def __init__(
        self,
        cells: Cells,
        *,
        clients: ClientTable,
        state: AppliedState,
        deduplicate: bool = True,
    ) -> None:
        self._cells = cells
        self.clients = clients
        self.index = state.index
        self.term = state.term
        self.lineage = state.lineage
        self.last_user_index = state.last_user_index
        self.last_configuration_index = state.last_configuration_index
        self.counter = PartitionUpdateCounter(state.lwm, state.hwm, state.ranges)
        self.deduplicate = deduplicate

    @property
    def state(self) -> AppliedState:
        """How far this replica is."""
        return AppliedState(
            self.index,
            self.term,
            self.lineage,
            self.last_user_index,
            self.last_configuration_index,
            self.counter.lwm,
            self.counter.hwm,
            self.counter.ranges,
        )

    def read(self, key: str) -> Cell | None:
        """The cell of a key as of `index`."""
        return self._cells.get(key)

    def apply(self, term: int, index: int, command: Command) -> Outcome:
        """Apply the command of entry (term, index), which follows the last one applied."""
        self._advance(term, index)
        self.last_user_index = index
        request_id = command.request_id
        if request_id is not None and self.deduplicate:
            known = self.clients.lookup(request_id, term, index)
            if known is not None:
                return known
            outcome = self._execute(term, index, command)
            self.clients.remember(request_id, outcome)
            return outcome
        return self._execute(term, index, command)

    def skip(self, term: int, index: int, *, configuration: bool) -> None:
        """Pass over an entry that holds no command."""
        self._advance(term, index)
        if configuration:
            self.last_configuration_index = index

    def foresee(self, term: int, index: int, command: Command) -> Outcome:
        """What the command would come to if it were applied now, without applying it.

        Only for the planted fault `ack-before-commit`.
        """
        cell = self._cells.get(command.key)
        return _decide(cell, term, index, command)[0]

    def _advance(self, term: int, index: int) -> None:
        if index != self.index + 1:
            raise ValueError(f"entry {index} cannot be applied after entry {self.index}")
        self.index = index
        if term != self.term:
            self.term = term
            self.lineage = lineage_of(term)

    def _execute(self, term: int, index: int, command: Command) -> Outcome:
        outcome, cell = _decide(self._cells.get(command.key), term, index, command)
        if cell is not None:
            self._cells.put(command.key, cell)
            self.counter.count()
        return outcome


def _decide(
    cell: Cell | None, term: int, index: int, command: Command
) -> tuple[Outcome, Cell | None]:
    """The outcome of a command on a key's cell, and the cell to put in its place."""
    found = None if cell is None else cell.value
    holds_list = type(found) is tuple
    if isinstance(command, AppendCommand):
        if cell is not None and not holds_list:
            return Outcome(Verdict.WRONG_TYPE, term, index), None
        longer = (*found, command.value) if isinstance(found, tuple) else (command.value,)
        return Outcome(Verdict.DONE, term, index, command.value), Cell(longer, index)
    if holds_list:
        return Outcome(Verdict.WRONG_TYPE, term, index), None
    if isinstance(command, CasCommand):
        # 1 == True in Python, but the wire holds integers and text alone.
        if found != command.expected:
            return Outcome(Verdict.UNEQUAL, term, index, found), None
        filler = b"" if cell is None else cell.filler
        return Outcome(Verdict.DONE, term, index, command.value), Cell(command.value, index, filler)
    return Outcome(Verdict.DONE, term, index, command.value), Cell(
        command.value, index, command.filler
    )


def digest(cells: Iterable[tuple[str, bytes]]) -> str:
    """A 128-bit digest of a partition's content, equal on replicas with equal content.

    `cells` are keys with encoded cells in the order of the keys' UTF-8 bytes.
    """
    state = xxhash.xxh3_128()
    for key, encoded in cells:
        raw = key.encode()
        state.update(len(raw).to_bytes(4, "big"))
        state.update(raw)
        state.update(len(encoded).to_bytes(4, "big"))
        state.update(encoded)
    return state.hexdigest()
