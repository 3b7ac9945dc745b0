"""Faults in what is stored, when, and what a start makes of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import cast

import lmdb
import msgspec
import pytest

from tests.simulation.planted.registry import Planted
from zonequake_protocol.client import RequestId
from zonequake_simulation import replicas, turns
from zonequake_store.raft.api import Ready
from zonequake_store.raft.messages import HardState, SnapshotMeta
from zonequake_store.replica import turn
from zonequake_store.replica.planted_faults import PlantedFaults
from zonequake_store.replica.replica import Replica
from zonequake_store.state import encoding
from zonequake_store.state.client_table import ClientTable
from zonequake_store.state.encoding import EncodedPair
from zonequake_store.state.partition import StateMachine
from zonequake_store.storage import log_records, log_recovery, log_store
from zonequake_store.storage.cells import Overlay
from zonequake_store.storage.data_store import DataStore, DataView, Flush
from zonequake_store.storage.distrusted_files import DistrustedFiles
from zonequake_store.storage.log_recovery import RecoveredLog
from zonequake_store.storage.log_store import LogStore
from zonequake_store.storage.log_writes import AppendEntries, LogWrite, PutHardState


def commit_before_fsync(patch: pytest.MonkeyPatch) -> None:
    """The turn goes on with a Ready as soon as it has handed it to the disk."""

    class Hasty:
        """An edge that waits for no disk."""

        def __init__(self, edge: turn.Edge) -> None:
            self._edge = edge

        def __getattr__(self, name: str) -> object:
            return getattr(self._edge, name)

        def store(self, replica: Replica, ready: Ready) -> None:
            self._edge.store(replica, ready)
            turn.finish(replica, ready, cast("turn.Edge", self))

    def serve(replica: Replica, edge: turn.Edge) -> None:
        turn.serve(replica, cast("turn.Edge", Hasty(edge)))

    patch.setattr(turns, "serve", serve)
    patch.setattr(turns, "finish", lambda replica, ready, edge: None)


def without(kind: type[LogWrite]) -> Callable[[pytest.MonkeyPatch], None]:
    """A plant that never writes one kind of what a Ready asks for."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        writes_of = turn.writes_of

        def some(replica: Replica, ready: Ready) -> list[LogWrite]:
            return [write for write in writes_of(replica, ready) if not isinstance(write, kind)]

        patch.setattr(turns, "writes_of", some)

    return plant


def commit_index_alone_stored(patch: pytest.MonkeyPatch) -> None:
    writes_of = turn.writes_of

    def without_vote(replica: Replica, ready: Ready) -> list[LogWrite]:
        return [
            PutHardState(write.number, msgspec.structs.replace(write.hard_state, vote=None))
            if isinstance(write, PutHardState)
            else write
            for write in writes_of(replica, ready)
        ]

    patch.setattr(turns, "writes_of", without_vote)


def overwritten_tail_kept(patch: pytest.MonkeyPatch) -> None:
    write = LogStore._write

    def never_truncate(store: LogStore, txn: lmdb.Transaction, asked: LogWrite) -> None:
        if isinstance(asked, AppendEntries):
            asked = dataclasses.replace(asked, truncates=False)
        write(store, txn, asked)

    patch.setattr(LogStore, "_write", never_truncate)


def rot_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(log_records, "damage", lambda record: None)
    patch.setattr(log_recovery, "damage", lambda record: None)


def torn_tail_cut_off(patch: pytest.MonkeyPatch) -> None:
    def lenient(
        records: Iterable[tuple[int, bytes]],
        *,
        hard_state: HardState,
        snapshot: SnapshotMeta | None,
        synced: bool,
    ) -> RecoveredLog:
        return log_recovery.recovered_log(
            records, hard_state=hard_state, snapshot=snapshot, synced=False
        )

    patch.setattr(log_store, "recovered_log", lenient)


def failed_commit_not_written_down(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DistrustedFiles, "add", lambda *given, **named: None)


def failed_environment_not_renewed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DistrustedFiles, "to_renew", frozenset())


def flush(patch: pytest.MonkeyPatch, change: Callable[[Flush], Flush]) -> None:
    """A flush that stores something else than what changed."""
    begin = Overlay.begin_flush

    def changed(cells: Overlay, partition: StateMachine) -> Flush:
        return change(begin(cells, partition))

    patch.setattr(Overlay, "begin_flush", changed)


