"""changePeersAsync: stages, tokens, grants, failures, and leaders that die on the way."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from small_cluster import SmallCluster, peer, peers

from zonequake_store.admin_protocol import ReconfigurationStatus, Stage
from zonequake_store.raft.api import (
    JOINT_BEFORE_CAUGHT_UP,
    CancelAnswer,
    ChangePeersAnswer,
    ConfigurationApplied,
    GrantAnswer,
    ReconfigurationError,
    Role,
    Settings,
    StageChanged,
)
from zonequake_store.raft.errors import InvalidPeers, NotLeader
from zonequake_store.raft.messages import Configuration, Kind, Message

RECEIVED = ChangePeersAnswer.RECEIVED


def change(
    cluster: SmallCluster, token: int, names: str, *, leader: str = "a", term: int | None = None
) -> ChangePeersAnswer:
    raft = cluster.rafts[leader]
    at = raft.status().term if term is None else term
    answer = raft.change_peers(term=at, token=token, peers=peers(names))
    cluster.run()
    return answer


def grant(
    cluster: SmallCluster, token: int, names: str, *, leader: str = "a", term: int | None = None
) -> GrantAnswer:
    raft = cluster.rafts[leader]
    at = raft.status().term if term is None else term
    answer = raft.grant(term=at, token=token, peers=peers(names))
    cluster.run()
    return answer


def cancel(
    cluster: SmallCluster, token: int, *, leader: str = "a", term: int | None = None
) -> CancelAnswer:
    raft = cluster.rafts[leader]
    at = raft.status().term if term is None else term
    answer = raft.cancel_change_peers(term=at, token=token)
    cluster.run()
    return answer


def loaded(passive: str = "d", settings: Settings | None = None) -> SmallCluster:
    """a leads a, b, c with ten entries."""
    cluster = SmallCluster(passive=passive, settings=settings)
    cluster.elect("a").propose([b"x" * 100] * 10)
    cluster.run()
    return cluster


def stages(cluster: SmallCluster, name: str = "a") -> list[tuple[Stage, bool]]:
    return [(each.stage, each.caught_up) for each in cluster.of_type(name, StageChanged)]


FORWARD = [
    (Stage.CATCHING_UP, False),
    (Stage.CATCHING_UP, True),
    (Stage.JOINT, False),
    (Stage.STABLE, False),
    (Stage.NONE, False),
]


def test_a_change_passes_its_stages_and_waits_for_its_grant() -> None:
    cluster = loaded()
    before = cluster.status("a").last_index
    assert not cluster.status("a").caught_up, "nobody is being caught up"
    assert change(cluster, 2, "bcd") is RECEIVED
    waiting = cluster.status("a")
    assert (waiting.stage, waiting.caught_up, waiting.stage_token) == (Stage.CATCHING_UP, True, 2)
    assert waiting.stage_peers == peers("bcd")
    assert waiting.last_index == before, "nothing is written while catching up"
    assert cluster.commands("d") == cluster.commands("a")
    cluster.tick(50)
    assert cluster.status("a").stage is Stage.CATCHING_UP
    assert grant(cluster, 2, "bcd") is GrantAnswer.RECEIVED
    assert stages(cluster) == FORWARD
    assert {each.adding for each in cluster.of_type("a", StageChanged)} == {peers("d")}
    term = waiting.term
    assert cluster.of_type("a", ConfigurationApplied)[-1] == ConfigurationApplied(
        peers=peers("bcd"), term=term, index=before + 2, token=2
    )
    assert cluster.leader() in "bcd", "the leader left with the old set and handed over at once"
    assert cluster.status(cluster.leader()).configuration == Configuration(
        peers=peers("bcd"), token=2
    )


@pytest.mark.parametrize("names", ["ab", "abc", "a"])
def test_a_change_that_adds_nobody_is_caught_up_at_once(names: str) -> None:
    cluster = loaded()
    assert change(cluster, 2, names) is RECEIVED
    assert cluster.status("a").caught_up
    assert grant(cluster, 2, names) is GrantAnswer.RECEIVED
    assert stages(cluster) == FORWARD
    status = cluster.status("a")
    assert status.configuration == Configuration(peers=peers(names), token=2)
    assert (status.stage_token, status.stage_peers, status.caught_up) == (0, (), False)


def test_old_terms_and_tokens_are_stale_and_followers_are_no_leaders() -> None:
    cluster = loaded()
    term = cluster.status("a").term
    assert change(cluster, 2, "abd", term=term - 1) is ChangePeersAnswer.STALE
    assert change(cluster, 0, "abd") is ChangePeersAnswer.STALE
    assert change(cluster, 1, "abd") is ChangePeersAnswer.STALE
    assert change(cluster, 2, "abd", term=term + 1) is ChangePeersAnswer.NOT_LEADER
    assert change(cluster, 2, "abd", leader="b") is ChangePeersAnswer.NOT_LEADER
    assert cluster.status("a").stage is Stage.NONE
    assert change(cluster, 3, "abd") is RECEIVED
    assert change(cluster, 2, "abd") is ChangePeersAnswer.STALE
    assert change(cluster, 3, "bcd") is ChangePeersAnswer.STALE
    assert change(cluster, 3, "dba") is RECEIVED
    assert grant(cluster, 3, "abd", term=term - 1) is GrantAnswer.STALE
    assert grant(cluster, 3, "abd", leader="b") is GrantAnswer.NOT_LEADER
    assert grant(cluster, 2, "abd") is GrantAnswer.STALE
    assert grant(cluster, 3, "bcd") is GrantAnswer.STALE
    assert cluster.status("a").stage is Stage.CATCHING_UP


def test_sets_that_cannot_be_a_configuration_are_refused() -> None:
    cluster = loaded()
    with pytest.raises(InvalidPeers):
        change(cluster, 2, "")
    with pytest.raises(InvalidPeers):
        cluster.rafts["a"].change_peers(
            term=cluster.status("a").term, token=2, peers=(peer("a"), peer("a", "2"))
        )


def test_a_higher_token_is_busy_once_joint() -> None:
    cluster = loaded("de")
    change(cluster, 2, "abd")
    cluster.lose = lambda message: message.kind is Kind.APPEND_REPLY
    grant(cluster, 2, "abd")
    assert cluster.status("a").stage is Stage.JOINT
    assert change(cluster, 3, "abe") is ChangePeersAnswer.BUSY
    assert cancel(cluster, 3) is CancelAnswer.BUSY
    assert change(cluster, 2, "abd") is RECEIVED
    assert grant(cluster, 2, "abd") is GrantAnswer.RECEIVED
    cluster.heal()
    cluster.tick(2)
    assert cluster.status("a").configuration == Configuration(peers=peers("abd"), token=2)


def test_a_higher_token_is_busy_and_nothing_is_cancelled_while_the_final_set_is_on_its_way() -> (
    None
):
    cluster = loaded("de")
    change(cluster, 2, "abd")
    final = cluster.status("a").last_index + 2
    cluster.lose = lambda message: message.kind is Kind.APPEND_REPLY and message.index >= final
    grant(cluster, 2, "abd")
    assert cluster.status("a").stage is Stage.STABLE
    assert change(cluster, 3, "abe") is ChangePeersAnswer.BUSY
    assert cancel(cluster, 3) is CancelAnswer.BUSY
    assert cancel(cluster, 2) is CancelAnswer.BUSY
    cluster.heal()
    cluster.tick(2)
    assert stages(cluster) == FORWARD, "it went on as if nobody had asked"


def test_a_change_that_takes_anothers_place_inherits_no_grant() -> None:
    """The grant came before the leader's own first entry was committed, so it had to wait."""
    cluster = SmallCluster()
    cluster.lose = lambda message: message.kind is Kind.APPEND_REPLY
    cluster.elect("a")
    assert change(cluster, 2, "ab") is RECEIVED
    assert grant(cluster, 2, "ba") is GrantAnswer.RECEIVED
    assert cluster.status("a").stage is Stage.CATCHING_UP
    assert change(cluster, 3, "ac") is RECEIVED
    cluster.heal()
    cluster.tick(3)
    waiting = cluster.status("a")
    assert (waiting.stage, waiting.caught_up, waiting.stage_token) == (Stage.CATCHING_UP, True, 3)
    assert stages(cluster).count((Stage.CATCHING_UP, True)) == 2, "both were caught up, and said so"
    assert grant(cluster, 3, "ca") is GrantAnswer.RECEIVED
    assert cluster.status("a").configuration == Configuration(peers=peers("ac"), token=3)


