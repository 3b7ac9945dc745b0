"""Catch-up before a change: its margin, time-out, limit and errors, and how it is cancelled."""

from __future__ import annotations

import itertools

import pytest

from tests.unit.raft.changing import RECEIVED, cancel, change, grant, loaded, stages
from tests.unit.raft.small_cluster import SmallCluster, peer, peers
from zonequake_protocol.admin import ReconfigurationStatus, Stage
from zonequake_store.raft.api import (
    CancelAnswer,
    ChangePeersAnswer,
    GrantAnswer,
    RaftRole,
    RaftSettings,
    ReconfigurationError,
    StageChanged,
)
from zonequake_store.raft.messages import Configuration, MessageKind


def test_a_peer_that_is_caught_up_gets_only_what_is_committed() -> None:
    cluster = SmallCluster(passive="d")
    cluster.lose = lambda message: (
        message.kind is MessageKind.APPEND_REPLY and message.sender.node in "bc"
    )
    cluster.elect("a")
    change(cluster, 2, "abd")
    cluster.tick(3)
    found = cluster.status("a")
    assert found.commit < found.last_index
    assert cluster.stores["d"].last_index == found.commit
    assert grant(cluster, 2, "abd") is GrantAnswer.BUSY
    cluster.heal()
    cluster.tick(3)
    assert cluster.stores["d"].last_index == cluster.status("a").commit == found.last_index
    assert grant(cluster, 2, "abd") is GrantAnswer.RECEIVED
    assert cluster.configuration("a") == Configuration(peers=peers("abd"), token=2)


def test_a_leader_that_is_lost_while_it_catches_a_peer_up_leaves_no_group_without_a_leader() -> (
    None
):
    cluster = loaded()
    change(cluster, 2, "d")
    cluster.lose = lambda message: message.sender.node == "a"
    assert grant(cluster, 2, "d") is GrantAnswer.RECEIVED
    assert cluster.status("a").last_index > cluster.status("b").last_index, "it alone is joint"
    cluster.down = {"a"}
    cluster.lose = lambda message: message.kind is MessageKind.APPEND and message.to.node == "c"
    cluster.elect("b")
    change(cluster, 2, "d", leader="b")
    cluster.tick(3)
    cluster.heal()
    cluster.down = {"b"}
    cluster.tick(10 * cluster.settings.election_ticks)
    (leader,) = [n for n in "acd" if cluster.status(n).role is RaftRole.LEADER]
    assert cluster.configuration(leader) == Configuration(peers=peers("d"), token=2)


def test_a_cancelled_change_leaves_nothing_but_its_error() -> None:
    cluster = loaded()
    cluster.down = {"d"}
    change(cluster, 2, "abd")
    last = cluster.status("a").last_index
    assert cancel(cluster, 2) is CancelAnswer.RECEIVED
    status = cluster.status("a")
    assert (status.stage, status.last_index, status.progress) == (Stage.NONE, last, ())
    assert status.reconfiguration_error is not None
    assert status.reconfiguration_error.status is ReconfigurationStatus.CANCELLED
    assert [each.status for each in cluster.of_type("a", ReconfigurationError)] == [
        ReconfigurationStatus.CANCELLED
    ]
    assert stages(cluster)[-1] == (Stage.NONE, False)
    assert grant(cluster, 2, "abd") is GrantAnswer.STALE
    cluster.down = set()
    assert change(cluster, 2, "abd") is RECEIVED, "it may be asked for again"
    assert grant(cluster, 2, "abd") is GrantAnswer.RECEIVED
    assert cluster.configuration("a").token == 2


def test_a_change_that_waits_for_its_grant_can_be_cancelled() -> None:
    cluster = loaded()
    change(cluster, 2, "abd")
    assert cluster.status("a").caught_up
    assert cancel(cluster, 2) is CancelAnswer.RECEIVED
    assert cluster.status("a").stage is Stage.NONE


def test_cancel_is_true_when_nothing_runs() -> None:
    cluster = loaded()
    assert cancel(cluster, 1) is CancelAnswer.RECEIVED
    assert cluster.of_type("a", ReconfigurationError) == [], "no change has ended"
    answer = cluster.status("a").reconfiguration_error
    assert answer is not None, "the operator sees the answer also if it loses the reply"
    assert answer.status is ReconfigurationStatus.CANCELLED


def test_cancel_of_an_old_term_or_token_changes_nothing_and_a_follower_sends_it_on() -> None:
    cluster = loaded()
    change(cluster, 3, "abd")
    term = cluster.status("a").term
    assert cancel(cluster, 2) is CancelAnswer.STALE
    assert cancel(cluster, 3, term=term - 1) is CancelAnswer.STALE
    assert cancel(cluster, 3, term=term + 1) is CancelAnswer.NOT_LEADER
    assert cancel(cluster, 3, leader="b") is CancelAnswer.NOT_LEADER
    assert cluster.status("a").stage is Stage.CATCHING_UP


def test_a_cancel_with_a_higher_token_shuts_out_late_copies_of_the_change() -> None:
    cluster = loaded()
    change(cluster, 2, "abd")
    assert cancel(cluster, 3) is CancelAnswer.RECEIVED
    assert change(cluster, 2, "abd") is ChangePeersAnswer.STALE
    assert change(cluster, 3, "abd") is RECEIVED


def test_a_leader_that_steps_down_says_so_to_who_waits_for_the_change() -> None:
    cluster = loaded()
    change(cluster, 2, "abd")
    cluster.isolate("a")
    cluster.tick(2 * cluster.settings.election_ticks, "a")
    assert [(each.status, each.token) for each in cluster.of_type("a", ReconfigurationError)] == [
        (ReconfigurationStatus.LEADER_STEPPED_DOWN, 2)
    ]


