"""A node that speaks Ignite's protocol as far as the load's client needs it, over a dict.

It understands the client's own requests alone, and can be told to lose answers, to fail, or to
place keys otherwise.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress

from zonequake_target_ignite.client.protocol import messages
from zonequake_target_ignite.client.protocol.messages import MAGIC, framed
from zonequake_target_ignite.client.protocol.packed import Unpacker, packed
from zonequake_target_ignite.client.protocol.placement import partition_of
from zonequake_target_ignite.client.protocol.tuples import (
    ColumnType,
    ColumnValue,
    cells,
    encoded,
    row,
)
from zonequake_target_ignite.client.target import COLUMNS, PARTITIONS

ZONE = "z"
COUNT = 8
TABLE = 21
ERROR = 4
TX_4, CMN_65535 = 0x00070004, 0x0001FFFF
CHANGES = {
    messages.ROW_UPSERT: "UPSERT",
    messages.ROW_INSERT: "INSERT",
    messages.ROW_REPLACE_EXACT: "REPLACE",
}


class PretendedNode:
    """`loses`: it carries out what it is asked, and answers nothing; `fails`: the code with which
    it answers requests that change something; `meanwhile`: written before each of them.
    """

    def __init__(self, name: str = "n1") -> None:
        self.name = name
        self.rows: dict[str, str] = {}
        self.fillers: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.timeouts_ms: list[int] = []
        self.open_transactions: set[int] = set()
        self.loses = False
        self.fails = 0
        self.shift = 0
        self.meanwhile: list[tuple[str, str | None]] = []
        self.address = ""
        self._server: asyncio.Server | None = None
        self.begun = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self.changing = asyncio.Event()

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
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
            self.begun += 1
            self.open_transactions.add(self.begun)
            return packed(0, 0, self.begun)
        if operation in (messages.TX_COMMIT, messages.TX_ROLLBACK):
            self.open_transactions.discard(asked.number())
            return packed(0, 0)
        if operation == messages.TABLE_GET:
            return packed(0, 0, TABLE, ZONE) if asked.text() == f'"{ZONE}"' else packed(0, 0, None)
        if operation == messages.SQL_EXEC:
            return self._queried(asked)
        assert asked.number() == TABLE
        transaction = None if asked.nil() else asked.number()
        assert asked.number() == 1, "the version of the table's columns"
        if operation == messages.ROW_GET:
            assert transaction is None or transaction in self.open_transactions
            self.asked.append("GET")
            (key,) = cells(_given(asked), COLUMNS[:1])
            return packed(0, 0, 1, self._row(str(key)))
        assert transaction is None, "a write is a transaction of its own"
        self.asked.append(CHANGES[operation])
        self.changing.set()
        return self._changed(operation, asked)

    def _queried(self, asked: Unpacker) -> bytes:
        assert asked.nil()
        assert asked.text() == "PUBLIC"
        asked.number()
        self.timeouts_ms.append(asked.number())
        for _ in range(4):
            asked.skip()
        statement = asked.text()
        self.asked.append(statement.partition(" ")[0])
        count = 0 if asked.nil() else asked.number()
        args = _arguments(asked.binary(), count) if count else []
        if statement == PARTITIONS:
            return _rows([ColumnType.INT32], [[_number(COUNT)]] if args == [ZONE] else [])
        assert statement.startswith("SELECT K")
        placed = [
            [key.encode(), _number((partition_of(key, COUNT) + self.shift) % COUNT)]
            for key in self.rows
        ]
        return _rows([ColumnType.STRING, ColumnType.INT32], placed)

    def _row(self, key: str) -> bytes | None:
        held = self.rows.get(key)
        return None if held is None else row([key, held, self.fillers.get(key)])

    def _changed(self, operation: int, asked: Unpacker) -> bytes:
        if self.fails:
            return _error(self.fails, "told to fail")
        if self.meanwhile:
            other, value = self.meanwhile.pop(0)
            self.rows.pop(other, None)
            if value is not None:
                self.rows[other] = value
        expected = _given(asked) if operation == messages.ROW_REPLACE_EXACT else None
        key, text, filler = cells(_given(asked), COLUMNS)
        assert isinstance(key, str)
        assert isinstance(text, str)
        if operation == messages.ROW_UPSERT or self._row(key) == expected:
            self.rows[key] = text
            self.fillers.pop(key, None)
            if isinstance(filler, bytes):
                self.fillers[key] = filler
            done = True
        else:
            done = False
        return packed(0, 0, 1) if operation == messages.ROW_UPSERT else packed(0, 0, 1, done)


def _given(asked: Unpacker) -> bytes:
    """Reads a row that was sent, and before it the set of columns that have no value."""
    asked.skip()
    return asked.binary()


def _arguments(raw: bytes, count: int) -> list[ColumnValue]:
    """Reads arguments: first their types, then themselves."""
    int32 = ColumnType.INT32
    kinds = cells(raw, [int32, int32, ColumnType.BYTE_ARRAY] * count)[::3]
    types = [each for kind in kinds if isinstance(kind, int) for each in (int32, int32, kind)]
    return cells(raw, types)[2::3]


async def _body(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


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
