"""LMDB's file format, read with plain reads: whether the pages of the newest commit are all there.

    page 0, page 1   meta pages: the one with the higher transaction id counts
    page n           header: number (8 bytes) · pad (2) · flags (2) · lower, upper (2 each) or,
                     of a value that has pages of its own, their count (4)
    branch, leaf     offsets of nodes (2 bytes each) up to `lower`, nodes from `upper` on

The layout is that of LMDB 0.9 on a little-endian machine of 64 bits (data version 1), as package
`lmdb` builds it. `walk` follows every page from the roots, so that what it lets pass can be mapped;
what the values say is for their checksums.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from zonequake_store.errors import StoreCorrupt

_HEADER = struct.Struct("<QHHHH")
_META = struct.Struct("<IIQQ")
_DATABASE = struct.Struct("<IHHQQQQQ")
_META_END = struct.Struct("<QQ")
_NODE = struct.Struct("<HHHH")
_PAGE_COUNT = struct.Struct("<I")
_NUMBER = struct.Struct("<Q")

_MAGIC = 0xBEEFC0DE
_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 1, 2, 4, 8
_BIG, _DATABASE_NODE = 1, 2
_NO_PAGE = 0xFFFFFFFFFFFFFFFF
_SMALLEST_PAGE_BYTES, _LARGEST_PAGE_BYTES = 512, 65536
_FIRST_META_BYTES = _HEADER.size + _META.size + 2 * _DATABASE.size + _META_END.size


@dataclass(frozen=True, slots=True)
class _Tree:
    depth: int
    root: int

    @classmethod
    def read(cls, raw: bytes, at: int) -> _Tree:
        _, _, depth, _, _, _, _, root = _DATABASE.unpack_from(raw, at)
        return cls(depth, root)


@dataclass(frozen=True, slots=True)
class _Meta:
    page_bytes: int
    trees: tuple[_Tree, _Tree]
    last_page: int
    transaction: int


@dataclass(frozen=True, slots=True)
class _File:
    descriptor: int
    size_bytes: int
    meta: _Meta

    def page(self, number: int) -> bytes:
        page_bytes = self.meta.page_bytes
        if number > self.meta.last_page:
            raise StoreCorrupt(
                f"page {number} is used, but the last one is page {self.meta.last_page}"
            )
        if (number + 1) * page_bytes > self.size_bytes:
            raise StoreCorrupt(
                f"the file ends at {self.size_bytes} bytes, before page {number} of its newest "
                "commit: it was cut short"
            )
        try:
            raw = os.pread(self.descriptor, page_bytes, number * page_bytes)
        except OSError as error:
            raise StoreCorrupt(f"page {number} cannot be read: {error}") from error
        found = _HEADER.unpack_from(raw)[0]
        if found != number:
            raise StoreCorrupt(f"page {number} says that it is page {found}")
        return raw


def is_cut_short(path: Path) -> bool:
    """Returns whether a file is shorter than its newest commit says, which LMDB allows for pages
    that nothing uses. Raises StoreCorrupt if that cannot be said, OSError.
    """
    if not path.exists() or path.stat().st_size == 0:
        return False
    with _opened(path) as file:
        return file.size_bytes < (file.meta.last_page + 1) * file.meta.page_bytes


def walk(path: Path) -> None:
    """Follow every page that the newest commit uses; about 4 s for 1 GB.

    Raises StoreCorrupt for the first that is not what it must be, OSError.
    """
    if not path.exists() or path.stat().st_size == 0:
        return
    with _opened(path) as file:
        for tree in file.meta.trees:
            _walk_tree(file, tree)


@contextmanager
def _opened(path: Path) -> Iterator[_File]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        size_bytes = os.fstat(descriptor).st_size
        first = _meta_at(descriptor, 0)
        second = _meta_at(descriptor, first.page_bytes)
        newest = max(first, second, key=lambda meta: meta.transaction)
        yield _File(descriptor, size_bytes, newest)
    finally:
        os.close(descriptor)


def _meta_at(descriptor: int, at: int) -> _Meta:
    raw = os.pread(descriptor, _FIRST_META_BYTES, at)
    if len(raw) < _FIRST_META_BYTES:
        raise StoreCorrupt("the file ends before its meta pages: it was cut short")
    flags = _HEADER.unpack_from(raw)[2]
    magic, version, _, _ = _META.unpack_from(raw, _HEADER.size)
    if not flags & _META_PAGE or magic != _MAGIC:
        raise StoreCorrupt(f"there is no LMDB meta page at byte {at}")
    if version != 1:
        raise StoreCorrupt(f"its format is version {version}, expected 1")
    at_trees = _HEADER.size + _META.size
    page_bytes = _DATABASE.unpack_from(raw, at_trees)[0]
    if not _SMALLEST_PAGE_BYTES <= page_bytes <= _LARGEST_PAGE_BYTES:
        raise StoreCorrupt(f"its pages would have {page_bytes} bytes")
    last_page, transaction = _META_END.unpack_from(raw, at_trees + 2 * _DATABASE.size)
    trees = (_Tree.read(raw, at_trees), _Tree.read(raw, at_trees + _DATABASE.size))
    return _Meta(page_bytes, trees, last_page, transaction)


def _walk_tree(file: _File, tree: _Tree) -> None:
    if tree.root == _NO_PAGE:
        return
    open_pages = [(tree.root, 1)]
    while open_pages:
        number, depth = open_pages.pop()
        if depth > tree.depth:
            raise StoreCorrupt(f"page {number} lies deeper than its tree, which has {tree.depth}")
        raw = file.page(number)
        flags = _HEADER.unpack_from(raw)[2]
        if flags & _BRANCH:
            for at in _nodes(number, raw):
                low, high, flags, _ = _NODE.unpack_from(raw, at)
                open_pages.append((low | high << 16 | flags << 32, depth + 1))
        elif flags & _LEAF:
            _walk_leaf(file, number, raw)
        else:
            raise StoreCorrupt(f"page {number} is neither a branch nor a leaf")


def _walk_leaf(file: _File, number: int, raw: bytes) -> None:
    for at in _nodes(number, raw):
        low, high, flags, key_bytes = _NODE.unpack_from(raw, at)
        value_at = at + _NODE.size + key_bytes
        value_bytes = low | high << 16
        stored_bytes = _NUMBER.size if flags & _BIG else value_bytes
        if value_at + stored_bytes > len(raw):
            raise StoreCorrupt(f"a node of page {number} reaches over the page's end")
        if flags & _BIG:
            _walk_big(file, _NUMBER.unpack_from(raw, value_at)[0], value_bytes)
        elif flags & _DATABASE_NODE:
            _walk_tree(file, _Tree.read(raw, value_at))


def _walk_big(file: _File, number: int, value_bytes: int) -> None:
    raw = file.page(number)
    flags = _HEADER.unpack_from(raw)[2]
    pages: int = _PAGE_COUNT.unpack_from(raw, _HEADER.size - _PAGE_COUNT.size)[0]
    if not flags & _OVERFLOW or pages * len(raw) < _HEADER.size + value_bytes:
        raise StoreCorrupt(f"page {number} does not begin a value of {value_bytes} bytes")
    if (number + pages) * len(raw) > file.size_bytes:
        raise StoreCorrupt(
            f"the file ends at {file.size_bytes} bytes, within the value at page {number}: it was "
            "cut short"
        )


def _nodes(number: int, raw: bytes) -> tuple[int, ...]:
    """Returns where a page's nodes begin."""
    _, _, _, lower, upper = _HEADER.unpack_from(raw)
    if not _HEADER.size <= lower <= upper <= len(raw):
        raise StoreCorrupt(f"page {number} has no sound header")
    offsets: tuple[int, ...] = struct.unpack_from(f"<{(lower - _HEADER.size) // 2}H", raw, 16)
    if any(not upper <= at <= len(raw) - _NODE.size for at in offsets):
        raise StoreCorrupt(f"page {number} has a node outside of it")
    return offsets
