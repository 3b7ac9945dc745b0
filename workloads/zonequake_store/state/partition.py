"""A partition's state machine: what a committed command does.

Pure and deterministic: every replica that applies the same entries in the same order holds the
same cells, the same client table and gives the same outcomes. It knows no clock and no disk; the
cells come through the `Cells` protocol.

A key holds either a register (integer or text) or a list (append). Which one is decided by its
first write; a command of the other kind is refused (`WRONG_TYPE`) and changes nothing.
A command with a `request_id` is applied once (module `client_table`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec
import xxhash

from zonequake_protocol.terms import lineage_of
from zonequake_store.state.client_table import ClientTable
from zonequake_store.state.commands import (
    AppendCommand,
    CasCommand,
    CellValue,
    Command,
    CommandOutcome,
    CommandVerdict,
    PlainCommand,
    SetCommand,
    is_user_command,
)
from zonequake_store.state.counters import PartitionUpdateCounter, Range
from zonequake_store.state.transactions import (
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
    StepKind,
    TransactionCommand,
    TransactionId,
    TransactionStep,
    TransactionTable,
    keys_written,
)

# LMDB's keys hold 511 bytes, of which a data number and a kind take 9.
MAX_KEY_BYTES = 480


class Cell(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One key's content, never changed in place. `index`: of the entry that wrote it last."""

    value: CellValue
    index: int
    filler: bytes = b""


class Cells(Protocol):
    """The key-value store under a state machine."""

    def get(self, key: str) -> Cell | None:
        """Returns the cell of `key`, or None."""

    def put(self, key: str, cell: Cell) -> None:
        """Replace the cell of `key`."""


encode_cell = msgspec.msgpack.Encoder().encode
decode_cell = msgspec.msgpack.Decoder(Cell).decode


class AppliedState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The applied part of a replica's log; stored in one transaction with the cells.

    `last_user_index` and `last_configuration_index` are the last applied entries of their kinds
    (lastUserCmdIdx and lastCfgIdx of the document `high-availability`), with their terms: an index
    alone compares nothing across lineages. A leader's bookkeeping is no user entry
    (`commands.is_user_command`). `last_configuration_index` moves only when peers or
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


