"""How fresh a follower may call its state, and what it must never count on.

A tick is 100 ms; a replica's time is what its own ticks say.
"""

from __future__ import annotations

import pytest

from tests.unit.raft.small_cluster import SmallCluster, peer, peers
from zonequake_store.raft.freshness import Freshness
from zonequake_store.raft.messages import Message, MessageKind


def now_ms(cluster: SmallCluster, name: str) -> int:
    return cluster.rafts[name]._replica.freshness.now_ms


def age_ms(cluster: SmallCluster, name: str) -> int | None:
    since = cluster.rafts[name].fresh_since_ms()
    return None if since is None else now_ms(cluster, name) - since


def since_ms(cluster: SmallCluster, name: str) -> int:
    since = cluster.rafts[name].fresh_since_ms()
    assert since is not None
    return since


def running(members: str = "abc") -> SmallCluster:
    cluster = SmallCluster(members)
    cluster.elect("a").propose([b"x"])
    cluster.run()
    asked(cluster)
    cluster.tick(4)
    return cluster


def asked(cluster: SmallCluster) -> None:
    """A client asks every replica for it."""
    for raft in cluster.rafts.values():
        raft.fresh_since_ms()


def test_a_follower_in_step_is_never_older_than_a_few_heartbeats() -> None:
    cluster = running()
    for _ in range(20):
        cluster.tick()
        for name in "abc":
            age = age_ms(cluster, name)
            assert age is not None
            assert age <= 300, name


