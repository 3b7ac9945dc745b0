"""Elections: pre-vote, lease, check-quorum, transfer, draining."""

from __future__ import annotations

import pytest

from tests.unit.raft.small_cluster import SmallCluster, peer, peers
from zonequake_store.raft.api import LeaderChanged, LeaderElected, RaftRole
from zonequake_store.raft.errors import BootstrapRefused, NotLeader
from zonequake_store.raft.messages import Configuration, Message, MessageKind


def test_three_replicas_elect_one_leader_and_say_so_once_its_entry_is_committed() -> None:
    cluster = SmallCluster()
    cluster.tick(25)
    leader = cluster.leader()
    term = cluster.status(leader).term
    assert cluster.of_type(leader, LeaderElected) == [LeaderElected(term=term)]
    for name in "abc":
        assert cluster.of_type(name, LeaderChanged)[-1].leader == peer(leader)
        assert cluster.status(name).commit == 2


def test_an_isolated_replica_raises_no_term_and_disturbs_no_leader_when_it_returns() -> None:
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


def test_no_node_to_hand_over_to_is_said() -> None:
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
        (MessageKind.APPEND, MessageKind.APPEND_REPLY),
        (MessageKind.HEARTBEAT, MessageKind.APPEND_REPLY),
        (MessageKind.PRE_VOTE, MessageKind.PRE_VOTE_REPLY),
    ],
)
def test_a_sender_in_an_old_term_is_told_the_present_one(
    kind: MessageKind, answer: MessageKind
) -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    term = cluster.status("b").term
    cluster.sent.clear()
    cluster.rafts["b"].step(Message(kind=kind, to=peer("b"), sender=peer("c"), term=term - 1))
    cluster.run()
    assert [(each.kind, each.term, each.reject) for each in cluster.sent] == [(answer, term, True)]


def test_a_removed_replica_with_a_later_term_ends_no_leadership() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    term = raft.status().term
    for kind in (
        MessageKind.APPEND_REPLY,
        MessageKind.HEARTBEAT_REPLY,
        MessageKind.VOTE,
        MessageKind.PRE_VOTE,
    ):
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
