"""What becomes of those whom a reset left behind: they abstain, and join the new lineage."""

from __future__ import annotations

import pytest

from tests.unit.raft.resetting import apart, holding, join, propose, reset, silence
from tests.unit.raft.small_cluster import SmallCluster, peer, peers
from zonequake_protocol.terms import lineage_of, number_of, term_of
from zonequake_store.raft.api import (
    RaftRole,
    ResetAnswer,
)
from zonequake_store.raft.errors import BootstrapRefused, NotLeader
from zonequake_store.raft.messages import (
    NEEDS_SNAPSHOT,
    Configuration,
    Message,
    MessageKind,
    Peer,
)


def test_an_old_majority_that_hears_of_the_reset_neither_leads_nor_acknowledges() -> None:
    cluster = apart()
    propose(cluster, "a", b"old")
    reset(cluster)
    propose(cluster, "c", b"new")
    cluster.rafts["a"].propose([b"late"])
    cluster.heal()
    cluster.tick(60)
    assert cluster.leader() == "c"
    for name in "ab":
        status = cluster.status(name)
        assert status.abstains
        assert status.leader is None
        assert lineage_of(status.term) == 5
        with pytest.raises(NotLeader):
            cluster.rafts[name].propose([b"z"])


def test_commits_that_were_not_handed_out_when_the_reset_is_heard_of_never_are() -> None:
    cluster = apart()
    reset(cluster)
    reads = cluster.rafts["a"].read()
    cluster.rafts["a"].propose([b"old"])
    cluster.lose = lambda message: (
        message.to.node == "a"
        or "c"
        in (
            message.to.node,
            message.sender.node,
        )
    )
    cluster.run()
    a, b = cluster.rafts["a"], cluster.status("b")
    assert b.last_index > a.status().commit, "b has stored it"
    a.step(
        Message(
            kind=MessageKind.APPEND_REPLY,
            to=peer("a"),
            sender=peer("b"),
            term=b.term,
            index=b.last_index,
        )
    )
    assert a.status().commit == b.last_index, "committed, and no other replica knows yet"
    a.enforce(5)
    ready = a.ready()
    assert (ready.committed, ready.reads) == ((), ())
    assert ready.aborted_reads == (reads,)
    assert a.status().commit == b.last_index - 1


def test_who_abstains_neither_campaigns_nor_votes_nor_follows_a_hand_over() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    b = cluster.rafts["b"]
    b.enforce(5)
    cluster.run()
    term = b.status().term
    assert (term, b.status().abstains) == (term_of(5, 0), True)
    cluster.isolate("b")
    cluster.tick(60, "b")
    assert (b.status().term, b.status().role) == (term, RaftRole.FOLLOWER)
    for kind in (MessageKind.PRE_VOTE, MessageKind.VOTE):
        cluster.sent.clear()
        b.step(
            Message(
                kind=kind,
                to=peer("b"),
                sender=peer("c"),
                term=term_of(5, 9),
                index=99,
                log_term=term_of(5, 8),
            )
        )
        cluster.run()
        assert [message.reject for message in cluster.sent] == [True], kind
    b.step(
        Message(kind=MessageKind.TIMEOUT_NOW, to=peer("b"), sender=peer("c"), term=b.status().term)
    )
    assert b.status().role is RaftRole.FOLLOWER


def test_an_old_leader_hears_of_the_reset_from_any_node_even_a_stranger() -> None:
    cluster = SmallCluster()
    a = cluster.elect("a")
    stranger = Peer("e", "1")
    cluster.lose = lambda message: message.to == stranger
    term = a.status().term
    heard = Message(
        kind=MessageKind.APPEND_REPLY, to=peer("a"), sender=stranger, term=term + 5, reject=True
    )
    a.step(heard)
    assert a.status().role is RaftRole.LEADER, "of its own lineage only members can end it"
    a.step(Message(kind=MessageKind.PRE_VOTE, to=peer("a"), sender=stranger, term=term_of(5, 9)))
    cluster.run()
    assert (a.status().role, a.status().term) == (RaftRole.FOLLOWER, term_of(5, 0))


