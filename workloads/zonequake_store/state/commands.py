"""The commands in a partition's log, and the outcomes of applying them. Pure values."""

from __future__ import annotations

import enum

import msgspec

from zonequake_protocol.client import RequestId
from zonequake_store.state.transactions import (
    ForgetCommand,
    ReadValue,
    RollbackCommand,
    TransactionCommand,
)

CellValue = int | str | tuple[int, ...]


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

Bookkeeping = RollbackCommand | ForgetCommand
"""Commands that a leader writes on its own: no client asked for them, and no answer to a client
depends on them. A Rollback gives up what was never decided, and a Forget drops what is no longer
asked for; a log that lacks them has both done again. A Commit is no bookkeeping, though a leader
writes it too: once it is applied the decision may be forgotten, and a log without it would give up
what was acknowledged to a client.
"""

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)


def encode_command(command: Command) -> bytes:
    """Encodes a command as the data of a log entry."""
    return _encoder.encode(command)


def decode_command(data: bytes) -> Command:
    """Decodes the command in a log entry's data; raises msgspec.DecodeError."""
    return _decoder.decode(data)


def is_user_command(command: Command) -> bool:
    """Returns whether the entry is a client's (lastUserCmdIdx of the document
    `high-availability`).
    """
    return not isinstance(command, Bookkeeping)


def holds_user_command(data: bytes) -> bool:
    """Returns whether an entry's data holds a user's command; what can't be read counts, since it
    may be a client's.
    """
    try:
        return is_user_command(decode_command(data))
    except msgspec.DecodeError:
        return True


class CommandVerdict(enum.IntEnum):
    """The verdict of applying a command."""

    DONE = 0
    UNEQUAL = 1  # a cas that found another value
    WRONG_TYPE = 2
    FORGOTTEN = 3
    LOCKED = 4  # a transaction that is prepared holds a key
    LATE = 5  # a part of a transaction that has ended here
    FULL = 6  # more transactions are prepared than a partition may have


class CommandOutcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The outcome of a command, and its place in the partition's order.

    `value` is the value written; of an UNEQUAL cas it is the value found; of LOCKED, WRONG_TYPE and
    LATE in a transaction it says more. `results`: of a transaction, one for each step, and None
    for a step that reads nothing.
    """

    verdict: CommandVerdict
    term: int
    index: int
    value: int | str | tuple[int, ...] | None = None
    results: tuple[ReadValue, ...] | None = None
