"""The simulation must find bugs: each of these is a known way to get Raft wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import msgspec
import pytest
from raft_invariants import Violation
from simulated_group import SMALL, SimulatedGroup

from zonequake_store.raft import election, quorum
from zonequake_store.raft.api import JOINT_BEFORE_CAUGHT_UP, Settings
from zonequake_store.raft.core import Raft
from zonequake_store.raft.errors import LogCorrupted
from zonequake_store.raft.leader import Leader
from zonequake_store.raft.log import RaftLog
from zonequake_store.raft.messages import Entry, Message
from zonequake_store.raft.reads import ReadRounds
from zonequake_store.raft.replica import Replica

pytestmark = pytest.mark.simulation

SEEDS = 300


def commit_older_terms(patch: pytest.MonkeyPatch) -> None:
    """Figure 8 of the Raft paper."""
    commit = Leader.commit

    def commit_anything(leader: Leader) -> None:
        start, leader.term_start = leader.term_start, 0
        commit(leader)
        leader.term_start = start

    patch.setattr(Leader, "commit", commit_anything)


def vote_twice(patch: pytest.MonkeyPatch) -> None:
    on_request = election.on_request

    def forget_vote_first(replica: Replica, message: Message) -> None:
        replica.vote = replica.leader = None
        on_request(replica, message)

    patch.setattr(election, "on_request", forget_vote_first)


def vote_for_any_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RaftLog, "is_up_to_date", lambda log, index, term: True)


def truncate_on_every_append(patch: pytest.MonkeyPatch) -> None:
    def merge(log: RaftLog, entries: Sequence[Entry]) -> None:
        if entries:
            if entries[0].index <= log.last_index:
                log._truncate(entries[0].index)
            log.append(entries)

    patch.setattr(RaftLog, "merge", merge)


def count_own_entries_before_they_are_stored(patch: pytest.MonkeyPatch) -> None:
    on_stored = Leader.on_stored

    def count_all(leader: Leader) -> None:
        stable, leader.replica.log.stable = leader.replica.log.stable, leader.replica.log.last_index
        on_stored(leader)
        leader.replica.log.stable = stable

    patch.setattr(Leader, "on_stored", count_all)


def acknowledge_before_storing(patch: pytest.MonkeyPatch) -> None:
    ready = Raft.ready

    def all_at_once(raft: Raft):
        found = ready(raft)
        changed = msgspec.structs.replace(
            found, messages=found.messages + found.messages_after_store, messages_after_store=()
        )
        raft._outstanding = changed
        return changed

    patch.setattr(Raft, "ready", all_at_once)


def decide_by_the_new_half_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "_agreed", staticmethod(lambda halves: quorum.majority_value(halves[0])))


def elect_by_the_new_half_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        quorum,
        "outcome",
        lambda configuration, votes: quorum.half_outcome(configuration.peers, votes),
    )


def keep_a_truncated_configuration(patch: pytest.MonkeyPatch) -> None:
    truncate = RaftLog._truncate

    def without_rollback(log: RaftLog, index: int) -> None:
        kept = list(log._configurations)
        truncate(log, index)
        log._configurations = kept
        log._use_latest_configuration()

    patch.setattr(RaftLog, "_truncate", without_rollback)


def answer_reads_without_a_round(patch: pytest.MonkeyPatch) -> None:
    begin = ReadRounds.begin

    def begin_and_answer(rounds: ReadRounds) -> int:
        number = begin(rounds)
        rounds.confirmed(number)
        return number

    patch.setattr(ReadRounds, "begin", begin_and_answer)


BUGS = [
    commit_older_terms,
    vote_twice,
    vote_for_any_log,
    truncate_on_every_append,
    count_own_entries_before_they_are_stored,
    acknowledge_before_storing,
    decide_by_the_new_half_alone,
    elect_by_the_new_half_alone,
    keep_a_truncated_configuration,
    answer_reads_without_a_round,
]


def first_found(settings: Settings = SMALL) -> tuple[int, str] | None:
    for seed in range(SEEDS):
        try:
            group = SimulatedGroup(seed, settings=settings)
            group.run(1500)
            group.settle()
        except (Violation, LogCorrupted) as error:
            return seed, str(error)
    return None


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    found = first_found()
    assert found is not None, f"{plant.__name__} stayed hidden in {SEEDS} seeds"
    print(f"{plant.__name__}: seed {found[0]}: {found[1][:200]}")


def test_joint_before_caught_up_is_found() -> None:
    found = first_found(dataclasses.replace(SMALL, planted=frozenset({JOINT_BEFORE_CAUGHT_UP})))
    assert found is not None
    assert found[1].startswith("JOINT only"), found
