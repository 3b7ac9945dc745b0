"""Transactions as applied state: the document's example, locks, late parts, once, storing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonequake_protocol.client import RequestId
from zonequake_store.state.client_table import ClientTable
from zonequake_store.state.commands import (
    AppendCommand,
    Command,
    CommandOutcome,
    CommandVerdict,
    SetCommand,
    decode_command,
    encode_command,
)
from zonequake_store.state.encoding import cells_of, from_pairs
from zonequake_store.state.partition import AppliedState, StateMachine, digest
from zonequake_store.state.transactions import (
    CommitCommand,
    DecideCommand,
    ForgetCommand,
    ParticipantGroup,
    PrepareCommand,
    RefuseCommand,
    RollbackCommand,
    StepKind,
    TransactionId,
    TransactionStep,
    TransactionTable,
)
from zonequake_store.storage.cells import MemoryCells, Overlay
from zonequake_store.storage.data_store import DataStore

HERE, ELSEWHERE = "z.0", "z.1"


class Owner:
    """One owner of the partition: applies entries as they would come out of the log."""

    def __init__(self) -> None:
        self.cells = MemoryCells()
        self.partition = StateMachine(
            self.cells, clients=ClientTable(), transactions=TransactionTable(), state=AppliedState()
        )

    def apply(self, command: Command, *, term: int = 1) -> CommandOutcome:
        index = self.partition.index + 1
        return self.partition.apply(term, index, decode_command(encode_command(command)))

    def restart(self) -> None:
        """Go on from what a snapshot of this owner holds."""
        view = self.cells.view(self.partition)
        contents, clients, transactions, state = from_pairs(view.pairs())
        self.cells = MemoryCells(contents)
        self.partition = StateMachine(
            self.cells, clients=clients, transactions=transactions, state=state
        )

    def value(self, key: str) -> object:
        cell = self.partition.read(key)
        return None if cell is None else cell.value

    def counters(self) -> tuple[int, int, tuple[tuple[int, int], ...]]:
        counter = self.partition.counter
        return counter.lwm, counter.hwm, counter.ranges

    @property
    def digest(self) -> str:
        return digest(cells_of(self.cells.view(self.partition).pairs()))


def tx(number: int, *, group: str = HERE, term: int = 1) -> TransactionId:
    return TransactionId(group, term, number)


def writes(*keys: str, value: int = 1) -> tuple[TransactionStep, ...]:
    return tuple(TransactionStep(StepKind.WRITE, key, value) for key in keys)


def prepare(
    number: int, *steps: TransactionStep, floor: int = 0, group: str = HERE
) -> PrepareCommand:
    return PrepareCommand(tx(number, group=group), floor, ("n0", "n1"), steps)


def decide(
    number: int, *, others: tuple[ParticipantGroup, ...] = (), client: str = "c"
) -> DecideCommand:
    return DecideCommand(tx(number), RequestId(client, number), others, (None,))


# ── the document's example ───────────────────────────────────────────────────────────────────────


def test_the_documents_two_transactions_move_every_counter_alike_on_three_owners() -> None:
    """Document `update-counters`: tx1 enlists k1, k2, k3 and tx2 k4, k5; tx2 commits first."""
    owners = [Owner(), Owner(), Owner()]
    tx1, tx2 = writes("k1", "k2", "k3"), writes("k4", "k5")
    script: list[tuple[Command, tuple[int, int, tuple[tuple[int, int], ...]]]] = [
        (prepare(1, *tx1), (0, 3, ())),
        (prepare(2, *tx2), (0, 5, ())),
        (decide(2), (0, 5, ((3, 2),))),
        (decide(1), (5, 5, ())),
    ]
    for step, (command, expected) in enumerate(script):
        for number, owner in enumerate(owners):
            assert owner.apply(command).verdict is CommandVerdict.DONE
            assert owner.counters() == expected, f"step {step}, owner s{number + 1}"
        owners[step % 3].restart()
    assert [owner.value(f"k{n}") for owner in owners for n in range(1, 6)] == [1] * 15
    assert len({owner.digest for owner in owners}) == 1


def test_a_rolled_back_transaction_leaves_its_range_as_a_gap() -> None:
    owner = Owner()
    owner.apply(prepare(1, *writes("k1", "k2", "k3")))
    owner.apply(prepare(2, *writes("k4", "k5")))
    owner.apply(decide(2))
    assert owner.counters() == (0, 5, ((3, 2),))
    owner.apply(RollbackCommand(tx(1)))
    assert owner.counters() == (5, 5, ())
    assert (owner.value("k1"), owner.value("k4")) == (None, 1)


def test_plain_writes_beside_a_prepared_transaction_are_applied_above_its_range() -> None:
    owner = Owner()
    owner.apply(prepare(1, *writes("k1", "k2")))
    owner.apply(SetCommand("other", 1))
    owner.apply(SetCommand("other", 2))
    assert owner.counters() == (0, 4, ((2, 2),))
    owner.apply(decide(1))
    assert owner.counters() == (4, 4, ())


def test_a_key_that_is_only_read_takes_no_number() -> None:
    owner = Owner()
    owner.apply(SetCommand("a", 7))
    outcome = owner.apply(
        prepare(1, TransactionStep(StepKind.READ, "a"), TransactionStep(StepKind.READ, "b"))
    )
    assert outcome.results == (7, None)
    assert owner.counters() == (1, 1, ())
    owner.apply(decide(1))
    assert owner.counters() == (1, 1, ())


def test_a_key_that_is_written_changed_or_appended_to_takes_one_number() -> None:
    owner = Owner()
    owner.apply(SetCommand("b", 7))
    steps = (
        *writes("a", "a"),
        TransactionStep(StepKind.CAS, "b", 8, 7),
        TransactionStep(StepKind.APPEND, "c", 9),
        TransactionStep(StepKind.READ, "d"),
    )
    assert owner.apply(prepare(1, *steps)).verdict is CommandVerdict.DONE
    assert owner.counters() == (1, 4, ())
    owner.apply(decide(1))
    assert owner.counters() == (4, 4, ())


def test_a_roll_back_of_the_newest_range_closes_it_as_a_gap_too() -> None:
    """Its numbers aren't given out again: another owner may have heard of them."""
    owner = Owner()
    owner.apply(prepare(1, *writes("k1", "k2")))
    owner.apply(RollbackCommand(tx(1)))
    assert owner.counters() == (2, 2, ())
    owner.apply(prepare(2, *writes("k3")))
    assert owner.counters() == (2, 3, ())


