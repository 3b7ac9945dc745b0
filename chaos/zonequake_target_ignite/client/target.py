"""The client of one zone's table.

Each write is one statement, which is a transaction of its own. A linearizable read begins a
transaction that may write, selects in it under a lock, and ends it. A bounded read's transaction is
read-only: by Ignite's design it reads a state that is 1.5 s old, and must be found stale. A query
without a transaction is no substitute for the first: it is read-only, too, unless Ignite happens
to plan it as the look-up of one key.

A transaction that may write is never used to write. Ignite 3.1 ends one whose time is over, and
then answers its commit as if it had been done (docs/ignite.md).

Ignite has no order that a client could be told: an answer has no place.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Sequence

from zonequake_load.errors import AttemptError, OutcomeUnknown, TargetError
from zonequake_load.operation import Function, Operation, Outcome, Type
from zonequake_load.targets.context import ClientContext
from zonequake_load.targets.member_client import Attempt, MemberClient
from zonequake_protocol.client import Value
from zonequake_target_ignite.client import placement, statements
from zonequake_target_ignite.client.errors import DUPLICATE_KEY, IgniteError
from zonequake_target_ignite.client.messages import (
    SQL_EXEC,
    TX_BEGIN,
    TX_COMMIT,
    TX_ROLLBACK,
    ResultSet,
    begin,
    result_of,
    sql,
)
from zonequake_target_ignite.client.packed import Unpacker, packed
from zonequake_target_ignite.client.wire import IgniteWire, NodeConnection, read_as

PARTITIONS = "SELECT Z.ZONE_PARTITIONS FROM SYSTEM.ZONES Z WHERE Z.ZONE_NAME = ?"
CHECKED_ROWS = 64
Argument = str | int | bytes
_READ_TRANSACTION_MS = 10_000
"""The time after which a node ends a read's transaction by itself, if its client is gone."""


class MisplacedKey(TargetError):
    """A key lies in another partition than the client calculates."""


