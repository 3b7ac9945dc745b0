"""The load's records in etcd, and the order that it reads from it. Pure.

    <zone>/k/<key>   a register's integer or a list's integers, as JSON text
    <zone>/f/<key>   a register's filler, in the same transaction: a compare of the value, which is
                     what a cas is, must not meet it, and no read pays for it

A place in the claimed order is (lineage 0, term 1, index = revision). etcd counts the revisions of
all keys by one counter, over all leaders, and each transaction that writes has one of its own. The
Raft term in an answer's header is no part of that order: it is the term that the member was in when
it answered, so that a newer term may stand beside an older revision.
"""

from __future__ import annotations

import msgspec

from zonequake_protocol.client import Value
from zonequake_target_etcd.client.protocol.errors import EtcdError

LINEAGE = 0
TERM = 1

_FAILED_PRECONDITION = 9


def key_of(zone: str, key: str) -> bytes:
    """Returns the etcd key of a key's value."""
    return f"{zone}/k/{key}".encode()


def filler_of(zone: str, key: str) -> bytes:
    """Returns the etcd key of a key's filler."""
    return f"{zone}/f/{key}".encode()


def stored(value: Value) -> bytes:
    """Encodes a value as etcd keeps it."""
    return msgspec.json.encode(value)


def read(raw: bytes) -> Value:
    """Returns a value as it was written; one in another form is shown as text."""
    try:
        return msgspec.json.decode(raw, type=int | list[int])
    except msgspec.MsgspecError:
        return raw.decode(errors="replace")


def elements(raw: bytes) -> list[int]:
    """Decodes a list's elements. Raises EtcdError, which is certain, if the key holds no list."""
    found = read(raw)
    if isinstance(found, list):
        return found
    message = f"found {found!r}, expected a list to append to"
    raise EtcdError(code=_FAILED_PRECONDITION, message=message, certain=True)


def dump_prefix(zone: str) -> bytes:
    """Begins the keys that a dump of the zone holds; fillers are left to the hash."""
    return f"{zone}/k/".encode()