def test_a_grant_that_had_to_wait_acts_as_soon_as_the_leaders_first_entry_is_committed() -> None:
    cluster = SmallCluster()
    cluster.lose = lambda message: message.kind is Kind.APPEND_REPLY
    cluster.elect("a")
    change(cluster, 2, "ab")
    assert grant(cluster, 2, "ab") is GrantAnswer.RECEIVED
    assert cluster.status("a").stage is Stage.CATCHING_UP
    cluster.heal()
    cluster.tick(3)
    assert cluster.status("a").configuration == Configuration(peers=peers("ab"), token=2)
    assert stages(cluster) == FORWARD


def test_a_peer_that_falls_back_while_its_grant_has_to_wait_is_waited_for_too() -> None:
    cluster = SmallCluster(passive="d", settings=Settings(catch_up_margin_entries=5))
    cluster.lose = lambda message: message.kind is Kind.APPEND_REPLY and message.sender.node in "bc"
    cluster.elect("a")
    change(cluster, 2, "abd")
    assert grant(cluster, 2, "abd") is GrantAnswer.RECEIVED
    cluster.lose = lambda message: message.sender.node != "a" or message.to.node == "d"
    cluster.rafts["a"].propose([b"y"] * 20)
    cluster.run()
    cluster.isolate("d")
    cluster.tick(2)
    found = cluster.status("a")
    assert found.commit == found.last_index
    assert (found.stage, found.caught_up) == (Stage.CATCHING_UP, False)
    cluster.heal()
    cluster.tick(3)
    assert cluster.status("a").configuration == Configuration(peers=peers("abd"), token=2)