def sessions_not_flushed(patch: pytest.MonkeyPatch) -> None:
    flush(patch, lambda found: dataclasses.replace(found, sessions={}))


def cells_not_flushed(patch: pytest.MonkeyPatch) -> None:
    flush(
        patch, lambda found: dataclasses.replace(found, cells=dict(list(found.cells.items())[1:]))
    )


def applied_index_not_flushed(patch: pytest.MonkeyPatch) -> None:
    def behind(found: Flush) -> Flush:
        index = max(found.state.index - 1, 0)
        state = msgspec.structs.replace(found.state, index=index)
        return dataclasses.replace(found, state=state)

    flush(patch, behind)


def session_table_lost_in_a_snapshot(patch: pytest.MonkeyPatch) -> None:
    pairs = DataView.pairs

    def without_sessions(view: DataView, after: bytes = b"") -> Iterator[EncodedPair]:
        return (pair for pair in pairs(view, after) if pair[0][:1] != encoding.CLIENT)

    patch.setattr(DataView, "pairs", without_sessions)


def session_table_lost_at_a_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DataStore, "clients", lambda store, number: ClientTable())


def planted_replica(patch: pytest.MonkeyPatch, faults: PlantedFaults) -> None:
    """A replica with one of the faults that the chart can plant, too."""
    patch.setattr(replicas, "PlantedFaults", lambda: faults)


def acknowledge_before_commit(patch: pytest.MonkeyPatch) -> None:
    planted_replica(patch, PlantedFaults(acknowledge_before_commit=True))


def read_from_any_replica(patch: pytest.MonkeyPatch) -> None:
    planted_replica(patch, PlantedFaults(local_reads=True))


def forget_request_ids(patch: pytest.MonkeyPatch) -> None:
    def apply_again(table: ClientTable, request_id: RequestId, term: int, index: int) -> None:
        return None

    patch.setattr(ClientTable, "lookup", apply_again)


def _planted(name: str, what: str, apply: Callable[[pytest.MonkeyPatch], None]) -> Planted:
    return Planted(name=name, area="storage", scenario="storage", what=what, apply=apply)


PLANTED = [
    _planted(
        "commit-before-fsync",
        "a node acts on its writes when they were handed to the disk, not when they are stored",
        commit_before_fsync,
    ),
    _planted("vote-not-written", "term and vote are never written", without(PutHardState)),
    _planted(
        "vote-lost-in-the-write", "the term is written without its vote", commit_index_alone_stored
    ),
    _planted(
        "overwritten-tail-kept",
        "entries that a later leader overwrote stay in the file behind the new ones",
        overwritten_tail_kept,
    ),
    _planted("rot-not-noticed", "checksums of the log are not compared", rot_is_not_noticed),
    _planted(
        "torn-tail-cut-off",
        "a last record that cannot be read is cut off though it was synced",
        torn_tail_cut_off,
    ),
    _planted(
        "failed-commit-not-written-down",
        "the process after a failed sync goes on with what the kernel shows",
        failed_commit_not_written_down,
    ),
    _planted(
        "failed-environment-not-renewed",
        "replicas start over in a file with pages that the disk never got",
        failed_environment_not_renewed,
    ),
    _planted(
        "cell-not-flushed",
        "the first changed cell is missing in each flush of the applied state",
        cells_not_flushed,
    ),
    _planted(
        "applied-index-behind-its-cells",
        "the applied index is stored one entry behind the cells it belongs to",
        applied_index_not_flushed,
    ),
    _planted(
        "session-table-not-flushed",
        "outcomes of requests are not stored with the state",
        sessions_not_flushed,
    ),
    _planted(
        "session-table-lost-at-start",
        "a node starts without the outcomes of requests that its disk holds",
        session_table_lost_at_a_start,
    ),
    _planted(
        "session-table-lost-in-snapshot",
        "a snapshot carries cells but no outcomes of requests",
        session_table_lost_in_a_snapshot,
    ),
    _planted(
        "acknowledged-before-commit",
        "a leader answers a write when it has it in its log",
        acknowledge_before_commit,
    ),
    _planted(
        "read-from-any-replica",
        "every replica answers reads from what it has applied",
        read_from_any_replica,
    ),
    _planted(
        "request-id-forgotten",
        "a repeated request is applied again",
        forget_request_ids,
    ),
]
