"""Linearizable reads: the index, the round that confirms it, and what ends a read."""

from __future__ import annotations

import pytest

from tests.unit.raft.small_cluster import SmallCluster, peer
from zonequake_protocol.admin import Stage
from zonequake_store.raft.errors import NotLeader
from zonequake_store.raft.messages import MessageKind


def heartbeats(cluster: SmallCluster) -> int:
    return sum(message.kind is MessageKind.HEARTBEAT for message in cluster.sent)


def test_one_round_of_heartbeats_serves_all_reads_that_wait() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    raft.propose([b"x"])
    cluster.run()
    cluster.sent.clear()
    reads = [raft.read() for _ in range(10)]
    cluster.run()
    assert cluster.reads["a"] == dict.fromkeys(reads, 3)
    assert heartbeats(cluster) == 2


def test_a_read_that_comes_during_a_round_waits_for_the_next() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    cluster.lose = lambda message: message.kind is MessageKind.HEARTBEAT_REPLY
    first = raft.read()
    cluster.run()
    raft.propose([b"x"])
    cluster.run()
    second = raft.read()
    cluster.run()
    assert cluster.reads["a"] == {}
    cluster.heal()
    cluster.tick(1, "a")
    assert cluster.reads["a"] == {first: 2, second: 3}


def test_a_leader_cut_off_answers_no_read_and_aborts_it_when_it_steps_down() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    cluster.isolate("a")
    read = raft.read()
    cluster.tick(30, "a")
    assert cluster.reads["a"] == {}
    assert cluster.aborted["a"] == [read]


def test_a_new_leader_reads_only_after_an_entry_of_its_term_is_committed() -> None:
    cluster = SmallCluster()
    cluster.lose = lambda message: message.kind is MessageKind.APPEND_REPLY
    raft = cluster.elect("a")
    read = raft.read()
    cluster.tick(3, "a")
    assert cluster.reads["a"] == {}
    assert not raft.has_ready()
    cluster.heal()
    cluster.tick(3, "a")
    assert cluster.reads["a"] == {read: 2}


def test_a_single_member_reads_without_messages() -> None:
    cluster = SmallCluster("a")
    raft = cluster.elect("a")
    read = raft.read()
    cluster.run()
    assert cluster.reads["a"] == {read: 2}
    assert cluster.sent == []


def test_a_catching_up_peer_confirms_no_read() -> None:
    cluster = SmallCluster(passive="de")
    raft = cluster.elect("a")
    term = raft.status().term
    raft.change_peers(term=term, token=2, peers=tuple(peer(name) for name in "abcde"))
    cluster.run()
    cluster.lose = lambda message: message.sender.node in "bc"
    raft.read()
    cluster.tick(3, "a")
    assert cluster.reads["a"] == {}


def test_a_follower_refuses_reads() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    with pytest.raises(NotLeader):
        cluster.rafts["b"].read()


def test_a_read_that_waited_for_the_old_half_is_answered_when_that_half_is_gone() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    term = raft.status().term
    alone = (peer("a"),)
    cluster.lose = lambda message: message.kind is MessageKind.HEARTBEAT_REPLY
    read = raft.read()
    raft.change_peers(term=term, token=2, peers=alone)
    cluster.run()
    assert cluster.reads["a"] == {}
    raft.grant(term=term, token=2, peers=alone)
    cluster.run()
    assert raft.status().stage is Stage.NONE
    assert read in cluster.reads["a"]
