"""resetPeers: one node goes on in a new lineage, and nobody of the old one is in its way.

The scene: a, b, c are a group; c, cut off or left alone, is reset with token 5.
"""

from __future__ import annotations

import pytest
from small_cluster import SmallCluster, peer, peers

from zonequake_store.lineage import lineage_of, number_of, term_of
from zonequake_store.raft.api import (
    ChangePeersAnswer,
    ConfigurationApplied,
    GrantAnswer,
    ResetAnswer,
    Role,
)
from zonequake_store.raft.errors import BootstrapRefused, InvalidPeers, NotLeader, ResetRefused
from zonequake_store.raft.messages import (
    NEEDS_SNAPSHOT,
    Configuration,
    HardState,
    Kind,
    Message,
    Peer,
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


def holding(cluster: SmallCluster, kind: Kind) -> list[Message]:
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
        Message(kind=Kind.SNAPSHOT, to=to, sender=sender, term=request.term, snapshot=meta)
    )
    cluster.run()


# the term


def test_a_term_of_a_later_lineage_is_above_every_term_of_an_older_one() -> None:
    assert term_of(5, 0) > term_of(4, 999_999_999) > term_of(0, 7) == 7
    assert (lineage_of(term_of(5, 8)), number_of(term_of(5, 8))) == (5, 8)


# the survivor


def test_a_survivor_leads_alone_in_the_next_term_of_a_new_lineage() -> None:
    cluster = apart()
    before = cluster.status("c")
    assert reset(cluster) is ResetAnswer.RECEIVED
    status = cluster.status("c")
    assert (status.role, status.configuration) == (Role.LEADER, FORCED)
    assert status.term == term_of(5, number_of(before.term) + 1)
    assert status.commit == status.last_index == before.last_index + 1
    assert cluster.commands("c") == [b"x"] * 8, "what it had becomes the lineage's"
    assert cluster.of_type("c", ConfigurationApplied)[-1] == ConfigurationApplied(
        peers=peers("c"), term=status.term, index=status.last_index, token=5, lineage=5
    )
    propose(cluster, "c", b"y")
    assert cluster.commands("c")[-1] == b"y"


def test_a_reset_that_is_repeated_changes_nothing_and_is_told_again() -> None:
    cluster = apart()
    reset(cluster)
    before, told = cluster.status("c"), len(cluster.of_type("c", ConfigurationApplied))
    assert reset(cluster, term=0) is ResetAnswer.RECEIVED
    assert cluster.status("c") == before
    assert len(cluster.of_type("c", ConfigurationApplied)) == told + 1


def test_a_reset_that_is_repeated_while_its_vote_is_being_stored_is_one_reset() -> None:
    cluster = apart()
    raft = cluster.rafts["c"]
    term = raft.status().term

    def ask(token: int) -> ResetAnswer:
        return raft.reset_peers(term=max(term, raft.status().term), token=token, peers=peers("c"))

    assert ask(5) is ResetAnswer.RECEIVED
    begun = raft.status().term
    assert ask(5) is ResetAnswer.RECEIVED
    assert raft.status().term == begun
    assert ask(4) is ResetAnswer.STALE
    assert ask(6) is ResetAnswer.RECEIVED, "a later decision takes its place"
    cluster.run()
    assert cluster.status("c").configuration == Configuration(peers=peers("c"), token=6, lineage=6)


def test_a_replica_that_installs_a_snapshot_is_not_reset_in_the_middle_of_it() -> None:
    cluster = apart()
    raft, donor = cluster.rafts["c"], cluster.rafts["a"]
    propose(cluster, "a", b"y")
    raft.step(
        Message(
            kind=Kind.SNAPSHOT,
            to=peer("c"),
            sender=peer("a"),
            term=raft.status().term,
            snapshot=donor.snapshot_meta(donor.status().applied),
        )
    )
    ready = raft.ready()
    assert ready.snapshot is not None
    for _ in range(2 * cluster.settings.election_ticks):
        raft.tick()
    assert not raft._replica.hears_leader
    assert reset(cluster) is ResetAnswer.BUSY
    cluster.store("c", ready)
    assert reset(cluster) is ResetAnswer.RECEIVED