def test_what_is_acknowledged_before_the_stamp_is_in_the_state_that_claims_it() -> None:
    cluster = running()
    written: list[tuple[int, int]] = []  # (b's time, index)
    for step in range(60):

        def lost(message: Message, step: int = step) -> bool:
            return (
                message.to.node == "b"
                and (step // 10) % 2 == 0
                and message.kind is MessageKind.APPEND
            )

        cluster.lose = lost
        cluster.rafts["a"].propose([b"%d" % step])
        cluster.run()
        written.append((now_ms(cluster, "b"), cluster.status("a").commit))
        cluster.tick()
        since = cluster.rafts["b"].fresh_since_ms()
        assert since is not None
        wanted = max((index for at, index in written if at < since), default=0)
        assert cluster.status("b").applied >= wanted, step


def test_a_follower_that_is_cut_off_grows_older_with_its_own_clock() -> None:
    cluster = running()
    cluster.isolate("b")
    before = age_ms(cluster, "b")
    assert before is not None
    cluster.tick(50)
    assert age_ms(cluster, "b") == before + 5000


def test_a_leader_without_a_quorum_makes_no_replica_fresher() -> None:
    cluster = running("abcde")
    since = since_ms(cluster, "b")
    cluster.isolate("a", "b")
    cluster.tick(9)
    assert cluster.status("b").leader == peer("a"), "b still hears it"
    assert since_ms(cluster, "b") - since <= 300, "what was confirmed before the cut"
    settled = cluster.rafts["b"].fresh_since_ms()
    cluster.tick(5)
    assert cluster.rafts["b"].fresh_since_ms() == settled


def test_an_old_leader_and_its_follower_learn_nothing_of_what_the_new_one_commits() -> None:
    cluster = running("abcde")
    cluster.isolate("a", "b")
    cluster.elect("c").propose([b"new"])
    cluster.run()
    committed_ms = now_ms(cluster, "b")
    cluster.tick(5)
    for name in "ab":
        since = cluster.rafts[name].fresh_since_ms()
        assert since is not None
        assert since <= committed_ms, name


def test_a_claim_counts_only_once_its_index_is_applied() -> None:
    cluster = running()
    cluster.lose = lambda message: message.to.node == "b" and message.kind is MessageKind.APPEND
    cluster.rafts["a"].propose([b"y"])
    cluster.run()
    since = since_ms(cluster, "b")
    cluster.tick(10)
    assert cluster.status("b").applied < cluster.status("a").commit
    assert since_ms(cluster, "b") - since <= 300
    cluster.heal()
    cluster.tick(4)
    age = age_ms(cluster, "b")
    assert age is not None
    assert age <= 1500


def test_a_new_leader_claims_nothing_before_it_has_committed_an_entry_of_its_own() -> None:
    cluster = running()
    cluster.lose = lambda message: (
        message.kind is MessageKind.APPEND and message.sender.node == "b" and bool(message.entries)
    )
    cluster.rafts["a"].transfer_leadership(peer("b"))
    cluster.run()
    assert cluster.leader() == "b"
    before = {name: cluster.rafts[name].fresh_since_ms() for name in "abc"}
    cluster.tick(8)
    assert {name: cluster.rafts[name].fresh_since_ms() for name in "abc"} == before


def test_a_leader_alone_is_as_fresh_as_its_last_heartbeat() -> None:
    cluster = SmallCluster("a")
    cluster.elect("a")
    asked(cluster)
    cluster.tick(3)
    assert age_ms(cluster, "a") == 0


def test_nothing_is_said_about_it_until_it_is_asked_and_the_first_answer_comes_soon() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    cluster.tick(3)
    cluster.sent.clear()
    cluster.tick(3)
    assert len(set(cluster.sent)) == 4, "each heartbeat and each answer is the same again"
    assert cluster.rafts["b"].fresh_since_ms() is None
    cluster.tick(3)
    assert cluster.rafts["b"].fresh_since_ms() is not None
    assert cluster.rafts["c"]._replica.freshness.stamp() == 0
    cluster.tick(110)
    cluster.sent.clear()
    cluster.tick(3)
    assert len(set(cluster.sent)) == 4, "no replica asked again"


def test_a_change_of_peers_does_not_end_it() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    cluster.lose = lambda message: message.sender.node == "c"
    asked(cluster)
    cluster.tick(3)
    raft.change_peers(term=raft.status().term, token=2, peers=peers("ab"))
    raft.grant(term=raft.status().term, token=2, peers=peers("ab"))
    cluster.run()
    cluster.tick(5)
    age = age_ms(cluster, "b")
    assert age is not None
    assert age <= 300


def test_who_is_told_of_a_later_lineage_forgets_how_fresh_it_was() -> None:
    cluster = running()
    cluster.rafts["b"].enforce(5)
    cluster.run()
    assert cluster.rafts["b"].fresh_since_ms() is None


def test_catching_up_peers_are_told_too_and_confirm_nothing() -> None:
    cluster = SmallCluster(passive="de")
    raft = cluster.elect("a")
    raft.change_peers(term=raft.status().term, token=2, peers=peers("abcde"))
    cluster.run()
    asked(cluster)
    cluster.tick(4)
    since = since_ms(cluster, "d")
    cluster.lose = lambda message: message.sender.node in "bc"
    cluster.tick(8)
    assert since_ms(cluster, "d") - since <= 300


# the claims themselves


def claims(hidden: int = 500) -> Freshness:
    freshness = Freshness(lambda _: hidden)
    freshness.tick(10_000)
    freshness.since_ms(0)
    return freshness


def test_echoes_of_a_life_before_this_one_count_for_nothing() -> None:
    before = Freshness(lambda _: 77)
    before.tick(90_000)
    before.since_ms(0)
    now = claims()
    now.echoed(before.stamp(), 3)
    same_number = Freshness(lambda _: 500)
    same_number.tick(9_000)
    same_number.since_ms(0)
    now.echoed(same_number.stamp(), 3)
    assert now.since_ms(99) is None


def test_no_stamp_leaves_before_the_first_tick() -> None:
    freshness = Freshness(lambda _: 5)
    freshness.since_ms(0)
    assert freshness.stamp() == 0


def test_older_and_doubled_echoes_change_nothing() -> None:
    freshness = claims()
    old = freshness.stamp()
    freshness.tick(10_300)
    freshness.echoed(freshness.stamp(), 7)
    freshness.echoed(old, 5)
    freshness.echoed(freshness.stamp(), 7)
    assert freshness.since_ms(6) is None
    assert freshness.since_ms(7) == 10_300


def test_a_follower_that_applies_slowly_uses_the_newest_claim_that_it_has_reached() -> None:
    freshness = claims()
    for step in range(100):
        freshness.tick(10_000 + 300 * step)
        freshness._wanted_until_ms = freshness.now_ms
        freshness.echoed(freshness.stamp(), 10 * step)
    assert freshness.since_ms(55) == 11_500
    assert freshness.since_ms(10_000) == pytest.approx(10_000 + 300 * 15)


def test_a_pause_of_the_process_ages_the_state() -> None:
    cluster = running()
    raft = cluster.rafts["b"]
    at = now_ms(cluster, "b")
    raft.tick(at + 60_000)
    since = raft.fresh_since_ms()
    assert since is not None
    assert at + 60_000 - since >= 60_000


def test_a_heartbeat_without_a_stamp_claims_nothing() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    raft = cluster.rafts["b"]
    raft.step(
        Message(
            kind=MessageKind.HEARTBEAT,
            to=peer("b"),
            sender=peer("a"),
            term=raft.status().term,
            index=1,
        )
    )
    assert cluster.rafts["b"].fresh_since_ms() is None


def test_a_claim_of_an_older_lineage_does_not_wait_for_its_index_in_a_newer_one() -> None:
    freshness = Freshness(lambda n: n // 2)
    freshness.tick(1000)
    freshness.claim(1000, 50)
    assert freshness.since_ms(49) is None
    freshness.forget()
    assert freshness.since_ms(50) is None


def test_a_claim_that_is_older_than_one_before_takes_nothing_back() -> None:
    freshness = Freshness(lambda n: n // 2)
    freshness.tick(1000)
    for at_ms in (900, 800, 900):
        freshness.claim(at_ms, 5)
    assert freshness.since_ms(5) == 900
