"""changePeersAsync: stages, tokens, grants, and who gives way to whom."""

from __future__ import annotations

import dataclasses

import pytest

from tests.unit.raft.changing import FORWARD, RECEIVED, cancel, change, grant, loaded, stages
from tests.unit.raft.small_cluster import SmallCluster, peer, peers
from zonequake_protocol.admin import Stage
from zonequake_store.raft.api import (
    JOINT_BEFORE_CAUGHT_UP,
    CancelAnswer,
    ChangePeersAnswer,
    ConfigurationApplied,
    GrantAnswer,
    RaftSettings,
    ReconfigurationError,
    StageChanged,
)
from zonequake_store.raft.errors import InvalidPeers
from zonequake_store.raft.messages import Configuration, Message, MessageKind


def test_a_change_passes_its_stages_and_waits_for_its_grant() -> None:
    cluster = loaded()
    before = cluster.status("a").last_index
    assert not cluster.status("a").caught_up, "no replica is being caught up"
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
def test_a_change_that_adds_no_node_is_caught_up_at_once(names: str) -> None:
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
    cluster.lose = lambda message: message.kind is MessageKind.APPEND_REPLY
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
    cluster.lose = lambda message: (
        message.kind is MessageKind.APPEND_REPLY and message.index >= final
    )
    grant(cluster, 2, "abd")
    assert cluster.status("a").stage is Stage.STABLE
    assert change(cluster, 3, "abe") is ChangePeersAnswer.BUSY
    assert cancel(cluster, 3) is CancelAnswer.BUSY
    assert cancel(cluster, 2) is CancelAnswer.BUSY
    cluster.heal()
    cluster.tick(2)
    assert stages(cluster) == FORWARD, "it went on as if it had not been asked"


def test_a_change_that_takes_anothers_place_inherits_no_grant() -> None:
    """The grant came before the leader's own first entry was committed, so it had to wait."""
    cluster = SmallCluster()
    cluster.lose = lambda message: message.kind is MessageKind.APPEND_REPLY
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
    cluster.lose = lambda message: message.kind is MessageKind.APPEND_REPLY
    cluster.elect("a")
    change(cluster, 2, "ab")
    assert grant(cluster, 2, "ab") is GrantAnswer.RECEIVED
    assert cluster.status("a").stage is Stage.CATCHING_UP
    cluster.heal()
    cluster.tick(3)
    assert cluster.status("a").configuration == Configuration(peers=peers("ab"), token=2)
    assert stages(cluster) == FORWARD


def test_a_configuration_that_is_asked_for_again_is_announced_only_once_it_is_committed() -> None:
    cluster = SmallCluster()
    cluster.lose = lambda message: message.kind is MessageKind.APPEND_REPLY
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
    cluster.lose = lambda message: message.kind is MessageKind.APPEND_REPLY
    cluster.rafts["a"].propose([b"before"])
    grant(cluster, 2, "abd")
    assert cluster.status("a").configuration_index == joint
    cluster.lose = lambda message: (
        message.kind is MessageKind.APPEND_REPLY and message.index >= joint
    )
    for name in "bd":
        reply = Message(
            kind=MessageKind.APPEND_REPLY,
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
    assert cluster.configuration("a").token == 3


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
    assert cluster.configuration("a").peers == new


def test_the_planted_fault_skips_catch_up_and_grant() -> None:
    settings = dataclasses.replace(RaftSettings(), planted=frozenset({JOINT_BEFORE_CAUGHT_UP}))
    cluster = loaded(settings=settings)
    cluster.down = {"d"}
    change(cluster, 2, "abd")
    assert (Stage.CATCHING_UP, True) not in stages(cluster)
    assert cluster.configuration("a").token == 2
