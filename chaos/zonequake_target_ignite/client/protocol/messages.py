"""Requests and answers of Ignite's client protocol 3.0, as far as the harness needs it. Pure.

Each message is a length of four bytes and MessagePack values. A connection begins with the word
`IGNI` and a handshake, both ways. No feature is asked for, so that messages have their first form,
which every 3.x understands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from zonequake_target_ignite.client.protocol.packed import Unpacker, packed
from zonequake_target_ignite.client.protocol.tuples import ColumnValue, arguments, cells, encoded

MAGIC = b"IGNI"
LENGTH_BYTES = 4
MOST_BYTES = 64 * 1024 * 1024
"""No answer of a run is that long: a longer one is not of this protocol."""

TABLE_GET = 4
ROW_UPSERT, ROW_GET, ROW_INSERT, ROW_REPLACE_EXACT = 10, 12, 18, 24
TX_BEGIN, TX_COMMIT, TX_ROLLBACK = 43, 44, 45
SQL_EXEC, SQL_NEXT_PAGE, PRIMARIES_GET = 50, 51, 53
PAGE_ROWS = 1024
_VERSION = (3, 0, 0)
_GENERAL_CLIENT = 2
_FIRST_SCHEMA = 1
"""The version of a table's columns that it is created with; a run alters none."""
_NOTHING_LEFT_OUT = b"\xc7\x00\x08"
"""An empty set of bits: each column of a row has its value."""
_ASSIGNMENT_CHANGED, _NOTIFICATION, _ERROR = 1, 2, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerError:
    """An error that a node answered with. `code` is that of its group in the upper half."""

    code: int
    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAnswer:
    """One answer. `observed`: the newest timestamp that the node has seen; `rest`: of its values,
    those of the operation.
    """

    request: int
    notification: bool
    observed: int
    error: ServerError | None
    rest: Unpacker


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSet:
    """The first rows of a query, or the number of rows that a change `changed`; -1 of others.

    `cursor`: where further pages come from, None if this is all.
    """

    applied: bool
    changed: int
    cursor: int | None = None
    types: Sequence[int] = ()
    rows: list[list[ColumnValue]] = field(default_factory=list)


def framed(body: bytes) -> bytes:
    """Returns a message with its length before it."""
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def handshake() -> bytes:
    """Returns the client's first bytes."""
    return MAGIC + framed(packed(*_VERSION, _GENERAL_CLIENT, b"", 0))


def node_of_handshake(body: bytes) -> str | ServerError:
    """Returns the name of the node that answered, or why it refused. Raises Malformed."""
    values = Unpacker(body)
    for _ in _VERSION:
        values.number()
    if not values.nil():
        return _error(values)
    values.number()  # its idle time-out
    values.skip()  # the id of its present process
    return values.text()


def request(operation: int, number: int, *values: bytes) -> bytes:
    """Returns a framed request; `values` are encoded already."""
    return framed(packed(operation, number) + b"".join(values))


def sql(
    statement: str,
    args: Sequence[str | int | bytes] = (),
    *,
    timeout_ms: int = 0,
    observed: int = 0,
) -> bytes:
    """Returns the values of a statement, which is a transaction of its own."""
    given = packed(len(args), arguments(args)) if args else packed(None)
    return (
        packed(None, "PUBLIC", PAGE_ROWS, timeout_ms, None, None, 0, encoded([]), statement)
        + given
        + packed(observed)
    )


def rows(table: int, *encoded_rows: bytes, transaction: int | None = None) -> bytes:
    """Returns the values of a request for one row: its key or itself, or what it is and is to be.

    Without a `transaction`, a change is one of its own, and a read is of now.
    """
    given = b"".join(_NOTHING_LEFT_OUT + packed(row) for row in encoded_rows)
    return packed(table, transaction, _FIRST_SCHEMA) + given


def begin(*, timeout_ms: int, read_only: bool = False) -> bytes:
    """Returns the values of the beginning of a transaction. One that is `read_only` reads a state
    that is older than its beginning.
    """
    return packed(read_only, timeout_ms, *([0] if read_only else []))


def answer_of(body: bytes) -> ServerAnswer:
    """Reads an answer up to what the operation says. Raises Malformed."""
    values = Unpacker(body)
    number, flags = values.number(), values.number()
    if flags & _ASSIGNMENT_CHANGED:
        values.number()
    observed = values.number()
    return ServerAnswer(
        request=number,
        notification=bool(flags & _NOTIFICATION),
        observed=observed,
        error=_error(values) if flags & _ERROR else None,
        rest=values,
    )


def result_of(values: Unpacker) -> ResultSet:
    """Reads the answer of a statement. Raises Malformed."""
    cursor = None if values.nil() else values.number()
    has_rows, more, applied = values.flag(), values.flag(), values.flag()
    changed = values.number()
    if not has_rows:
        return ResultSet(applied=applied, changed=changed)
    types = [_column(values) for _ in range(values.number())]
    return ResultSet(
        applied=applied,
        changed=changed,
        cursor=cursor if more else None,
        types=types,
        rows=page_of(values, types),
    )


def table_of(values: Unpacker) -> int | None:
    """Reads the number of a table; None if there is none of the name. Raises Malformed."""
    return None if values.nil() else values.number()


def row_of(values: Unpacker) -> bytes | None:
    """Reads a row, encoded as it is; None if there is none. Raises Malformed."""
    values.number()  # the version of the table's columns
    return None if values.nil() else values.binary()


def done_of(values: Unpacker) -> bool:
    """Reads whether an insertion or a replacement did anything. Raises Malformed."""
    values.number()
    return values.flag()


def page_of(values: Unpacker, types: Sequence[int]) -> list[list[ColumnValue]]:
    """Reads a page of rows. Raises Malformed."""
    return [cells(values.binary(), types) for _ in range(values.number())]


def primaries_of(values: Unpacker) -> list[str] | None:
    """Reads the names of the primary replicas' nodes by partition; None if not all are known."""
    count = values.number()
    if not values.flag():
        return None
    values.number()  # the time for which it holds
    return [values.text_or_none() or "" for _ in range(count)]


def _column(values: Unpacker) -> int:
    """Reads a column, and returns its type: names are in the statement."""
    values.number()
    values.text()
    values.flag()
    kind = values.number()
    values.number()
    values.number()
    if values.flag():
        for _ in range(3):  # column, schema and table that it is of
            values.skip()
    return kind


def _error(values: Unpacker) -> ServerError:
    values.skip()  # the id by which its log has it
    code = values.number()
    kind = values.text()
    return ServerError(code=code, kind=kind, message=values.text_or_none() or "")
