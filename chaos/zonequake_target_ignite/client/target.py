"""The client of one zone's table.

Each request is for one row, and so asks for that row's lock alone. SQL is no substitute: Ignite 3.1
plans an UPDATE by the table's size, which a node takes for one row at first, and then as a scan,
whose lock on the whole partition outlives a statement that was given up (docs/ignite.md).

A linearizable read is one of the primary replica at its present time. A bounded read is in a
read-only transaction: by Ignite's design it reads a state that is 1.5 s old, and must be found
stale.

A transaction that may write is never used. Ignite 3.1 ends one whose time is over, and then answers
its commit as if it had been done (docs/ignite.md).

Ignite has no order that a client could be told: an answer has no place.
"""

from __future__ import annotations

import contextlib
import random
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from zonequake_load.errors import AttemptError, OutcomeUnknown, TargetError
from zonequake_load.operation import Function, Operation, Outcome, Type
from zonequake_load.targets.context import ClientContext
from zonequake_load.targets.member_client import Attempt, MemberClient
from zonequake_load.targets.secret_tls import load_secret
from zonequake_protocol.client import Value
from zonequake_target_ignite.client.protocol import placement, statements
from zonequake_target_ignite.client.protocol.errors import IgniteError
from zonequake_target_ignite.client.protocol.messages import (
    ROW_GET,
    ROW_INSERT,
    ROW_REPLACE_EXACT,
    ROW_UPSERT,
    SQL_EXEC,
    TABLE_GET,
    TX_BEGIN,
    TX_COMMIT,
    TX_ROLLBACK,
    ResultSet,
    begin,
    done_of,
    result_of,
    row_of,
    rows,
    sql,
    table_of,
)
from zonequake_target_ignite.client.protocol.packed import Malformed, Unpacker, packed
from zonequake_target_ignite.client.protocol.tuples import ColumnType, cells, row
from zonequake_target_ignite.client.wire import IgniteWire, NodeConnection, WireTls, read_as

PARTITIONS = "SELECT Z.ZONE_PARTITIONS FROM SYSTEM.ZONES Z WHERE Z.ZONE_NAME = ?"
CHECKED_ROWS = 64
COLUMNS = (ColumnType.STRING, ColumnType.STRING, ColumnType.BYTE_ARRAY)
"""The types of the table's columns: key, value, filler."""
Argument = str | int | bytes
_READ_TRANSACTION_MS = 10_000
"""The time after which a node ends a read's transaction by itself, if its client is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A row as it is encoded, and of it the value and the filler; nothing if it is absent."""

    row: bytes | None = None
    text: str | None = None
    filler: bytes | None = None


class MisplacedKey(TargetError):
    """A key lies in another partition than the client calculates."""


