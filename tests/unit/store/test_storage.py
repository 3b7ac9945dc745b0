"""The data directory: what a damaged environment costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.store.one_node import MAP_BYTES, storage_of
from zonequake_store.errors import StoreCorrupt
from zonequake_store.raft.messages import Entry, EntryKind
from zonequake_store.storage.log_store import LogStore
from zonequake_store.storage.log_writes import AppendEntries, GroupRecord, LogWrite, PutRecord

PAGE_BYTES = 4096


def record(number: int, *, fsync: bool) -> GroupRecord:
    return GroupRecord(
        number=number,
        data_number=number + 100,
        incarnation="ab",
        zone="z",
        partition=0,
        partitions=1,
        token=1,
        fsync=fsync,
    )


def fill(path: Path, *, fsync: bool) -> None:
    """Some replicas with an entry each."""
    writes: list[LogWrite] = []
    for number in range(1, 200):
        group = f"{'synced' if fsync else 'unsynced'}-{number}"
        writes.append(PutRecord(group, record(number, fsync=fsync)))
        writes.append(AppendEntries(number, (entry(1),), False))
    store = LogStore(path, map_bytes=MAP_BYTES, sync=fsync)
    store.write(writes)
    store.close()


def entry(index: int) -> Entry:
    return Entry(1, index, EntryKind.COMMAND, f"entry-{index:05}".encode() + bytes(500))


def test_a_damaged_environment_of_cells_is_put_aside_with_the_reason(tmp_path: Path) -> None:
    storage_of(tmp_path).close()
    (tmp_path / "data" / "data.mdb").write_bytes(b"rotten" * 1000)
    storage = storage_of(tmp_path)
    assert len(storage.put_aside) == 1
    assert "no LMDB meta page" in storage.put_aside[0]
    assert (tmp_path / "data.damaged" / "data.mdb").exists()
    storage.close()


def test_pages_are_looked_at_before_they_are_mapped_if_a_signal_ended_the_last_process(
    tmp_path: Path,
) -> None:
    fill(tmp_path / "log", fsync=True)
    store = LogStore(tmp_path / "log", map_bytes=MAP_BYTES, sync=True)
    store.write([AppendEntries(150, (entry(2),), False)])
    store.close()
    zero_pages(tmp_path / "log", b"entry-00002")
    storage_of(tmp_path).close()
    crash = tmp_path / "CRASHED"
    crash.write_text("Fatal Python error: Bus error\n")
    with pytest.raises(StoreCorrupt, match="says that it is page 0"):
        storage_of(tmp_path)
    assert "Bus error" in crash.read_text(), "the next start must look again"


def test_what_a_signal_ended_is_told_once_if_the_pages_are_sound(tmp_path: Path) -> None:
    fill(tmp_path / "log", fsync=True)
    (tmp_path / "CRASHED").write_text("Fatal Python error: Bus error\n")
    storage = storage_of(tmp_path)
    assert storage.crash == "Fatal Python error: Bus error"
    storage.close()
    again = storage_of(tmp_path)
    assert again.crash is None
    again.close()


def zero_pages(path: Path, holding: bytes) -> None:
    """Rot: every page that holds these bytes, old copies included."""
    file = path / "data.mdb"
    content = file.read_bytes()
    pages = [content[at : at + PAGE_BYTES] for at in range(0, len(content), PAGE_BYTES)]
    rotten = [bytes(PAGE_BYTES) if holding in page else page for page in pages]
    assert rotten != pages
    file.write_bytes(b"".join(rotten))


META, RECORDS = b"\xde\xc0\xef\xbe", b"group/"
"""Held by the pages that an environment is opened by (LMDB's magic), and by the records' pages."""


@pytest.mark.parametrize("damaged", [META, RECORDS])
def test_a_damaged_environment_without_syncs_costs_its_replicas_and_not_the_others(
    tmp_path: Path, damaged: bytes
) -> None:
    fill(tmp_path / "log", fsync=True)
    fill(tmp_path / "log-unsynced", fsync=False)
    zero_pages(tmp_path / "log-unsynced", damaged)
    storage = storage_of(tmp_path)
    assert set(storage.records) == {f"synced-{number}" for number in range(1, 200)}
    assert "log-unsynced" in storage.put_aside[0]
    assert storage.log_of(record(1, fsync=False)).recover(1).last_index == 0
    storage.close()
    again = storage_of(tmp_path)
    assert again.put_aside == []
    again.close()
    assert (tmp_path / "log-unsynced.damaged" / "data.mdb").exists()


@pytest.mark.parametrize("damaged", [META, RECORDS])
def test_a_damaged_environment_with_syncs_is_not_begun_anew(tmp_path: Path, damaged: bytes) -> None:
    fill(tmp_path / "log", fsync=True)
    zero_pages(tmp_path / "log", damaged)
    with pytest.raises(StoreCorrupt, match="erase the data directory"):
        storage_of(tmp_path)
