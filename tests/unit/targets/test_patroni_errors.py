"""Which of PostgreSQL's errors the client of the target `patroni` takes for certain."""

from __future__ import annotations

import random
import time
from typing import Any

import asyncpg
import pytest

from zonequake_load.errors import AttemptError
from zonequake_load.operation import Function, Limits, Operation, Type
from zonequake_load.targets.member_client import Attempt
from zonequake_target_patroni.image.client import PatroniClient


class Holding:
    """A connection to the primary, where the row of each key has one value."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def fetchrow(self, statement: str, *values: object) -> Any:
        return {"value": self._text, "index": 7, "term": 1, "node": "m-0"}

    def is_closed(self) -> bool:
        return False

    def terminate(self) -> None:
        """Has nothing to end."""


@pytest.mark.parametrize("text", ["[1,2", "12\x03", '{"a": 1}', ""])
async def test_a_value_that_was_damaged_is_read_as_text(text: str) -> None:
    client = PatroniClient(["m-0:5432"], rng=random.Random(1))
    client.connect()
    holding: Any = Holding(text)
    client._idle["m-0:5432", True].append(holding)
    limits = Limits(
        deadline_ns=time.monotonic_ns() + 60 * 10**9, attempt_ns=60 * 10**9, retry=False
    )
    attempt = Attempt("m-0:5432", limits, now_ns=time.monotonic_ns)
    found = await client.attempt(Operation(f=Function.READ, key="k"), attempt)
    assert (found.type, found.value) == (Type.OK, text)


class Failing:
    """A connection whose server answers each statement with one error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def fetchrow(self, statement: str, *values: object) -> None:
        raise self._error


async def told(error: Exception) -> AttemptError:
    """The client's error for one of the server's."""
    client = PatroniClient(["m-0:5432"], rng=random.Random(1))
    limits = Limits(
        deadline_ns=time.monotonic_ns() + 60 * 10**9, attempt_ns=60 * 10**9, retry=False
    )
    attempt = Attempt("m-0:5432", limits, now_ns=time.monotonic_ns, writes=True)
    connection: Any = Failing(error)
    with pytest.raises(AttemptError) as raised:
        await client._ask(connection, attempt, "COMMIT")
    assert attempt.sent == 1, "it has left"
    return raised.value


def of_state(state: str) -> asyncpg.PostgresError:
    error: asyncpg.PostgresError = asyncpg.PostgresError.new({"S": "ERROR", "C": state, "M": "m"})
    return error


@pytest.mark.parametrize(
    "state",
    [
        *("22003", "23505", "25006", "42501", "42P01", "54001", "55P03"),  # before the commit
        *("40001", "40P01"),  # rolled back
        "57014",  # cancelled, which a commit that is on disk can't be any more
    ],
)
async def test_what_the_server_says_in_place_of_a_commit_is_certain(state: str) -> None:
    error = await told(of_state(state))
    assert (error.certain, state in str(error)) == (True, True)


@pytest.mark.parametrize(
    "state",
    [
        *("57P01", "57P02", "57P03", "57P05"),  # it ends, perhaps between a commit and its answer
        *("08000", "08003", "08006", "08P01"),
        *("40002", "40003"),  # the class of conflicts, and yet not rolled back for certain
        *("53100", "53200", "53300", "58030", "XX000", "XX001"),
        *("0A000", "3D000", "F0000", "P0001", "ZZZZZ"),  # named nowhere
    ],
)
async def test_what_it_may_say_after_a_commit_is_unknown(state: str) -> None:
    assert not (await told(of_state(state))).certain


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        asyncpg.InterfaceError("cannot perform operation: another operation is in progress"),
        asyncpg.PostgresError("without a state"),
        ConnectionResetError("by peer"),
        TimeoutError("no answer"),
    ],
)
async def test_what_no_server_said_is_unknown(error: Exception) -> None:
    assert not (await told(error)).certain
