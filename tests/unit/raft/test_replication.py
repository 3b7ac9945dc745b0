"""Replication: batches, lost messages, commitment, snapshots, limits."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.unit.raft.small_cluster import SmallCluster, append, peer
from zonequake_store.raft.api import RaftRole, RaftSettings, Ready
from zonequake_store.raft.errors import LogCorrupted, NotLeader
from zonequake_store.raft.messages import EntryKind, Message, MessageKind


def appends(cluster: SmallCluster, to: str) -> list[Message]:
    return [
        each for each in cluster.sent if each.kind is MessageKind.APPEND and each.to == peer(to)
    ]


def test_commands_proposed_together_travel_in_one_message_per_follower() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    cluster.sent.clear()
    term, first = raft.propose([b"1", b"2"])
    assert raft.propose([b"3"]) == (term, first + 2)
    cluster.run()
    assert [len(each.entries) for each in appends(cluster, "b")] == [3]
    assert cluster.commands("a") == [b"1", b"2", b"3"]
    cluster.tick()
    assert cluster.commands("b") == cluster.commands("c") == [b"1", b"2", b"3"]


def test_a_leader_sends_before_it_stores_but_counts_itself_only_after() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    cluster.down = {"c"}
    raft.propose([b"x"])
    ready = raft.ready()
    assert {each.kind for each in ready.messages} == {MessageKind.APPEND}
    assert [entry.data for entry in ready.entries] == [b"x"]
    for message in ready.messages:
        if message.to == peer("b"):
            cluster.rafts["b"].step(message)
    cluster.stores["b"].store(stored := cluster.rafts["b"].ready())
    cluster.rafts["b"].stored(stored)
    for message in stored.messages_after_store:
        raft.step(message)
    assert raft.status().commit == 2, "b alone is no majority"
    cluster.stores["a"].store(ready)
    raft.stored(ready)
    assert raft.status().commit == 3


def test_a_follower_acknowledges_only_after_it_stored() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    raft = cluster.rafts["b"]
    raft.step(append("a", "b", cluster.status("a").term, 2, cluster.status("a").term, 2))
    ready = raft.ready()
    assert ready.messages == ()
    assert [each.kind for each in ready.messages_after_store] == [MessageKind.APPEND_REPLY]
    assert len(ready.entries) == 1


def test_a_lost_append_is_sent_again() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    cluster.lose = lambda message: message.kind is MessageKind.APPEND
    raft.propose([b"1"])
    cluster.run()
    raft.propose([b"2"])
    cluster.run()
    cluster.heal()
    cluster.tick(3)
    assert cluster.commands("a") == cluster.commands("b") == [b"1", b"2"]


def test_an_unreachable_peer_costs_no_work_until_it_answers() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    cluster.isolate("c")
    raft.propose([b"1"])
    cluster.run()
    raft.report_unreachable(peer("c"))
    cluster.run()
    cluster.sent.clear()
    for _ in range(20):
        raft.propose([b"x"])
        cluster.run()
    assert len(appends(cluster, "c")) <= 1, "one probe, then silence"
    assert not raft.has_ready()
    cluster.heal()
    cluster.tick(3)
    assert cluster.commands("c") == cluster.commands("a")


def test_unanswered_appends_are_limited() -> None:
    cluster = SmallCluster(settings=RaftSettings(max_in_flight_appends=3))
    raft = cluster.elect("a")
    cluster.sent.clear()
    cluster.lose = lambda message: message.kind is MessageKind.APPEND_REPLY
    for _ in range(10):
        raft.propose([b"x"])
        cluster.run()
    assert len(appends(cluster, "b")) == 3


@pytest.mark.parametrize(
    "terms",
    [
        (),
        (1,),
        (1, 3, 3, 3),
        (2, 2, 2, 2, 2),  # as long as the leader's when it is elected
        (1, 1, 4, 4, 4),
        (2, 2, 2, 2, 2, 2),
        (1, 1, 2, 2, 2, 3),
    ],
)
def test_a_follower_with_any_old_log_is_brought_in_line(terms: tuple[int, ...]) -> None:
    cluster = SmallCluster()
    for name in "ab":
        cluster.write_log(name, 1, 1, 4, 5, 5, term=6)
    if terms:
        cluster.write_log("c", *terms, term=6)
    cluster.elect("a")
    cluster.tick(5)
    assert cluster.commands("c") == cluster.commands("a") == [b"1", b"1", b"4", b"5", b"5"]
    assert cluster.status("c").last_index == cluster.status("a").last_index


def test_figure_8_an_entry_of_an_older_term_is_not_committed_by_counting() -> None:
    """(c) of figure 8: a leads again and brings its old entry to a majority, but nothing of its
    own; then c, with a newer entry, must still be able to overwrite it."""
    cluster = SmallCluster()
    cluster.write_log("a", 2, term=3)
    cluster.write_log("c", 3, term=3)
    cluster.down = {"c"}
    cluster.lose = lambda message: any(
        entry.kind is EntryKind.CONFIGURATION and entry.index > 1 for entry in message.entries
    )
    raft = cluster.elect("a")
    own = raft.status().last_index
    b = cluster.rafts["b"]
    b.step(append("a", "b", raft.status().term, 1, 1, 2))
    cluster.run()
    assert cluster.stores["b"].term(2) == 2, "a majority holds it"
    assert (own, raft.status().commit) == (3, 1), "only what all certainly had is committed"
    cluster.heal()
    cluster.tick(3, "a", "b")
    assert raft.status().commit == 3, "with an own entry behind it, it is"


def test_a_follower_far_behind_gets_a_snapshot_and_then_the_rest() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    cluster.isolate("c")
    raft.propose([b"1", b"2", b"3"])
    cluster.tick(2, "a", "b")
    meta = raft.snapshot_meta(4)
    cluster.stores["a"].compact(meta)
    raft.compact(4)
    cluster.heal()
    cluster.tick(3, "a")
    assert [(sender, send.to) for sender, send in cluster.supplies] == [(peer("a"), peer("c"))]
    send = cluster.supplies[0][1]
    cluster.rafts["c"].step(
        Message(
            kind=MessageKind.SNAPSHOT, to=send.to, sender=peer("a"), term=send.term, snapshot=meta
        )
    )
    raft.propose([b"4"])
    cluster.run()
    cluster.tick(2)
    assert cluster.stores["c"].snapshot == meta
    assert cluster.commands("c") == [b"3", b"4"]
    assert len(cluster.supplies) == 1


def test_a_follower_far_behind_is_supplied_until_it_can_follow() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    cluster.isolate("c")
    raft.propose([b"1", b"2", b"3"])
    cluster.tick(2, "a", "b")
    meta = raft.snapshot_meta(4)
    cluster.stores["a"].compact(meta)
    raft.compact(4)
    cluster.heal()
    cluster.tick(20, "a")
    assert raft.supply.is_open(peer("c"))
    assert len(cluster.supplies) == 1, "it is told once, and holds until the follower follows"
    assert raft.supply.next_append(peer("c"), index=1, log_term=raft.term) is None, (
        "the log begins behind it"
    )
    assert not raft.supply.is_open(peer("b"))


def test_a_late_append_is_answered_with_what_is_committed() -> None:
    """Else a leader whose probe it was would wait for nothing."""
    cluster = SmallCluster()
    raft = cluster.elect("a")
    raft.propose([b"1", b"2"])
    cluster.tick(2)
    term = raft.status().term
    cluster.sent.clear()
    cluster.rafts["b"].step(append("a", "b", term, 2, term, term))
    cluster.run()
    assert [(each.kind, each.index, each.reject) for each in cluster.sent] == [
        (MessageKind.APPEND_REPLY, 4, False)
    ]


def test_a_snapshot_of_what_is_in_the_log_already_only_says_that_it_is_committed() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    cluster.lose = lambda message: message.to == peer("b") and message.kind is MessageKind.HEARTBEAT
    raft.propose([b"1"])
    cluster.run()
    b = cluster.rafts["b"]
    assert (b.status().commit, b.status().last_index) == (2, 3)
    term, meta = raft.status().term, raft.snapshot_meta(3)
    cluster.sent.clear()
    b.step(
        Message(kind=MessageKind.SNAPSHOT, to=peer("b"), sender=peer("a"), term=term, snapshot=meta)
    )
    cluster.run()
    assert cluster.stores["b"].snapshot is None
    assert (b.status().commit, cluster.commands("b")) == (3, [b"1"])
    assert [each.index for each in cluster.sent if each.kind is MessageKind.APPEND_REPLY] == [3]


def test_a_snapshot_that_brings_nothing_is_not_installed() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    raft.propose([b"1"])
    cluster.tick(2)
    meta = raft.snapshot_meta(2)
    cluster.rafts["b"].step(
        Message(
            kind=MessageKind.SNAPSHOT,
            to=peer("b"),
            sender=peer("a"),
            term=raft.status().term,
            snapshot=meta,
        )
    )
    ready = cluster.rafts["b"].ready()
    assert ready.snapshot is None
    assert [each.index for each in ready.messages_after_store] == [3]


def test_a_follower_whose_tail_was_lost_says_so() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    raft.propose([b"1", b"2"])
    cluster.tick(2)
    cluster.stores["b"]._entries = cluster.stores["b"]._entries[:2]
    cluster.start("b")
    with pytest.raises(LogCorrupted, match="tail was lost"):
        cluster.tick(1, "a")


def test_all_replicas_restarted_keep_what_was_committed() -> None:
    cluster = SmallCluster()
    cluster.elect("a").propose([b"1", b"2"])
    cluster.run()
    for name in "abc":
        cluster.start(name)
    cluster.tick(40)
    assert cluster.commands(cluster.leader()) == [b"1", b"2"]


def test_applying_is_cut_into_portions() -> None:
    cluster = SmallCluster("a", settings=RaftSettings(max_apply_bytes=10))
    raft = cluster.elect("a")
    raft.propose([b"12345678"] * 3)
    ready = raft.ready()
    cluster.store("a", ready)
    sizes = []
    while raft.has_ready():
        ready = raft.ready()
        sizes.append(len(ready.committed))
        cluster.store("a", ready)
    assert sizes == [1, 1, 1]


def test_a_follower_refuses_proposals_and_names_the_leader() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    with pytest.raises(NotLeader) as refused:
        cluster.rafts["b"].propose([b"x"])
    assert refused.value.leader == peer("a")


def test_an_idle_leader_sends_one_heartbeat_per_peer_and_tick() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    cluster.tick(3)
    cluster.sent.clear()
    cluster.tick(5, "a")
    kinds = [message.kind for message in cluster.sent]
    assert kinds.count(MessageKind.HEARTBEAT) == kinds.count(MessageKind.HEARTBEAT_REPLY) == 10
    assert len(kinds) == 20
    assert all(not raft.has_ready() for raft in cluster.rafts.values())
    assert cluster.status("a").role is RaftRole.LEADER


def test_heartbeats_sent_before_they_are_due_put_off_the_next_ones() -> None:
    cluster = SmallCluster(settings=RaftSettings(heartbeat_ticks=3))
    cluster.elect("a")
    cluster.run()

    def beats_of(act: Callable[[], object]) -> int:
        cluster.sent.clear()
        act()
        cluster.run()
        return sum(message.kind is MessageKind.HEARTBEAT for message in cluster.sent)

    assert beats_of(cluster.rafts["a"].beat) == 2
    assert [beats_of(cluster.rafts["a"].tick) for _ in range(5)] == [0, 0, 0, 2, 0]
    assert beats_of(cluster.rafts["b"].beat) == 0


def test_the_commit_index_is_stored_with_the_next_entries_and_never_alone() -> None:
    cluster = SmallCluster("a")
    raft = cluster.elect("a")
    written: list[Ready] = []
    for command in (b"1", b"2"):
        raft.propose([command])
        while raft.has_ready():
            written.append(raft.ready())
            cluster.store("a", written[-1])
    stored = [each for each in written if each.must_store]
    assert all(each.entries for each in stored)
    assert cluster.stores["a"].hard_state.commit == 3
    assert raft.status().commit == 4


def heartbeat(cluster: SmallCluster, to: str) -> Message:
    term = cluster.status("a").term
    return Message(kind=MessageKind.HEARTBEAT, to=peer(to), sender=peer("a"), term=term)


def test_an_idle_followers_answer_needs_no_ready() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    raft = cluster.rafts["b"]
    raft.step(heartbeat(cluster, "b"))
    messages = raft.take_messages()
    assert messages is not None
    assert [each.kind for each in messages] == [MessageKind.HEARTBEAT_REPLY]
    assert not raft.has_ready()
    assert raft.take_messages() == []


def test_no_answer_leaves_without_a_ready_while_something_has_to_be_stored() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    term = cluster.status("a").term
    raft = cluster.rafts["b"]
    raft.step(append("a", "b", term, 2, term, 1))
    raft.step(heartbeat(cluster, "b"))
    assert raft.take_messages() is None, "an entry is not stored"
    ready = raft.ready()
    assert len(ready.messages_after_store) == 2
    raft.step(heartbeat(cluster, "b"))
    assert raft.take_messages() is None, "it is being stored"
    cluster.stores["b"].store(ready)
    raft.stored(ready)
    assert raft.take_messages()
    raft.step(
        Message(kind=MessageKind.VOTE, to=peer("b"), sender=peer("c"), term=term + 1, context=1)
    )
    assert raft.take_messages() is None, "the term is not stored"
    assert raft.ready().hard_state is not None


def test_a_follower_that_has_entries_to_apply_takes_a_turn() -> None:
    cluster = SmallCluster()
    raft = cluster.elect("a")
    cluster.lose = lambda message: message.kind is MessageKind.HEARTBEAT
    raft.propose([b"x"])
    cluster.run()
    follower = cluster.rafts["b"]
    commit = cluster.status("a").commit
    follower.step(msgspec.structs.replace(heartbeat(cluster, "b"), commit=commit))
    assert follower.take_messages() is None
    assert [entry.data for entry in follower.ready().committed] == [b"x"]
