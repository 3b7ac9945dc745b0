"""The status of a replica, copied."""

from __future__ import annotations

from zonequake_protocol.admin import Stage
from zonequake_protocol.terms import lineage_of
from zonequake_store.raft.api import RaftStatus
from zonequake_store.raft.state import RaftState


def status_of(replica: RaftState) -> RaftStatus:
    """See `Raft.status`."""
    log = replica.log
    change = replica.leadership.reconfiguration if replica.leadership else None
    return RaftStatus(
        role=replica.role,
        term=replica.term,
        lineage=lineage_of(replica.term),
        abstains=replica.abstains,
        had_leader=replica.had_leader,
        leader=replica.leader,
        configuration=log.configuration,
        configuration_index=log.configuration_index,
        stage=change.stage if change else Stage.NONE,
        stage_token=change.token if change else 0,
        stage_peers=change.peers if change else (),
        caught_up=change.caught_up if change else False,
        progress=change.progress() if change else (),
        reconfiguration_error=change.error if change else None,
        commit=log.commit,
        applied=log.applied,
        first_index=log.first_index,
        last_index=log.last_index,
        last_term=log.last_term,
    )
