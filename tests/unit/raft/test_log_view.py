"""The view of the log: stored entries below, unstored ones above, truncation and compaction."""

from __future__ import annotations

import pytest

from tests.unit.raft.memory_log import MemoryLogStore
from tests.unit.raft.small_cluster import peers
from zonequake_store.raft.api import Ready
from zonequake_store.raft.errors import LogCompacted, LogCorrupted
from zonequake_store.raft.log import RaftLog
from zonequake_store.raft.messages import (
    Configuration,
    Entry,
    EntryKind,
    SnapshotMeta,
    encode_configuration,
)


def commands(first: int, *terms: int) -> list[Entry]:
    return [
        Entry(term, first + position, EntryKind.COMMAND, b"%d" % term)
        for position, term in enumerate(terms)
    ]


def configured(index: int, term: int, names: str, token: int) -> Entry:
    data = encode_configuration(Configuration(peers=peers(names), token=token))
    return Entry(term, index, EntryKind.CONFIGURATION, data)


def view(store: MemoryLogStore, *, applied: int = 0, cached_bytes: int = 1000) -> RaftLog:
    return RaftLog(store, commit=applied, applied=applied, cached_bytes=cached_bytes)


def store_all(log: RaftLog, store: MemoryLogStore) -> None:
    snapshot, entries = log.take_unstored()
    store.store(Ready(snapshot=snapshot, entries=entries))
    log.stored(snapshot)


def test_entries_come_from_memory_and_store_as_if_from_one_log() -> None:
    store = MemoryLogStore()
    log = view(store, cached_bytes=0)
    log.append(commands(1, 1, 1, 2))
    store_all(log, store)
    log.append(commands(4, 2, 3))
    assert [log.term(index) for index in range(6)] == [0, 1, 1, 2, 2, 3]
    assert list(log.entries(1, 1000)) == commands(1, 1, 1, 2)
    assert list(log.entries(4, 1000)) == commands(4, 2, 3)
    assert len(log.entries(1, 1)) == 1


def test_entries_in_memory_are_limited_by_size_but_never_to_none() -> None:
    log = view(MemoryLogStore())
    log.append_commands(1, [b"x" * 10, b"y" * 10, b"z" * 10])
    assert [entry.index for entry in log.entries(1, 20)] == [1, 2]
    assert [entry.index for entry in log.entries(3, 1)] == [3]


def test_a_late_copy_of_an_older_append_removes_nothing() -> None:
    store = MemoryLogStore()
    log = view(store)
    log.append(commands(1, 1, 1, 1, 1))
    log.merge(commands(1, 1, 1))
    assert log.last_index == 4


def test_a_conflict_truncates_from_the_first_different_entry() -> None:
    store = MemoryLogStore()
    log = view(store)
    log.append(commands(1, 1, 1, 1, 1))
    store_all(log, store)
    log.merge(commands(2, 1, 2))
    assert [log.term(index) for index in range(1, log.last_index + 1)] == [1, 1, 2]
    assert log.stable == 2
    store_all(log, store)
    assert store.entries(1, 9, 1000) == commands(1, 1, 1, 2)


def test_what_was_truncated_while_being_stored_does_not_count_as_stored() -> None:
    store = MemoryLogStore()
    log = view(store)
    log.append(commands(1, 1, 1, 1))
    snapshot, entries = log.take_unstored()
    log.merge(commands(2, 2))
    store.store(Ready(entries=entries))
    log.stored(snapshot)
    assert log.stable == 1
    assert log.take_unstored() == (None, tuple(commands(2, 2)))


def test_a_conflict_with_a_committed_entry_is_corruption() -> None:
    log = view(MemoryLogStore())
    log.append(commands(1, 1, 1))
    log.commit_to(2)
    with pytest.raises(LogCorrupted, match="conflicts with a committed one"):
        log.merge(commands(2, 2))


