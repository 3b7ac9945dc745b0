"""Every value in LMDB is sealed: a bit that flips in key or value is found by its reader."""

from __future__ import annotations

import random
from pathlib import Path

import lmdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonequake_store.errors import LogCorrupt, StateCorrupt, StoreCorrupt
from zonequake_store.raft.messages import Entry, EntryKind, HardState
from zonequake_store.state.partition import AppliedState, Cell
from zonequake_store.storage.checksums import content, seal, seal_damage
from zonequake_store.storage.data_store import DataStore, Flush
from zonequake_store.storage.log_store import LogStore
from zonequake_store.storage.log_writes import AppendEntries, GroupRecord, PutHardState, PutRecord

MAP_BYTES = 16 << 20


@given(key=st.binary(min_size=1, max_size=20), value=st.binary(max_size=200), data=st.data())
def test_no_single_flipped_bit_passes(key: bytes, value: bytes, data: st.DataObject) -> None:
    sealed = seal(key, value)
    assert seal_damage(key, sealed) is None
    assert content(sealed) == value
    bit = data.draw(st.integers(0, 8 * (len(key) + len(sealed)) - 1))
    whole = flipped(key + sealed, bit)
    assert seal_damage(whole[: len(key)], whole[len(key) :]) is not None


def test_too_few_bytes_for_a_checksum_are_damage() -> None:
    assert seal_damage(b"key", b"abc") == "3 bytes are too few for a checksum"


def flipped(raw: bytes, bit: int) -> bytes:
    changed = bytearray(raw)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def flip_in(path: Path, database: bytes | None, key: bytes, bit: int) -> None:
    """Flip a bit of a stored value, as LMDB would never notice."""
    environment = lmdb.open(str(path), max_dbs=3, map_size=MAP_BYTES)
    named = environment.open_db(database) if database else None
    with environment.begin(write=True, db=named) as txn:
        txn.put(key, flipped(bytes(txn.get(key, b"")), bit))
    environment.close()


def filled_cells(path: Path) -> None:
    store = DataStore(path, map_bytes=MAP_BYTES)
    cells = {f"k{number:03}": Cell(number, number + 1, b"f" * 20) for number in range(100)}
    state = AppliedState(index=100, term=1)
    store.flush([Flush(number=7, state=state, cells=cells, sessions={}, evicted=frozenset())])
    store.close()


def test_a_flipped_bit_in_a_cell_is_found_by_read_check_and_view(tmp_path: Path) -> None:
    filled_cells(tmp_path)
    key = (7).to_bytes(8, "big") + b"kk042"
    flip_in(tmp_path, None, key, random.Random(4).randrange(8 * 20))
    store = DataStore(tmp_path, map_bytes=MAP_BYTES)
    assert store.cell(7, "k041") == Cell(41, 42, b"f" * 20)
    with pytest.raises(StateCorrupt, match="damaged under b'kk042': CRC is"):
        store.cell(7, "k042")
    checked = store.check(7, b"", 40)
    assert checked == b"kk038"
    with pytest.raises(StateCorrupt, match="kk042"):
        store.check(7, checked, 40)
    view = store.view(7)
    with pytest.raises(StateCorrupt, match="kk042"):
        list(view.pairs())
    view.close()
    store.close()


def test_a_check_of_sound_cells_comes_to_their_end(tmp_path: Path) -> None:
    filled_cells(tmp_path)
    store = DataStore(tmp_path, map_bytes=MAP_BYTES)
    position: bytes | None = b""
    pieces = 0
    while position is not None:
        position = store.check(7, position, 30)
        pieces += 1
    assert pieces == 4
    store.close()


def test_a_cell_under_another_key_is_found(tmp_path: Path) -> None:
    filled_cells(tmp_path)
    environment = lmdb.open(str(tmp_path), map_size=MAP_BYTES)
    prefix = (7).to_bytes(8, "big")
    with environment.begin(write=True) as txn:
        moved = txn.pop(prefix + b"kk042")
        txn.put(prefix + b"kk043", bytes(moved or b""))
    environment.close()
    store = DataStore(tmp_path, map_bytes=MAP_BYTES)
    with pytest.raises(StateCorrupt, match="kk043"):
        store.check(7, b"", 1000)
    store.close()


def test_a_flipped_bit_in_the_applied_state_breaks_the_replica(tmp_path: Path) -> None:
    filled_cells(tmp_path)
    flip_in(tmp_path, None, (7).to_bytes(8, "big") + b"a", 40)
    store = DataStore(tmp_path, map_bytes=MAP_BYTES)
    with pytest.raises(StateCorrupt):
        store.state(7)
    with pytest.raises(StateCorrupt):
        store.view(7)
    store.close()


def test_a_flipped_bit_in_term_or_vote_breaks_the_replica(tmp_path: Path) -> None:
    store = LogStore(tmp_path, map_bytes=MAP_BYTES, sync=True)
    entry = Entry(4, 1, EntryKind.COMMAND, b"x")
    store.write([PutHardState(1, HardState(term=4)), AppendEntries(1, (entry,), False)])
    store.close()
    flip_in(tmp_path, b"state", (1).to_bytes(8, "big"), 8 * 5 + 1)
    again = LogStore(tmp_path, map_bytes=MAP_BYTES, sync=True)
    with pytest.raises(LogCorrupt, match="CRC is"):
        again.recover(1)
    again.close()


def test_a_flipped_bit_in_a_replicas_record_damages_the_environment(tmp_path: Path) -> None:
    store = LogStore(tmp_path, map_bytes=MAP_BYTES, sync=True)
    record = GroupRecord(
        number=1, data_number=2, incarnation="ab", zone="z", partition=0, partitions=1, token=1
    )
    store.write([PutRecord("g", record)])
    store.close()
    flip_in(tmp_path, b"meta", b"group/g", 100)
    with pytest.raises(StoreCorrupt, match="group/g"):
        LogStore(tmp_path, map_bytes=MAP_BYTES, sync=True)


def test_a_log_that_ends_before_what_is_stored_as_committed_is_corrupt(tmp_path: Path) -> None:
    store = LogStore(tmp_path, map_bytes=MAP_BYTES, sync=True)
    entry = Entry(4, 1, EntryKind.COMMAND, b"x")
    store.write([PutHardState(1, HardState(term=4, commit=2)), AppendEntries(1, (entry,), False)])
    with pytest.raises(LogCorrupt, match="entry 2 is stored as committed, but the log ends at 1"):
        store.recover(1)
    store.close()