def test_a_configuration_that_is_asked_for_again_is_announced_only_once_it_is_committed() -> None:
    cluster = SmallCluster()
    cluster.lose = lambda message: message.kind is Kind.APPEND_REPLY
    cluster.elect("a")
    assert change(cluster, 1, "abc") is RECEIVED
    assert cluster.of_type("a", ConfigurationApplied) == [], "perhaps another leader has none of it"
    cluster.heal()
    cluster.tick(3)
    assert [each.token for each in cluster.of_type("a", ConfigurationApplied)] == [1]


def test_what_commits_below_the_joint_entry_does_not_end_joint() -> None:
    cluster = loaded()
    change(cluster, 2, "abd")
    joint = cluster.status("a").last_index + 2
    cluster.lose = lambda message: message.kind is Kind.APPEND_REPLY
    cluster.rafts["a"].propose([b"before"])
    grant(cluster, 2, "abd")
    assert cluster.status("a").configuration_index == joint
    cluster.lose = lambda message: message.kind is Kind.APPEND_REPLY and message.index >= joint
    for name in "bd":
        reply = Message(
            kind=Kind.APPEND_REPLY,
            to=peer("a"),
            sender=peer(name),
            term=cluster.status("a").term,
            index=joint - 1,
        )
        cluster.rafts["a"].step(reply)
    cluster.run()
    status = cluster.status("a")
    assert (status.commit, status.stage, status.last_index) == (joint - 1, Stage.JOINT, joint)


