"""A small cluster whose replica c is left alone and reset.

The scene: a, b, c are a group; c, cut off or left alone, is reset with token 5.
"""

from __future__ import annotations

from tests.unit.raft.small_cluster import SmallCluster, peer, peers
from zonequake_store.raft.api import (
    ChangePeersAnswer,
    GrantAnswer,
    ResetAnswer,
)
from zonequake_store.raft.messages import (
    Configuration,
    Message,
    MessageKind,
)

FORCED = Configuration(peers=peers("c"), token=5, lineage=5)


def reset(
    cluster: SmallCluster, token: int = 5, *, name: str = "c", term: int | None = None
) -> ResetAnswer:
    """Ask one replica to go on alone, and let everything settle."""
    raft = cluster.rafts[name]
    at = raft.status().term if term is None else term
    answer = raft.reset_peers(term=at, token=token, peers=(peer(name),))
    cluster.run()
    return answer


def silence(cluster: SmallCluster, name: str = "c") -> None:
    """So long that `name` doesn't hear a leader any more."""
    cluster.tick(2 * cluster.settings.election_ticks, name)


def apart(passive: str = "") -> SmallCluster:
    """a leads a and b; c, cut off with the same ten entries, hears nobody."""
    cluster = SmallCluster(passive=passive)
    cluster.elect("a").propose([b"x"] * 8)
    cluster.run()
    cluster.isolate("c")
    silence(cluster)
    return cluster


def holding(cluster: SmallCluster, kind: MessageKind) -> list[Message]:
    """Messages of this kind do not arrive, but are kept."""
    held: list[Message] = []

    def keep(message: Message) -> bool:
        if message.kind is kind:
            held.append(message)
        return message.kind is kind

    cluster.lose = keep
    return held


def propose(cluster: SmallCluster, name: str, *commands: bytes) -> None:
    cluster.rafts[name].propose(commands)
    cluster.run()


def join(cluster: SmallCluster, names: str, *, token: int, leader: str = "c") -> None:
    """Have the lineage's leader take these in."""
    raft = cluster.rafts[leader]
    term = raft.status().term
    answer = raft.change_peers(term=term, token=token, peers=peers(names))
    assert answer is ChangePeersAnswer.RECEIVED
    cluster.run()
    cluster.tick(3, *names)
    while cluster.lagging():
        deliver_snapshot(cluster)
        cluster.tick(2, *names)
    granted = raft.grant(term=term, token=token, peers=peers(names))
    assert granted is GrantAnswer.RECEIVED
    cluster.run()
    cluster.tick(2, *names)


def deliver_snapshot(cluster: SmallCluster) -> None:
    """What hosts do: the receiver's state becomes the sender's, and its core is told."""
    sender, request = cluster.lagging()[0]
    raft = cluster.rafts[sender.node]
    index = raft.status().applied
    meta = raft.snapshot_meta(index)
    to = request.to
    cluster.applied[to.node] = [
        entry for entry in cluster.applied[sender.node] if entry.index <= index
    ]
    cluster.rafts[to.node].step(
        Message(kind=MessageKind.SNAPSHOT, to=to, sender=sender, term=request.term, snapshot=meta)
    )
    cluster.run()