def test_a_vote_that_a_later_lineage_asks_for_is_refused_and_its_lineage_taken_note_of() -> None:
    """b hears its leader, or doesn't any more: the lineage counts in either case."""
    for is_silent in (False, True):
        cluster = SmallCluster()
        cluster.elect("a")
        cluster.isolate("b")
        if is_silent:
            silence(cluster, "b")
        cluster.sent.clear()
        request = Message(
            kind=MessageKind.VOTE,
            to=peer("b"),
            sender=peer("c"),
            term=term_of(5, 9),
            index=99,
            log_term=term_of(5, 8),
        )
        cluster.rafts["b"].step(request)
        cluster.run()
        assert [(each.kind, each.reject) for each in cluster.sent] == [
            (MessageKind.VOTE_REPLY, True)
        ]
        status = cluster.status("b")
        assert (status.term, status.abstains, status.leader) == (term_of(5, 9), True, None)
        assert cluster.stores["b"].hard_state.vote is None


def test_a_refusal_in_a_later_lineage_ends_a_leadership_from_any_sender() -> None:
    cluster = SmallCluster()
    a = cluster.elect("a")
    cluster.isolate("a")
    refusal = Message(
        kind=MessageKind.APPEND_REPLY,
        to=peer("a"),
        sender=Peer("e", "1"),
        term=term_of(5, 1),
        reject=True,
    )
    a.step(refusal)
    assert (a.status().role, a.status().abstains) == (RaftRole.FOLLOWER, True)


def test_an_old_majority_whose_terms_went_far_on_is_still_below_the_reset() -> None:
    cluster = apart()
    reset(cluster)
    for successor in "bababa":
        cluster.rafts["ab".replace(successor, "")].transfer_leadership(peer(successor))
        cluster.run()
    assert cluster.status("a").term > number_of(cluster.status("c").term)
    propose(cluster, "a", b"old")
    term = cluster.status("c").term
    cluster.heal()
    cluster.tick(60)
    assert (cluster.leader(), cluster.status("c").term) == ("c", term)


def test_a_restarted_replica_still_abstains() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    propose(cluster, "a", b"x")
    cluster.rafts["b"].enforce(5)
    cluster.run()
    cluster.start("b")
    cluster.run()
    status = cluster.status("b")
    assert status.abstains
    assert status.commit == status.applied, "what it had committed proves nothing any more"


def test_an_unwind_lets_an_older_link_lead_again_under_a_new_token() -> None:
    cluster = apart()
    reset(cluster)
    cluster.down = {"c"}
    silence(cluster, "a")
    cluster.isolate("b")
    silence(cluster, "b")
    assert reset(cluster, 7, name="b") is ResetAnswer.RECEIVED
    cluster.down = set()
    cluster.heal()
    cluster.rafts["c"].enforce(7)  # as its start order says
    cluster.tick(40)
    assert cluster.leader() == "b"
    assert cluster.status("c").abstains, "the first survivor is shut out"
    silence(cluster)
    assert reset(cluster, 5) is ResetAnswer.STALE, "though it was reset with this token once"


def test_an_old_follower_that_applied_nothing_else_joins_from_the_log() -> None:
    cluster = apart()
    reset(cluster)
    propose(cluster, "c", b"new")
    cluster.down = {"a"}
    cluster.heal()
    join(cluster, "bc", token=6)
    assert cluster.commands("b") == [b"x"] * 8 + [b"new"]
    assert not cluster.status("b").abstains
    assert cluster.stores["b"].snapshot is None


def test_an_uncommitted_suffix_of_the_old_lineage_is_truncated() -> None:
    cluster = apart()
    cluster.lose = lambda message: (
        message.to.node == "a"
        or "c"
        in (
            message.to.node,
            message.sender.node,
        )
    )
    propose(cluster, "a", *[b"old"] * 5)
    cluster.down = {"a"}
    cluster.heal()
    silence(cluster)
    reset(cluster)
    propose(cluster, "c", b"new")
    assert cluster.status("b").last_index > cluster.status("c").last_index
    join(cluster, "bc", token=6)
    assert cluster.commands("b") == [b"x"] * 8 + [b"new"]
    assert cluster.stores["b"].entries(1, 99, 999) == cluster.stores["c"].entries(1, 99, 999)


def test_what_an_old_follower_has_applied_is_replaced_by_a_snapshot() -> None:
    cluster = apart()
    propose(cluster, "a", *[b"old"] * 20)
    cluster.tick(1, "a", "b")
    assert cluster.commands("b")[-1] == b"old"
    reset(cluster)
    propose(cluster, "c", b"new")
    cluster.heal()
    cluster.down = {"a"}
    before = cluster.status("b").applied
    join(cluster, "bc", token=6)
    asked = [m for m in cluster.sent if m.reject and m.context == NEEDS_SNAPSHOT]
    assert {message.sender for message in asked} == {peer("b")}
    assert cluster.commands("b") == [b"x"] * 8 + [b"new"]
    assert cluster.status("b").applied < before
    assert not cluster.status("b").abstains
    propose(cluster, "c", b"both")
    cluster.tick(1)
    assert cluster.commands("b")[-1] == b"both"


