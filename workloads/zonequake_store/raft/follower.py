"""What a replica does with its leader's messages: APPEND, HEARTBEAT, SNAPSHOT."""

from __future__ import annotations

from zonequake_store.raft.messages import Kind, Message
from zonequake_store.raft.replica import Replica


def on_append(replica: Replica, message: Message) -> None:
    """Entries behind (index, log_term). Raises LogCorrupted if a committed one conflicts."""
    log = replica.log
    index, entries = message.index, message.entries
    if index == log.last_index and message.log_term == log.last_term:
        if entries:
            log.append(entries)
    elif index < log.commit:
        _acknowledge(replica, message, log.commit)
        return
    elif log.matches(index, message.log_term):
        log.merge(entries)
    else:
        hint, hint_term = log.last_not_newer(index, message.log_term)
        replica.out.after_store.append(
            Message(
                kind=Kind.APPEND_REPLY,
                to=message.sender,
                sender=replica.me,
                term=replica.term,
                index=index,
                reject=True,
                hint=hint,
                hint_term=hint_term,
                token=log.token,
            )
        )
        return
    last = index + len(entries)
    log.commit_to(min(message.commit, last))
    _acknowledge(replica, message, last)


def on_heartbeat(replica: Replica, message: Message) -> None:
    """Raises LogCorrupted if entries are gone that this replica has acknowledged."""
    log = replica.log
    log.commit_to(message.commit)
    replica.out.after_store.append(
        Message(
            kind=Kind.HEARTBEAT_REPLY,
            to=message.sender,
            sender=replica.me,
            term=replica.term,
            index=min(log.commit, log.stable),
            hint=log.pending_snapshot.index if log.pending_snapshot else 0,
            context=message.context,
            token=log.token,
        )
    )


def on_snapshot(replica: Replica, message: Message) -> None:
    """The host has staged a snapshot. It is installed only if it brings something."""
    meta, log = message.snapshot, replica.log
    assert meta is not None, "the host sends SNAPSHOT with its meta"
    if meta.index > log.commit:
        if log.matches(meta.index, meta.term):
            log.commit_to(meta.index)
        else:
            log.install(meta)
    _acknowledge(replica, message, log.commit)


def _acknowledge(replica: Replica, message: Message, index: int) -> None:
    replica.out.after_store.append(
        Message(
            kind=Kind.APPEND_REPLY,
            to=message.sender,
            sender=replica.me,
            term=replica.term,
            index=index,
            token=replica.log.token,
        )
    )
