"""A record of the log: the entries that one Ready appended, under one CRC-32.

    crc-32 of the rest (4 bytes) · count (4) · flags (1) · MessagePack array of entries

One record for a batch instead of one for each entry costs one B-tree insert a turn, not one a
write. LMDB has no checksums of its own.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import msgspec

from zonequake_store.errors import LogCorrupt
from zonequake_store.raft.messages import Entry, EntryKind

_HEADER = struct.Struct(">IIB")
_HAS_CONFIGURATION = 1

# One value of LMDB is written as one run of pages: long runs fragment the free list.
_MAX_RECORD_BYTES = 256 * 1024

_encoder = msgspec.msgpack.Encoder()
_entries_decoder: msgspec.msgpack.Decoder[tuple[Entry, ...]] = msgspec.msgpack.Decoder(
    tuple[Entry, ...]
)


def pieces(entries: tuple[Entry, ...]) -> Iterator[tuple[Entry, ...]]:
    """Split what one record should not hold."""
    start = 0
    size_bytes = 0
    for position, entry in enumerate(entries):
        if size_bytes and size_bytes + len(entry.data) > _MAX_RECORD_BYTES:
            yield entries[start:position]
            start, size_bytes = position, 0
        size_bytes += len(entry.data) + 16
    yield entries[start:]


def encode_record(entries: tuple[Entry, ...]) -> bytes:
    """Encodes these entries as a record."""
    flags = (
        _HAS_CONFIGURATION if any(entry.kind is EntryKind.CONFIGURATION for entry in entries) else 0
    )
    body = _encoder.encode(entries)
    header = _HEADER.pack(0, len(entries), flags)[4:]
    return zlib.crc32(body, zlib.crc32(header)).to_bytes(4, "big") + header + body


def damage(record: bytes) -> str | None:
    """Returns why a record cannot be used, or None."""
    if len(record) < _HEADER.size:
        return f"{len(record)} bytes are too few for a header"
    expected = int.from_bytes(record[:4], "big")
    found = zlib.crc32(record[4:])
    return None if found == expected else f"CRC is {found:08x}, expected {expected:08x}"


def decode_record(record: bytes) -> tuple[Entry, ...]:
    """Decodes the entries of a record. Raises LogCorrupt."""
    reason = damage(record)
    if reason:
        raise LogCorrupt(f"a record went bad while the node ran: {reason}")
    return _entries_decoder.decode(memoryview(record)[_HEADER.size :])


def count_in(record: bytes) -> int:
    """Returns how many entries a sound record holds."""
    count: int = _HEADER.unpack_from(record)[1]
    return count


def holds_configuration(record: bytes) -> bool:
    """Returns whether a sound record holds a configuration entry."""
    flags: int = _HEADER.unpack_from(record)[2]
    return bool(flags & _HAS_CONFIGURATION)