def test_no_claim_of_the_new_lineage_vouches_for_a_state_of_the_old_one() -> None:
    """b has applied further than the new lineage is, and is asked how fresh that is all the time:
    also while it has the snapshot's log already, and not yet its state."""
    cluster = apart()
    propose(cluster, "a", *[b"old"] * 20)
    cluster.tick(1, "a", "b")
    b = cluster.rafts["b"]
    assert b.fresh_since_ms() is None
    cluster.tick(5, "a", "b")
    assert b.fresh_since_ms() is not None
    reset(cluster)
    cluster.heal()
    cluster.down = {"a"}
    raft = cluster.rafts["c"]
    term = raft.status().term
    raft.change_peers(term=term, token=6, peers=peers("bc"))
    cluster.run()
    for _ in range(5):
        cluster.tick(1, "b", "c")
        assert b.status().abstains
        assert b.fresh_since_ms() is None
    assert b.status().applied > cluster.status("c").commit
    meta = raft.snapshot_meta(raft.status().applied)
    b.step(
        Message(kind=MessageKind.SNAPSHOT, to=peer("b"), sender=peer("c"), term=term, snapshot=meta)
    )
    assert not b.status().abstains
    assert b.fresh_since_ms() is None, "the state is still the old one"
    cluster.run()
    assert b.status().applied == meta.index
    cluster.tick(5, "b", "c")
    assert b.fresh_since_ms() is not None


def test_an_old_follower_whose_log_is_compacted_beyond_the_reset_gets_a_snapshot() -> None:
    cluster = apart()
    propose(cluster, "a", *[b"old"] * 20)
    cluster.tick(2, "a", "b")
    b = cluster.rafts["b"]
    cluster.stores["b"].compact(b.snapshot_meta(20))
    b.compact(20)
    reset(cluster)
    cluster.heal()
    cluster.down = {"a"}
    join(cluster, "bc", token=6)
    assert cluster.commands("b") == [b"x"] * 8


def test_entries_of_two_lineages_with_equal_numbers_and_indexes_are_not_taken_for_each_other() -> (
    None
):
    cluster = apart()
    cluster.rafts["a"].transfer_leadership(peer("b"))
    cluster.run()
    propose(cluster, "b", b"old")
    reset(cluster)
    propose(cluster, "c", b"new")
    old, new = cluster.stores["b"], cluster.stores["c"]
    assert old.last_index == new.last_index
    assert number_of(old.term(old.last_index)) == number_of(new.term(new.last_index))
    cluster.heal()
    cluster.down = {"a"}
    join(cluster, "bc", token=6)
    assert cluster.commands("b") == cluster.commands("c") == [b"x"] * 8 + [b"new"]


def test_an_acknowledgement_of_an_old_commit_counts_for_nothing() -> None:
    """The leader once took "I have all up to my commit index" for a match of the logs."""
    cluster = apart()
    propose(cluster, "a", *[b"old"] * 5)
    reset(cluster)
    term = cluster.status("c").term
    b = cluster.rafts["b"]
    cluster.isolate("b")
    cluster.sent.clear()
    for message in (
        Message(
            kind=MessageKind.APPEND, to=peer("b"), sender=peer("c"), term=term, index=11, log_term=2
        ),
        Message(kind=MessageKind.HEARTBEAT, to=peer("b"), sender=peer("c"), term=term),
    ):
        b.step(message)
    cluster.run()
    replies = [message for message in cluster.sent if message.sender == peer("b")]
    assert [m.index for m in replies if m.kind is MessageKind.HEARTBEAT_REPLY] == [0]
    acknowledged = [m for m in replies if m.kind is MessageKind.APPEND_REPLY and not m.reject]
    assert {message.index for message in acknowledged} <= {11}


