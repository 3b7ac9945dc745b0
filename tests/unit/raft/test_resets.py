"""resetPeers: one node goes on in a new lineage, alone."""

from __future__ import annotations

import pytest

from tests.unit.raft.resetting import FORCED, apart, join, propose, reset, silence
from tests.unit.raft.small_cluster import SmallCluster, peer, peers
from zonequake_protocol.terms import lineage_of, number_of, term_of
from zonequake_store.raft.api import (
    ConfigurationApplied,
    LineageBegun,
    RaftRole,
    ResetAnswer,
)
from zonequake_store.raft.errors import InvalidPeers, ResetRefused
from zonequake_store.raft.messages import (
    Configuration,
    HardState,
    Message,
    MessageKind,
    Peer,
)


def test_a_term_of_a_later_lineage_is_above_every_term_of_an_older_one() -> None:
    assert term_of(5, 0) > term_of(4, 999_999_999) > term_of(0, 7) == 7
    assert (lineage_of(term_of(5, 8)), number_of(term_of(5, 8))) == (5, 8)


def test_a_survivor_leads_alone_in_the_next_term_of_a_new_lineage() -> None:
    cluster = apart()
    before = cluster.status("c")
    assert reset(cluster) is ResetAnswer.RECEIVED
    status = cluster.status("c")
    assert (status.role, status.configuration) == (RaftRole.LEADER, FORCED)
    assert status.term == term_of(5, number_of(before.term) + 1)
    assert status.commit == status.last_index == before.last_index + 1
    assert cluster.commands("c") == [b"x"] * 8, "what it had becomes the lineage's"
    assert cluster.of_type("c", ConfigurationApplied)[-1] == ConfigurationApplied(
        peers=peers("c"), term=status.term, index=status.last_index, token=5, lineage=5
    )
    propose(cluster, "c", b"y")
    assert cluster.commands("c")[-1] == b"y"


def test_a_survivor_tells_where_its_log_ended_so_that_what_it_lacked_can_be_told() -> None:
    cluster = apart()
    before = cluster.status("c")
    reset(cluster)
    told = LineageBegun(
        term=cluster.status("c").term, last_term=before.term, last_index=before.last_index
    )
    assert cluster.of_type("c", LineageBegun) == [told]
    silence(cluster)
    reset(cluster)
    assert cluster.of_type("c", LineageBegun) == [told], "only a lineage that begins is told"
    assert cluster.of_type("a", LineageBegun) == []


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
            kind=MessageKind.SNAPSHOT,
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


def test_a_leader_that_was_heard_until_a_reset_was_asked_is_reset_an_election_time_later() -> None:
    cluster = SmallCluster()
    cluster.elect("a")
    election = cluster.settings.election_ticks
    cluster.tick(election // 2, "a")
    cluster.isolate("a")
    assert reset(cluster, name="a") is ResetAnswer.BUSY
    cluster.tick(election - 1, "a")
    assert reset(cluster, name="a") is ResetAnswer.BUSY, "a whole election time-out must be silent"
    cluster.tick(1, "a")
    assert reset(cluster, name="a") is ResetAnswer.RECEIVED


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
    assert ready.hard_state is not None
    assert ready.hard_state == HardState(term_of(5, 3), peer("c"), ready.hard_state.commit)
    raft = cluster.start("c")
    cluster.run()
    assert lineage_of(raft.status().term) == 0
    assert reset(cluster) is ResetAnswer.RECEIVED


def test_a_survivor_hands_out_no_commit_of_the_old_lineage_before_it_leads() -> None:
    cluster = SmallCluster()
    leader = cluster.elect("a")
    leader.propose([b"x"] * 8)
    cluster.run()
    cluster.isolate("c")
    raft, donor = cluster.rafts["c"], cluster.status("a")
    assert raft.status().commit < donor.commit == raft.status().last_index
    heard = Message(
        kind=MessageKind.HEARTBEAT,
        to=peer("c"),
        sender=peer("a"),
        term=donor.term,
        commit=donor.commit,
    )
    raft.step(heard)
    for _ in range(2 * cluster.settings.election_ticks):
        raft.tick()
    raft.reset_peers(term=raft.status().term, token=5, peers=peers("c"))
    ready = raft.ready()
    assert ready.committed == ()
    cluster.store("c", ready)
    cluster.run()
    assert cluster.commands("c") == [b"x"] * 8
    assert cluster.status("c").commit > donor.commit


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
    cluster.lose = lambda message: message.kind is MessageKind.APPEND_REPLY
    raft.grant(term=raft.status().term, token=2, peers=peers("acd"))
    cluster.run()
    assert cluster.configuration("c").is_joint
    cluster.isolate("c")
    silence(cluster)
    assert reset(cluster) is ResetAnswer.RECEIVED
    assert cluster.status("c").configuration == FORCED
    cluster.tick(30, "c")
    assert cluster.status("c").configuration == FORCED, "no replica finishes the old change"


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
    assert cluster.status("d").role is RaftRole.LEADER
    assert cluster.status("d").configuration == expected
    assert lineage_of(cluster.status("d").term) == 5
    assert cluster.of_type("d", ConfigurationApplied)[-1].lineage == 5
