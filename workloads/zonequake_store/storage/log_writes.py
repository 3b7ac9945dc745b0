"""The log writes of a node's replicas that one commit takes (see `log_store`)."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from zonequake_store.raft.messages import Entry, HardState, SnapshotMeta


class GroupRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A replica on disk. `number` names its log, `data_number` its cells in the data store."""

    number: int
    data_number: int
    incarnation: str
    zone: str
    partition: int
    partitions: int
    token: int
    fsync: bool = True


@dataclass(frozen=True, slots=True)
class PutRecord:
    """Create or replace a replica's record."""

    group: str
    record: GroupRecord


@dataclass(frozen=True, slots=True)
class AppendEntries:
    """Store entries; what the log held from the first one's index on goes."""

    number: int
    entries: tuple[Entry, ...]
    truncates: bool


@dataclass(frozen=True, slots=True)
class PutHardState:
    """Store term, vote and commit."""

    number: int
    hard_state: HardState


@dataclass(frozen=True, slots=True)
class Compact:
    """Forget entries up to `meta.index`; whole records only, so that a few more may stay."""

    number: int
    meta: SnapshotMeta


@dataclass(frozen=True, slots=True)
class Install:
    """A new beginning of the log after a snapshot; points the replica at the snapshot's cells."""

    group: str
    record: GroupRecord
    meta: SnapshotMeta


@dataclass(frozen=True, slots=True)
class Erase:
    """Forget a replica. `number` is never used again."""

    group: str
    number: int


LogWrite = PutRecord | AppendEntries | PutHardState | Compact | Install | Erase