# ── steps ────────────────────────────────────────────────────────────────────────────────────────


def test_steps_see_what_the_steps_before_them_did_and_nothing_shows_before_the_commit() -> None:
    owner = Owner()
    owner.apply(AppendCommand("list", 1))
    steps = (
        TransactionStep(StepKind.READ, "list"),
        TransactionStep(StepKind.APPEND, "list", 2),
        TransactionStep(StepKind.READ, "list"),
        TransactionStep(StepKind.WRITE, "k", "text", None, b"filler"),
        TransactionStep(StepKind.CAS, "k", 9, "text"),
        TransactionStep(StepKind.READ, "k"),
    )
    outcome = owner.apply(prepare(1, *steps))
    assert outcome.results == ((1,), None, (1, 2), None, None, 9)
    assert (owner.value("list"), owner.value("k")) == ((1,), None)
    owner.apply(decide(1))
    assert (owner.value("list"), owner.value("k")) == ((1, 2), 9)
    cell = owner.partition.read("k")
    assert cell is not None
    assert (cell.filler, cell.index) == (b"filler", 3)


def test_a_step_that_cannot_be_done_prepares_nothing() -> None:
    owner = Owner()
    owner.apply(SetCommand("k", 5))
    unequal = owner.apply(prepare(1, *writes("a"), TransactionStep(StepKind.CAS, "k", 6, 4)))
    assert (unequal.verdict, unequal.value) == (CommandVerdict.UNEQUAL, 5)
    wrong = owner.apply(prepare(2, *writes("a"), TransactionStep(StepKind.APPEND, "k", 6)))
    assert wrong.verdict is CommandVerdict.WRONG_TYPE
    assert owner.counters() == (1, 1, ())
    assert owner.apply(SetCommand("a", 1)).verdict is CommandVerdict.DONE, "nothing is locked"


# ── locks ────────────────────────────────────────────────────────────────────────────────────────