def test_a_configuration_is_announced_once_however_much_is_committed_behind_it() -> None:
    cluster = loaded()
    change(cluster, 2, "abd")
    grant(cluster, 2, "abd")
    for _ in range(3):
        cluster.rafts["a"].propose([b"behind"])
        cluster.run()
    assert [each.token for each in cluster.of_type("a", ConfigurationApplied)] == [1, 2]


def test_a_leader_that_waits_for_a_grant_serves() -> None:
    cluster = loaded()
    change(cluster, 2, "abd")
    cluster.tick(2 * cluster.settings.catch_up_silence_ticks)
    assert cluster.status("a").caught_up
    raft = cluster.rafts["a"]
    raft.propose([b"meanwhile"])
    number = raft.read()
    cluster.run()
    assert cluster.commands("d")[-1] == b"meanwhile"
    assert number in cluster.reads["a"]
    assert cluster.of_type("a", ReconfigurationError) == []


def test_a_change_that_only_waits_for_its_grant_gives_way_to_a_higher_token() -> None:
    cluster = loaded("de")
    change(cluster, 2, "abd")
    before = cluster.status("a").last_index
    assert change(cluster, 3, "abe") is RECEIVED
    assert grant(cluster, 2, "abd") is GrantAnswer.STALE
    assert cluster.status("a").stage_peers == peers("abe")
    assert cluster.status("a").last_index == before
    grant(cluster, 3, "abe")
    assert cluster.status("a").configuration == Configuration(peers=peers("abe"), token=3)


def test_a_change_takes_new_peers_while_it_moves_data_and_stops_the_replicators_of_the_old() -> (
    None
):
    cluster = loaded("def")
    cluster.down = {"d", "f"}
    change(cluster, 2, "abdf")
    before = {each.peer: each for each in cluster.status("a").progress}
    assert change(cluster, 3, "abef") is RECEIVED
    assert [each.peer for each in cluster.status("a").progress] == list(peers("ef"))
    assert cluster.of_type("a", ReconfigurationError) == [], "it goes on, with other peers"
    cluster.down = set()
    cluster.sent.clear()
    cluster.tick(3)
    assert peer("d") not in {message.to for message in cluster.sent}
    assert before[peer("f")].match_index == 0
    assert grant(cluster, 3, "abef") is GrantAnswer.RECEIVED
    assert cluster.status("a").configuration.token == 3


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
    assert cluster.status("a").configuration.token == 2


def test_a_change_that_waits_for_its_grant_can_be_cancelled() -> None:
    cluster = loaded()
    change(cluster, 2, "abd")
    assert cluster.status("a").caught_up
    assert cancel(cluster, 2) is CancelAnswer.RECEIVED
    assert cluster.status("a").stage is Stage.NONE


def test_cancel_is_true_when_nothing_runs() -> None:
    cluster = loaded()
    assert cancel(cluster, 1) is CancelAnswer.RECEIVED
    assert cluster.of_type("a", ReconfigurationError) == []
    assert cluster.status("a").reconfiguration_error is None


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
    cluster = loaded(settings=Settings(catch_up_margin_entries=5))
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
    assert cluster.status("a").configuration.token == 2


def test_catching_up_peers_count_in_no_quorum() -> None:
    cluster = loaded("de")
    change(cluster, 2, "abcde")
    cluster.isolate("a", "d", "e")
    commit = cluster.status("a").commit
    cluster.rafts["a"].propose([b"z"])
    cluster.tick(3, "a")
    assert cluster.status("a").commit == commit
    assert cluster.stores["d"].last_index == commit + 1
    cluster.tick(20, "a")
    assert cluster.status("a").stage is Stage.NONE
    assert cluster.of_type("a", StageChanged)[-1].reason == (
        "the leader lost contact with its quorum"
    )


