"""A node that speaks Ignite's protocol as far as the load's client needs it, over a dict.

It understands the client's own statements alone, and can be told to lose answers, to fail, or to
place keys otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from zonequake_target_ignite.client import messages, statements
from zonequake_target_ignite.client.messages import MAGIC, framed
from zonequake_target_ignite.client.packed import Unpacker, packed
from zonequake_target_ignite.client.placement import partition_of
from zonequake_target_ignite.client.target import PARTITIONS
from zonequake_target_ignite.client.tuples import ColumnType, ColumnValue, cells, encoded

ZONE = "z"
COUNT = 8
ERROR = 4
TX_4, SQL_5, CMN_65535 = 0x00070004, 0x00040005, 0x0001FFFF


class PretendedNode:
    """`loses`: it carries out what it is asked, and answers nothing; `fails`: the code with which
    it answers statements that change something; `meanwhile`: called before each of them.
    """

    def __init__(self, name: str = "n1") -> None:
        self.name = name
        self.rows: dict[str, str] = {}
        self.asked: list[str] = []
        self.timeouts_ms: list[int] = []
        self.open_transactions: set[int] = set()
        self.loses = False
        self.fails = 0
        self.shift = 0
        self.meanwhile: list[tuple[str, str | None]] = []
        self.address = ""
        self._server: asyncio.Server | None = None
        self._transactions = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self.updating = asyncio.Event()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for serving in self._serving:
            serving.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def cut(self) -> None:
        """Ends all connections."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        self._writers.add(writer)
        try:
            await self._answers(reader, writer)
        finally:
            writer.transport.abort()
            self._writers.discard(writer)

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(EOFError, OSError):
            assert await reader.readexactly(len(MAGIC)) == MAGIC
            await _body(reader)
            writer.write(MAGIC + framed(packed(3, 0, 0, None, 0, b"id", self.name)))
            while True:
                asked = Unpacker(await _body(reader))
                operation, number = asked.number(), asked.number()
                answer = self._answer(operation, asked)
                if not self.loses:
                    writer.write(framed(packed(number) + answer))

    def _answer(self, operation: int, asked: Unpacker) -> bytes:
        if operation == messages.TX_BEGIN:
            self._transactions += 1
            self.open_transactions.add(self._transactions)
            return packed(0, 0, self._transactions)
        if operation in (messages.TX_COMMIT, messages.TX_ROLLBACK):
            self.open_transactions.discard(asked.number())
            return packed(0, 0)
        assert operation == messages.SQL_EXEC
        transaction = None if asked.nil() else asked.number()
        assert asked.text() == "PUBLIC"
        asked.number()
        self.timeouts_ms.append(asked.number())
        for _ in range(4):
            asked.skip()
        statement = asked.text()
        count = 0 if asked.nil() else asked.number()
        args = _arguments(asked.binary(), count) if count else []
        return self._executed(statement, args, transaction)

    def _executed(self, statement: str, args: list[ColumnValue], transaction: int | None) -> bytes:
        self.asked.append(statement.partition(" ")[0])
        if self.asked[-1] == "UPDATE":
            self.updating.set()
        if statement == PARTITIONS:
            return _rows([ColumnType.INT32], [[_number(COUNT)]] if args == [ZONE] else [])
        if statement == statements.select(ZONE):
            assert transaction in self.open_transactions, "a read is in a transaction"
            held = self.rows.get(str(args[0]))
            return _rows([ColumnType.STRING], [] if held is None else [[held.encode()]])
        if statement.startswith("SELECT K"):
            placed = [
                [key.encode(), _number((partition_of(key, COUNT) + self.shift) % COUNT)]
                for key in self.rows
            ]
            return _rows([ColumnType.STRING, ColumnType.INT32], placed)
        assert transaction is None, "a write is a transaction of its own"
        if self.fails:
            return _error(self.fails, "told to fail")
        if self.meanwhile:
            key, value = self.meanwhile.pop(0)
            self.rows.pop(key, None)
            if value is not None:
                self.rows[key] = value
        return self._changed(statement, [str(each) for each in args if not isinstance(each, bytes)])

    def _changed(self, statement: str, args: Sequence[str]) -> bytes:
        held = self.rows.get(args[1])
        if statement == statements.insert(ZONE) or statement == statements.insert(
            ZONE, filler=True
        ):
            if held is not None:
                return _error(SQL_5, "PK unique constraint is violated")
            self.rows[args[1]] = args[0]
            return _changed(1)
        if held is None or (statement == statements.swap(ZONE) and held != args[2]):
            return _changed(0)
        self.rows[args[1]] = held + args[0] if statement == statements.append(ZONE) else args[0]
        return _changed(1)


def _arguments(raw: bytes, count: int) -> list[ColumnValue]:
    """Reads arguments: first their types, then themselves."""
    int32 = ColumnType.INT32
    kinds = cells(raw, [int32, int32, ColumnType.BYTE_ARRAY] * count)[::3]
    types = [each for kind in kinds if isinstance(kind, int) for each in (int32, int32, kind)]
    return cells(raw, types)[2::3]


async def _body(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def _changed(rows: int) -> bytes:
    return packed(0, 0, None, False, False, False, rows)


def _error(code: int, text: str) -> bytes:
    return packed(ERROR, 0, b"trace", code, "org.apache.ignite.sql.SqlException", text)


def _number(value: int) -> bytes:
    return value.to_bytes(4, "little", signed=True)


def _rows(types: Sequence[ColumnType], rows: list[list[bytes]]) -> bytes:
    columns = b"".join(packed(6, "C", True, int(kind), 0, -1, False) for kind in types)
    tuples = b"".join(packed(encoded(row)) for row in rows)
    return (
        packed(0, 0, None, True, False, False, -1, len(types))
        + columns
        + packed(len(rows))
        + tuples
    )