def test_a_locked_key_takes_no_plain_write_and_no_other_transaction_until_the_end() -> None:
    owner = Owner()
    owner.apply(prepare(1, *writes("k"), TransactionStep(StepKind.READ, "r")))
    request = RequestId("plain", 1)
    locked = owner.apply(SetCommand("k", 5, request_id=request))
    assert (locked.verdict, locked.value) == (CommandVerdict.LOCKED, str(tx(1)))
    assert owner.apply(AppendCommand("r", 5)).verdict is CommandVerdict.LOCKED, "what is read stays"
    assert owner.apply(prepare(2, *writes("a", "k"))).verdict is CommandVerdict.LOCKED
    assert owner.counters() == (0, 1, ())
    owner.apply(decide(1))
    assert owner.apply(SetCommand("k", 5, request_id=request)).verdict is CommandVerdict.DONE
    assert owner.value("k") == 5
    assert owner.apply(prepare(3, *writes("a", "k"))).verdict is CommandVerdict.DONE


def test_one_prepared_transaction_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zonequake_store.state.partition.MAX_PREPARED", 2)
    owner = Owner()
    owner.apply(prepare(1, *writes("a")))
    owner.apply(prepare(2, *writes("b")))
    assert owner.apply(prepare(3, *writes("c"))).verdict is CommandVerdict.FULL
    assert owner.apply(prepare(2, *writes("b"))).verdict is CommandVerdict.DONE, (
        "it is prepared already"
    )


# ── doubled and late parts ───────────────────────────────────────────────────────────────────────


def test_a_prepare_that_comes_twice_reserves_once_and_answers_alike() -> None:
    owner = Owner()
    owner.apply(SetCommand("k", 3))
    command = prepare(1, TransactionStep(StepKind.READ, "k"), *writes("k"))
    first = owner.apply(command)
    second = owner.apply(command)
    assert (first.verdict, first.results) == (second.verdict, second.results)
    assert owner.counters() == (1, 2, ())


def test_a_commit_that_comes_twice_is_applied_once() -> None:
    owner = Owner()
    owner.apply(prepare(1, TransactionStep(StepKind.APPEND, "list", 1), group=ELSEWHERE))
    owner.apply(CommitCommand(tx(1, group=ELSEWHERE)))
    owner.apply(CommitCommand(tx(1, group=ELSEWHERE)))
    assert (owner.value("list"), owner.counters()) == ((1,), (1, 1, ()))


@pytest.mark.parametrize("end", [CommitCommand, RollbackCommand])
def test_a_prepare_that_comes_after_its_end_is_late(
    end: type[CommitCommand | RollbackCommand],
) -> None:
    owner = Owner()
    command = prepare(1, TransactionStep(StepKind.APPEND, "list", 1), group=ELSEWHERE)
    owner.apply(command)
    owner.apply(end(tx(1, group=ELSEWHERE)))
    before = owner.value("list"), owner.counters()
    assert owner.apply(command).verdict is CommandVerdict.LATE
    owner.apply(CommitCommand(tx(1, group=ELSEWHERE)))
    assert (owner.value("list"), owner.counters()) == before


def test_a_rollback_that_comes_before_its_prepare_blocks_it() -> None:
    owner = Owner()
    owner.apply(RollbackCommand(tx(5, group=ELSEWHERE)))
    owner.restart()
    late = prepare(5, *writes("k"), group=ELSEWHERE)
    assert owner.apply(late).verdict is CommandVerdict.LATE
    assert owner.counters() == (0, 0, ())


def test_what_ended_below_the_coordinators_floor_is_forgotten_and_still_late() -> None:
    owner = Owner()
    for number in (1, 2, 3):
        owner.apply(prepare(number, *writes("k"), group=ELSEWHERE))
        owner.apply(RollbackCommand(tx(number, group=ELSEWHERE)))
    size_before = len(owner.partition.transactions.records()[0][1])
    owner.apply(prepare(9, *writes("k"), floor=9, group=ELSEWHERE))
    owner.apply(RollbackCommand(tx(9, group=ELSEWHERE)))
    assert len(owner.partition.transactions.records()[0][1]) < size_before
    for number in (1, 2, 3, 4, 8, 9):
        late = prepare(number, *writes("k"), group=ELSEWHERE)
        assert owner.apply(late).verdict is CommandVerdict.LATE
    assert owner.apply(prepare(10, *writes("k"), group=ELSEWHERE)).verdict is CommandVerdict.DONE


