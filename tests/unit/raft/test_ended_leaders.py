"""A leader whose process has ended, which some followers know for certain and others don't."""

from __future__ import annotations

from tests.unit.raft.small_cluster import SmallCluster, peer
from zonequake_store.raft.api import LeaderChanged, RaftRole, RaftSettings
from zonequake_store.raft.messages import Message, MessageKind


def led_by_a(members: str = "abc", *, settings: RaftSettings | None = None) -> SmallCluster:
    cluster = SmallCluster(members, settings=settings)
    cluster.elect("a").propose([b"x"])
    cluster.tick(2)
    return cluster


def leader(cluster: SmallCluster) -> str:
    """The one that leads among those that live."""
    leading = [name for name in sorted(set(cluster.rafts) - cluster.down) if leads(cluster, name)]
    assert len(leading) == 1, leading
    return leading[0]


def leads(cluster: SmallCluster, name: str) -> bool:
    return cluster.status(name).role is RaftRole.LEADER


def kinds(cluster: SmallCluster, sender: str) -> list[MessageKind]:
    return [each.kind for each in cluster.sent if each.sender == peer(sender)]


def test_followers_with_proof_elect_another_without_any_tick() -> None:
    cluster = led_by_a()
    term = cluster.status("b").term
    cluster.down = {"a"}
    for name in "cb":
        cluster.rafts[name].node_ended("a", lot=0)
    cluster.run()
    assert cluster.status("b").role is RaftRole.LEADER, "the first by lot"
    assert cluster.status("b").term == term + 1
    assert cluster.status("c").leader == peer("b")
    assert cluster.commands("b") == [b"x"]


def test_another_lot_lets_another_one_stand() -> None:
    cluster = led_by_a()
    cluster.down = {"a"}
    for name in "bc":
        cluster.rafts[name].node_ended("a", lot=1)
    cluster.run()
    assert cluster.status("c").role is RaftRole.LEADER


def test_who_has_no_proof_refuses_as_long_as_it_heard_the_leader() -> None:
    cluster = led_by_a()
    cluster.down = {"a"}
    cluster.rafts["b"].node_ended("a")
    cluster.sent.clear()
    cluster.tick(3)
    assert MessageKind.PRE_VOTE in kinds(cluster, "b")
    assert kinds(cluster, "c") == []
    assert cluster.status("c").leader == peer("a")
    assert cluster.status("b").role is RaftRole.PRE_CANDIDATE


def test_a_replica_that_refused_answers_when_its_own_proof_comes() -> None:
    cluster = led_by_a()
    cluster.down = {"a"}
    cluster.rafts["b"].node_ended("a")
    cluster.run()
    assert cluster.status("b").role is RaftRole.PRE_CANDIDATE
    cluster.rafts["c"].node_ended("a")
    cluster.run()
    assert leader(cluster) == "b", "without being asked again"


def test_a_replica_that_refused_grants_nothing_to_a_shorter_log_when_its_own_proof_comes() -> None:
    cluster = led_by_a()
    cluster.lose = lambda message: message.to == peer("b")
    cluster.rafts["a"].propose([b"y"])
    cluster.run()
    cluster.heal()
    cluster.down = {"a"}
    cluster.rafts["b"].node_ended("a")
    cluster.run()
    cluster.sent.clear()
    cluster.rafts["c"].node_ended("a")
    cluster.run()
    assert MessageKind.PRE_VOTE_REPLY not in kinds(cluster, "c")
    assert MessageKind.VOTE not in kinds(cluster, "b"), "which would raise the term in vain"


def test_a_wrong_proof_costs_a_question_and_no_leadership() -> None:
    cluster = led_by_a()
    term = cluster.status("a").term
    cluster.rafts["b"].node_ended("a")
    cluster.run()
    assert cluster.status("b").role is RaftRole.PRE_CANDIDATE
    cluster.tick(2)
    assert leader(cluster) == "a"
    assert (cluster.status("b").leader, cluster.status("b").term) == (peer("a"), term)
    cluster.tick(50)
    assert (leader(cluster), cluster.status("a").term) == ("a", term)


def test_the_end_of_any_other_node_changes_nothing_at_a_follower() -> None:
    cluster = led_by_a()
    cluster.events["b"].clear()
    cluster.rafts["b"].node_ended("c")
    cluster.run()
    assert cluster.status("b").leader == peer("a")
    assert cluster.of_type("b", LeaderChanged) == []