def test_only_what_it_has_applied_makes_an_old_follower_need_a_state() -> None:
    cluster = apart()
    propose(cluster, "a", *[b"old"] * 5)
    cluster.tick(1, "a", "b")
    applied = cluster.status("b").applied
    propose(cluster, "a", *[b"older"] * 3)
    b = cluster.rafts["b"]
    assert (b.status().applied, b.status().last_index) == (applied, applied + 3)
    reset(cluster)
    term = cluster.status("c").term
    cluster.isolate("b")
    asked: dict[int, int] = {}
    for index in range(applied - 4, applied + 4):
        cluster.sent.clear()
        told = Message(
            kind=MessageKind.APPEND,
            to=peer("b"),
            sender=peer("c"),
            term=term,
            index=index,
            log_term=term,
        )
        b.step(told)
        cluster.run()
        (answer,) = cluster.sent
        assert (answer.reject, answer.index) == (True, index)
        asked[index] = answer.context
    state = {index for index, context in asked.items() if context == NEEDS_SNAPSHOT}
    assert state == set(range(applied - 4, applied + 1)), "behind that a truncation is enough"


def test_a_snapshot_older_than_what_was_acknowledged_breaks_no_replica() -> None:
    """The sender applies more slowly than it reads its log. Its heartbeats go on from what b
    acknowledged before."""
    cluster = apart()
    propose(cluster, "a", *[b"old"] * 5)
    cluster.tick(1, "a", "b")
    reset(cluster)
    term, c = cluster.status("c").term, cluster.rafts["c"]
    b = cluster.rafts["b"]
    shared = cluster.status("c").last_index - 1
    cluster.isolate("b")

    def told(kind: MessageKind, **fields: object) -> None:
        b.step(Message(kind=kind, to=peer("b"), sender=peer("c"), term=term, **fields))  # type: ignore[arg-type]
        cluster.run()

    cluster.sent.clear()
    told(MessageKind.APPEND, index=shared, log_term=c._replica.log.term(shared))
    assert [(m.kind, m.index, m.reject) for m in cluster.sent] == [
        (MessageKind.APPEND_REPLY, shared, False)
    ]
    told(MessageKind.SNAPSHOT, snapshot=c.snapshot_meta(shared - 3))
    assert b.status().last_index == b.status().applied == shared - 3
    told(MessageKind.HEARTBEAT, commit=shared)
    assert b.status().commit == shared - 3
    entries = tuple(cluster.stores["c"].entries(shared - 2, shared + 2, 1 << 20))
    told(
        MessageKind.APPEND,
        index=shared - 3,
        log_term=c._replica.log.term(shared - 3),
        entries=entries,
        commit=shared + 1,
    )
    assert b.status().commit == shared + 1
    assert not b.status().abstains


def test_a_group_whose_data_is_lost_begins_anew_behind_all_that_was() -> None:
    cluster = SmallCluster("a", passive="de")
    for name in "de":
        cluster.rafts[name].enforce(5)
        with pytest.raises(BootstrapRefused):
            cluster.rafts[name].bootstrap(Configuration(peers=peers("de"), token=5))
        first = Configuration(peers=peers("de"), token=5, lineage=5)
        assert cluster.rafts[name].bootstrap(first)
    cluster.run()
    cluster.elect("d")
    assert cluster.stores["e"].term(1) == term_of(5, 1)
    assert cluster.configuration("d").lineage == 5


def test_a_read_under_way_when_a_reset_is_heard_of_is_given_up_though_a_quorum_confirms_it() -> (
    None
):
    cluster = apart()
    reset(cluster)
    a = cluster.rafts["a"]
    held = holding(cluster, MessageKind.HEARTBEAT_REPLY)
    number = a.read()
    cluster.run()
    confirmations = [message for message in held if message.to == peer("a")]
    assert confirmations
    cluster.heal()
    a.step(
        Message(
            kind=MessageKind.APPEND_REPLY,
            to=peer("a"),
            sender=peer("c"),
            term=cluster.status("c").term,
            reject=True,
        )
    )
    for message in confirmations:
        a.step(message)
    cluster.run()
    assert (cluster.reads["a"], cluster.aborted["a"]) == ({}, [number])


def test_a_confirmed_read_that_has_not_left_is_given_up_too() -> None:
    cluster = apart()
    a = cluster.rafts["a"]
    held = holding(cluster, MessageKind.HEARTBEAT_REPLY)
    number = a.read()
    cluster.run()
    for message in held:
        if message.to == peer("a"):
            a.step(message)
    a.enforce(5)
    cluster.run()
    assert (cluster.reads["a"], cluster.aborted["a"]) == ({}, [number])
