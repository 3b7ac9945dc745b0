"""resetPeers: a forced configuration of one node, without a majority (design §3, holes 4 to 12).

    reset_peers ─► CANDIDATE, term (token, n + 1), own vote ─ stored ─► LEADER of {me}
                   in memory: lost with the process,            appends the configuration with
                   so the operator repeats it                   peers {me} and lineage = token

The survivor's log as it is becomes the new lineage's; what it didn't have is sacrificed. Nothing
leaves before term and vote are stored: otherwise a survivor that crashed could lead one term twice,
with other entries. No other replica can lead a term of the new lineage, because every other replica
*abstains* (`RaftState.abstains`) until it has this configuration in its log:

- It neither campaigns nor votes, so that no leader of the old lineage is elected any more.
- It acknowledges nothing to an old leader, whose term is lower, but reports the new one to it.
- It hands out no further commits of the old leader: `Ready.committed` is what clients are answered
  with, and two lineages must never both acknowledge. Nor does the survivor, until it leads.
- What it has applied may not be in the new lineage. It follows a leader of that lineage only where
  the logs match; where they don't, and it has applied further, it asks for a snapshot, by which its
  applied index may fall. That is the one place where commit and applied go back.

The core does not prevent acknowledgements of an old majority before it learns of a reset: node
Leases and the permission to start do (design §3, "Membership").
"""

from __future__ import annotations

from zonequake_protocol.terms import lineage_of
from zonequake_store.raft import election
from zonequake_store.raft.api import ResetAnswer
from zonequake_store.raft.errors import InvalidPeers, ResetRefused
from zonequake_store.raft.messages import Configuration, Peer
from zonequake_store.raft.state import RaftState


def reset_peers(
    replica: RaftState, *, term: int, token: int, peers: tuple[Peer, ...]
) -> ResetAnswer:
    """See `Raft.reset_peers`."""
    if peers != (replica.me,):
        raise InvalidPeers(
            f"a reset leaves exactly the replica that is asked, {replica.me}, not {peers}"
        )
    configuration = replica.log.configuration
    if configuration is None:
        raise ResetRefused(
            f"{replica.me} holds nothing of its group: reset the replica with the newest copy, or "
            "bootstrap the group again if there is none"
        )
    forced = replica.forced
    if token < lineage_of(replica.term):
        return ResetAnswer.STALE  # a later reset is known, perhaps also to the survivor of this one
    if configuration.lineage == token or (forced is not None and forced.token == token):
        if replica.leadership is not None:
            replica.leadership.reconfiguration.announce()
        return ResetAnswer.RECEIVED
    if token <= configuration.token or term < replica.term:
        return ResetAnswer.STALE
    if replica.leadership is not None:
        replica.leadership.doubt()
    if replica.hears_leader or replica.log.pending_snapshot is not None:
        return ResetAnswer.BUSY
    election.start_forced(replica, Configuration(peers=(replica.me,), token=token, lineage=token))
    return ResetAnswer.RECEIVED
