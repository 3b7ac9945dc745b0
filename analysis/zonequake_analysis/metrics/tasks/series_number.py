"""The number of a series in the tables: XXH64 of metric and labels, as Spark's `xxhash64`. Pure.

So the tables of a run have the numbers that a query over the source would give. The executors have
no library for it, and a task computes one for each of its series, not for each sample.
"""

from __future__ import annotations

import struct

_MASK = (1 << 64) - 1
_P1 = 0x9E3779B185EBCA87
_P2 = 0xC2B2AE3D27D4EB4F
_P3 = 0x165667B19E3779F9
_P4 = 0x85EBCA77C2B2AE63
_P5 = 0x27D4EB2F165667C5
_SEED = 42
"""Spark's own."""


def of_id(metric: str, series_id: int) -> int:
    """Returns `xxhash64(metric, series_id)`, signed."""
    inner = xxh64(metric.encode(), _SEED)
    return _signed(xxh64(struct.pack("<q", series_id), inner))


def of_text(metric: str, labels: bytes) -> int:
    """Returns `xxhash64(metric, labels)`, signed; `labels` as UTF-8."""
    return _signed(xxh64(labels, xxh64(metric.encode(), _SEED)))


def xxh64(data: bytes, seed: int) -> int:
    """Returns the hash, unsigned (https://github.com/Cyan4973/xxHash/blob/dev/doc)."""
    size, at = len(data), 0
    if size >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while at + 32 <= size:
            read = struct.unpack_from("<4Q", data, at)
            lanes = [_round(lane, one) for lane, one in zip(lanes, read, strict=True)]
            at += 32
        found = sum(_turned(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        found = seed + _P5
    found = (found + size) & _MASK
    while at + 8 <= size:
        (eight,) = struct.unpack_from("<Q", data, at)
        found = (_turned(found ^ _round(0, eight), 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= size:
        (four,) = struct.unpack_from("<I", data, at)
        found = (_turned(found ^ (four * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        at += 4
    for one in data[at:]:
        found = _turned(found ^ (one * _P5 & _MASK), 11) * _P1 & _MASK
    found = (found ^ found >> 33) * _P2 & _MASK
    found = (found ^ found >> 29) * _P3 & _MASK
    return found ^ found >> 32


def _round(lane: int, read: int) -> int:
    return _turned(lane + read * _P2, 31) * _P1 & _MASK


def _turned(number: int, by: int) -> int:
    number &= _MASK
    return (number << by | number >> (64 - by)) & _MASK


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