def test_catch_up_is_limited_and_its_progress_never_falls() -> None:
    cluster = loaded(settings=Settings(catch_up_bytes_per_second=2000, max_append_bytes=150))
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
    cluster.rafts["a"].set_catch_up_rate(500)
    change(cluster, 2, "abd")
    cluster.tick(3)
    assert not cluster.status("a").caught_up
    cluster.rafts["a"].set_catch_up_rate(0)
    cluster.tick(2)
    assert cluster.status("a").caught_up


def test_snapshot_progress_shows_as_a_fraction_and_its_pieces_spend_the_limit() -> None:
    cluster = loaded(settings=Settings(catch_up_bytes_per_second=5000))
    raft = cluster.rafts["a"]
    cluster.stores["a"].compact(raft.snapshot_meta(11))
    raft.compact(11)
    change(cluster, 2, "abd")
    cluster.tick()
    assert [supply.to for _, supply in cluster.supplies] == [peer("d")]
    assert raft.supply(peer("d"), index=0, log_term=0) is None
    assert raft.supply_allowance(peer("d")) > 0
    raft.supplied_piece(peer("d"), index=12, piece_bytes=500, sent_bytes=500, total_bytes=1000)
    assert raft.supply_allowance(peer("d")) == 0
    progress = raft.status().progress[0]
    assert progress.by_snapshot
    assert progress.fraction == pytest.approx(0.5)
    assert progress.bytes_sent == 500
    assert (progress.bytes_done, progress.bytes_total) == (500, 1000)
    raft.supplied_piece(peer("d"), index=12, piece_bytes=500, sent_bytes=500, total_bytes=1000)
    progress = raft.status().progress[0]
    assert progress.bytes_sent == 1000, "it was sent twice"
    assert (progress.bytes_done, progress.bytes_total) == (500, 1000)


def test_a_new_leader_finishes_a_joint_configuration_by_itself() -> None:
    cluster = loaded()
    change(cluster, 2, "bcd")
    cluster.lose = lambda message: message.kind is Kind.APPEND_REPLY
    grant(cluster, 2, "bcd")
    assert cluster.status("b").configuration.is_joint
    cluster.down = {"a"}
    cluster.heal()
    cluster.elect("b")
    cluster.tick(2)
    assert cluster.status("b").configuration == Configuration(peers=peers("bcd"), token=2)
    assert stages(cluster, "b") == FORWARD[2:]
    assert {each.adding for each in cluster.of_type("b", StageChanged)} == {peers("d")}
    assert cluster.of_type("b", ConfigurationApplied)[-1].token == 2


def test_a_new_leader_without_the_joint_entry_undoes_it_at_the_old_one() -> None:
    cluster = loaded()
    change(cluster, 2, "bcd")
    cluster.isolate("a")
    grant(cluster, 2, "bcd")
    assert cluster.status("a").configuration.is_joint
    cluster.elect("b")
    cluster.heal()
    cluster.tick(3)
    assert cluster.status("a").configuration == Configuration(peers=peers("abc"), token=1)
    assert stages(cluster)[-1] == (Stage.NONE, False)
    assert change(cluster, 2, "bcd", leader="b") is RECEIVED
    cluster.tick(2)
    assert grant(cluster, 2, "bcd", leader="b") is GrantAnswer.RECEIVED
    assert cluster.status("b").configuration.token == 2


def test_a_new_leader_announces_a_final_configuration_that_it_inherited() -> None:
    cluster = loaded()
    change(cluster, 2, "abd")
    final = cluster.status("a").last_index + 2
    cluster.lose = lambda message: message.kind is Kind.APPEND_REPLY and message.index >= final
    grant(cluster, 2, "abd")
    assert cluster.status("a").stage is Stage.STABLE
    assert cluster.of_type("a", ConfigurationApplied)[-1].token == 1
    cluster.down = {"a"}
    cluster.heal()
    cluster.elect("b")
    assert [each.token for each in cluster.of_type("b", ConfigurationApplied)] == [2]


