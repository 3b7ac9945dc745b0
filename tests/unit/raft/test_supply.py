"""What a leader's log has for a peer that asks: by Raft index alone."""

from __future__ import annotations

import pytest

from tests.unit.raft.small_cluster import SmallCluster, peer, peers
from zonequake_store.raft.api import RaftSettings
from zonequake_store.raft.core import Raft
from zonequake_store.raft.errors import NotLeader
from zonequake_store.raft.messages import MessageKind


def leader_with(
    commands: int, *, settings: RaftSettings | None = None
) -> tuple[SmallCluster, Raft, int]:
    """Leader a of a, b, c, which is asked to take d too; d hears nothing of the supplies yet."""
    cluster = SmallCluster(passive="d", settings=settings)
    raft = cluster.elect("a")
    raft.propose([b"%d" % n for n in range(commands)])
    cluster.tick(2)
    cluster.lose = lambda message: message.to.node == "d"
    raft.change_peers(term=raft.term, token=2, peers=peers("abcd"))
    return cluster, raft, raft.status().last_index


def test_a_peer_with_nothing_gets_everything() -> None:
    _, raft, last = leader_with(5)
    message = raft.supply.next_append(peer("d"), index=0, log_term=0)
    assert message is not None
    assert (message.kind, message.index, message.log_term) == (MessageKind.APPEND, 0, 0)
    assert [entry.index for entry in message.entries] == list(range(1, last + 1))


def test_a_peer_gets_what_follows_its_last_entry() -> None:
    _, raft, last = leader_with(5)
    message = raft.supply.next_append(peer("d"), index=4, log_term=raft.term)
    assert message is not None
    assert (message.index, message.log_term) == (4, raft.term)
    assert [entry.index for entry in message.entries] == list(range(5, last + 1))


def test_a_peer_that_has_everything_gets_an_append_without_entries() -> None:
    _, raft, last = leader_with(5)
    message = raft.supply.next_append(peer("d"), index=last, log_term=raft.term)
    assert message is not None
    assert message.entries == ()


def test_entries_of_an_older_term_lead_back_to_where_the_logs_can_agree() -> None:
    _, raft, _ = leader_with(5)
    message = raft.supply.next_append(peer("d"), index=40, log_term=1)
    assert message is not None
    assert (message.index, message.log_term) == (1, 1), "the last entry that is no newer"


def test_a_log_that_begins_behind_the_peer_has_nothing_for_it() -> None:
    cluster, raft, _ = leader_with(5)
    cluster.stores["a"].compact(raft.snapshot_meta(4))
    raft.compact(4)
    assert raft.supply.next_append(peer("d"), index=3, log_term=raft.term) is None
    assert raft.supply.next_append(peer("d"), index=9, log_term=1) is None
    assert raft.supply.next_append(peer("d"), index=4, log_term=raft.term) is not None


def test_a_spent_limit_lets_nothing_through_until_the_next_tick() -> None:
    _, raft, _ = leader_with(9, settings=RaftSettings(catch_up_bytes_per_second=400))
    first = raft.supply.next_append(peer("d"), index=0, log_term=0)
    assert first is not None
    assert first.entries
    assert raft.supply.allowance(peer("d")) > 0, "it did not leave yet"
    raft.supply.append_left(first)
    assert raft.supply.allowance(peer("d")) == 0
    spent = raft.supply.next_append(peer("d"), index=0, log_term=0)
    assert spent is not None
    assert spent.entries == ()
    for _ in range(9):
        raft.tick()
    assert raft.supply.allowance(peer("d")) > 0


def test_only_a_leader_supplies() -> None:
    cluster, _, _ = leader_with(1)
    assert not cluster.rafts["b"].supply.is_open(peer("d"))
    with pytest.raises(NotLeader):
        cluster.rafts["b"].supply.next_append(peer("d"), index=0, log_term=0)
