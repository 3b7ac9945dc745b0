"""Our Raft core agrees with tikv's in one group, whatever the network and crashes do."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import ModuleType

import pytest

from tests.foreign.mixed_group import Disagreement, MixedGroup, Ours
from tests.foreign.raft_rs_build import NO_RUST, find_cargo, load_raft_rs
from zonequake_store.raft import election
from zonequake_store.raft.leader import Leader
from zonequake_store.raft.log import RaftLog
from zonequake_store.raft.messages import Entry, HardState, Message, MessageKind
from zonequake_store.raft.state import RaftState

STEPS = 1500
MOST_SEEDS = 500
"""Within these a planted fault must be found."""

pytestmark = pytest.mark.timeout(600)  # the first test compiles


@pytest.fixture(scope="module")
def raft_rs() -> ModuleType:
    cargo = find_cargo()
    if cargo is None:
        pytest.skip(NO_RUST)
    return load_raft_rs(cargo)


def run(seed: int, raft_rs: ModuleType) -> Counter[str]:
    """Raises Disagreement."""
    group = MixedGroup(seed, raft_rs)
    group.run(STEPS)
    group.settle()
    return group.tally


@pytest.mark.parametrize(
    "seeds", [range(150), pytest.param(range(150, 750), marks=pytest.mark.long)]
)
def test_mixed_groups_agree_and_settle(raft_rs: ModuleType, seeds: range) -> None:
    total: Counter[str] = Counter()
    began_s = time.monotonic()
    for seed in seeds:
        try:
            tally = run(seed, raft_rs)
        except Disagreement as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        total.update(tally)
        total["groups that theirs led"] += tally["led by theirs"] > 0
    print(f"{len(seeds) / (time.monotonic() - began_s):.0f} seeds/s: {dict(sorted(total.items()))}")
    # What nothing happened in shows nothing.
    assert total["entries agreed"] > 50 * len(seeds)
    assert total["groups that theirs led"] > len(seeds) / 3
    assert total["led by ours"] > len(seeds)
    assert total["restarts"] > len(seeds)
    assert total["reads"] > 10 * len(seeds)
    assert total[MessageKind.TIMEOUT_NOW.name] > len(seeds) / 10


def test_a_seed_decides_everything(raft_rs: ModuleType) -> None:
    assert run(7, raft_rs) == run(7, raft_rs)


def test_a_group_may_be_collected_by_another_thread(raft_rs: ModuleType) -> None:
    kept = [MixedGroup(7, raft_rs)]

    def collect() -> None:
        kept.clear()
        gc.collect()

    collector = threading.Thread(target=collect)
    with pytest.MonkeyPatch.context() as patch:
        unraisable: list[object] = []
        patch.setattr(sys, "unraisablehook", unraisable.append)
        collector.start()
        collector.join()
    assert unraisable == []


def votes_twice(patch: pytest.MonkeyPatch) -> None:
    original = election.on_request

    def on_request(replica: RaftState, message: Message) -> None:
        if message.kind is MessageKind.VOTE:
            replica.vote = replica.leader = None
        original(replica, message)

    patch.setattr(election, "on_request", on_request)


def votes_for_a_shorter_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RaftLog, "is_up_to_date", lambda *_: True)


def forgets_its_vote_in_a_crash(patch: pytest.MonkeyPatch) -> None:
    original = Ours.crash

    def crash(ours: Ours) -> None:
        original(ours)
        stored = ours._store.hard_state
        ours._store.hard_state = HardState(stored.term - 1, None, stored.commit)

    patch.setattr(Ours, "crash", crash)


def truncates_what_matches(patch: pytest.MonkeyPatch) -> None:
    original = RaftLog.merge

    def merge(log: RaftLog, entries: Sequence[Entry]) -> None:
        if entries and log.commit < entries[0].index <= log.last_index:
            log._truncate(entries[0].index)
        original(log, entries)

    patch.setattr(RaftLog, "merge", merge)


def never_sends_a_lost_append_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "on_heartbeat_reply", lambda *_: None)


def commits_what_one_has_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "_agreed", staticmethod(lambda halves: max(halves[0])))


def commits_an_older_term_by_counting(patch: pytest.MonkeyPatch) -> None:
    original = Leader.commit

    def commit(leader: Leader) -> None:
        start, leader.term_start = leader.term_start, 0
        original(leader)
        leader.term_start = start

    patch.setattr(Leader, "commit", commit)


@pytest.mark.parametrize(
    "plant",
    [
        votes_twice,
        votes_for_a_shorter_log,
        forgets_its_vote_in_a_crash,
        truncates_what_matches,
        never_sends_a_lost_append_again,
        commits_what_one_has_stored,
        pytest.param(commits_an_older_term_by_counting, marks=pytest.mark.long),
    ],
)
def test_a_fault_planted_into_our_core_is_found(
    raft_rs: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
) -> None:
    plant(monkeypatch)
    for seed in range(MOST_SEEDS):
        try:
            run(seed, raft_rs)
        except Disagreement as error:
            print(f"{plant.__name__}: seed {seed}: {error}")
            return
    pytest.fail(f"{plant.__name__} was not found in {MOST_SEEDS} seeds")
