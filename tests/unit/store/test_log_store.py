"""Logs in LMDB: what is written is read back, also after truncation, compaction and damage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonequake_store.errors import LogCorrupt, StorageError
from zonequake_store.raft.messages import (
    Configuration,
    Entry,
    EntryKind,
    HardState,
    Peer,
    SnapshotMeta,
    encode_configuration,
)
from zonequake_store.replica.log import DurableLog
from zonequake_store.storage.log_store import LogStore
from zonequake_store.storage.log_writes import (
    AppendEntries,
    Compact,
    Erase,
    GroupRecord,
    Install,
    PutHardState,
    PutRecord,
)

MAP_BYTES = 64 << 20
PEERS = Configuration(peers=(Peer("n1", "00"),), token=1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    opened = LogStore(tmp_path / "log", map_bytes=MAP_BYTES, sync=True)
    yield opened
    opened.close()


def entries(first: int, last: int, term: int = 1) -> tuple[Entry, ...]:
    return tuple(
        Entry(term, index, EntryKind.COMMAND, f"{term}/{index}".encode())
        for index in range(first, last + 1)
    )


def meta(index: int, term: int = 1) -> SnapshotMeta:
    return SnapshotMeta(index, term, PEERS, 1)


def append(log: DurableLog, store: LogStore, added: tuple[Entry, ...]) -> None:
    store.write([log.append(added)])
    log.stored(added)


def test_what_was_appended_is_read_back_in_pieces_of_the_asked_size(store: LogStore) -> None:
    log = DurableLog(store, 1, None)
    append(log, store, entries(1, 5))
    append(log, store, entries(6, 9))
    assert log.entries(1, 10, 1 << 20) == list(entries(1, 9))
    assert log.entries(4, 8, 1 << 20) == list(entries(4, 7))
    assert log.entries(4, 8, 0) == list(entries(4, 4))
    assert [log.term(index) for index in (0, 1, 9)] == [0, 1, 1]


def test_an_append_in_the_middle_of_a_record_replaces_what_follows(store: LogStore) -> None:
    log = DurableLog(store, 1, None)
    append(log, store, entries(1, 5))
    append(log, store, entries(6, 9))
    append(log, store, entries(4, 6, term=2))
    assert log.entries(1, 7, 1 << 20) == [*entries(1, 3), *entries(4, 6, term=2)]
    recovered = store.recover(1)
    assert (recovered.last_index, recovered.last_term) == (6, 2)


def test_logs_of_two_replicas_do_not_touch(store: LogStore) -> None:
    one, two = DurableLog(store, 1, None), DurableLog(store, 2, None)
    append(one, store, entries(1, 3))
    append(two, store, entries(1, 6, term=4))
    append(one, store, entries(2, 2, term=3))
    assert two.entries(1, 7, 1 << 20) == list(entries(1, 6, term=4))
    store.write([Erase("g", 2)])
    assert store.recover(2).last_index == 0
    assert store.recover(1).last_index == 2


def test_a_truncated_configuration_gives_way_to_the_one_before(store: LogStore) -> None:
    log = DurableLog(store, 1, None)
    first = Entry(1, 1, EntryKind.CONFIGURATION, encode_configuration(PEERS))
    second = Configuration(peers=(Peer("n2", "01"),), token=2)
    append(log, store, (first, *entries(2, 3)))
    append(log, store, (Entry(1, 4, EntryKind.CONFIGURATION, encode_configuration(second)),))
    assert log.configurations() == [(1, PEERS), (4, second)]
    append(log, store, entries(4, 4, term=2))
    assert log.configurations() == [(1, PEERS)]
    assert DurableLog(store, 1, store.recover(1)).configurations() == [(1, PEERS)]


def test_a_compacted_log_begins_behind_the_snapshot_also_after_a_restart(store: LogStore) -> None:
    log = DurableLog(store, 1, None)
    append(log, store, entries(1, 5))
    append(log, store, entries(6, 9))
    store.write([Compact(1, meta(7))])
    log.compacted(meta(7))
    for view in (log, DurableLog(store, 1, store.recover(1))):
        assert (view.first_index, view.last_index, view.term(7)) == (8, 9, 1)
        assert view.entries(8, 10, 1 << 20) == list(entries(8, 9))
        assert view.configurations() == [(1, PEERS)]


def test_an_installed_snapshot_replaces_the_whole_log(store: LogStore) -> None:
    record = GroupRecord(
        number=1, data_number=2, incarnation="ab", zone="z", partition=0, partitions=1, token=1
    )
    log = DurableLog(store, 1, None)
    append(log, store, entries(1, 5))
    store.write(
        [Install("g", record, meta(50, term=3)), AppendEntries(1, entries(51, 52, 3), False)]
    )
    recovered = store.recover(1)
    assert (recovered.last_index, recovered.last_term) == (52, 3)
    assert store.records() == {"g": record}
    assert store.next_number() == 3


def test_a_damaged_last_record_of_a_synced_log_breaks_the_replica(tmp_path: Path) -> None:
    # A commit is there whole or not at all: this record was synced, and perhaps acknowledged.
    again = damaged_log(tmp_path, first_index=5, sync=True)
    for _ in range(2):
        with pytest.raises(LogCorrupt, match=r"record of index 5: CRC is .* the last one"):
            again.recover(1)
    again.close()


def test_a_damaged_last_record_of_an_unsynced_log_is_cut_off_with_a_reason(tmp_path: Path) -> None:
    again = damaged_log(tmp_path, first_index=5, sync=False)
    recovered = again.recover(1)
    assert (recovered.last_index, recovered.last_term) == (4, 1)
    assert recovered.cut is not None
    assert "record of index 5" in recovered.cut
    assert again.recover(1).cut is None
    again.close()


def test_a_damaged_record_in_the_middle_breaks_the_replica(tmp_path: Path) -> None:
    again = damaged_log(tmp_path, first_index=1, sync=True)
    with pytest.raises(LogCorrupt, match=r"record of index 1: CRC is .* records follow"):
        again.recover(1)
    again.close()


def test_a_term_that_cannot_be_read_breaks_the_replica(tmp_path: Path) -> None:
    store = LogStore(tmp_path / "log", map_bytes=MAP_BYTES, sync=True)
    store.write([PutHardState(1, HardState(term=4)), AppendEntries(1, entries(1, 4), False)])
    store.close()
    environment = lmdb.open(str(tmp_path / "log"), max_dbs=3, map_size=MAP_BYTES)
    with environment.begin(write=True, db=environment.open_db(b"state")) as txn:
        txn.put((1).to_bytes(8, "big"), b"rot")
    environment.close()
    again = LogStore(tmp_path / "log", map_bytes=MAP_BYTES, sync=True)
    with pytest.raises(LogCorrupt, match="cannot be read"):
        again.recover(1)
    again.close()


def test_a_missing_record_breaks_the_replica(store: LogStore) -> None:
    store.write([AppendEntries(1, entries(1, 4), False), AppendEntries(1, entries(9, 9), False)])
    with pytest.raises(LogCorrupt, match="entries 5 to 8 are missing"):
        store.recover(1)


def test_a_full_map_stores_nothing_of_the_batch_and_says_what_to_do(tmp_path: Path) -> None:
    store = LogStore(tmp_path / "log", map_bytes=1 << 20, sync=True)
    store.write([PutHardState(1, HardState(term=4))])
    big = tuple(Entry(1, i, EntryKind.COMMAND, bytes(200_000)) for i in range(1, 12))
    with pytest.raises(StorageError, match="ZQ_LOG_MAP_BYTES"):
        store.write([PutHardState(1, HardState(term=5)), AppendEntries(1, big, False)])
    assert store.recover(1).hard_state.term == 4
    store.close()


def test_what_waited_for_room_is_not_stored_behind_an_erasure_that_went_first(
    store: LogStore,
) -> None:
    record = GroupRecord(
        number=1,
        data_number=2,
        incarnation="ab",
        zone="z",
        partition=0,
        partitions=1,
        token=1,
    )
    store.write([PutRecord("g", record), AppendEntries(1, entries(1, 3), False)])
    store.write([Erase("g", 1)])
    store.write([AppendEntries(1, entries(4, 5), False), Install("g", record, meta(9))])
    assert store.records() == {}
    assert store.recover(1).last_index == 0
    assert store.recover(1).snapshot is None


def test_a_lost_tail_takes_the_commit_index_along(store: LogStore) -> None:
    store.write([AppendEntries(1, entries(1, 80), False), PutHardState(1, HardState(2, None, 79))])
    store.drop_tail(1, 50, keep_until=10)
    recovered = store.recover(1)
    assert (recovered.last_index, recovered.hard_state) == (30, HardState(2, None, 30))
    store.drop_tail(1, 50, keep_until=10)
    assert store.recover(1).last_index == 10


def test_the_identity_stays_and_numbers_are_never_used_again(store: LogStore) -> None:
    assert store.identity("aa") == "aa"
    assert store.identity("bb") == "aa"
    record = GroupRecord(
        number=4, data_number=9, incarnation="ab", zone="z", partition=0, partitions=1, token=1
    )
    store.write([PutRecord("g", record)])
    store.write([Erase("g", 4)])
    assert store.next_number() == 10
    assert store.records() == {}


@settings(max_examples=30, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 30), st.booleans()), max_size=12)
)
def test_any_sequence_of_appends_and_compactions_reads_like_a_list(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, bool]]
) -> None:
    store = LogStore(tmp_path_factory.mktemp("log"), map_bytes=MAP_BYTES, sync=False)
    log = DurableLog(store, 1, None)
    model: dict[int, Entry] = {}
    for term, (back, count, compact) in enumerate(steps, 1):
        first = max(log.first_index, log.last_index + 2 - back)
        added = entries(first, first + count - 1, term)
        append(log, store, added)
        model = {i: e for i, e in model.items() if i < first} | {e.index: e for e in added}
        if compact:
            index = (log.first_index + log.last_index) // 2
            point = meta(index, log.term(index))
            store.write([Compact(1, point)])
            log.compacted(point)
            model = {i: e for i, e in model.items() if i > index}
        for view in (log, DurableLog(store, 1, store.recover(1))):
            assert (view.first_index, view.last_index) == (log.first_index, first + count - 1)
            if model:
                assert view.entries(min(model), max(model) + 1, 1 << 30) == list(model.values())
    store.close()


def damaged_log(folder: Path, *, first_index: int, sync: bool) -> LogStore:
    """A log of two records, 1 to 4 and 5 to 8; the one that begins at `first_index` is damaged."""
    store = LogStore(folder / "log", map_bytes=MAP_BYTES, sync=sync)
    store.write([AppendEntries(1, entries(1, 4), False), AppendEntries(1, entries(5, 8), False)])
    store.close()
    damage_record(folder / "log", first_index=first_index)
    return LogStore(folder / "log", map_bytes=MAP_BYTES, sync=sync)


def damage_record(path: Path, *, first_index: int) -> None:
    environment = lmdb.open(str(path), max_dbs=3, map_size=MAP_BYTES)
    database = environment.open_db(b"log")
    key = (1).to_bytes(8, "big") + first_index.to_bytes(8, "big")
    with environment.begin(write=True, db=database) as txn:
        value = bytearray(txn.get(key, b""))
        value[-1] ^= 0xFF
        txn.put(key, bytes(value))
    environment.close()
