"""The handling of a message of any kind by a replica: first its term, then its kind."""

from __future__ import annotations

from zonequake_protocol.terms import lineage_of
from zonequake_store.raft import election, follower
from zonequake_store.raft.api import RaftRole
from zonequake_store.raft.messages import Message, MessageKind
from zonequake_store.raft.state import RaftState

FROM_LEADERS = frozenset({MessageKind.APPEND, MessageKind.HEARTBEAT, MessageKind.SNAPSHOT})
REQUESTS = frozenset({MessageKind.VOTE, MessageKind.PRE_VOTE})


def step(replica: RaftState, message: Message) -> None:
    """See `Raft.step`."""
    kind = message.kind
    if message.to != replica.me:
        return
    if message.term != replica.term and not _accept_term(replica, message):
        return
    if kind in FROM_LEADERS:
        if replica.leader != message.sender or replica.role is not RaftRole.FOLLOWER:
            replica.become_follower(message.term, message.sender, "another leader was heard")
        replica.elapsed_ticks = 0
        if kind is MessageKind.APPEND:
            follower.on_append(replica, message)
        elif kind is MessageKind.HEARTBEAT:
            follower.on_heartbeat(replica, message)
        else:
            follower.on_snapshot(replica, message)
    elif kind is MessageKind.APPEND_REPLY:
        if replica.leadership is not None:
            replica.leadership.on_append_reply(message)
    elif kind is MessageKind.HEARTBEAT_REPLY:
        if replica.leadership is not None:
            replica.leadership.on_heartbeat_reply(message)
    elif kind in REQUESTS:
        election.on_request(replica, message)
    elif kind is MessageKind.TIMEOUT_NOW:
        election.on_timeout_now(replica, message)
    else:
        election.on_reply(replica, message)


def _accept_term(replica: RaftState, message: Message) -> bool:
    """Handles a message of another term; returns whether to go on with it (thesis §3.3, §4.2.3).

    A later lineage ends a leadership, whichever peer reports it: only an operator begins one.
    """
    kind = message.kind
    reset_began = lineage_of(message.term) > lineage_of(replica.term)
    if message.term < replica.term:
        if (
            kind is MessageKind.PRE_VOTE
            or kind is MessageKind.APPEND
            or kind is MessageKind.HEARTBEAT
        ):
            # A leader or candidate of an old term learns of ours, or it would stay stuck.
            reply = (
                MessageKind.PRE_VOTE_REPLY
                if kind is MessageKind.PRE_VOTE
                else MessageKind.APPEND_REPLY
            )
            replica.out.after_store.append(
                Message(
                    kind=reply,
                    to=message.sender,
                    sender=replica.me,
                    term=replica.term,
                    reject=True,
                    token=replica.log.token,
                )
            )
        return False
    if kind in REQUESTS:
        if kind is MessageKind.PRE_VOTE:
            replica.enforce(lineage_of(message.term))
        elif reset_began:
            replica.become_follower(message.term, None, "a reset began a later lineage")
        if replica.hears_leader and message.context != election.TRANSFER:
            replica.refused_pre_vote = message if kind is MessageKind.PRE_VOTE else None
            return False
        if kind is MessageKind.PRE_VOTE or reset_began:
            return True
    elif kind is MessageKind.PRE_VOTE_REPLY and not message.reject:
        return True
    elif (
        replica.leadership is not None
        and message.sender not in replica.leadership.progress
        and not reset_began
    ):
        return False  # a removed replica must not end a leadership
    leader = message.sender if kind in FROM_LEADERS else None
    replica.become_follower(message.term, leader, "a later term began")
    return True
