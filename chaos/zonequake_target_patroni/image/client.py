"""The client in the load pods, on asyncpg, which the target's image has.

A key is a row, an absent one a row whose value is NULL. Each operation, a read too, takes the row's
lock and only then the next number of one sequence: numbers stand in the order of the locks.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from zonequake_load.errors import AnsweredError, NotSent, OutcomeUnknown
from zonequake_load.operation import Function, Operation, Outcome, TransactionOperation, Type
from zonequake_load.targets.context import ClientContext
from zonequake_load.targets.member_client import Attempt, MemberClient
from zonequake_protocol.client import Value
from zonequake_target_patroni.image.client_tls import context_of

CONNECT_TIMEOUT_S = 1.0

FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
ROLLED_BACK = frozenset({"22", "23", "25", "42", "54", "55", "40001", "40P01", "57014"})
"""SQLSTATEs, and classes of them, that the server answers in place of committing a statement."""

_PUT = """INSERT INTO entries AS e (key, value, filler, written)
    VALUES ($1, {new}, $3, nextval('places')) ON CONFLICT (key) DO UPDATE
    SET value = {changed}, filler = $3, written = nextval('places') {where}"""
_RETURNING = """
    RETURNING value, written AS index, timeline() AS term,
    current_setting('zonequake.member', true) AS node"""

READ = "INSERT INTO entries AS e (key) VALUES ($1) ON CONFLICT (key) DO UPDATE SET key = e.key"
READ += _RETURNING.replace("written", "nextval('places')")
LOCAL_READ = "SELECT (SELECT value FROM entries WHERE key = $1) AS value"
WRITE = _PUT.format(new="$2", changed="$2", where="") + _RETURNING
CREATE = _PUT.format(new="$2", changed="$2", where="WHERE e.value IS NULL") + _RETURNING
CAS = """UPDATE entries SET value = $2, filler = $3, written = nextval('places')
    WHERE key = $1 AND value = $4"""
CAS += _RETURNING
APPENDED = "coalesce(left(e.value, -1) || ',' || $2 || ']', '[' || $2 || ']')"
APPEND = _PUT.format(new="'[' || $2 || ']'", changed=APPENDED, where="") + _RETURNING
PUT_TOGETHER = "UPDATE entries SET value = $2, filler = $3, written = $4 WHERE key = $1"


class PatroniClient(MemberClient):
    """One statement an operation, at the primary; bounded reads at any member.

    `secret`: the folder of `context_of`, with TLS to members; None: without.
    """

    def __init__(
        self, seeds: Sequence[str], *, rng: random.Random, secret: Path | None = None
    ) -> None:
        super().__init__(seeds, rng=rng)
        self._tls_to = None if secret is None else cache(partial(context_of, secret))
        """The context for a member's name; one is made for many connections."""

    def connect(self) -> None:
        if self._tls_to is not None:
            self._tls_to("")  # an unusable one is an error of the beginning
        self._idle: dict[tuple[str, bool], list[asyncpg.Connection]] = defaultdict(list)
        self._all: set[asyncpg.Connection] = set()

    async def disconnect(self) -> None:
        for connection in list(self._all):
            connection.terminate()

    async def examine(self, attempt: Attempt) -> None:
        async with self._connection(attempt) as connection:
            await self._ask(connection, attempt, "SELECT timeline()")

    async def attempt(self, operation: Operation, attempt: Attempt) -> Outcome:
        key, value = operation.key, _text(operation.value)
        async with self._connection(attempt, primary=not operation.bounded) as connection:
            ask = partial(self._ask, connection, attempt)
            if operation.bounded:
                found = await ask(LOCAL_READ, key)
                return Outcome(type=Type.OK, attempts=0, value=_value(found["value"]))
            if operation.f is Function.READ:
                found = await ask(READ, key)
                return _ok(found, value=_value(found["value"]))
            if operation.f is not Function.CAS:
                statement = WRITE if operation.f is Function.WRITE else APPEND
                return _ok(await ask(statement, key, value, operation.filler))
            while True:
                attempt.writes = True
                if operation.expected is None:
                    found = await ask(CREATE, key, value, operation.filler)
                else:
                    expected = _text(operation.expected)
                    found = await ask(CAS, key, value, operation.filler, expected)
                if found is not None:
                    return _ok(found, applied=True)
                attempt.writes = False
                found = await ask(READ, key)
                if _value(found["value"]) != operation.expected:
                    return _ok(found, applied=False, value=_value(found["value"]))

    async def transaction(self, transaction: TransactionOperation, attempt: Attempt) -> Outcome:
        """Locks all rows, in the order of their keys, and then takes the place of all steps.

        What is refused commits, too: its answer is a read, which waits for a standby, and an update
        that waited for a lock that is rolled back keeps the number that it took before.
        """
        async with self._connection(attempt) as connection:
            ask = partial(self._ask, connection, attempt)
            attempt.writes = False
            await ask("BEGIN")
            rows = {key: await ask(READ, key) for key in sorted({s.key for s in transaction.steps})}
            held = {key: _value(row["value"]) for key, row in rows.items()}
            place, results = rows[max(rows)], list[Value]()
            fillers = dict[str, bytes]()
            for step in transaction.steps:
                before = held[step.key]
                results.append(before if step.f is Function.READ else None)
                if step.f is Function.CAS and before != step.expected:
                    await ask("COMMIT")
                    return _ok(place, applied=False, value=before)
                if step.f is not Function.READ:
                    appends = step.f is Function.APPEND
                    held[step.key] = _appended(before, step.value) if appends else step.value
                    fillers[step.key] = step.filler
            for key, filler in fillers.items():
                await ask(PUT_TOGETHER, key, _text(held[key]), filler, place["index"])
            attempt.writes = bool(fillers)
            await ask("COMMIT")
            return _ok(place, applied=True, results=results)

    async def _ask(
        self, connection: asyncpg.Connection, attempt: Attempt, statement: str, *values: object
    ) -> asyncpg.Record:
        """Sends one statement; returns its first row, or None."""

        async def request(timeout_s: float) -> asyncpg.Record:
            asked = asyncio.ensure_future(connection.fetchrow(statement, *values))
            try:
                await asyncio.wait({asked}, timeout=timeout_s)
                if not asked.done():
                    raise OutcomeUnknown(f"no answer from {attempt.address} in {timeout_s:.1f} s")
                return asked.result()
            except asyncpg.PostgresError as error:
                state = error.sqlstate or ""
                certain = not ROLLED_BACK.isdisjoint({state, state[:2]})
                raise AnsweredError(f"{state} {error}", certain=certain) from None
            except FAILURES as error:
                raise OutcomeUnknown(f"no answer from {attempt.address}: {error!r}") from None
            finally:
                if not asked.done():
                    # asyncpg would have the statement cancelled, and a commit that waits for a
                    # standby ends its wait then, and is acknowledged.
                    connection.terminate()
                    await asyncio.wait({asked})
                    asked.exception()

        return await attempt.send(request)

    @asynccontextmanager
    async def _connection(
        self, attempt: Attempt, *, primary: bool = True
    ) -> AsyncIterator[asyncpg.Connection]:
        idle = self._idle[attempt.address, primary]
        while idle and idle[-1].is_closed():
            self._all.discard(idle.pop())
        connection = idle.pop() if idle else await self._opened(attempt.address, primary=primary)
        try:
            yield connection
        except BaseException:
            connection.terminate()
            self._all.discard(connection)
            raise
        idle.append(connection)

    async def _opened(self, address: str, *, primary: bool) -> asyncpg.Connection:
        host, _, port = address.rpartition(":")
        try:
            connection = await asyncpg.connect(
                host=host.strip("[]"),
                port=int(port),
                user="load",
                database="postgres",
                ssl=self._tls_to(self.host_of(address)) if self._tls_to else False,
                timeout=CONNECT_TIMEOUT_S,
                target_session_attrs="primary" if primary else "any",
            )
        except FAILURES as error:
            raise NotSent(f"cannot connect to {address}: {error!r}") from None
        self._all.add(connection)
        return connection


def _appended(before: Value, value: int | str | None) -> Value:
    elements: list[Any] = before if isinstance(before, list) else []
    return [*elements, value]


def _ok(
    found: asyncpg.Record,
    *,
    value: Value = None,
    applied: bool | None = None,
    results: list[Value] | None = None,
) -> Outcome:
    return Outcome(
        type=Type.OK,
        attempts=0,
        value=value,
        applied=applied,
        node=found["node"],
        lineage=0,
        term=found["term"],
        index=found["index"],
        results=results,
    )


def _text(value: Value) -> str:
    return msgspec.json.encode(value).decode()


def _value(text: str | None) -> Value:
    """Returns a value as it was written; one in another form is shown as text."""
    try:
        return None if text is None else msgspec.json.decode(text, type=Value)
    except msgspec.MsgspecError:
        return text


def connect(context: ClientContext) -> PatroniClient:
    """Builds the client; its seeds are the members' client ports."""
    return PatroniClient(context.seeds, rng=context.rng, secret=context.secret)