def test_a_new_term_of_the_coordinator_makes_the_prepares_of_older_ones_late() -> None:
    owner = Owner()
    held = PrepareCommand(tx(4, group=ELSEWHERE, term=1), 0, (), writes("held"))
    owner.apply(held)
    owner.apply(PrepareCommand(tx(1, group=ELSEWHERE, term=2), 1, (), writes("a")))
    old = PrepareCommand(tx(9, group=ELSEWHERE, term=1), 9, (), writes("b"))
    assert owner.apply(old).verdict is CommandVerdict.LATE
    assert owner.apply(held).verdict is CommandVerdict.DONE, (
        "what is prepared stays until it is decided"
    )
    owner.apply(CommitCommand(tx(4, group=ELSEWHERE, term=1)))
    assert owner.value("held") == 1


# ── decisions ────────────────────────────────────────────────────────────────────────────────────


def test_a_decision_is_kept_until_it_is_forgotten_only_if_others_take_part() -> None:
    owner = Owner()
    owner.apply(prepare(1, *writes("a")))
    owner.apply(decide(1))
    assert not owner.partition.transactions.decisions
    others = (ParticipantGroup(ELSEWHERE, ("n2",)),)
    owner.apply(prepare(2, *writes("a")))
    owner.apply(decide(2, others=others))
    owner.restart()
    assert owner.partition.transactions.decisions[tx(2)].others == others
    owner.apply(ForgetCommand((tx(2),)))
    assert not owner.partition.transactions.decisions


def test_a_decision_counts_only_in_the_term_whose_leader_began_the_transaction() -> None:
    owner = Owner()
    owner.apply(prepare(1, *writes("a")))
    outcome = owner.apply(decide(1), term=2)
    assert outcome.verdict is CommandVerdict.LATE
    assert (owner.value("a"), owner.counters()) == (None, (1, 1, ()))


def test_a_decision_without_a_prepared_part_commits_nothing() -> None:
    owner = Owner()
    assert owner.apply(decide(1)).verdict is CommandVerdict.LATE
    assert not owner.partition.clients.sessions, "the request may still be done"


def test_a_request_that_is_decided_twice_is_committed_once_and_answered_alike() -> None:
    owner = Owner()
    request = RequestId("c", 1)
    append = TransactionStep(StepKind.APPEND, "list", 1)
    owner.apply(prepare(1, append))
    first = owner.apply(DecideCommand(tx(1), request, (), ((5, 6),)))
    owner.restart()
    owner.apply(prepare(2, append))
    second = owner.apply(DecideCommand(tx(2), request, (), ((7,),)))
    assert second == first
    assert second.results == ((5, 6),)
    assert (owner.value("list"), owner.counters()) == ((1,), (2, 2, ()))


def test_a_decision_on_a_request_of_a_lineage_that_was_given_up_commits_nothing() -> None:
    """Its client saw index 9 before the reset; here it would be taken for new again and again."""
    owner = Owner()
    append = TransactionStep(StepKind.APPEND, "list", 1)
    owner.apply(prepare(1, append))
    refused = owner.apply(DecideCommand(tx(1), RequestId("c", 1, 9), (), (None,)))
    assert (refused.verdict, refused.index) == (CommandVerdict.FORGOTTEN, 2)
    assert not owner.partition.transactions.locks
    owner.apply(prepare(2, append))
    again = DecideCommand(tx(2), RequestId("c", 1, refused.index), (), (None,))
    assert owner.apply(again).verdict is CommandVerdict.DONE
    assert owner.value("list") == (1,)


# ── storing ──────────────────────────────────────────────────────────────────────────────────────


def test_a_refusal_is_remembered_and_gives_way_to_what_was_carried_out_before() -> None:
    owner = Owner()
    owner.apply(SetCommand("k", 5))
    request = RequestId("c", 7)
    owner.apply(prepare(1, *writes("a")))
    refused = owner.apply(RefuseCommand(tx(1), request, 5))
    assert (refused.verdict, refused.value) == (CommandVerdict.UNEQUAL, 5)
    assert not owner.partition.transactions.locks
    owner.apply(prepare(2, *writes("a")))
    assert owner.apply(DecideCommand(tx(2), request, (), (None,))) == refused
    assert owner.value("a") is None

    done = owner.apply(prepare(3, *writes("a")))
    done = owner.apply(decide(3))
    assert owner.apply(RefuseCommand(tx(4), RequestId("c", 3), 1)) == done
    assert owner.value("a") == 1


