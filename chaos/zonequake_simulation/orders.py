"""The operator's orders to replicas, including old and forbidden ones, and their allowed effects.

Judged at the moment of the order (docs/simulation.md, "Rules"; design §4, Changes of peers).
"""

from __future__ import annotations

from zonequake_protocol.admin import Stage
from zonequake_simulation.api_server import StoredWish
from zonequake_simulation.violation import require
from zonequake_store.raft.api import (
    CancelAnswer,
    ChangePeersAnswer,
    GrantAnswer,
    RaftRole,
    RaftStatus,
    ResetAnswer,
)
from zonequake_store.raft.messages import Peer
from zonequake_store.replica.replica import Replica


def change_peers(replica: Replica, seen: RaftStatus, wish: StoredWish) -> None:
    """Requests other peers from the leader that the operator last saw."""
    before = replica.core_now().status()
    answer = replica.core_now().change_peers(term=seen.term, token=wish.token, peers=wish.wanted)
    if before.term != seen.term or before.role is not RaftRole.LEADER:
        require(
            answer is not ChangePeersAnswer.RECEIVED,
            "a change is received by the leader of its term alone",
            asked=seen.term,
            term=before.term,
            role=before.role,
        )
        return
    configuration = before.configuration
    assert configuration is not None, "a leader has a configuration"
    if wish.token < max(configuration.token, before.stage_token):
        require(answer is ChangePeersAnswer.STALE, "old orders are refused", token=wish.token)
    elif wish.token > max(configuration.token, before.stage_token):
        may = {ChangePeersAnswer.STALE}  # a token between these two was seen and cancelled
        if before.stage in (Stage.NONE, Stage.CATCHING_UP):
            may.add(ChangePeersAnswer.RECEIVED)
        else:
            may.add(ChangePeersAnswer.BUSY)
        require(
            answer in may,
            "a change is received in NONE and CATCHING_UP, and busy later",
            answer=answer,
            stage=before.stage,
            token=wish.token,
            known=(configuration.token, before.stage_token),
        )


def cancel(replica: Replica, seen: RaftStatus) -> bool:
    """Cancels the change that the operator saw; returns whether that ended one."""
    before = replica.core_now().status()
    answer = replica.core_now().cancel_change_peers(term=seen.term, token=seen.stage_token)
    after = replica.core_now().status()
    if before.term != seen.term or before.role is not RaftRole.LEADER:
        require(
            answer is not CancelAnswer.RECEIVED and after == before,
            "a cancel is for the leader of its term alone",
            answer=answer,
            before=before,
        )
        return False
    if before.stage_token > seen.stage_token:
        require(
            answer is CancelAnswer.STALE and after == before,
            "a cancel with an older token has no effect",
            answer=answer,
            before=before,
        )
        return False
    require(after.last_index == before.last_index, "a cancel leaves no entry", before=before.stage)
    if before.stage_token == seen.stage_token and before.stage is not Stage.NONE:
        catching_up = before.stage is Stage.CATCHING_UP
        require(
            (answer is CancelAnswer.RECEIVED) == catching_up,
            "a cancel is received until JOINT",
            answer=answer,
            stage=before.stage,
        )
        require(
            after.stage is (Stage.NONE if catching_up else before.stage),
            "a cancel ends only a change that catches up",
            before=before.stage,
            after=after.stage,
        )
        return catching_up
    return False


def grant(replica: Replica, seen: RaftStatus, wish: StoredWish) -> bool:
    """Grants a change that the operator saw to be caught up; returns whether it proceeds."""
    before = replica.core_now().status()
    answer = replica.core_now().grant(term=seen.term, token=wish.token, peers=wish.wanted)
    if answer is not GrantAnswer.RECEIVED:
        return False
    done = before.configuration
    require(
        before.term == seen.term
        and (wish.token, wish.wanted)
        in (
            (before.stage_token, before.stage_peers),
            (done.token, done.peers) if done is not None else None,
        ),
        "a grant is for the change that it names",
        before=before,
        token=wish.token,
        peers=wish.wanted,
    )
    return True


def try_old_orders(replica: Replica, wanted: tuple[Peer, ...]) -> None:
    """Repeats orders of older terms and tokens to a leader."""
    raft = replica.core_now()
    before = raft.status()
    if before.configuration is None or before.role is not RaftRole.LEADER:
        return
    stale = raft.change_peers(term=before.term, token=before.configuration.token - 1, peers=wanted)
    old = raft.change_peers(term=before.term - 1, token=999_999, peers=wanted)
    require(
        stale is old is ChangePeersAnswer.STALE, "old orders are refused", token=stale, term=old
    )
    cancelled = raft.cancel_change_peers(term=before.term, token=before.configuration.token - 1)
    granted = raft.grant(term=before.term, token=before.configuration.token - 1, peers=wanted)
    require(
        cancelled is CancelAnswer.STALE and granted is GrantAnswer.STALE,
        "old orders are refused",
        cancel=cancelled,
        grant=granted,
    )
    require(before == raft.status(), "refused orders have no effect", before=before)


def try_forbidden_reset(replica: Replica) -> None:
    """Tries to reset a replica that leads or has a live leader."""
    raft, before = replica.core_now(), replica.core_now().status()
    if before.configuration is None or not raft._replica.hears_leader:
        return
    answer = raft.reset_peers(
        term=before.term, token=before.configuration.token + 1, peers=(replica.me,)
    )
    require(
        answer is not ResetAnswer.RECEIVED and raft.status() == before,
        "a replica that leads or hears a leader is not reset",
        answer=answer,
        before=before,
    )


def reset_peers(replica: Replica, wish: StoredWish) -> None:
    """Resets the group to the survivor alone."""
    if replica.me != wish.survivor or replica.core_now().status().configuration is None:
        return
    before = replica.core_now().status()
    configuration = before.configuration
    assert configuration is not None, "looked at above"
    if configuration.token - 1 > configuration.lineage:
        answer = replica.core_now().reset_peers(
            term=before.term, token=configuration.token - 1, peers=(replica.me,)
        )
        require(
            answer is not ResetAnswer.RECEIVED and replica.core_now().status() == before,
            "a reset of an older token is refused",
            answer=answer,
            before=before,
        )
    replica.core_now().reset_peers(
        term=replica.core_now().status().term, token=wish.lineage, peers=(replica.me,)
    )
