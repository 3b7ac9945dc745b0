"""Elections: pre-vote, lease, one vote per term, check-quorum, transfer, draining."""

from __future__ import annotations

import pytest

from tests.unit.raft.small_cluster import SmallCluster, peer, peers
from zonequake_store.raft.api import LeaderChanged, LeaderElected, RaftRole
from zonequake_store.raft.errors import BootstrapRefused, NotLeader, ReadyOutstanding
from zonequake_store.raft.messages import Configuration, Kind, Message


def vote(
    to: str, sender: str, *, term: int, index: int, log_term: int, context: int = 0
) -> Message:
    return Message(
        kind=Kind.VOTE,
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
        if message.kind is Kind.VOTE_REPLY and message.sender.node == voter and not message.reject
    ]


def test_three_replicas_elect_one_leader_and_say_so_once_its_entry_is_committed() -> None:
    cluster = SmallCluster()
    cluster.tick(25)
    leader = cluster.leader()
    term = cluster.status(leader).term
    assert cluster.of_type(leader, LeaderElected) == [LeaderElected(term=term)]
    for name in "abc":
        assert cluster.of_type(name, LeaderChanged)[-1].leader == peer(leader)
        assert cluster.status(name).commit == 2


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


def test_an_isolated_replica_raises_no_term_and_disturbs_nobody_when_it_returns() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    term = cluster.status("a").term
    cluster.isolate("c")
    cluster.tick(100)
    assert cluster.status("c").term == term
    cluster.heal()
    cluster.tick(5)
    assert cluster.leader() == "a"
    assert cluster.status("a").term == term


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
    assert [message.kind for message in ready.messages_after_store] == [Kind.VOTE_REPLY]
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
        raft.step(Message(kind=Kind.PRE_VOTE_REPLY, to=peer("a"), sender=sender, term=2))
    assert raft.status().role is RaftRole.PRE_CANDIDATE
    raft.step(Message(kind=Kind.PRE_VOTE_REPLY, to=peer("a", "2"), sender=peer("b"), term=2))
    assert raft.status().role is RaftRole.PRE_CANDIDATE
    raft.step(Message(kind=Kind.PRE_VOTE_REPLY, to=peer("a"), sender=peer("b"), term=2))
    assert raft.status().role is RaftRole.CANDIDATE


def test_a_passive_replica_never_campaigns() -> None:
    cluster = SmallCluster(passive="d")
    cluster.tick(100, "d")
    assert cluster.status("d").role is RaftRole.FOLLOWER
    assert cluster.status("d").term == 0


def test_a_leader_without_quorum_steps_down() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    cluster.isolate("a")
    cluster.tick(20, "a")
    assert cluster.status("a").role is not RaftRole.LEADER
    with pytest.raises(NotLeader):
        cluster.rafts["a"].propose([b"x"])


def test_a_leader_hands_over_to_a_chosen_follower_within_one_exchange() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    raft.propose([b"x"])
    assert raft.transfer_leadership(peer("c"))
    with pytest.raises(NotLeader) as refused:
        raft.propose([b"y"])
    assert refused.value.leader == peer("c")
    cluster.run()
    assert cluster.leader() == "c"
    assert cluster.commands("c") == [b"x"]


def test_a_transfer_to_a_dead_follower_ends_and_writes_go_on() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    cluster.down = {"c"}
    raft.propose([b"x"])
    cluster.run()
    assert raft.transfer_leadership(peer("c"))
    cluster.tick(10, "a", "b")
    raft.propose([b"y"])
    cluster.run()
    assert cluster.commands("a") == [b"x", b"y"]


def test_nobody_to_hand_over_to_is_said() -> None:
    alone = SmallCluster("a")
    assert not alone.elect("a").transfer_leadership()
    cluster = SmallCluster()
    assert not cluster.elect("a").transfer_leadership(peer("z"))
    assert not cluster.rafts["b"].transfer_leadership()


