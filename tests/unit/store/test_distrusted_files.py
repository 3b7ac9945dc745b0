"""What a start makes of an environment in which a commit failed."""

from __future__ import annotations

from pathlib import Path

import lmdb
import pytest

from tests.unit.store.one_node import MAP_BYTES, storage_of
from zonequake_store.errors import StoreCorrupt
from zonequake_store.raft.messages import Entry, EntryKind
from zonequake_store.storage.distrusted_files import DistrustedFiles
from zonequake_store.storage.lmdb_files import renew
from zonequake_store.storage.log_store import LogStore
from zonequake_store.storage.log_writes import AppendEntries, GroupRecord, PutRecord

REASON = "a commit failed"


def record(number: int, *, fsync: bool = True) -> GroupRecord:
    return GroupRecord(
        number=number,
        data_number=number + 1,
        incarnation="ab",
        zone="z",
        partition=0,
        partitions=1,
        token=1,
        fsync=fsync,
    )


def with_a_replica(directory: Path) -> None:
    """Closed, with a log of 200 entries under number 5."""
    storage_of(directory).close()
    store = LogStore(directory / "log", map_bytes=MAP_BYTES, sync=True)
    entries = tuple(Entry(1, n, EntryKind.COMMAND, bytes(1000)) for n in range(1, 201))
    store.write([PutRecord("g", record(5)), AppendEntries(5, entries, False)])
    store.close()


@pytest.mark.parametrize(
    ("environment", "fsync", "is_touched"),
    [
        ("log", True, True),
        ("log", False, False),
        ("log-unsynced", False, True),
        ("log-unsynced", True, False),
        ("data", True, True),
        ("data", False, True),
    ],
)
def test_replicas_are_distrusted_by_the_environment_that_failed(
    tmp_path: Path, environment: str, fsync: bool, is_touched: bool
) -> None:
    path = tmp_path / "DISTRUSTED"
    DistrustedFiles(path).add(environment, below=7, reason=REASON)
    reason = DistrustedFiles(path).of(record(5, fsync=fsync))
    assert (reason is not None) is is_touched
    if reason is not None:
        assert REASON in reason
        assert "Erase it" in reason
    assert DistrustedFiles(path).of(record(7, fsync=fsync)) is None, "it began later"


def test_distrust_ends_with_the_last_replica_it_touches(tmp_path: Path) -> None:
    path = tmp_path / "DISTRUSTED"
    distrusted = DistrustedFiles(path)
    distrusted.add("log", below=10, reason=REASON)
    distrusted.renewed("log")
    distrusted.settle([record(5), record(12)])
    assert DistrustedFiles(path).of(record(5)) is not None
    distrusted.settle([record(12)])
    assert not path.exists()
    assert distrusted.of(record(5)) is None


def test_an_environment_is_written_anew_though_all_of_it_was_erased_before(tmp_path: Path) -> None:
    # After a failed commit of the data the log still takes the erasures of all replicas.
    with_a_replica(tmp_path)
    file = tmp_path / "data" / "data.mdb"
    before = file.stat().st_ino
    distrusted = DistrustedFiles(tmp_path / "DISTRUSTED")
    distrusted.add("data", below=10, reason=REASON)
    distrusted.settle([])
    storage_of(tmp_path).close()
    assert file.stat().st_ino != before, "its pages may be ones that the disk never got"


def test_a_mark_that_touches_no_replica_ends_once_its_environment_is_written_anew(
    tmp_path: Path,
) -> None:
    storage_of(tmp_path).close()
    path = tmp_path / "DISTRUSTED"
    DistrustedFiles(path).add("data", below=10, reason=REASON)
    storage = storage_of(tmp_path)
    assert not path.exists()
    assert storage.new_number() >= 10
    storage.close()


def test_a_mark_that_cannot_be_read_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "DISTRUSTED").write_bytes(b"rotten")
    with pytest.raises(StoreCorrupt, match="erase the data directory"):
        storage_of(tmp_path)


def test_a_disk_that_takes_no_mark_leaves_the_distrust_in_the_process(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "DISTRUSTED"
    distrusted = DistrustedFiles(path)
    distrusted.add("log", below=10, reason=REASON)
    assert distrusted.of(record(5)) is not None


def test_a_distrusted_environment_is_written_anew_once_and_says_the_same(tmp_path: Path) -> None:
    with_a_replica(tmp_path)
    file = tmp_path / "log" / "data.mdb"
    DistrustedFiles(tmp_path / "DISTRUSTED").add("log", below=10, reason=REASON)
    before, data = file.stat().st_ino, (tmp_path / "data" / "data.mdb").stat().st_ino
    storage = storage_of(tmp_path)
    assert storage.records == {"g": record(5)}
    assert storage.log_of(record(5)).recover(5).last_index == 200
    assert storage.distrusted(record(5)) is not None, "its pages are sound, what they say may not"
    assert storage.new_number() >= 10, "a new replica is not taken for a distrusted one"
    storage.close()
    after = file.stat().st_ino
    assert after != before
    assert (tmp_path / "data" / "data.mdb").stat().st_ino == data, "no commit failed there"
    storage = storage_of(tmp_path)
    assert storage.distrusted(record(5)) is not None
    storage.close()
    assert file.stat().st_ino == after
    assert not (tmp_path / "log.new").exists()


def test_what_an_interrupted_start_left_of_it_is_no_hindrance(tmp_path: Path) -> None:
    with_a_replica(tmp_path)
    DistrustedFiles(tmp_path / "DISTRUSTED").add("log", below=10, reason=REASON)
    (tmp_path / "log.new").mkdir()
    (tmp_path / "log.new" / "data.mdb").write_bytes(b"half")
    storage = storage_of(tmp_path)
    assert storage.log_of(record(5)).recover(5).last_index == 200
    storage.close()


def test_an_environment_that_is_no_more_cannot_be_written_anew(tmp_path: Path) -> None:
    with_a_replica(tmp_path)
    file = tmp_path / "log" / "data.mdb"
    file.write_bytes(file.read_bytes()[:20_000])
    with pytest.raises(StoreCorrupt, match="cut short"):
        renew(tmp_path / "log")


def test_an_empty_environment_can_be_written_anew(tmp_path: Path) -> None:
    lmdb.open(str(tmp_path / "log"), map_size=MAP_BYTES).close()
    renew(tmp_path / "log")
    with lmdb.open(str(tmp_path / "log"), map_size=MAP_BYTES) as environment:
        assert environment.stat()["entries"] == 0
