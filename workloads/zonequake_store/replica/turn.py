"""Handles a replica's Ready for its host, in the order that keeps Raft's promises; sans-IO.

    receive messages ─► core ─► answers, if nothing has to be done or stored before they leave
    serve   begin_turn ─► Ready: send messages, answer reads, apply, report events
                          must be stored ──► edge.store ─ ─ ─ stored ─► finish
                          nothing to store ──────────────────────────► finish
    finish  the log's view follows the disk ─► core told ─► messages_after_store leave

The real `Host` and the simulation drive replicas through these functions alone, so that what
the simulation proves is what runs. All I/O is behind `Edge`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from zonequake_store.network.transaction_messages import Letter
from zonequake_store.raft.api import (
    ConfigurationApplied,
    LeaderChanged,
    RaftEvent,
    Ready,
    SupplyPeer,
)
from zonequake_store.raft.messages import Message, SnapshotMeta
from zonequake_store.replica.log import DurableLog
from zonequake_store.replica.replica import Replica
from zonequake_store.storage.log_writes import Install, LogWrite, PutHardState


class Edge(Protocol):
    """The calls that a turn makes to its surroundings."""

    def send(self, replica: Replica, messages: Sequence[Message]) -> None:
        """Sends messages; none is promised to arrive."""

    def store(self, replica: Replica, ready: Ready) -> None:
        """Stores `writes_of(replica, ready)` in one commit, and calls `finish` after it."""

    def supply(self, replica: Replica, request: SupplyPeer) -> None:
        """Lets a peer demand what it lacks."""

    def claim_snapshot(self, replica: Replica, meta: SnapshotMeta) -> None:
        """Point the replica's record at the staged state of `meta`. Raises LogCorrupt."""

    def install_snapshot(self, replica: Replica) -> None:
        """Gives the replica the staged state: the log begins after it already."""

    def carry(self, replica: Replica, letters: Sequence[Letter]) -> None:
        """Sends letters of its transactions to the leaders of other groups; none is promised to
        arrive. A receiver hands it to `replica.transactions.receive` and takes a turn.
        """

    def note(self, replica: Replica, event: RaftEvent) -> None:
        """Takes an event of the core; `replica.leader` is up to date already."""

    def applied(self, replica: Replica, count: int) -> None:
        """Records that the replica has applied `count` more entries."""


def receive(replica: Replica, messages: Sequence[Message], edge: Edge) -> bool:
    """Take messages of peers; whether a turn must follow. Raises LOG_ERRORS."""
    raft = replica.core_now()
    for message in messages:
        raft.step(message)
    return _has_more_than_messages(replica, edge)


def beat(replica: Replica, edge: Edge) -> bool:
    """Send a leader's heartbeats; whether a turn must follow. Raises LOG_ERRORS."""
    return replica.core_now().beat() and _has_more_than_messages(replica, edge)


def _has_more_than_messages(replica: Replica, edge: Edge) -> bool:
    raft = replica.core_now()
    messages = raft.take_messages()
    if messages is None:
        return raft.has_ready()
    if messages:
        edge.send(replica, messages)
    return False


def serve(replica: Replica, edge: Edge) -> None:
    """Lets a replica do all it can before the disk must answer. Raises LOG_ERRORS."""
    replica.begin_turn()
    raft = replica.core_now()
    urgent = raft.urgent()
    if urgent:
        edge.send(replica, urgent)
    while raft.has_ready():
        ready = raft.ready()
        if ready.messages:
            edge.send(replica, ready.messages)
        for read in ready.reads:
            replica.confirm_read(read.request, read.index)
        if ready.snapshot is None:
            _apply(replica, ready, edge)
        # After what is committed: a leader that steps down still knows how these ended.
        for event in ready.events:
            if isinstance(event, LeaderChanged):
                replica.follow(event.leader, event.term)
            elif isinstance(event, ConfigurationApplied):
                replica.reconfigured()
            edge.note(replica, event)
        for number in ready.aborted_reads:
            replica.abort_read(number)
        for request in ready.supplies:
            edge.supply(replica, request)
        if ready.snapshot is not None:
            edge.claim_snapshot(replica, ready.snapshot)
        if ready.must_store and not replica.is_volatile:
            edge.store(replica, ready)
            break
        finish(replica, ready, edge)
        if replica.transactions.has_proposals:
            replica.begin_turn()  # what was applied brings the next command
    if replica.transactions.has_work:
        letters = replica.transactions.take_letters()
        if replica.may_acknowledge:  # else they are lost, and sent again
            edge.carry(replica, letters)


def finish(replica: Replica, ready: Ready, edge: Edge) -> None:
    """All of a Ready is stored. Raises LOG_ERRORS."""
    if ready.snapshot is not None:
        replica.log.installed(ready.snapshot)
        edge.install_snapshot(replica)
    if ready.entries:
        replica.log.stored(ready.entries)
    replica.core_now().stored(ready)
    if ready.messages_after_store:
        edge.send(replica, ready.messages_after_store)
    if ready.snapshot is not None:
        _apply(replica, ready, edge)


def writes_of(replica: Replica, ready: Ready) -> list[LogWrite]:
    """Returns the log writes of a durable replica's Ready, to be stored in one commit."""
    log = replica.log
    assert isinstance(log, DurableLog), "a volatile replica stores nothing"
    writes: list[LogWrite] = []
    if ready.snapshot is not None:
        writes.append(Install(replica.group, replica.record, ready.snapshot))
    if ready.entries:
        writes.append(log.append(ready.entries))
    if ready.hard_state is not None:
        writes.append(PutHardState(log.number, ready.hard_state))
    return writes


def _apply(replica: Replica, ready: Ready, edge: Edge) -> None:
    if ready.committed:
        replica.apply(ready.committed)
        edge.applied(replica, len(ready.committed))
    replica.serve_reads()
