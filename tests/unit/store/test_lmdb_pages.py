"""LMDB files are looked at with plain reads: what is cut short or no page is found unmapped."""

from __future__ import annotations

import struct
from pathlib import Path

import lmdb
import pytest

from zonequake_store.errors import StoreCorrupt
from zonequake_store.storage.lmdb_pages import is_cut_short, walk

PAGE_BYTES = 4096


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two databases in trees of some levels, a few values with pages of their own."""
    environment = lmdb.open(str(tmp_path), max_dbs=3, map_size=64 << 20)
    for name in (b"small", b"large"):
        database = environment.open_db(name)
        for begin in range(0, 3000, 1000):
            with environment.begin(write=True, db=database) as txn:
                for number in range(begin, begin + 1000):
                    value = b"v" * (9000 if name == b"large" and number % 100 == 0 else 60)
                    txn.put(struct.pack(">Q", number * 7919 % 3000), value)
    environment.close()
    return tmp_path / "data.mdb"


def used_pages(file: Path) -> list[int]:
    """Pages whose loss `walk` must notice: found by damaging one after the other."""
    content = file.read_bytes()
    found = []
    for page in range(2, len(content) // PAGE_BYTES):
        at = page * PAGE_BYTES
        file.write_bytes(content[:at] + bytes(PAGE_BYTES) + content[at + PAGE_BYTES :])
        try:
            walk(file)
        except StoreCorrupt:
            found.append(page)
    file.write_bytes(content)
    return found


def test_a_sound_file_passes(file: Path) -> None:
    assert not is_cut_short(file)
    walk(file)


def test_a_file_that_is_not_there_or_empty_passes(tmp_path: Path) -> None:
    empty = tmp_path / "empty.mdb"
    empty.touch()
    for path in (empty, tmp_path / "none.mdb"):
        assert not is_cut_short(path)
        walk(path)


def test_every_page_that_is_no_page_any_more_is_found_as_often_as_lmdb_counts_pages(
    file: Path,
) -> None:
    environment = lmdb.open(str(file.parent), max_dbs=3, readonly=True)
    expected = 0
    with environment.begin() as txn:
        trees = [txn.stat(environment.open_db(name, txn)) for name in (b"small", b"large")]
        for tree in (txn.stat(), *trees):
            # The first page alone of a value that has several says what it is.
            expected += tree["branch_pages"] + tree["leaf_pages"] + tree["overflow_pages"] // 3
        assert min(tree["depth"] for tree in trees) > 1
        assert trees[1]["overflow_pages"] == 90
    environment.close()
    found = len(used_pages(file))
    assert expected <= found <= expected + 3, "the tree of free pages has a few besides"


@pytest.mark.parametrize("share", [0.99, 0.7, 0.3, 0.05])
def test_a_file_cut_short_is_found(file: Path, share: float) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])
    assert is_cut_short(file)
    with pytest.raises(StoreCorrupt, match="cut short"):
        walk(file)


def test_a_file_cut_within_its_meta_pages_is_found(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:4200])
    with pytest.raises(StoreCorrupt, match="before its meta pages"):
        is_cut_short(file)


def test_pages_that_nothing_uses_may_be_missing_at_the_end(file: Path) -> None:
    pages = len(file.read_bytes()) // PAGE_BYTES
    last_used = max(used_pages(file))
    # LMDB itself may leave out what it freed again within one commit.
    file.write_bytes(file.read_bytes()[: (last_used + 3) * PAGE_BYTES])
    walk(file)
    assert is_cut_short(file) == (last_used + 3 < pages)


def test_a_node_that_points_out_of_its_page_is_found(file: Path) -> None:
    content = bytearray(file.read_bytes())
    page = used_pages(file)[0]
    struct.pack_into("<H", content, page * PAGE_BYTES + 16, 0xFFFF)
    file.write_bytes(bytes(content))
    with pytest.raises(StoreCorrupt, match=f"page {page} has a node outside of it"):
        walk(file)


def test_another_format_is_refused_by_name(file: Path) -> None:
    content = bytearray(file.read_bytes())
    struct.pack_into("<I", content, 20, 999)
    file.write_bytes(bytes(content))
    with pytest.raises(StoreCorrupt, match="version 999, expected 1"):
        walk(file)