def test_a_commit_beyond_the_log_means_its_tail_was_lost() -> None:
    log = view(MemoryLogStore())
    with pytest.raises(LogCorrupted, match="tail was lost"):
        log.commit_to(1)


def test_truncation_restores_the_configuration_before() -> None:
    log = view(MemoryLogStore())
    log.append([configured(1, 1, "abc", 1), configured(2, 1, "abd", 2)])
    assert (log.configuration_index, log.token) == (2, 2)
    log.merge(commands(2, 2))
    assert (log.configuration_index, log.token) == (1, 1)
    assert log.configuration == Configuration(peers=peers("abc"), token=1)


def test_only_stored_and_committed_entries_are_given_to_apply_and_each_once() -> None:
    store = MemoryLogStore()
    log = view(store)
    log.append(commands(1, 1, 1, 1))
    log.commit_to(2)
    assert log.take_committed(1000) == ()
    store_all(log, store)
    assert log.take_committed(1) == tuple(commands(1, 1))
    assert log.take_committed(1000) == tuple(commands(2, 1))
    assert not log.has_committed


def test_compaction_keeps_the_configuration_in_force() -> None:
    store = MemoryLogStore()
    log = view(store)
    log.append([configured(1, 1, "abc", 1), *commands(2, 1, 1, 1)])
    store_all(log, store)
    log.commit_to(4)
    log.take_committed(1000)
    log.applied = 4
    meta = log.snapshot_meta(3)
    store.compact(meta)
    log.compact(3)
    assert (log.first_index, log.term(3), log.term(4)) == (4, 1, 1)
    assert meta == SnapshotMeta(3, 1, Configuration(peers=peers("abc"), token=1), 1)
    with pytest.raises(LogCompacted):
        log.entries(3, 1000)
    with pytest.raises(LogCompacted):
        log.term(2)
    assert view(store, applied=4).configuration_index == 1


def test_entries_dropped_before_the_core_was_told_are_never_passed_over() -> None:
    store = MemoryLogStore()
    log = view(store, cached_bytes=0)
    log.append([configured(1, 1, "abc", 1), *commands(2, 1, 1, 1)])
    store_all(log, store)
    store.compact(log.snapshot_meta(3))
    with pytest.raises(LogCompacted, match="before dropping"):
        log.entries(1, 1000)


def test_a_snapshot_replaces_the_log_and_its_configurations() -> None:
    store = MemoryLogStore()
    log = view(store)
    log.append([configured(1, 1, "abc", 1), *commands(2, 1)])
    store_all(log, store)
    meta = SnapshotMeta(10, 3, Configuration(peers=peers("abd"), token=5), 8)
    log.install(meta)
    log.append(commands(11, 3))
    assert (log.first_index, log.last_index, log.term(10), log.token) == (11, 11, 3, 5)
    store_all(log, store)
    assert log.pending_snapshot is None
    assert (store.first_index, store.last_index, store.snapshot) == (11, 11, meta)


def test_a_log_that_does_not_reach_the_applied_state_is_refused() -> None:
    with pytest.raises(LogCorrupted, match="different moments"):
        view(MemoryLogStore(), applied=3)


def test_diverging_logs_find_where_they_can_agree_by_whole_terms() -> None:
    log = view(MemoryLogStore())
    log.append(commands(1, 1, 1, 1, 4, 4, 5))
    assert log.last_not_newer(6, 3) == (3, 1)
    assert log.last_not_newer(9, 4) == (5, 4)
    assert log.last_not_newer(6, 0) == (0, 0)


def test_the_cache_is_bounded_and_holds_all_that_is_not_stored() -> None:
    store = MemoryLogStore()
    log = view(store, cached_bytes=100)
    for _ in range(50):
        log.append_commands(1, [b"x" * 10])
        store_all(log, store)
    assert log._tail_bytes <= 100
    log.append_commands(1, [b"y" * 500])
    assert len(log.take_unstored()[1][0].data) == 500