class IgniteTarget(MemberClient):
    """The keys of one zone's table."""

    def __init__(
        self,
        zone: str,
        seeds: Sequence[str],
        *,
        rng: random.Random,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        super().__init__(seeds, rng=rng, now_ns=now_ns)
        self._zone = zone
        self._partitions = 0
        self._checked = False
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
        self._wire = IgniteWire()

    async def disconnect(self) -> None:
        if self._wire is not None:
            await self._wire.close()

    async def examine(self, attempt: Attempt) -> None:
        """Asks for the zone's partitions, which any node knows, and then where some rows lie."""
        connection = await self._connection(attempt)
        found = await self._query(attempt, connection, PARTITIONS, [self._zone])
        if not found.rows:
            raise OutcomeUnknown(f"{connection.node} knows no zone {self._zone!r} yet")
        (count,) = found.rows[0]
        if not isinstance(count, int) or count < 1:
            raise OutcomeUnknown(f"{connection.node} says that the zone has {count!r} partitions")
        if not self._checked:
            with contextlib.suppress(AttemptError):  # a partition may be away: another time
                await self._check_placement(attempt, connection, count)
                self._checked = True
        self._partitions = count

    async def attempt(self, operation: Operation, attempt: Attempt) -> Outcome:
        connection = await self._connection(attempt)
        key = operation.key
        if operation.f is Function.READ:
            text = await self._read_text(attempt, connection, key, stale=operation.bounded)
            return _ok(connection, value=statements.read(text))
        assert operation.value is not None
        if operation.f is Function.CAS:
            return await self._swapped(operation, attempt, connection)
        return await self._written(operation, attempt, connection)

    async def _written(
        self, operation: Operation, attempt: Attempt, connection: NodeConnection
    ) -> Outcome:
        """Changes the row, in one statement, or creates it. Each says whether it did anything."""
        assert operation.value is not None
        filler = bool(operation.filler)
        if operation.f is Function.APPEND:
            text, change = statements.element(operation.value), statements.append(self._zone)
        else:
            text = statements.stored(operation.value)
            change = statements.update(self._zone, filler=filler)
        args: list[Argument] = [text, *([operation.filler] if filler else []), operation.key]
        while True:
            if (await self._query(attempt, connection, change, args)).changed:
                return _ok(connection)
            create = statements.insert(self._zone, filler=filler)
            if await self._inserted(attempt, connection, create, args):
                return _ok(connection)
            _try_again(attempt)

    async def _swapped(
        self, operation: Operation, attempt: Attempt, connection: NodeConnection
    ) -> Outcome:
        """Changes the row if it is as expected, in one statement; else reads what it is.

        What is found then may be what was expected, if another write came between: again.
        """
        assert operation.value is not None
        key, new = operation.key, statements.stored(operation.value)
        while True:
            attempt.writes = True
            if operation.expected is None:
                create = statements.insert(self._zone)
                changed = await self._inserted(attempt, connection, create, [new, key])
            else:
                args: list[Argument] = [new, key, statements.stored(operation.expected)]
                done = await self._query(attempt, connection, statements.swap(self._zone), args)
                changed = bool(done.changed)
            if changed:
                return _ok(connection, applied=True)
            attempt.writes = False
            found = statements.read(await self._read_text(attempt, connection, key))
            if found != operation.expected:
                return _ok(connection, value=found, applied=False)
            _try_again(attempt)

    async def _inserted(
        self, attempt: Attempt, connection: NodeConnection, statement: str, args: list[Argument]
    ) -> bool:
        """Creates a key; returns False if it is there."""
        try:
            await self._query(attempt, connection, statement, args)
        except IgniteError as error:
            if error.name != DUPLICATE_KEY:
                raise
            return False
        return True

    async def _read_text(
        self, attempt: Attempt, connection: NodeConnection, key: str, *, stale: bool = False
    ) -> str | None:
        """Reads a row in a transaction; raises AttemptError, also if its end is not heard."""
        beginning = begin(timeout_ms=_READ_TRANSACTION_MS, read_only=stale)
        begun = await self._ask(attempt, connection, TX_BEGIN, beginning)
        transaction = read_as(Unpacker.number, begun)
        try:
            statement = statements.select(self._zone)
            found = await self._query(
                attempt, connection, statement, [key], transaction=transaction
            )
        except AttemptError:
            connection.tell(TX_ROLLBACK, packed(transaction))
            raise
        await self._ask(attempt, connection, TX_COMMIT, packed(transaction))
        return _only_text(found)

    async def _check_placement(
        self, attempt: Attempt, connection: NodeConnection, partitions: int
    ) -> None:
        """Compares where some rows lie with what is calculated; raises MisplacedKey."""
        statement = (
            f'SELECT K, "__part" FROM {statements.quoted(self._zone)} '  # noqa: S608
            f"LIMIT {CHECKED_ROWS}"
        )
        for key, partition in (await self._query(attempt, connection, statement)).rows:
            assert isinstance(key, str), "the column is a text"
            calculated = placement.partition_of(key, partitions)
            if calculated != partition:
                raise MisplacedKey(
                    f"key {key!r} lies in partition {partition!r}, and {calculated} of "
                    f"{partitions} is calculated: this Ignite places keys otherwise than 3.1"
                )

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
        *,
        transaction: int | None = None,
    ) -> ResultSet:
        """Carries a statement out; the node gives it up, too, when its time is over."""

        def values(left_s: float) -> bytes:
            timeout_ms = max(1, int(left_s * 1e3))
            return sql(statement, args, transaction=transaction, timeout_ms=timeout_ms)

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


def _try_again(attempt: Attempt) -> None:
    """Returns if the operation, which changed nothing, may be tried once more."""
    if not attempt.limits.retry:
        raise IgniteError(name="given up:", message="another write came between", certain=True)


def _only_text(found: ResultSet) -> str | None:
    if not found.rows:
        return None
    (cell,) = found.rows[0]
    return cell if isinstance(cell, str) else None


def _ok(connection: NodeConnection, *, value: Value = None, applied: bool | None = None) -> Outcome:
    return Outcome(type=Type.OK, attempts=0, value=value, applied=applied, node=connection.node)


def connect(context: ClientContext) -> IgniteTarget:
    """Builds the client; its seeds are client ports of nodes."""
    return IgniteTarget(context.zone, context.seeds, rng=context.rng)