def test_a_draining_node_hands_over_and_is_not_elected_again() -> None:
    cluster = SmallCluster()
    cluster.elect("a").refuse_leadership(True)
    cluster.run()
    assert cluster.leader() != "a"
    cluster.rafts[cluster.leader()].transfer_leadership(peer("a"))
    cluster.tick(30)
    assert cluster.leader() != "a"
    cluster.rafts["a"].refuse_leadership(False)
    assert cluster.rafts[cluster.leader()].transfer_leadership(peer("a"))
    cluster.run()
    assert cluster.leader() == "a"


def test_a_stuck_leader_of_an_old_term_learns_of_the_new_one() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    cluster.isolate("a")
    cluster.elect("b")
    assert cluster.status("a").role is RaftRole.LEADER
    cluster.heal()
    cluster.tick(2)
    assert cluster.leader() == "b"
    assert cluster.status("a").leader == peer("b")


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (Kind.APPEND, Kind.APPEND_REPLY),
        (Kind.HEARTBEAT, Kind.APPEND_REPLY),
        (Kind.PRE_VOTE, Kind.PRE_VOTE_REPLY),
    ],
)
def test_whoever_speaks_in_an_old_term_is_told_the_present_one(kind: Kind, answer: Kind) -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    term = cluster.status("b").term
    cluster.sent.clear()
    cluster.rafts["b"].step(Message(kind=kind, to=peer("b"), sender=peer("c"), term=term - 1))
    cluster.run()
    assert [(each.kind, each.term, each.reject) for each in cluster.sent] == [(answer, term, True)]


def test_who_is_asked_whether_it_would_vote_changes_neither_term_nor_vote() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    cluster.isolate("a")
    cluster.tick(cluster.settings.election_ticks, "b")
    before = cluster.status("b").term
    cluster.sent.clear()
    asked = Message(
        kind=Kind.PRE_VOTE,
        to=peer("b"),
        sender=peer("c"),
        term=before + 1,
        index=cluster.status("c").last_index,
        log_term=before,
    )
    cluster.rafts["b"].step(asked)
    cluster.run()
    (answer,) = [each for each in cluster.sent if each.kind is Kind.PRE_VOTE_REPLY]
    assert (answer.reject, answer.term) == (False, before + 1)
    assert cluster.status("b").term == before
    assert cluster.stores["b"].hard_state.term == before


def test_a_removed_replica_with_a_later_term_ends_no_leadership() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    term = raft.status().term
    for kind in (Kind.APPEND_REPLY, Kind.HEARTBEAT_REPLY, Kind.VOTE, Kind.PRE_VOTE):
        raft.step(Message(kind=kind, to=peer("a"), sender=peer("z"), term=term + 5, log_term=99))
        raft.step(
            Message(kind=kind, to=peer("a"), sender=peer("b", "2"), term=term + 5, log_term=99)
        )
    assert (raft.status().role, raft.status().term) == (RaftRole.LEADER, term)


def test_bootstrap_happens_once_and_only_at_members() -> None:
    cluster = SmallCluster("abc", passive="d")
    assert not cluster.rafts["a"].bootstrap(Configuration(peers=peers("ab"), token=9))
    assert cluster.status("a").configuration == Configuration(peers=peers("abc"), token=1)
    with pytest.raises(BootstrapRefused):
        cluster.rafts["d"].bootstrap(Configuration(peers=peers("abc"), token=1))


def test_the_only_holder_of_its_own_removal_can_be_elected_and_departs() -> None:
    """a, b, c change to c; leader b alone stores the final entry; a never returns."""
    cluster = SmallCluster()
    raft = cluster.elect("b")
    term = cluster.status("b").term
    raft.change_peers(term=term, token=2, peers=peers("c"))
    final = raft.status().last_index + 2
    cluster.lose = lambda message: any(entry.index >= final for entry in message.entries)
    raft.grant(term=term, token=2, peers=peers("c"))
    cluster.run()
    assert cluster.status("b").configuration == Configuration(peers=peers("c"), token=2)
    assert cluster.configuration("c").is_joint
    cluster.down = {"a"}
    cluster.start("b")
    cluster.start("c")
    cluster.heal()
    cluster.tick(60, "b", "c")
    assert cluster.leader() == "c"
    assert cluster.status("c").configuration == Configuration(peers=peers("c"), token=2)
