"""The partition of a key, as Ignite calculates it. Pure.

A row lies in the partition that the hash of its colocation columns names; here that is the key
alone. A text is hashed by the first half of MurmurHash3 (128 bits, x64) of its UTF-8, folded to 32
bits. The hash of the row is that of the columns before, here 0 in four bytes, with the text's hash
as the seed. `"__part"` of a row is what Ignite itself says.
"""

from __future__ import annotations

import itertools

_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def partition_of(key: str, partitions: int) -> int:
    """Returns the partition of a row with this key."""
    return _absolute(_hash32(bytes(4), seed=_hash32(key.encode()))) % partitions


def key_for_partition(stem: str, partition: int, partitions: int) -> str:
    """Returns `stem` with the first number appended that puts the key into `partition`."""
    assert 0 <= partition < partitions
    for suffix in itertools.count():
        key = f"{stem}.{suffix}"
        if partition_of(key, partitions) == partition:
            return key
    raise AssertionError("unreachable")


def _absolute(signed: int) -> int:
    return 0 if signed == -(1 << 31) else abs(signed)


def _hash32(data: bytes, *, seed: int = 0) -> int:
    hashed = _murmur(data, seed & _MASK)
    folded = (hashed ^ (hashed >> 32)) & 0xFFFFFFFF
    return folded - (1 << 32) if folded >> 31 else folded


def _murmur(data: bytes, seed: int) -> int:
    h1 = h2 = seed
    whole = len(data) & ~15
    for at in range(0, whole, 16):
        k1 = int.from_bytes(data[at : at + 8], "little")
        k2 = int.from_bytes(data[at + 8 : at + 16], "little")
        h1 ^= _mixed(k1, _C1, 31, _C2)
        h1 = ((_rotated(h1, 27) + h2) * 5 + 0x52DCE729) & _MASK
        h2 ^= _mixed(k2, _C2, 33, _C1)
        h2 = ((_rotated(h2, 31) + h1) * 5 + 0x38495AB5) & _MASK
    tail = data[whole:]
    if len(tail) > 8:
        h2 ^= _mixed(int.from_bytes(tail[8:], "little"), _C2, 33, _C1)
    if tail:
        h1 ^= _mixed(int.from_bytes(tail[:8], "little"), _C1, 31, _C2)
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return (_finished(h1) + _finished(h2)) & _MASK


def _mixed(word: int, first: int, turn: int, second: int) -> int:
    return _rotated(word * first & _MASK, turn) * second & _MASK


def _rotated(word: int, turn: int) -> int:
    return (word << turn | word >> (64 - turn)) & _MASK


def _finished(word: int) -> int:
    word ^= word >> 33
    word = word * 0xFF51AFD7ED558CCD & _MASK
    word ^= word >> 33
    word = word * 0xC4CEB9FE1A85EC53 & _MASK
    return word ^ word >> 33