def test_a_silent_peer_ends_the_change_with_an_error_and_the_next_may_begin() -> None:
    cluster = loaded()
    cluster.down = {"d"}
    change(cluster, 2, "abd")
    last = cluster.status("a").last_index
    cluster.tick(cluster.settings.catch_up_silence_ticks - 1)
    assert cluster.status("a").stage is Stage.CATCHING_UP
    cluster.tick()
    status = cluster.status("a")
    assert status.stage is Stage.NONE
    (error,) = cluster.of_type("a", ReconfigurationError)
    assert status.reconfiguration_error == error
    assert "d (incarnation 1) has not answered for 10 s" in error.reason
    assert (error.status, error.token) == (ReconfigurationStatus.CATCH_UP_TIMEOUT, 2)
    assert status.last_index == last, "no trace in the log"
    cluster.down = set()
    assert change(cluster, 2, "abd") is RECEIVED
    assert cluster.status("a").reconfiguration_error is None
    assert cluster.status("a").caught_up


def test_each_answer_of_a_catching_up_peer_renews_its_time_out() -> None:
    cluster = loaded()
    change(cluster, 2, "abd")
    for _ in range(3):
        cluster.lose = lambda message: message.sender.node == "d"
        cluster.tick(cluster.settings.catch_up_silence_ticks - 2, "a", "b", "c")
        cluster.heal()
        cluster.tick(1)
    assert cluster.status("a").stage is Stage.CATCHING_UP


def test_a_peer_that_falls_back_while_waiting_for_the_grant_is_waited_for() -> None:
    cluster = loaded(settings=RaftSettings(catch_up_margin_entries=5))
    change(cluster, 2, "abd")
    cluster.isolate("d")
    cluster.rafts["a"].propose([b"y"] * 5)
    cluster.run()
    assert cluster.status("a").caught_up, "by the margin and no more"
    cluster.rafts["a"].propose([b"y"])
    cluster.run()
    assert grant(cluster, 2, "abd") is GrantAnswer.BUSY
    cluster.heal()
    cluster.tick(3)
    assert grant(cluster, 2, "abd") is GrantAnswer.RECEIVED
    assert cluster.configuration("a").token == 2


def test_catching_up_peers_count_in_no_quorum() -> None:
    cluster = loaded("de")
    change(cluster, 2, "abcde")
    cluster.isolate("a", "d", "e")
    commit = cluster.status("a").commit
    cluster.rafts["a"].propose([b"z"])
    cluster.tick(3, "a")
    assert cluster.status("a").commit == commit
    assert cluster.stores["d"].last_index == commit
    cluster.tick(20, "a")
    assert cluster.status("a").stage is Stage.NONE
    assert cluster.of_type("a", StageChanged)[-1].reason == (
        "the leader lost contact with its quorum"
    )


def test_catch_up_is_limited_and_its_progress_never_falls() -> None:
    cluster = loaded(settings=RaftSettings(catch_up_bytes_per_second=2000, max_append_bytes=150))
    change(cluster, 2, "abd")
    fractions = []
    sent = []
    while not cluster.status("a").caught_up:
        cluster.tick()
        progress = cluster.status("a").progress[0]
        fractions.append(progress.fraction)
        sent.append(progress.bytes_sent)
        assert progress.bytes_done <= progress.bytes_total
        assert len(fractions) < 100
    assert fractions == sorted(fractions)
    assert any(0.2 < fraction < 0.8 for fraction in fractions)
    assert fractions[-1] == 1.0
    assert progress.bytes_done == progress.bytes_total == progress.bytes_sent
    assert max(after - before for before, after in itertools.pairwise(sent)) <= 400
    assert len(fractions) >= 5, "1,300 bytes at 200 a tick"


def test_a_rate_set_later_holds_too() -> None:
    cluster = loaded()
    cluster.rafts["a"].supply.set_rate(500)
    change(cluster, 2, "abd")
    cluster.tick(3)
    assert not cluster.status("a").caught_up
    cluster.rafts["a"].supply.set_rate(0)
    cluster.tick(2)
    assert cluster.status("a").caught_up


def test_snapshot_progress_shows_as_a_fraction_and_its_pieces_spend_the_limit() -> None:
    cluster = loaded(settings=RaftSettings(catch_up_bytes_per_second=5000))
    raft = cluster.rafts["a"]
    cluster.stores["a"].compact(raft.snapshot_meta(11))
    raft.compact(11)
    change(cluster, 2, "abd")
    cluster.tick()
    assert [supply.to for _, supply in cluster.supplies] == [peer("d")]
    assert raft.supply.next_append(peer("d"), index=0, log_term=0) is None
    assert raft.supply.allowance(peer("d")) > 0
    raft.supply.piece_left(peer("d"), index=12, piece_bytes=500, sent_bytes=500, total_bytes=1000)
    assert raft.supply.allowance(peer("d")) == 0
    progress = raft.status().progress[0]
    assert progress.by_snapshot
    assert progress.fraction == pytest.approx(0.5)
    assert progress.bytes_sent == 500
    assert (progress.bytes_done, progress.bytes_total) == (500, 1000)
    raft.supply.piece_left(peer("d"), index=12, piece_bytes=500, sent_bytes=500, total_bytes=1000)
    progress = raft.status().progress[0]
    assert progress.bytes_sent == 1000, "it was sent twice"
    assert (progress.bytes_done, progress.bytes_total) == (500, 1000)
