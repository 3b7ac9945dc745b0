"""The replies to clients: plain conversions of values and outcomes."""

from __future__ import annotations

from zonequake_protocol.client import Reply, ReplyStatus, Value
from zonequake_protocol.terms import lineage_of
from zonequake_store.state.commands import CommandOutcome, CommandVerdict
from zonequake_store.state.partition import StateMachine
from zonequake_store.state.transactions import ReadValue

_LOCKED = "transaction {} holds the key and is not finished; try again"


def value_reply(id_: int, partition: StateMachine, key: str) -> Reply:
    """Replies with a key's value as of the last entry applied."""
    cell = partition.read(key)
    return Reply(
        id_,
        ReplyStatus.OK,
        value=None if cell is None else on_wire(cell.value),
        lineage=partition.lineage,
        term=partition.term,
        index=partition.index,
    )


def locked_reply(id_: int, partition: StateMachine, key: str) -> Reply:
    """Replies that the key is about to be written by a prepared transaction."""
    holder = partition.transactions.locks[key].holder
    return Reply(id_, ReplyStatus.LOCKED, error=_LOCKED.format(holder))


def outcome_reply(id_: int, outcome: CommandOutcome) -> Reply:
    """Returns the reply for a command's outcome."""
    lineage = lineage_of(outcome.term)
    match outcome.verdict:
        case CommandVerdict.DONE:
            read = outcome.results
            return Reply(
                id_,
                ReplyStatus.OK,
                applied=True,
                lineage=lineage,
                term=outcome.term,
                index=outcome.index,
                results=None if read is None else [on_wire(value) for value in read],
            )
        case CommandVerdict.UNEQUAL:
            return Reply(
                id_,
                ReplyStatus.OK,
                value=on_wire(outcome.value),
                applied=False,
                lineage=lineage,
                term=outcome.term,
                index=outcome.index,
            )
        case CommandVerdict.WRONG_TYPE:
            return Reply(
                id_,
                ReplyStatus.INVALID,
                error="the key holds a list where a register is wanted, "
                "or a register where a list is wanted",
            )
        case CommandVerdict.LOCKED | CommandVerdict.LATE:
            return Reply(
                id_,
                ReplyStatus.LOCKED,
                error=_LOCKED.format(outcome.value),
            )
        case CommandVerdict.FULL:
            return Reply(
                id_,
                ReplyStatus.OVERLOADED,
                error="too many transactions are prepared in this partition",
            )
        case CommandVerdict.FORGOTTEN:
            return Reply(
                id_,
                ReplyStatus.FORGOTTEN,
                lineage=lineage,
                term=outcome.term,
                index=outcome.index,
                error="the outcome of this request_id, if there was one, is forgotten",
            )


def on_wire(value: ReadValue) -> Value:
    """Returns a cell's value as replies carry it."""
    return list(value) if isinstance(value, tuple) else value
