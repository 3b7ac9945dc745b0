"""Changes of peers whose leader dies on the way, is deposed, or belongs to the old set."""

from __future__ import annotations

import pytest

from tests.unit.raft.changing import FORWARD, RECEIVED, change, grant, loaded, stages
from tests.unit.raft.small_cluster import SmallCluster, peer, peers
from zonequake_protocol.admin import Stage
from zonequake_store.raft.api import (
    ConfigurationApplied,
    GrantAnswer,
    RaftRole,
    StageChanged,
)
from zonequake_store.raft.errors import NotLeader
from zonequake_store.raft.messages import Configuration, Message, MessageKind


def test_a_new_leader_finishes_a_joint_configuration_by_itself() -> None:
    cluster = loaded()
    change(cluster, 2, "bcd")
    cluster.lose = lambda message: message.kind is MessageKind.APPEND_REPLY
    grant(cluster, 2, "bcd")
    assert cluster.configuration("b").is_joint
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
    assert cluster.configuration("a").is_joint
    cluster.elect("b")
    cluster.heal()
    cluster.tick(3)
    assert cluster.status("a").configuration == Configuration(peers=peers("abc"), token=1)
    assert stages(cluster)[-1] == (Stage.NONE, False)
    assert change(cluster, 2, "bcd", leader="b") is RECEIVED
    cluster.tick(2)
    assert grant(cluster, 2, "bcd", leader="b") is GrantAnswer.RECEIVED
    assert cluster.configuration("b").token == 2


def test_a_new_leader_announces_a_final_configuration_that_it_inherited() -> None:
    cluster = loaded()
    change(cluster, 2, "abd")
    final = cluster.status("a").last_index + 2
    cluster.lose = lambda message: (
        message.kind is MessageKind.APPEND_REPLY and message.index >= final
    )
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


def write_just_before_the_change_commits(cluster: SmallCluster) -> list[int]:
    """a is offered a write when the first answer to its final configuration is on its way."""
    offered: list[int] = []

    def offer(message: Message) -> bool:
        status = cluster.status("a")
        final = status.configuration == Configuration(peers=peers("bcd"), token=2)
        answers_it = message.kind is MessageKind.APPEND_REPLY and message.index == status.last_index
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
    assert cluster.commands("a")[-1] == b"late", "the client that waits for it is answered"
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
    assert cluster.status("a").role is RaftRole.FOLLOWER
