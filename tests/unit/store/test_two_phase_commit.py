"""Coordinator and participants: over a bad network, with dying leaders, and step by step."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.store.transaction_groups import (
    Asked,
    Groups,
    check_atomicity,
    check_counters,
    check_serializability,
)
from zonequake_protocol.client import Cas, Reply, ReplyStatus, RequestId, Transaction, Write
from zonequake_store.replica.requests import begin_of
from zonequake_store.transactions import coordinator
from zonequake_store.transactions.participant import ASK_TICKS


def run(seed: int, *, steps: int = 600, loss: float, leader_changes: float) -> Groups:
    groups = Groups(seed)
    for step in range(steps):
        if step % 12 == 0:
            groups.begin()
        groups.step(loss=loss, leader_changes=leader_changes)
    groups.settle()
    check_atomicity(groups)
    check_serializability(groups)
    check_counters(groups)
    return groups


@pytest.mark.parametrize("seed", range(60))
def test_transactions_are_atomic_once_and_in_one_order_whatever_is_lost_and_whichever_node_dies(
    seed: int,
) -> None:
    run(seed, loss=0.15, leader_changes=0.01)


@pytest.mark.parametrize("seed", range(20))
def test_with_leaders_that_change_all_the_time(seed: int) -> None:
    run(seed, loss=0.1, leader_changes=0.04)


def test_without_faults_most_transactions_are_acknowledged() -> None:
    groups = run(1, loss=0.0, leader_changes=0.0)
    assert sum(asked.acknowledged for asked in groups.asked) > len(groups.asked) / 2


def begun(groups: Groups, *keys: tuple[str, str]) -> Asked:
    """A transaction over these keys, sent to its first group."""
    asked = Asked(len(groups.asked) + 1, list(keys))
    groups.asked.append(asked)
    groups.ask(asked)
    return asked


def quiet(groups: Groups, *, steps: int = 30) -> None:
    """Let letters and entries go their way without a tick."""
    for _ in range(steps):
        groups._collect()
        while groups.letters:
            groups._deliver(*groups.letters.pop(0))
            groups._collect()
        for group in groups.groups.values():
            group.step()


def test_a_transaction_over_three_partitions_is_answered_and_leaves_nothing_behind() -> None:
    groups = Groups(0)
    asked = begun(groups, *((g, groups.keys[g][0]) for g in groups.groups))
    quiet(groups)
    assert asked.acknowledged
    groups.settle()
    check_atomicity(groups)
    check_counters(groups)


def test_of_two_transactions_that_wait_for_each_other_one_gives_up_and_says_why() -> None:
    groups = Groups(0, groups=2)
    a, b = ("g0", groups.keys["g0"][0]), ("g1", groups.keys["g1"][0])
    first, second = begun(groups, a, b), begun(groups, b, a)
    for group in groups.groups.values():  # each locks its own key before the other's Prepare comes
        for _ in range(3):
            group.step()
    quiet(groups)
    assert not first.replies
    assert not second.replies
    for _ in range(ASK_TICKS):
        for group in groups.groups.values():
            group.leader.manager.tick()
        quiet(groups)
    assert [first.acknowledged, second.acknowledged].count(True) == 1
    loser = second if first.acknowledged else first
    assert loser.replies[0].status is ReplyStatus.LOCKED
    assert loser.replies[0].error is not None
    assert "wait for each other" in loser.replies[0].error
    groups.settle()
    check_atomicity(groups)


def test_the_vote_of_a_group_that_has_no_part_decides_nothing() -> None:
    groups = Groups(0)
    asked = begun(groups, ("g0", groups.keys["g0"][0]), ("g1", groups.keys["g1"][0]))
    leader = groups.groups["g0"].leader
    for _ in range(5):  # g0 prepares its own part; g1 gets no letter
        groups._collect()
        own = [letter for _, letter in groups.letters if letter.group == "g0"]
        groups.letters.clear()
        for letter in own:
            groups._deliver(leader.node, letter)
        groups.groups["g0"].step()
    (active,) = leader.manager.coordinator._active.values()
    (vote,) = active.votes.values()
    stranger = msgspec.structs.replace(vote.member, group="g2")
    leader.manager.coordinator.vote(msgspec.structs.replace(vote, member=stranger))
    assert active.votes.keys() == {"g0"}
    quiet(groups)
    assert not groups.groups["g0"].leader.partition.transactions.decisions
    assert not asked.replies


def test_a_coordinator_that_dies_before_its_decision_leaves_an_abort() -> None:
    groups = Groups(0, groups=2)
    asked = begun(groups, ("g0", groups.keys["g0"][0]), ("g1", groups.keys["g1"][0]))
    for _ in range(5):
        groups._collect()
        while groups.letters:
            groups._deliver(*groups.letters.pop(0))
            groups._collect()
        groups.groups["g1"].step()  # g1 prepares; g0, the coordinator's, gets no further
    assert groups.groups["g1"].leader.partition.transactions.prepared
    groups.groups["g0"].change_leader(groups.rng)
    groups.settle()
    assert asked.replies[0].status is ReplyStatus.NOT_LEADER
    assert groups.groups["g1"].value(groups.keys["g1"][0]) == []
    check_counters(groups)


def test_a_coordinator_that_dies_behind_its_decision_leaves_a_commit() -> None:
    groups = Groups(0, groups=2)
    asked = begun(groups, ("g0", groups.keys["g0"][0]), ("g1", groups.keys["g1"][0]))
    g0, g1 = groups.groups["g0"], groups.groups["g1"]
    while not g0.leader.partition.transactions.decisions:
        groups._collect()
        while groups.letters:
            groups._deliver(*groups.letters.pop(0))
        g0.step()
        g1.step()
    groups.letters.clear()
    g0.leader.manager.take_letters()
    g0.change_leader(groups.rng)
    assert g1.value(groups.keys["g1"][0]) == []
    groups.settle()
    assert asked.acknowledged
    assert g1.value(groups.keys["g1"][0]) == [1]
    assert not g0.leader.partition.transactions.decisions


def test_a_request_that_comes_again_while_it_runs_joins_it_and_later_gets_the_first_answer() -> (
    None
):
    groups = Groups(0, groups=2)
    asked = begun(groups, ("g0", groups.keys["g0"][0]), ("g1", groups.keys["g1"][0]))
    groups.ask(asked)
    quiet(groups)
    groups.ask(asked)
    assert len(asked.replies) == 3
    assert len({(reply.term, reply.index) for reply in asked.replies}) == 1
    assert [reply.results for reply in asked.replies] == [asked.replies[0].results] * 3
    groups.settle()
    check_atomicity(groups)


def test_a_cas_that_finds_its_own_write_of_an_earlier_attempt_is_told_that_it_was_done() -> None:
    groups = Groups(0, groups=2)
    (a, *_), (b, *_) = groups.keys["g0"], groups.keys["g1"]
    request = RequestId("c", 1)
    transaction = Transaction("g0", [Cas("g0", a, None, 5), Cas("g1", b, None, 6)], request)
    first: list[Reply] = []
    groups.groups["g0"].leader.manager.begin(1, begin_of(transaction), first.append)
    quiet(groups)
    assert first[0].applied is True
    groups.groups["g0"].change_leader(groups.rng)
    again: list[Reply] = []
    leader = groups.groups["g0"].leader
    # As if it had begun before it applied what the earlier attempt came to.
    lookup = leader.partition.clients.lookup
    leader.partition.clients.lookup = lambda *_, **__: None  # type: ignore[method-assign]
    leader.manager.begin(2, begin_of(transaction), again.append)
    leader.partition.clients.lookup = lookup  # type: ignore[method-assign]
    quiet(groups)
    assert (again[0].applied, again[0].index) == (True, first[0].index)
    groups.settle()
    check_counters(groups)


def test_a_cas_that_finds_another_value_refuses_all_and_says_so_each_time() -> None:
    groups = Groups(0, groups=2)
    (a, *_), (b, *_) = groups.keys["g0"], groups.keys["g1"]
    transaction = Transaction("g0", [Write("g0", a, 5), Cas("g1", b, 9, 6)], RequestId("c", 1))
    replies: list[Reply] = []
    for id_ in (1, 2):
        groups.groups["g0"].leader.manager.begin(id_, begin_of(transaction), replies.append)
        quiet(groups)
    assert [(reply.status, reply.applied, reply.value) for reply in replies] == [
        (ReplyStatus.OK, False, None)
    ] * 2
    assert replies[0].index == replies[1].index > 0
    groups.settle()
    check_counters(groups)


def test_a_group_that_never_answers_aborts_the_transaction_with_its_name() -> None:
    groups = Groups(0, groups=2)
    asked = begun(groups, ("g0", groups.keys["g0"][0]), ("g1", groups.keys["g1"][0]))
    for _ in range(coordinator.PREPARE_TICKS):
        groups._collect()
        groups.letters.clear()
        groups.groups["g0"].step()
        groups.groups["g0"].leader.manager.tick()
    assert asked.replies[0].status is ReplyStatus.LOCKED
    assert "g1 did not prepare" in str(asked.replies[0].error)
    groups.settle()
    check_counters(groups)


def test_one_unfinished_transaction_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "MAX_ACTIVE", 1)
    groups = Groups(0, groups=2)
    begun(groups, ("g0", groups.keys["g0"][0]))
    second = begun(groups, ("g0", groups.keys["g0"][1]))
    assert second.replies[0].status is ReplyStatus.OVERLOADED