def test_the_longer_log_wins_though_another_one_stands_first() -> None:
    cluster = led_by_a()
    cluster.lose = lambda message: message.to == peer("b")
    cluster.rafts["a"].propose([b"y"])
    cluster.run()
    cluster.heal()
    cluster.down = {"a"}
    for name in "bc":
        cluster.rafts[name].node_ended("a", lot=0)
    cluster.tick(3)
    assert leader(cluster) == "c"
    assert cluster.commands("b") == [b"x", b"y"]


def test_the_second_stands_soon_if_nothing_comes_of_the_first() -> None:
    cluster = led_by_a("abcde")
    cluster.down = {"a", "b"}
    for name in "cde":
        cluster.rafts[name].node_ended("a", lot=0)
    cluster.run()
    assert all(cluster.status(name).role is RaftRole.FOLLOWER for name in "cde")
    cluster.tick(2)
    assert leader(cluster) == "c"


def test_votes_that_were_split_are_asked_for_again_within_ticks() -> None:
    cluster = led_by_a()
    cluster.down = {"a"}
    cluster.rafts["b"].node_ended("a", lot=0)
    cluster.rafts["c"].node_ended("a", lot=1)
    cluster.rafts["c"]._replica.place = 1  # both stood at once; one of them waits longer now
    cluster.run()
    assert [cluster.status(name).role for name in "bc"] == [RaftRole.CANDIDATE] * 2
    cluster.tick(2)
    assert leader(cluster) == "b"


def test_who_refuses_leadership_does_not_stand() -> None:
    cluster = led_by_a()
    cluster.rafts["b"].refuse_leadership(True)
    cluster.down = {"a"}
    for name in "bc":
        cluster.rafts[name].node_ended("a", lot=0)
    cluster.tick(3)
    assert leader(cluster) == "c"


def test_a_candidate_asks_again_those_that_have_not_answered_and_no_other() -> None:
    cluster = led_by_a("abcde")
    cluster.down = {"a", "d", "e"}
    for name in "bc":
        cluster.rafts[name].node_ended("a", lot=0)
    cluster.sent.clear()
    cluster.run()
    cluster.tick(4)
    asked = [
        each.to.node
        for each in cluster.sent
        if each.sender == peer("b") and each.kind is MessageKind.PRE_VOTE
    ]
    assert asked == [*"acde", *"ade", *"ade", *"ade"], "after 1, 2 and 4 ticks; c has answered"


def test_a_vote_that_was_lost_is_asked_for_again() -> None:
    cluster = led_by_a()
    lost: list[Message] = []

    def lose_first(message: Message) -> bool:
        if message.kind is MessageKind.VOTE and message.to == peer("b") and not lost:
            lost.append(message)
            return True
        return message.sender == peer("a")  # whose vote would do

    cluster.lose = lose_first
    cluster.rafts["a"].transfer_leadership(peer("c"))
    cluster.lose = lambda message: (
        message.kind is not MessageKind.TIMEOUT_NOW and lose_first(message)
    )
    cluster.run()
    assert lost
    assert cluster.status("c").role is RaftRole.CANDIDATE
    cluster.tick(1)
    assert cluster.status("c").role is RaftRole.LEADER, "in the same election"


def test_a_request_to_take_over_that_was_lost_is_sent_again() -> None:
    cluster = led_by_a()
    lost: list[Message] = []

    def lose_first(message: Message) -> bool:
        if message.kind is MessageKind.TIMEOUT_NOW and not lost:
            lost.append(message)
            return True
        return False

    cluster.lose = lose_first
    cluster.rafts["a"].transfer_leadership(peer("c"))
    cluster.run()
    assert lost
    assert leader(cluster) == "a"
    cluster.tick(1)
    assert leader(cluster) == "c"


def test_leadership_is_handed_to_no_peer_whose_process_has_ended() -> None:
    cluster = led_by_a()
    cluster.down = {"c"}
    cluster.rafts["a"].node_ended("c")
    cluster.rafts["a"].transfer_leadership()
    cluster.run()
    assert leader(cluster) == "b"


def test_a_peer_whose_process_ended_may_lead_once_it_is_heard_again() -> None:
    cluster = led_by_a()
    cluster.rafts["a"].node_ended("c")
    cluster.rafts["a"].node_ended("b")
    assert not cluster.rafts["a"].transfer_leadership()
    cluster.tick(2)
    assert cluster.rafts["a"].transfer_leadership()
    cluster.run()
    assert leader(cluster) != "a"


def test_a_successor_whose_process_ends_is_replaced_by_another_at_once() -> None:
    cluster = led_by_a()
    cluster.down = {"c"}
    cluster.rafts["a"].refuse_leadership(True)
    cluster.run()
    assert leader(cluster) == "a"
    cluster.rafts["a"].node_ended("c")
    cluster.run()
    assert leader(cluster) == "b"
