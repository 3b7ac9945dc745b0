"""The checks of clients' requests, and a transaction's steps by the groups that have to prepare
them.
"""

from __future__ import annotations

import re
from collections import defaultdict

from zonequake_protocol.client import (
    MAX_CLIENT_BYTES,
    MAX_FILLER_BYTES,
    MAX_TEXT_BYTES,
    MAX_TRANSACTION_BYTES,
    MAX_TRANSACTION_STEPS,
    Append,
    Cas,
    Read,
    Transaction,
    Write,
)
from zonequake_store.state.commands import AppendCommand, CasCommand, PlainCommand, SetCommand
from zonequake_store.state.partition import MAX_KEY_BYTES
from zonequake_store.state.transactions import StepKind, TransactionStep
from zonequake_store.transactions.coordinator import Begin

KeyOperation = Read | Write | Cas | Append

MAX_TRANSACTION_NODES = 1024
# A name from a client is looked up in DNS.
_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def fault_in(operation: KeyOperation) -> str | None:
    """Returns the error in an operation, whatever partition its key is of; None if there is
    none.
    """
    key = operation.key
    if not key or len(key.encode()) > MAX_KEY_BYTES:
        return f"a key has 1 to {MAX_KEY_BYTES} bytes of UTF-8"
    if isinstance(operation, Write) and len(operation.filler) > MAX_FILLER_BYTES:
        return f"a filler has at most {MAX_FILLER_BYTES} bytes"
    if isinstance(operation, Read):
        return "max_staleness_ms is at least 0" if operation.max_staleness_ms < 0 else None
    texts = [operation.value, operation.expected if isinstance(operation, Cas) else None]
    if any(isinstance(text, str) and len(text.encode()) > MAX_TEXT_BYTES for text in texts):
        return f"a text has at most {MAX_TEXT_BYTES} bytes of UTF-8"
    named = operation.request_id
    if named is not None and len(named.client.encode()) > MAX_CLIENT_BYTES:
        return f"a client's name has at most {MAX_CLIENT_BYTES} bytes of UTF-8"
    return None


def fault_in_transaction(transaction: Transaction) -> str | None:
    """Returns the error in a transaction, whatever partitions its keys are of; None if there is
    none.
    """
    steps = transaction.steps
    if not 1 <= len(steps) <= MAX_TRANSACTION_STEPS:
        return f"a transaction has 1 to {MAX_TRANSACTION_STEPS} steps, not {len(steps)}"
    if steps[0].group != transaction.group:
        return f"a transaction goes to its first step's group, {steps[0].group}"
    if len(transaction.request_id.client.encode()) > MAX_CLIENT_BYTES:
        return f"a client's name has at most {MAX_CLIENT_BYTES} bytes of UTF-8"
    names = [name for found in transaction.nodes.values() for name in found]
    if len(names) > MAX_TRANSACTION_NODES or not all(map(_NODE_NAME.fullmatch, names)):
        return f"nodes names at most {MAX_TRANSACTION_NODES} nodes, each a DNS label"
    size_bytes = 0
    for place, step in enumerate(steps, 1):
        fault = fault_in(step)
        if isinstance(step, Read):
            fault = "a step's read is not bounded" if step.bounded else fault
        elif step.request_id is not None:
            fault = "the transaction has a request_id, its steps have none"
        if fault is not None:
            return f"step {place}: {fault}"
        size_bytes += _size_bytes(step)
    if size_bytes > MAX_TRANSACTION_BYTES:
        return f"a transaction has at most {MAX_TRANSACTION_BYTES} bytes, not {size_bytes}"
    return None


def command_of(operation: Write | Cas | Append) -> PlainCommand:
    """Turns a write into its entry in the log."""
    match operation:
        case Write():
            return SetCommand(
                operation.key, operation.value, operation.filler, operation.request_id
            )
        case Cas():
            return CasCommand(
                operation.key, operation.expected, operation.value, operation.request_id
            )
        case Append():
            return AppendCommand(operation.key, operation.value, operation.request_id)


def begin_of(transaction: Transaction) -> Begin:
    """Turns a transaction without fault into the form that its coordinator takes."""
    steps: defaultdict[str, list[TransactionStep]] = defaultdict(list)
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, step in enumerate(transaction.steps):
        steps[step.group].append(_step(step))
        places[step.group].append(place)
    return Begin(
        request_id=transaction.request_id,
        steps={group: tuple(found) for group, found in steps.items()},
        places={group: tuple(found) for group, found in places.items()},
        nodes={group: tuple(names) for group, names in transaction.nodes.items()},
    )


def _step(operation: KeyOperation) -> TransactionStep:
    key = operation.key
    match operation:
        case Read():
            return TransactionStep(StepKind.READ, key)
        case Write():
            return TransactionStep(StepKind.WRITE, key, operation.value, None, operation.filler)
        case Cas():
            return TransactionStep(StepKind.CAS, key, operation.value, operation.expected)
        case Append():
            return TransactionStep(StepKind.APPEND, key, operation.value)


def _size_bytes(operation: KeyOperation) -> int:
    texts: list[object] = [operation.key]
    if not isinstance(operation, Read):
        texts.append(operation.value)
    if isinstance(operation, Cas):
        texts.append(operation.expected)
    filler_bytes = len(operation.filler) if isinstance(operation, Write) else 0
    return filler_bytes + sum(len(text.encode()) for text in texts if isinstance(text, str))