def test_a_read_under_way_when_a_reset_is_heard_of_is_given_up_though_a_quorum_confirms_it() -> (
    None
):
    cluster = apart()
    reset(cluster)
    a = cluster.rafts["a"]
    held = holding(cluster, Kind.HEARTBEAT_REPLY)
    number = a.read()
    cluster.run()
    confirmations = [message for message in held if message.to == peer("a")]
    assert confirmations
    cluster.heal()
    a.step(
        Message(
            kind=Kind.APPEND_REPLY,
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
    held = holding(cluster, Kind.HEARTBEAT_REPLY)
    number = a.read()
    cluster.run()
    for message in held:
        if message.to == peer("a"):
            a.step(message)
    a.enforce(5)
    cluster.run()
    assert (cluster.reads["a"], cluster.aborted["a"]) == ({}, [number])


def test_an_older_token_or_term_resets_nothing() -> None:
    cluster = apart()
    term = cluster.status("c").term
    assert reset(cluster, 1) is ResetAnswer.STALE, "the group's own configuration has token 1"
    assert reset(cluster, 5, term=term - 1) is ResetAnswer.STALE
    cluster.rafts["c"].enforce(6)
    cluster.run()
    assert reset(cluster, 5) is ResetAnswer.STALE, "a later reset was decided"
    assert reset(cluster, 6) is ResetAnswer.RECEIVED
    assert reset(cluster, 5) is ResetAnswer.STALE
    assert cluster.status("c").configuration == Configuration(peers=peers("c"), token=6, lineage=6)


def test_a_replica_that_hears_a_leader_or_leads_refuses_to_be_reset() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    assert reset(cluster) is ResetAnswer.BUSY
    assert reset(cluster, name="a") is ResetAnswer.BUSY
    cluster.isolate("c")
    assert reset(cluster) is ResetAnswer.BUSY, "the leader was heard just now"
    silence(cluster)
    assert reset(cluster) is ResetAnswer.RECEIVED


def test_a_leader_without_its_quorum_is_reset_once_it_has_stepped_down() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    cluster.isolate("a")
    assert reset(cluster, name="a") is ResetAnswer.BUSY
    cluster.tick(2 * cluster.settings.election_ticks, "a")
    assert reset(cluster, name="a") is ResetAnswer.RECEIVED


def test_a_forced_set_has_exactly_one_member_that_holds_something() -> None:
    cluster = apart(passive="d")
    raft = cluster.rafts["c"]
    for wrong in ((), peers("b"), peers("bc"), (Peer("c", "2"),)):
        with pytest.raises(InvalidPeers):
            raft.reset_peers(term=raft.status().term, token=5, peers=wrong)
    with pytest.raises(ResetRefused):
        reset(cluster, name="d")


def test_nothing_of_a_reset_leaves_before_the_vote_is_stored_and_a_crash_forgets_it() -> None:
    cluster = apart()
    raft = cluster.rafts["c"]
    raft.reset_peers(term=raft.status().term, token=5, peers=peers("c"))
    ready = raft.ready()
    assert (ready.messages, ready.entries) == ((), ()), "it leads only once this is stored"
    assert ready.hard_state == HardState(term_of(5, 3), peer("c"), ready.hard_state.commit)
    raft = cluster.start("c")
    cluster.run()
    assert lineage_of(raft.status().term) == 0
    assert reset(cluster) is ResetAnswer.RECEIVED


def test_a_survivor_that_crashed_behind_its_vote_leads_a_later_term_of_the_lineage() -> None:
    cluster = apart()
    raft = cluster.rafts["c"]
    raft.reset_peers(term=raft.status().term, token=5, peers=peers("c"))
    cluster.stores["c"].store(raft.ready())
    cluster.start("c")
    cluster.run()
    assert cluster.status("c").abstains
    assert reset(cluster) is ResetAnswer.RECEIVED
    assert cluster.status("c").term == term_of(5, 4), "term (5, 3) may have been seen"


def test_a_reset_overrides_a_half_done_joint_change() -> None:
    cluster = SmallCluster(passive="d")
    raft = cluster.elect("a")
    raft.change_peers(term=raft.status().term, token=2, peers=peers("acd"))
    cluster.run()
    cluster.lose = lambda message: message.kind is Kind.APPEND_REPLY
    raft.grant(term=raft.status().term, token=2, peers=peers("acd"))
    cluster.run()
    assert cluster.status("c").configuration.is_joint
    cluster.isolate("c")
    silence(cluster)
    assert reset(cluster) is ResetAnswer.RECEIVED
    assert cluster.status("c").configuration == FORCED
    cluster.tick(30, "c")
    assert cluster.status("c").configuration == FORCED, "nobody finishes the old change"


def test_later_configurations_and_leaders_keep_the_lineage() -> None:
    cluster = apart(passive="d")
    reset(cluster)
    cluster.down = {"a", "b"}
    cluster.heal()
    join(cluster, "cd", token=6)
    expected = Configuration(peers=peers("cd"), token=6, lineage=5)
    assert cluster.status("d").configuration == expected
    cluster.rafts["c"].transfer_leadership(peer("d"))
    cluster.run()
    assert cluster.status("d").role is Role.LEADER
    assert cluster.status("d").configuration == expected
    assert lineage_of(cluster.status("d").term) == 5
    assert cluster.of_type("d", ConfigurationApplied)[-1].lineage == 5


# the old majority


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
            kind=Kind.APPEND_REPLY,
            to=peer("a"),
            sender=peer("b"),
            term=b.term,
            index=b.last_index,
        )
    )
    assert a.status().commit == b.last_index, "committed, and not told to anybody yet"
    a.enforce(5)
    ready = a.ready()
    assert ready.committed == ready.reads == ()
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
    assert (b.status().term, b.status().role) == (term, Role.FOLLOWER)
    for kind in (Kind.PRE_VOTE, Kind.VOTE):
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
    b.step(Message(kind=Kind.TIMEOUT_NOW, to=peer("b"), sender=peer("c"), term=b.status().term))
    assert b.status().role is Role.FOLLOWER