class IgniteTarget(MemberClient):
    """The keys of one zone's table. `secret`: the folder of `load_secret`, with TLS to nodes."""

    def __init__(
        self,
        zone: str,
        seeds: Sequence[str],
        *,
        rng: random.Random,
        now_ns: Callable[[], int] = time.monotonic_ns,
        secret: Path | None = None,
    ) -> None:
        super().__init__(seeds, rng=rng, now_ns=now_ns)
        self._zone = zone
        self._partitions = 0
        self._table: int | None = None
        self._checked = self._checking = False
        self._secret = secret
        self._wire: IgniteWire | None = None

    # --- partitions ------------------------------------------------------------------------------

    @property
    def partitions(self) -> int:
        return self._partitions

    def partition_of(self, key: str) -> int:
        return placement.partition_of(key, self._partitions)

    def key_for_partition(self, stem: str, partition: int) -> str:
        return placement.key_for_partition(stem, partition, self._partitions)

    # --- one attempt -----------------------------------------------------------------------------

    def connect(self) -> None:
        tls = None
        if self._secret is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            load_secret(context, self._secret)
            tls = WireTls(context=context, host_of=self.host_of)
        self._wire = IgniteWire(tls)

    async def disconnect(self) -> None:
        if self._wire is not None:
            await self._wire.close()

    async def examine(self, attempt: Attempt) -> None:
        """Asks for the zone's partitions and table, which any node knows, and where rows lie."""
        connection = await self._connection(attempt)
        found = await self._query(attempt, connection, PARTITIONS, [self._zone])
        if not found.rows:
            raise OutcomeUnknown(f"{connection.node} knows no zone {self._zone!r} yet")
        (count,) = found.rows[0]
        if not isinstance(count, int) or count < 1:
            raise OutcomeUnknown(f"{connection.node} says that the zone has {count!r} partitions")
        if self._table is None:
            name = packed(statements.quoted(self._zone))
            self._table = read_as(table_of, await self._ask(attempt, connection, TABLE_GET, name))
            if self._table is None:
                raise OutcomeUnknown(f"{connection.node} knows no table {self._zone!r} yet")
        await self._check_once(attempt, connection, count)
        self._partitions = count

    async def attempt(self, operation: Operation, attempt: Attempt) -> Outcome:
        connection = await self._connection(attempt)
        if operation.f is Function.READ:
            held = await self._read(attempt, connection, operation.key, stale=operation.bounded)
            return _ok(connection, value=statements.read(held.text))
        assert operation.value is not None
        if operation.f is not Function.WRITE:
            return await self._replaced(operation, attempt, connection)
        value = statements.stored(operation.value)
        written = row([operation.key, value, operation.filler or None])
        await self._ask(attempt, connection, ROW_UPSERT, rows(self._known, written))
        # The table was empty when it was opened. Not a request of this operation, which is done.
        beside = Attempt(attempt.address, attempt.limits, now_ns=self._now_ns)
        await self._check_once(beside, connection, self._partitions)
        return _ok(connection)

    async def _replaced(
        self, operation: Operation, attempt: Attempt, connection: NodeConnection
    ) -> Outcome:
        """Reads the row, and replaces it if it is still the same; if it isn't, again."""
        assert operation.value is not None
        key, cas = operation.key, operation.f is Function.CAS
        while True:
            attempt.writes = False
            held = await self._read(attempt, connection, key)
            if cas:
                found = statements.read(held.text)
                if found != operation.expected:
                    return _ok(connection, value=found, applied=False)
                text = statements.stored(operation.value)
            else:
                text = (held.text or "") + statements.element(operation.value)
            attempt.writes = True
            changed = row([key, text, held.filler])
            if held.row is None:
                asked, given = ROW_INSERT, rows(self._known, changed)
            else:
                asked, given = ROW_REPLACE_EXACT, rows(self._known, held.row, changed)
            if read_as(done_of, await self._ask(attempt, connection, asked, given)):
                return _ok(connection, applied=True if cas else None)
            if not attempt.limits.retry:
                raise IgniteError(
                    name="given up:", message="another write came between", certain=True
                )

    async def _read(
        self, attempt: Attempt, connection: NodeConnection, key: str, *, stale: bool = False
    ) -> _Held:
        """Reads a row; raises AttemptError, also if the end of its transaction isn't heard."""
        transaction = None
        if stale:
            beginning = begin(timeout_ms=_READ_TRANSACTION_MS, read_only=True)
            begun = await self._ask(attempt, connection, TX_BEGIN, beginning)
            transaction = read_as(Unpacker.number, begun)
        try:
            asked = rows(self._known, row([key]), transaction=transaction)
            found = await self._ask(attempt, connection, ROW_GET, asked)
        except AttemptError:
            if transaction is not None:
                connection.tell(TX_ROLLBACK, packed(transaction))
            raise
        if transaction is not None:
            await self._ask(attempt, connection, TX_COMMIT, packed(transaction))
        return read_as(_held, found)

    @property
    def _known(self) -> int:
        """The number of the table."""
        assert self._table is not None, "looked up before the first operation"
        return self._table

    async def _check_once(
        self, attempt: Attempt, connection: NodeConnection, partitions: int
    ) -> None:
        """Checks the placement until rows were compared. Raises MisplacedKey."""
        if self._checked or self._checking:
            return
        self._checking = True
        try:
            with contextlib.suppress(AttemptError):  # a partition may be away: another time
                self._checked = await self._check_placement(attempt, connection, partitions)
        finally:
            self._checking = False

    async def _check_placement(
        self, attempt: Attempt, connection: NodeConnection, partitions: int
    ) -> bool:
        """Compares where some rows lie with what is calculated; returns whether there were any.

        Raises MisplacedKey.
        """
        statement = (
            f'SELECT K, "__part" FROM {statements.quoted(self._zone)} '  # noqa: S608
            f"LIMIT {CHECKED_ROWS}"
        )
        found = (await self._query(attempt, connection, statement)).rows
        for key, partition in found:
            assert isinstance(key, str), "the column is a text"
            calculated = placement.partition_of(key, partitions)
            if calculated != partition:
                raise MisplacedKey(
                    f"key {key!r} lies in partition {partition!r}, and {calculated} of "
                    f"{partitions} is calculated: this Ignite places keys otherwise than 3.1"
                )
        return bool(found)

    async def _connection(self, attempt: Attempt) -> NodeConnection:
        wire = self._wire
        assert wire is not None, "opened before the first operation"
        connecting = attempt.send(lambda left_s: wire.connection(attempt.address, timeout_s=left_s))
        connection = await connecting
        attempt.sent -= 1  # nothing of the operation has left
        return connection

    async def _query(
        self,
        attempt: Attempt,
        connection: NodeConnection,
        statement: str,
        args: Sequence[Argument] = (),
    ) -> ResultSet:
        """Carries a query out; the node gives it up, too, when its time is over."""

        def values(left_s: float) -> bytes:
            return sql(statement, args, timeout_ms=max(1, int(left_s * 1e3)))

        found = await self._send(attempt, connection, SQL_EXEC, values)
        return read_as(result_of, found)

    async def _ask(
        self, attempt: Attempt, connection: NodeConnection, operation: int, values: bytes
    ) -> Unpacker:
        return await self._send(attempt, connection, operation, lambda _: values)

    async def _send(
        self,
        attempt: Attempt,
        connection: NodeConnection,
        operation: int,
        values: Callable[[float], bytes],
    ) -> Unpacker:
        wire = self._wire
        assert wire is not None, "opened before the first operation"
        answer = await attempt.send(
            lambda left_s: wire.ask(connection, operation, values(left_s), timeout_s=left_s)
        )
        return answer.rest


def _held(values: Unpacker) -> _Held:
    """Reads the answer to ROW_GET. Raises Malformed."""
    found = row_of(values)
    if found is None:
        return _Held()
    _, text, filler = cells(found, COLUMNS)
    if not isinstance(text, str) or not (filler is None or isinstance(filler, bytes)):
        raise Malformed(f"found a row with the value {text!r}, expected a text")
    return _Held(row=found, text=text, filler=filler)


def _ok(connection: NodeConnection, *, value: Value = None, applied: bool | None = None) -> Outcome:
    return Outcome(type=Type.OK, attempts=0, value=value, applied=applied, node=connection.node)


def connect(context: ClientContext) -> IgniteTarget:
    """Builds the client; its seeds are client ports of nodes."""
    return IgniteTarget(context.zone, context.seeds, rng=context.rng, secret=context.secret)
