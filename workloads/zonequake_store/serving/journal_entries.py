"""The entries of a node's journal on its replicas (docs/interfaces.md, "Events")."""

from __future__ import annotations

from zonequake_protocol.terms import lineage_of, number_of
from zonequake_store.raft.api import LeaderChanged, LineageBegun, RaftEvent, StageChanged
from zonequake_store.replica.replica import Replica
from zonequake_store.replica.status import stage_event
from zonequake_store.serving.journal import EventJournal
from zonequake_store.storage.log_writes import GroupRecord


def note_replica(journal: EventJournal, kind: str, record: GroupRecord, reason: str) -> None:
    """Records that a replica started, stopped or broke, and why."""
    _add(journal, kind, record, {"incarnation": record.incarnation, "reason": reason})


def note_core(journal: EventJournal, replica: Replica, event: RaftEvent) -> None:
    """Writes an event of a replica's core to the journal, if it is of a kind that is recorded."""
    record = replica.record
    data: dict[str, object]
    match event:
        case LeaderChanged():
            data = {
                "leader": event.leader.node if event.leader else None,
                "lineage": lineage_of(event.term),
                "term": number_of(event.term),
            }
            _add(journal, "leader.change", record, data)
        case LineageBegun():
            # The place of the older lineage after which it begins: at index 0 with nothing.
            data = {
                "lineage": lineage_of(event.term),
                "last_lineage": lineage_of(event.last_term),
                "last_term": number_of(event.last_term),
                "last_index": event.last_index,
            }
            _add(journal, "group.reset", record, data)
        case StageChanged():
            data = stage_event(event, replica.core_now().status().term)
            _add(journal, "rebalance.stage", record, data)


def _add(journal: EventJournal, kind: str, record: GroupRecord, data: dict[str, object]) -> None:
    journal.add(kind, zone=record.zone, partition=record.partition, data=data)