def test_the_prepared_and_the_decided_are_flushed_with_cells_and_counters(tmp_path: Path) -> None:
    store = DataStore(tmp_path, map_bytes=16 << 20)
    cells = Overlay(store, 1)
    partition = StateMachine(
        cells, clients=ClientTable(), transactions=TransactionTable(), state=AppliedState()
    )

    def flush() -> tuple[TransactionTable, AppliedState]:
        store.flush([cells.begin_flush(partition)])
        cells.end_flush()
        return store.transactions(1), store.state(1)

    partition.apply(1, 1, prepare(1, *writes("a", "b")))
    partition.apply(1, 2, prepare(2, *writes("c")))
    partition.apply(1, 3, decide(2, others=(ParticipantGroup(ELSEWHERE, ()),)))
    transactions, state = flush()
    assert (state.lwm, state.hwm, state.ranges) == (0, 3, ((2, 1),))
    assert list(transactions.prepared) == [tx(1)]
    assert list(transactions.decisions) == [tx(2)]
    assert set(transactions.locks) == {"a", "b"}
    assert transactions.is_late(tx(2))
    stored = store.cell(1, "c")
    assert stored is not None, "as much as the counters say"
    assert stored.value == 1
    partition.apply(1, 4, RollbackCommand(tx(1)))
    partition.apply(1, 5, ForgetCommand((tx(2),)))
    transactions, state = flush()
    assert (state.lwm, state.hwm, state.ranges) == (3, 3, ())
    assert not transactions.prepared
    assert not transactions.decisions
    assert not transactions.locks
    store.close()


KEYS = [f"k{n}" for n in range(6)]
STEPS = st.lists(
    st.builds(
        TransactionStep,
        st.sampled_from([StepKind.READ, StepKind.WRITE]),
        st.sampled_from(KEYS),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=4,
).map(tuple)
NUMBERS = st.integers(1, 6)
COMMANDS = st.one_of(
    st.builds(SetCommand, st.sampled_from(KEYS), st.integers(0, 3)),
    st.builds(lambda n, steps: prepare(n, *steps), NUMBERS, STEPS),
    st.builds(lambda n, steps: prepare(n, *steps, group=ELSEWHERE), NUMBERS, STEPS),
    st.builds(lambda n: CommitCommand(tx(n, group=ELSEWHERE)), NUMBERS),
    st.builds(lambda n: RollbackCommand(tx(n, group=ELSEWHERE)), NUMBERS),
    st.builds(lambda n: RollbackCommand(tx(n)), NUMBERS),
    st.builds(lambda n: decide(n, others=(ParticipantGroup(ELSEWHERE, ()),)), NUMBERS),
    st.builds(lambda n: ForgetCommand((tx(n),)), NUMBERS),
)


@settings(max_examples=150)
@given(st.lists(COMMANDS, max_size=40), st.integers(0, 40))
def test_whatever_comes_counters_and_locks_agree_with_what_is_prepared(
    commands: list[Command], restarted: int
) -> None:
    owner, other = Owner(), Owner()
    for number, command in enumerate(commands):
        assert owner.apply(command) == other.apply(command)
        if number == restarted:
            owner.restart()
        table = owner.partition.transactions
        parts = table.prepared.values()
        lwm, hwm, ranges = owner.counters()
        held = {
            n
            for part in table.prepared.values()
            for n in range(part.start, part.start + part.delta)
        }
        applied = {n for start, delta in ranges for n in range(start, start + delta)}
        assert set(range(lwm, hwm)) == held | applied
        assert not held & applied
        locked = {key: lock.holder for key, lock in table.locks.items()}
        assert locked == {step.key: part.transaction for part in parts for step in part.steps}
        if not table.prepared:
            assert lwm == hwm
    assert owner.partition.transactions.records() == other.partition.transactions.records()
    assert owner.digest == other.digest
