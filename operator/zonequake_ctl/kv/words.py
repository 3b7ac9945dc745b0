"""A transaction's steps as words: `zonequake kv txn 'get a' 'put b 5'`. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from zonequake_kube.errors import UsageError
from zonequake_load.operation import Function, Operation, TransactionOperation

FORMS = "get KEY, put KEY VALUE, cas KEY EXPECTED VALUE ('' for absent) or append KEY NUMBER"

_INTEGER = re.compile(r"-?\d{1,18}")


def value_of(text: str) -> int | str:
    """Reads the text of an integer as a number, and any other text as itself."""
    return int(text) if _INTEGER.fullmatch(text) else text


def transaction_of(steps: Sequence[str]) -> TransactionOperation:
    """Parses these steps as a transaction. Raises UsageError, with the step that can't be read."""
    return TransactionOperation(
        steps=tuple(_step(place, text) for place, text in enumerate(steps, 1))
    )


def _step(place: int, text: str) -> Operation:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"step {place}, {text!r}: {error}") from error
    match words:
        case ["get", key]:
            return Operation(f=Function.READ, key=key)
        case ["put", key, value]:
            return Operation(f=Function.WRITE, key=key, value=value_of(value))
        case ["cas", key, expected, value]:
            return Operation(
                f=Function.CAS,
                key=key,
                value=value_of(value),
                expected=value_of(expected) if expected else None,
            )
        case ["append", key, number] if _INTEGER.fullmatch(number):
            return Operation(f=Function.APPEND, key=key, value=int(number))
        case _:
            raise UsageError(f"step {place}, {text!r}, is none of: {FORMS}")
