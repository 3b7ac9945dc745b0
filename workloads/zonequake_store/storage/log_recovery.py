"""The state of a replica's stored log at start: whole, cut, or corrupt. Pure.

**Damage.** Commits are atomic: after a crash a synced environment holds a record whole or not at
all. One that cannot be read is therefore rot, also the last one, which may have been acknowledged:
the replica is broken. Without syncs a power loss may keep a later page and lose an earlier one; a
last record that cannot be read is cut off there, with the reason kept for the replica's events,
because such a zone has agreed to lose its last writes. A record before a good one is rot there too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zonequake_store.errors import LogCorrupt
from zonequake_store.raft.messages import (
    Configuration,
    EntryKind,
    HardState,
    SnapshotMeta,
    decode_configuration,
)
from zonequake_store.storage.log_records import count_in, damage, decode_record, holds_configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredLog:
    """A replica's log as found at start. `records`: last index and stored bytes of each.

    `cut`: why the record that begins at `cut_index` must be deleted, if one must.
    """

    hard_state: HardState
    snapshot: SnapshotMeta | None
    configurations: tuple[tuple[int, Configuration], ...]
    last_index: int
    last_term: int
    records: tuple[tuple[int, int], ...]
    cut: str | None
    cut_index: int | None


def recovered_log(
    records: Iterable[tuple[int, bytes]],
    *,
    hard_state: HardState,
    snapshot: SnapshotMeta | None,
    synced: bool,
) -> RecoveredLog:
    """Check a log: its records by first index, ascending.

    Raises LogCorrupt if a record cannot be read or is missing, or ends before what is known to be
    committed; without syncs a last one that cannot be read is cut off instead.
    """
    start = snapshot.index if snapshot else 0
    last, last_term = start, snapshot.term if snapshot else 0
    configurations: list[tuple[int, Configuration]] = []
    found: list[tuple[int, int]] = []
    damaged: tuple[int, str] | None = None
    last_record = b""
    for first, record in records:
        if damaged:
            raise LogCorrupt(f"{damaged[1]}, and records follow it")
        reason = damage(record)
        if reason:
            damaged = (first, f"record of index {first}: {reason}")
            continue
        if first > last + 1:
            raise LogCorrupt(f"entries {last + 1} to {first - 1} are missing from the log")
        last = first + count_in(record) - 1
        last_record = record
        found.append((last, len(record)))
        if holds_configuration(record):
            configurations += [
                (entry.index, decode_configuration(entry))
                for entry in decode_record(record)
                if entry.kind is EntryKind.CONFIGURATION and entry.index > start
            ]
    if damaged and synced:
        raise LogCorrupt(f"{damaged[1]}; it is the last one, and may hold what was acknowledged")
    if synced and hard_state.commit > last:
        raise LogCorrupt(
            f"entry {hard_state.commit} is stored as committed, but the log ends at {last}"
        )
    if last > start:
        last_term = decode_record(last_record)[-1].term
    return RecoveredLog(
        hard_state=hard_state,
        snapshot=snapshot,
        configurations=tuple(configurations),
        last_index=last,
        last_term=last_term,
        records=tuple(found),
        cut=f"cut off {damaged[1]}" if damaged else None,
        cut_index=damaged[0] if damaged else None,
    )
