"""The handling of a leader's messages by a replica: APPEND, HEARTBEAT, SNAPSHOT."""

from __future__ import annotations

from zonequake_store.raft.messages import NEEDS_SNAPSHOT, Message, MessageKind
from zonequake_store.raft.state import RaftState


def on_append(replica: RaftState, message: Message) -> None:
    """Takes entries after (index, log_term). Raises LogCorrupted if a committed one conflicts.

    To a replica that abstains its commits prove nothing: they are of an older lineage. It compares
    from the start, and asks for a snapshot if what it has applied conflicts.
    """
    log = replica.log
    index, entries = message.index, message.entries
    if index == log.last_index and message.log_term == log.last_term:
        if entries:
            log.append(entries)
    elif index < log.commit and not replica.abstains:
        _acknowledge(replica, message, log.commit)
        return
    elif log.matches(index, message.log_term):
        if replica.abstains and log.overwrites_committed(entries):
            _reject(replica, message, context=NEEDS_SNAPSHOT)
            return
        log.merge(entries)
    else:
        contradicted = replica.abstains and index <= log.commit
        _reject(replica, message, context=NEEDS_SNAPSHOT if contradicted else 0)
        return
    last = index + len(entries)
    log.commit_to(min(message.commit, last))
    _acknowledge(replica, message, last)


def on_heartbeat(replica: RaftState, message: Message) -> None:
    """Raises LogCorrupted if entries are gone that this replica has acknowledged.

    Not so while it abstains: a snapshot older than that may have taken their place.
    """
    log = replica.log
    log.commit_to(min(message.commit, log.last_index) if replica.abstains else message.commit)
    if message.stamp:
        replica.freshness.echoed(message.stamp, message.index)
    replica.out.after_store.append(
        Message(
            kind=MessageKind.HEARTBEAT_REPLY,
            to=message.sender,
            sender=replica.me,
            term=replica.term,
            index=0 if replica.abstains else min(log.commit, log.stable),
            hint=log.pending_snapshot.index if log.pending_snapshot else 0,
            context=message.context,
            token=log.token,
            stamp=replica.freshness.stamp(),
        )
    )


def on_snapshot(replica: RaftState, message: Message) -> None:
    """Installs a snapshot that the host has staged, but only if it brings something; to a replica
    that abstains it may bring an older state, which is the new lineage's.
    """
    meta, log = message.snapshot, replica.log
    assert meta is not None, "the host sends SNAPSHOT with its meta"
    if meta.index > log.commit and log.matches(meta.index, meta.term):
        log.commit_to(meta.index)
    elif meta.index > log.commit or replica.abstains:
        log.install(meta)
    _acknowledge(replica, message, log.commit)


def _reject(replica: RaftState, message: Message, *, context: int) -> None:
    hint, hint_term = replica.log.last_not_newer(message.index, message.log_term)
    replica.out.after_store.append(
        Message(
            kind=MessageKind.APPEND_REPLY,
            to=message.sender,
            sender=replica.me,
            term=replica.term,
            index=message.index,
            reject=True,
            hint=hint,
            hint_term=hint_term,
            context=context,
            token=replica.log.token,
        )
    )


def _acknowledge(replica: RaftState, message: Message, index: int) -> None:
    replica.out.after_store.append(
        Message(
            kind=MessageKind.APPEND_REPLY,
            to=message.sender,
            sender=replica.me,
            term=replica.term,
            index=index,
            token=replica.log.token,
        )
    )