def test_a_joint_configuration_needs_both_majorities() -> None:
    cluster = SmallCluster("ab", passive="cd")
    cluster.elect("a").propose([b"x"])
    cluster.run()
    change(cluster, 2, "cd")
    cluster.lose = lambda message: message.sender == peer("b")
    grant(cluster, 2, "cd")
    cluster.tick(3, "a")
    assert cluster.status("a").stage is Stage.JOINT, "c and d alone don't decide"
    cluster.heal()
    cluster.tick(3, "a")
    assert cluster.status(cluster.leader()).configuration == Configuration(
        peers=peers("cd"), token=2
    )


def test_a_finished_change_asked_for_again_is_announced_again() -> None:
    cluster = loaded()
    change(cluster, 2, "abd")
    grant(cluster, 2, "abd")
    announced = cluster.of_type("a", ConfigurationApplied)
    last = cluster.status("a").last_index
    assert change(cluster, 2, "abd") is RECEIVED
    assert grant(cluster, 2, "abd") is GrantAnswer.RECEIVED
    assert cluster.of_type("a", ConfigurationApplied) == [*announced, announced[-1]]
    assert (cluster.status("a").stage, cluster.status("a").last_index) == (Stage.NONE, last)


def test_a_wiped_member_is_replaced_by_its_new_incarnation() -> None:
    cluster = loaded("d")
    old = Configuration(peers=peers("abc"), token=1)
    new = tuple(sorted((peer("a"), peer("b"), peer("d"))))
    cluster.down = {"c"}
    assert cluster.status("a").configuration == old
    assert change(cluster, 2, "abd") is RECEIVED
    assert grant(cluster, 2, "abd") is GrantAnswer.RECEIVED
    assert cluster.status("a").configuration.peers == new


def test_the_planted_fault_skips_catch_up_and_grant() -> None:
    settings = dataclasses.replace(Settings(), planted=frozenset({JOINT_BEFORE_CAUGHT_UP}))
    cluster = loaded(settings=settings)
    cluster.down = {"d"}
    change(cluster, 2, "abd")
    assert (Stage.CATCHING_UP, True) not in stages(cluster)
    assert cluster.status("a").configuration.token == 2


def write_just_before_the_change_commits(cluster: SmallCluster) -> list[int]:
    """a is offered a write when the first answer to its final configuration is on its way."""
    offered: list[int] = []

    def offer(message: Message) -> bool:
        status = cluster.status("a")
        final = status.configuration == Configuration(peers=peers("bcd"), token=2)
        answers_it = message.kind is Kind.APPEND_REPLY and message.index == status.last_index
        if final and answers_it and not offered:
            offered.append(cluster.rafts["a"].propose([b"late"])[1])
        return False

    cluster.lose = offer
    return offered


def test_a_leader_that_leaves_under_load_hands_over_once_its_writes_are_committed() -> None:
    cluster = loaded()
    change(cluster, 2, "bcd")
    offered = write_just_before_the_change_commits(cluster)
    grant(cluster, 2, "bcd")
    assert offered
    assert cluster.leader() in "bcd", "elected without any tick"
    assert cluster.commands("a")[-1] == b"late", "whoever waits for it is answered"
    assert cluster.commands(cluster.leader())[-1] == b"late"


def test_a_leader_that_leaves_takes_nothing_new_and_waits_no_longer_than_an_election() -> None:
    cluster = loaded()
    change(cluster, 2, "bcd")
    offered = write_just_before_the_change_commits(cluster)
    offer = cluster.lose
    cluster.lose = lambda message: (
        offer(message) or any(entry.data == b"late" for entry in message.entries)
    )
    grant(cluster, 2, "bcd")
    assert offered
    assert cluster.leader() == "a"
    with pytest.raises(NotLeader) as refused:
        cluster.rafts["a"].propose([b"more"])
    assert refused.value.leader in peers("bcd")
    cluster.tick(cluster.settings.election_ticks, "a")
    assert cluster.status("a").role is Role.FOLLOWER
