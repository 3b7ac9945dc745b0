"""Votes: one for each term, stored before it leaves, for logs that are at least as new."""

from __future__ import annotations

import pytest

from tests.unit.raft.small_cluster import SmallCluster, peer
from zonequake_store.raft.api import RaftRole
from zonequake_store.raft.errors import ReadyOutstanding
from zonequake_store.raft.messages import Message, MessageKind


def vote(
    to: str, sender: str, *, term: int, index: int, log_term: int, context: int = 0
) -> Message:
    return Message(
        kind=MessageKind.VOTE,
        to=peer(to),
        sender=peer(sender),
        term=term,
        index=index,
        log_term=log_term,
        context=context,
    )


def granted(cluster: SmallCluster, voter: str) -> list[Message]:
    return [
        message
        for message in cluster.sent
        if message.kind is MessageKind.VOTE_REPLY
        and message.sender.node == voter
        and not message.reject
    ]


def test_a_single_member_elects_itself_only_after_its_vote_is_stored() -> None:
    cluster = SmallCluster("a")
    raft = cluster.rafts["a"]
    while not raft.has_ready():
        raft.tick()
    ready = raft.ready()
    assert ready.hard_state is not None
    assert ready.hard_state.vote == peer("a")
    assert raft.status().role is RaftRole.CANDIDATE
    cluster.store("a", ready)
    cluster.run()
    assert raft.status().role is RaftRole.LEADER
    assert raft.status().commit == 2


def test_a_replica_that_hears_its_leader_refuses_votes_but_not_in_a_transfer() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    last = cluster.status("b").last_index
    refused = vote("b", "c", term=99, index=last, log_term=98)
    cluster.rafts["b"].step(refused)
    cluster.run()
    assert cluster.status("b").term < 99
    cluster.rafts["b"].step(vote("b", "c", term=99, index=last, log_term=98, context=1))
    assert cluster.status("b").term == 99


def test_one_vote_per_term_also_across_a_restart() -> None:
    cluster = SmallCluster()
    cluster.lose = lambda message: True
    for candidate in "bc":
        cluster.rafts["a"].step(vote("a", candidate, term=5, index=1, log_term=1))
        cluster.run()
        cluster.start("a")
    cluster.rafts["a"].step(vote("a", "b", term=5, index=1, log_term=1))
    cluster.run()
    assert [message.to.node for message in granted(cluster, "a")] == ["b", "b"]


def test_a_vote_leaves_only_after_it_is_stored() -> None:
    cluster = SmallCluster()
    raft = cluster.rafts["a"]
    raft.step(vote("a", "b", term=5, index=1, log_term=1))
    ready = raft.ready()
    assert ready.messages == ()
    assert [message.kind for message in ready.messages_after_store] == [MessageKind.VOTE_REPLY]
    assert ready.hard_state is not None
    assert (ready.hard_state.term, ready.hard_state.vote) == (5, peer("b"))
    assert not raft.has_ready()
    with pytest.raises(ReadyOutstanding):
        raft.ready()


@pytest.mark.parametrize(("index", "log_term"), [(1, 1), (9, 2)])
def test_a_candidate_with_an_older_log_gets_no_vote(index: int, log_term: int) -> None:
    cluster = SmallCluster()
    cluster.write_log("a", 3, 3)
    cluster.rafts["a"].step(vote("a", "b", term=7, index=index, log_term=log_term))
    cluster.run()
    assert granted(cluster, "a") == []


def test_votes_of_another_incarnation_do_not_elect() -> None:
    cluster = SmallCluster()
    cluster.down = {"b", "c"}
    raft = cluster.rafts["a"]
    cluster.tick(11, "a")
    assert raft.status().role is RaftRole.PRE_CANDIDATE
    for sender in (peer("b", "2"), peer("c", "2"), peer("x")):
        raft.step(Message(kind=MessageKind.PRE_VOTE_REPLY, to=peer("a"), sender=sender, term=2))
    assert raft.status().role is RaftRole.PRE_CANDIDATE
    raft.step(Message(kind=MessageKind.PRE_VOTE_REPLY, to=peer("a", "2"), sender=peer("b"), term=2))
    assert raft.status().role is RaftRole.PRE_CANDIDATE
    raft.step(Message(kind=MessageKind.PRE_VOTE_REPLY, to=peer("a"), sender=peer("b"), term=2))
    assert raft.status().role is RaftRole.CANDIDATE


def test_who_is_asked_whether_it_would_vote_changes_neither_term_nor_vote() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    cluster.isolate("a")
    cluster.tick(cluster.settings.election_ticks, "b")
    before = cluster.status("b").term
    cluster.sent.clear()
    asked = Message(
        kind=MessageKind.PRE_VOTE,
        to=peer("b"),
        sender=peer("c"),
        term=before + 1,
        index=cluster.status("c").last_index,
        log_term=before,
    )
    cluster.rafts["b"].step(asked)
    cluster.run()
    (answer,) = [each for each in cluster.sent if each.kind is MessageKind.PRE_VOTE_REPLY]
    assert (answer.reject, answer.term) == (False, before + 1)
    assert cluster.status("b").term == before
    assert cluster.stores["b"].hard_state.term == before