class StateMachine:
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
        """The applied state of this replica."""
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
        """Returns the cell of a key as of `index`."""
        return self._cells.get(key)

    def apply(self, term: int, index: int, command: Command) -> CommandOutcome:
        """Apply the command of entry (term, index), which follows the last one applied."""
        self._advance(term, index)
        if is_user_command(command):
            self.last_user_term, self.last_user_index = term, index
        if not isinstance(command, (SetCommand, CasCommand, AppendCommand)):
            return self._transact(term, index, command)
        request_id = command.request_id
        if request_id is not None and self.deduplicate:
            known = self.clients.lookup(request_id, term, index)
            if known is not None:
                return known
            outcome = self._execute(term, index, command)
            if (
                outcome.verdict is not CommandVerdict.LOCKED
            ):  # not an outcome: the client tries again
                self.clients.remember(request_id, outcome)
            return outcome
        return self._execute(term, index, command)

    def skip(self, term: int, index: int, *, configuration: bool) -> None:
        """Pass over an entry that holds no command. `configuration`: it changes peers or token."""
        self._advance(term, index)
        if configuration:
            self.last_configuration_term, self.last_configuration_index = term, index

    def foresee(self, term: int, index: int, command: PlainCommand) -> CommandOutcome:
        """Returns the outcome that the command would have now, without applying it.

        Only for planted faults: `ack-before-commit`, `order-by-wall-clock`.
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

    def _execute(self, term: int, index: int, command: PlainCommand) -> CommandOutcome:
        locks = self.transactions.locks
        if locks and command.key in locks:
            holder = str(locks[command.key].holder)
            return CommandOutcome(CommandVerdict.LOCKED, term, index, holder)
        outcome, cell = _decide(self._cells.get(command.key), term, index, command)
        if cell is not None:
            self._cells.put(command.key, cell)
            self.counter.count()
        return outcome

    # ── transactions ─────────────────────────────────────────────────────────────────────────

    def is_written(self, key: str) -> bool:
        """Returns whether a prepared transaction is about to write the key."""
        lock = self.transactions.locks.get(key)
        return lock is not None and lock.writes

    def judge(self, term: int, index: int, steps: tuple[TransactionStep, ...]) -> CommandOutcome:
        """Returns the outcome that the steps of a part would have here and now, without applying
        them.
        """
        return self._judge(term, index, steps)[0]

    def _transact(self, term: int, index: int, command: TransactionCommand) -> CommandOutcome:
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
        return CommandOutcome(CommandVerdict.DONE, term, index)

    def _prepare(self, term: int, index: int, command: PrepareCommand) -> CommandOutcome:
        transaction, table = command.transaction, self.transactions
        table.raise_floor(transaction, command.floor)
        known = table.prepared.get(transaction)
        if known is not None:
            return self.judge(term, index, known.steps)  # its keys are locked: the same as before
        if table.is_late(transaction):
            return CommandOutcome(CommandVerdict.LATE, term, index, str(transaction))
        lock = table.holder((step.key for step in command.steps), transaction)
        if lock is not None:
            return CommandOutcome(CommandVerdict.LOCKED, term, index, str(lock.holder))
        if len(table.prepared) >= MAX_PREPARED:
            return CommandOutcome(CommandVerdict.FULL, term, index)
        outcome = self.judge(term, index, command.steps)
        if outcome.verdict is CommandVerdict.DONE:
            delta = len(keys_written(command.steps))
            start = self.counter.reserve(delta) if delta else self.counter.hwm
            table.prepare(Prepared(transaction, command.nodes, command.steps, start, delta, index))
        return outcome

    def _conclude(self, term: int, index: int, command: DecideCommand) -> CommandOutcome:
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
            return CommandOutcome(CommandVerdict.LATE, term, index, str(transaction))
        self._commit(term, index, transaction)
        outcome = CommandOutcome(CommandVerdict.DONE, term, index, results=command.results)
        if known is None:
            self.clients.remember(command.request_id, outcome)
        if command.others:
            table.decide(Decision(transaction, command.others))
        return outcome

    def _refuse(self, term: int, index: int, command: RefuseCommand) -> CommandOutcome:
        """Gives a transaction up permanently, unless the request was answered before."""
        self._roll_back(command.transaction)
        known = self.clients.lookup(command.request_id, term, index)
        if known is not None and self.deduplicate:
            return known
        outcome = CommandOutcome(CommandVerdict.UNEQUAL, term, index, command.found)
        if known is None:
            self.clients.remember(command.request_id, outcome)
        return outcome

    def _commit(self, term: int, index: int, transaction: TransactionId) -> None:
        part = self.transactions.end(transaction)
        if part is None:
            return  # it was committed before
        outcome, cells = self._judge(term, index, part.steps)
        assert outcome.verdict is CommandVerdict.DONE, "its keys were locked since it was judged"
        for key, cell in cells.items():
            self._cells.put(key, cell)
        if part.delta:
            self.counter.update(part.start, part.delta)

    def _roll_back(self, transaction: TransactionId) -> None:
        part = self.transactions.end(transaction)
        if part is not None and part.delta:
            self.counter.update(part.start, part.delta)

    def _judge(
        self, term: int, index: int, steps: tuple[TransactionStep, ...]
    ) -> tuple[CommandOutcome, dict[str, Cell]]:
        """Decides the steps, one after the other: returns their outcome and the cells to put, none
        if one of them does not come to DONE.
        """
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
        return CommandOutcome(CommandVerdict.DONE, term, index, results=tuple(results)), cells


def _command_of(step: TransactionStep) -> PlainCommand:
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
) -> tuple[CommandOutcome, Cell | None]:
    """Decides a command on a key's cell: returns its outcome, and the cell to put in its place."""
    found = None if cell is None else cell.value
    holds_list = type(found) is tuple
    if isinstance(command, AppendCommand):
        if cell is not None and not holds_list:
            return CommandOutcome(CommandVerdict.WRONG_TYPE, term, index), None
        longer = (*found, command.value) if isinstance(found, tuple) else (command.value,)
        return CommandOutcome(CommandVerdict.DONE, term, index, command.value), Cell(longer, index)
    if holds_list:
        return CommandOutcome(CommandVerdict.WRONG_TYPE, term, index), None
    if isinstance(command, CasCommand):
        # 1 == True in Python, but the wire holds integers and text alone.
        if found != command.expected:
            return CommandOutcome(CommandVerdict.UNEQUAL, term, index, found), None
        filler = b"" if cell is None else cell.filler
        return CommandOutcome(CommandVerdict.DONE, term, index, command.value), Cell(
            command.value, index, filler
        )
    return CommandOutcome(CommandVerdict.DONE, term, index, command.value), Cell(
        command.value, index, command.filler
    )


def digest(cells: Iterable[tuple[str, bytes]]) -> str:
    """Computes a 128-bit digest of a partition's content, equal on replicas with equal content.

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
