"""Orders to a small cluster that change its peers."""

from __future__ import annotations

from tests.unit.raft.small_cluster import SmallCluster, peers
from zonequake_protocol.admin import Stage
from zonequake_store.raft.api import (
    CancelAnswer,
    ChangePeersAnswer,
    GrantAnswer,
    RaftSettings,
    StageChanged,
)

RECEIVED = ChangePeersAnswer.RECEIVED


def change(
    cluster: SmallCluster, token: int, names: str, *, leader: str = "a", term: int | None = None
) -> ChangePeersAnswer:
    raft = cluster.rafts[leader]
    at = raft.status().term if term is None else term
    answer = raft.change_peers(term=at, token=token, peers=peers(names))
    cluster.run()
    return answer


def grant(
    cluster: SmallCluster, token: int, names: str, *, leader: str = "a", term: int | None = None
) -> GrantAnswer:
    raft = cluster.rafts[leader]
    at = raft.status().term if term is None else term
    answer = raft.grant(term=at, token=token, peers=peers(names))
    cluster.run()
    return answer


def cancel(
    cluster: SmallCluster, token: int, *, leader: str = "a", term: int | None = None
) -> CancelAnswer:
    raft = cluster.rafts[leader]
    at = raft.status().term if term is None else term
    answer = raft.cancel_change_peers(term=at, token=token)
    cluster.run()
    return answer


def loaded(passive: str = "d", settings: RaftSettings | None = None) -> SmallCluster:
    """a leads a, b, c with ten entries."""
    cluster = SmallCluster(passive=passive, settings=settings)
    cluster.elect("a").propose([b"x" * 100] * 10)
    cluster.run()
    return cluster


def stages(cluster: SmallCluster, name: str = "a") -> list[tuple[Stage, bool]]:
    return [(each.stage, each.caught_up) for each in cluster.of_type(name, StageChanged)]


FORWARD = [
    (Stage.CATCHING_UP, False),
    (Stage.CATCHING_UP, True),
    (Stage.JOINT, False),
    (Stage.STABLE, False),
    (Stage.NONE, False),
]
