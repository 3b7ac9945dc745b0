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
from zonequake_store.transactions import (
    MAX_PREPARED,
    CommitCommand,
    DecideCommand,
    Decision,
    ForgetCommand,
    PrepareCommand,
    Prepared,
    ReadValue,
    RefuseCommand,
    RollbackCommand,
    Step,
    StepKind,
    TransactionCommand,
    TransactionId,
    TransactionTable,
    keys_written,
)

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


PlainCommand = SetCommand | CasCommand | AppendCommand
Command = PlainCommand | TransactionCommand

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
    LOCKED = 4  # a transaction that is prepared holds a key
    LATE = 5  # a part of a transaction that has ended here
    FULL = 6  # more transactions are prepared than a partition may have


class Outcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a command came to, and where in the partition's order.

    `value` is the value written; of an UNEQUAL cas it is the value found; of LOCKED, WRONG_TYPE and
    LATE in a transaction it says more. `results`: of a transaction, one for each step, and None
    for a step that reads nothing.
    """

    verdict: Verdict
    term: int
    index: int
    value: int | str | tuple[int, ...] | None = None
    results: tuple[ReadValue, ...] | None = None


class AppliedState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a replica has applied its log; stored in one transaction with the cells.

    `last_user_index` and `last_configuration_index` are the last applied entries of their kinds
    (lastUserCmdIdx and lastCfgIdx of the document `high-availability`), with their terms: an index
    alone compares nothing across lineages. `last_configuration_index` moves only when peers or
    token do, not when a new leader repeats its configuration.
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
    last_user_term: int = 0
    last_configuration_term: int = 0


class Session(msgspec.Struct, array_like=True):
    """A client's outcomes by sequence, in ascending order; all of `floor` and below are forgotten.

    `mark`: what an earlier session of this client did, if any, was applied below this index.
    """

    last_index: int = 0
    floor: int = 0
    results: dict[int, Outcome] = {}
    mark: int = 0

    def copied(self) -> Session:
        """As it is now; the outcomes themselves never change."""
        return Session(self.last_index, self.floor, self.results.copy(), self.mark)


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
        results, sequence = session.results, request_id.sequence
        is_late = bool(results) and sequence < next(reversed(results))
        results[sequence] = outcome
        if is_late:
            session.results = results = dict(sorted(results.items()))
        if len(results) > MAX_RESULTS_PER_CLIENT:
            session.floor = next(iter(results))
            del results[session.floor]
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
        transactions: TransactionTable,
        state: AppliedState,
        deduplicate: bool = True,
    ) -> None:
        self._cells = cells
        self.clients = clients
        self.transactions = transactions
        self.index = state.index
        self.term = state.term
        self.lineage = state.lineage
        self.last_user_index = state.last_user_index
        self.last_user_term = state.last_user_term
        self.last_configuration_index = state.last_configuration_index
        self.last_configuration_term = state.last_configuration_term
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
            self.last_user_term,
            self.last_configuration_term,
        )

    def read(self, key: str) -> Cell | None:
        """The cell of a key as of `index`."""
        return self._cells.get(key)

    def apply(self, term: int, index: int, command: Command) -> Outcome:
        """Apply the command of entry (term, index), which follows the last one applied."""
        self._advance(term, index)
        self.last_user_term, self.last_user_index = term, index
        if not isinstance(command, (SetCommand, CasCommand, AppendCommand)):
            return self._transact(term, index, command)
        request_id = command.request_id
        if request_id is not None and self.deduplicate:
            known = self.clients.lookup(request_id, term, index)
            if known is not None:
                return known
            outcome = self._execute(term, index, command)
            if outcome.verdict is not Verdict.LOCKED:  # not an outcome: the client tries again
                self.clients.remember(request_id, outcome)
            return outcome
        return self._execute(term, index, command)

    def skip(self, term: int, index: int, *, configuration: bool) -> None:
        """Pass over an entry that holds no command. `configuration`: it changes peers or token."""
        self._advance(term, index)
        if configuration:
            self.last_configuration_term, self.last_configuration_index = term, index

    def foresee(self, term: int, index: int, command: PlainCommand) -> Outcome:
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

    def _execute(self, term: int, index: int, command: PlainCommand) -> Outcome:
        locks = self.transactions.locks
        if locks and command.key in locks:
            holder = str(locks[command.key].holder)
            return Outcome(Verdict.LOCKED, term, index, holder)
        outcome, cell = _decide(self._cells.get(command.key), term, index, command)
        if cell is not None:
            self._cells.put(command.key, cell)
            self.counter.count()
        return outcome

    # ── transactions ─────────────────────────────────────────────────────────────────────────

    def is_written(self, key: str) -> bool:
        """Whether a prepared transaction is about to write the key."""
        lock = self.transactions.locks.get(key)
        return lock is not None and lock.writes

    def judge(self, term: int, index: int, steps: tuple[Step, ...]) -> Outcome:
        """What the steps of a part come to here and now, without applying them."""
        return self._judge(term, index, steps)[0]

    def _transact(self, term: int, index: int, command: TransactionCommand) -> Outcome:
        match command:
            case PrepareCommand():
                return self._prepare(term, index, command)
            case DecideCommand():
                return self._conclude(term, index, command)
            case RefuseCommand():
                return self._refuse(term, index, command)
            case CommitCommand():
                self._commit(term, index, command.transaction)
            case RollbackCommand():
                self._roll_back(command.transaction)
            case ForgetCommand():
                for transaction in command.transactions:
                    self.transactions.forget(transaction)
        return Outcome(Verdict.DONE, term, index)

    def _prepare(self, term: int, index: int, command: PrepareCommand) -> Outcome:
        transaction, table = command.transaction, self.transactions
        table.raise_floor(transaction, command.floor)
        known = table.prepared.get(transaction)
        if known is not None:
            return self.judge(term, index, known.steps)  # its keys are locked: the same as before
        if table.is_late(transaction):
            return Outcome(Verdict.LATE, term, index, str(transaction))
        lock = table.holder((step.key for step in command.steps), transaction)
        if lock is not None:
            return Outcome(Verdict.LOCKED, term, index, str(lock.holder))
        if len(table.prepared) >= MAX_PREPARED:
            return Outcome(Verdict.FULL, term, index)
        outcome = self.judge(term, index, command.steps)
        if outcome.verdict is Verdict.DONE:
            delta = len(keys_written(command.steps))
            start = self.counter.reserve(delta) if delta else self.counter.hwm
            table.prepare(Prepared(transaction, command.nodes, command.steps, start, delta, index))
        return outcome

    def _conclude(self, term: int, index: int, command: DecideCommand) -> Outcome:
        """Commit, unless the request was answered before or this decision isn't the leader's own.

        Committed is exactly what is DONE at `index`; else this transaction is aborted.
        """
        transaction, table = command.transaction, self.transactions
        known = self.clients.lookup(command.request_id, term, index)
        if known is not None and self.deduplicate:
            self._roll_back(transaction)
            return known
        if transaction not in table.prepared or transaction.term != term:
            self._roll_back(transaction)
            return Outcome(Verdict.LATE, term, index, str(transaction))
        self._commit(term, index, transaction)
        outcome = Outcome(Verdict.DONE, term, index, results=command.results)
        if known is None:
            self.clients.remember(command.request_id, outcome)
        if command.others:
            table.decide(Decision(transaction, command.others))
        return outcome

    def _refuse(self, term: int, index: int, command: RefuseCommand) -> Outcome:
        """Give a transaction up for good, unless the request was answered before."""
        self._roll_back(command.transaction)
        known = self.clients.lookup(command.request_id, term, index)
        if known is not None and self.deduplicate:
            return known
        outcome = Outcome(Verdict.UNEQUAL, term, index, command.found)
        if known is None:
            self.clients.remember(command.request_id, outcome)
        return outcome

    def _commit(self, term: int, index: int, transaction: TransactionId) -> None:
        part = self.transactions.end(transaction)
        if part is None:
            return  # it was committed before
        outcome, cells = self._judge(term, index, part.steps)
        assert outcome.verdict is Verdict.DONE, "its keys were locked since it was judged"
        for key, cell in cells.items():
            self._cells.put(key, cell)
        if part.delta:
            self.counter.update(part.start, part.delta)

    def _roll_back(self, transaction: TransactionId) -> None:
        part = self.transactions.end(transaction)
        if part is not None and part.delta:
            self.counter.update(part.start, part.delta)

    def _judge(
        self, term: int, index: int, steps: tuple[Step, ...]
    ) -> tuple[Outcome, dict[str, Cell]]:
        """The steps' outcome, one after the other, and the cells to put: none if one of them does
        not come to DONE."""
        cells: dict[str, Cell] = {}
        results: list[ReadValue] = []
        for step in steps:
            found = cells.get(step.key) or self._cells.get(step.key)
            if step.kind is StepKind.READ:
                results.append(None if found is None else found.value)
                continue
            outcome, cell = _decide(found, term, index, _command_of(step))
            if cell is None:
                return outcome, {}
            cells[step.key] = cell
            results.append(None)
        return Outcome(Verdict.DONE, term, index, results=tuple(results)), cells


def _command_of(step: Step) -> PlainCommand:
    key, value = step.key, step.value
    match step.kind:
        case StepKind.WRITE if value is not None:
            return SetCommand(key, value, step.filler)
        case StepKind.CAS if value is not None:
            return CasCommand(key, step.expected, value)
        case StepKind.APPEND if isinstance(value, int):
            return AppendCommand(key, value)
        case _:
            raise ValueError(f"{step} writes nothing")


def _decide(
    cell: Cell | None, term: int, index: int, command: PlainCommand
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