def test_an_old_leader_hears_of_the_reset_from_anybody_even_a_stranger() -> None:
    cluster = SmallCluster()
    a = cluster.elect("a")
    stranger = Peer("e", "1")
    cluster.lose = lambda message: message.to == stranger
    term = a.status().term
    heard = Message(
        kind=Kind.APPEND_REPLY, to=peer("a"), sender=stranger, term=term + 5, reject=True
    )
    a.step(heard)
    assert a.status().role is Role.LEADER, "of its own lineage only members can end it"
    a.step(Message(kind=Kind.PRE_VOTE, to=peer("a"), sender=stranger, term=term_of(5, 9)))
    cluster.run()
    assert (a.status().role, a.status().term) == (Role.FOLLOWER, term_of(5, 0))


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


# joining the new lineage


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
    b.step(Message(kind=Kind.SNAPSHOT, to=peer("b"), sender=peer("c"), term=term, snapshot=meta))
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
        Message(kind=Kind.APPEND, to=peer("b"), sender=peer("c"), term=term, index=11, log_term=2),
        Message(kind=Kind.HEARTBEAT, to=peer("b"), sender=peer("c"), term=term),
    ):
        b.step(message)
    cluster.run()
    replies = [message for message in cluster.sent if message.sender == peer("b")]
    assert [m.index for m in replies if m.kind is Kind.HEARTBEAT_REPLY] == [0]
    acknowledged = [m for m in replies if m.kind is Kind.APPEND_REPLY and not m.reject]
    assert {message.index for message in acknowledged} <= {11}


def test_a_snapshot_older_than_what_was_acknowledged_breaks_nobody() -> None:
    """Whoever sends it applies more slowly than it reads its log. Its heartbeats go on from what b
    acknowledged before."""
    cluster = apart()
    propose(cluster, "a", *[b"old"] * 5)
    cluster.tick(1, "a", "b")
    reset(cluster)
    term, c = cluster.status("c").term, cluster.rafts["c"]
    b = cluster.rafts["b"]
    shared = cluster.status("c").last_index - 1
    cluster.isolate("b")

    def told(kind: Kind, **fields: object) -> None:
        b.step(Message(kind=kind, to=peer("b"), sender=peer("c"), term=term, **fields))  # type: ignore[arg-type]
        cluster.run()

    cluster.sent.clear()
    told(Kind.APPEND, index=shared, log_term=c._replica.log.term(shared))
    assert [(m.kind, m.index, m.reject) for m in cluster.sent] == [
        (Kind.APPEND_REPLY, shared, False)
    ]
    told(Kind.SNAPSHOT, snapshot=c.snapshot_meta(shared - 3))
    assert b.status().last_index == b.status().applied == shared - 3
    told(Kind.HEARTBEAT, commit=shared)
    assert b.status().commit == shared - 3
    entries = tuple(cluster.stores["c"].entries(shared - 2, shared + 2, 1 << 20))
    told(
        Kind.APPEND,
        index=shared - 3,
        log_term=c._replica.log.term(shared - 3),
        entries=entries,
        commit=shared + 1,
    )
    assert b.status().commit == shared + 1
    assert not b.status().abstains


# beginning anew


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
    assert cluster.status("d").configuration.lineage == 5
