"""The partition's state machine: outcomes, once, eviction, digest."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonequake_protocol.client import RequestId
from zonequake_store.state import client_table
from zonequake_store.state.client_table import ClientTable
from zonequake_store.state.commands import (
    AppendCommand,
    CasCommand,
    Command,
    CommandOutcome,
    CommandVerdict,
    SetCommand,
    decode_command,
    encode_command,
)
from zonequake_store.state.encoding import from_pairs
from zonequake_store.state.partition import AppliedState, Cell, StateMachine, digest, encode_cell
from zonequake_store.state.transactions import TransactionTable
from zonequake_store.storage.cells import MemoryCells


@pytest.fixture(autouse=True, scope="module")
def room_for_two_clients() -> Iterator[None]:
    """So that clients are evicted here after a few entries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client_table, "MAX_CLIENTS", 2)
        yield


def fresh(*, deduplicate: bool = True) -> tuple[StateMachine, MemoryCells]:
    cells = MemoryCells()
    return (
        StateMachine(
            cells,
            clients=ClientTable(),
            transactions=TransactionTable(),
            state=AppliedState(),
            deduplicate=deduplicate,
        ),
        cells,
    )


def value_of(partition: StateMachine, key: str) -> object:
    cell = partition.read(key)
    return None if cell is None else cell.value


def test_a_write_sets_the_register_and_says_where() -> None:
    partition, _ = fresh()
    outcome = partition.apply(3, 1, SetCommand("k", 7, b"filler"))
    assert (outcome.verdict, outcome.term, outcome.index) == (CommandVerdict.DONE, 3, 1)
    cell = partition.read("k")
    assert cell is not None
    assert (cell.value, cell.index, cell.filler) == (7, 1, b"filler")


def test_a_cas_that_finds_another_value_changes_nothing_and_tells_it() -> None:
    partition, _ = fresh()
    partition.apply(1, 1, SetCommand("k", 7))
    outcome = partition.apply(1, 2, CasCommand("k", 8, 9))
    assert (outcome.verdict, outcome.value) == (CommandVerdict.UNEQUAL, 7)
    assert value_of(partition, "k") == 7
    assert partition.apply(1, 3, CasCommand("k", 7, 9)).verdict is CommandVerdict.DONE
    assert value_of(partition, "k") == 9


def test_a_cas_on_an_absent_key_expects_none() -> None:
    partition, _ = fresh()
    assert partition.apply(1, 1, CasCommand("k", None, 1)).verdict is CommandVerdict.DONE
    assert partition.apply(1, 2, CasCommand("k", None, 2)).verdict is CommandVerdict.UNEQUAL


def test_a_key_is_a_register_or_a_list_but_never_both() -> None:
    partition, _ = fresh()
    partition.apply(1, 1, SetCommand("register", 1))
    partition.apply(1, 2, AppendCommand("list", 1))
    assert partition.apply(1, 3, AppendCommand("register", 2)).verdict is CommandVerdict.WRONG_TYPE
    assert partition.apply(1, 4, SetCommand("list", 2)).verdict is CommandVerdict.WRONG_TYPE
    assert partition.apply(1, 5, CasCommand("list", None, 2)).verdict is CommandVerdict.WRONG_TYPE
    assert (value_of(partition, "register"), value_of(partition, "list")) == (1, (1,))


def test_a_repeated_append_is_applied_once_and_gets_the_first_answer() -> None:
    partition, _ = fresh()
    command = AppendCommand("list", 5, RequestId("c", 1))
    first = partition.apply(1, 1, command)
    partition.apply(1, 2, AppendCommand("list", 6, RequestId("c", 2)))
    again = partition.apply(2, 3, command)
    assert again == first
    assert value_of(partition, "list") == (5, 6)


def test_a_repeated_cas_gets_the_first_answer_although_the_value_changed() -> None:
    partition, _ = fresh()
    command = CasCommand("k", None, 1, RequestId("c", 1))
    assert partition.apply(1, 1, command).verdict is CommandVerdict.DONE
    partition.apply(1, 2, SetCommand("k", 2))
    assert partition.apply(1, 3, command).verdict is CommandVerdict.DONE
    assert value_of(partition, "k") == 2


def test_the_planted_fault_applies_a_repetition_again() -> None:
    partition, _ = fresh(deduplicate=False)
    command = AppendCommand("list", 5, RequestId("c", 1))
    partition.apply(1, 1, command)
    partition.apply(1, 2, command)
    assert value_of(partition, "list") == (5, 5)


def test_a_forgotten_outcome_is_never_applied_again() -> None:
    partition, _ = fresh()
    for n in range(client_table.MAX_RESULTS_PER_CLIENT + 1):
        partition.apply(1, n + 1, AppendCommand("list", n, RequestId("c", n + 1)))
    index = client_table.MAX_RESULTS_PER_CLIENT + 2
    outcome = partition.apply(1, index, AppendCommand("list", 0, RequestId("c", 1)))
    assert outcome.verdict is CommandVerdict.FORGOTTEN
    value = value_of(partition, "list")
    assert isinstance(value, tuple)
    assert value.count(0) == 1


def test_the_lowest_sequences_are_forgotten_first_in_whatever_order_they_came() -> None:
    count = client_table.MAX_RESULTS_PER_CLIENT + 100
    sequences = list(range(1, count + 1))
    random.Random(7).shuffle(sequences)
    partition, _ = fresh()
    remembered: set[int] = set()
    floor = 0
    for index, sequence in enumerate(sequences, 1):
        outcome = partition.apply(1, index, SetCommand("k", 1, b"", RequestId("c", sequence)))
        assert (outcome.verdict is CommandVerdict.FORGOTTEN) == (sequence < floor)
        if sequence > floor:
            remembered.add(sequence)
        if len(remembered) > client_table.MAX_RESULTS_PER_CLIENT:
            floor = min(remembered)
            remembered.remove(floor)
        session = partition.clients.sessions["c"]
        assert list(session.results) == sorted(remembered)
        assert session.floor == floor


def test_the_client_that_was_quiet_for_longest_is_evicted() -> None:
    partition, _ = fresh()
    for index, client in enumerate(("a", "b", "a", "c"), 1):
        partition.apply(1, index, SetCommand("k", index, b"", RequestId(client, index, index - 1)))
    assert list(partition.clients.sessions) == ["a", "c"]
    assert partition.clients.evicted == {"b"}


def test_a_retry_that_comes_after_its_client_was_evicted_is_not_applied_again() -> None:
    partition, _ = fresh()
    late = AppendCommand("list", 1, RequestId("a", 1))
    partition.apply(1, 1, late)
    for index, client in enumerate("bcd", 2):
        partition.apply(1, index, AppendCommand("list", index, RequestId(client, 1, index - 1)))
    assert partition.apply(1, 5, late).verdict is CommandVerdict.FORGOTTEN
    # Its client comes back with a new request; the old one is no newer for that.
    new = AppendCommand("list", 6, RequestId("a", 2, 5))
    assert partition.apply(1, 6, new).verdict is CommandVerdict.DONE
    assert partition.apply(1, 7, late).verdict is CommandVerdict.FORGOTTEN
    assert value_of(partition, "list") == (1, 2, 3, 4, 6)


def test_a_client_that_comes_when_the_table_is_full_is_told_where_to_begin() -> None:
    partition, _ = fresh()
    for index, client in enumerate("ab", 1):
        partition.apply(1, index, SetCommand("k", index, b"", RequestId(client, 1)))
    refused = partition.apply(1, 3, SetCommand("k", 3, b"", RequestId("c", 9)))
    assert (refused.verdict, refused.index) == (CommandVerdict.FORGOTTEN, 3)
    again = SetCommand("k", 3, b"", RequestId("c", 9, refused.index))
    assert partition.apply(1, 4, again).verdict is CommandVerdict.DONE


def test_entries_must_follow_each_other() -> None:
    partition, _ = fresh()
    partition.apply(1, 1, SetCommand("k", 1))
    with pytest.raises(ValueError, match="entry 3 cannot be applied after entry 1"):
        partition.apply(1, 3, SetCommand("k", 1))


KEYS = st.sampled_from(["a", "b", "c"])
IDS = st.none() | st.builds(
    RequestId, st.sampled_from(["x", "y", "z"]), st.integers(1, 6), st.integers(0, 40)
)
COMMANDS = st.one_of(
    st.builds(SetCommand, KEYS, st.integers(1, 9), st.binary(max_size=3), IDS),
    st.builds(CasCommand, KEYS, st.none() | st.integers(1, 9), st.integers(1, 9), IDS),
    st.builds(AppendCommand, KEYS, st.integers(1, 9), IDS),
)


def content_digest(partition: StateMachine, cells: MemoryCells) -> str:
    view = cells.view(partition)
    return digest((k[1:].decode(), v) for k, v in view.pairs() if k[:1] == b"k")


@given(st.lists(COMMANDS, max_size=40), st.integers(0, 40))
def test_a_replica_that_continues_from_a_snapshot_equals_one_that_applied_all(
    commands: list[Command], cut: int
) -> None:
    whole, whole_cells = fresh()
    outcomes = [
        whole.apply(1, i, decode_command(encode_command(c))) for i, c in enumerate(commands, 1)
    ]
    first, first_cells = fresh()
    for index, command in enumerate(commands[:cut], 1):
        first.apply(1, index, command)
    view = first_cells.view(first)
    contents, clients, transactions, state = from_pairs(view.pairs())
    second_cells = MemoryCells(contents)
    second = StateMachine(second_cells, clients=clients, transactions=transactions, state=state)
    rest = [
        second.apply(1, index, command)
        for index, command in enumerate(commands[cut:], len(commands[:cut]) + 1)
    ]
    assert rest == outcomes[len(commands[:cut]) :]
    assert second.state == whole.state
    assert content_digest(second, second_cells) == content_digest(whole, whole_cells)
    assert msgspec.msgpack.encode(second.clients.sessions) == msgspec.msgpack.encode(
        whole.clients.sessions
    )


@given(st.lists(st.tuples(st.sampled_from("wxyz"), st.integers(1, 4)), max_size=40))
def test_a_request_is_applied_when_it_is_new_and_never_again_however_late_it_is_repeated(
    requests: list[tuple[str, int]],
) -> None:
    partition, _ = fresh()
    sent: dict[tuple[str, int], tuple[AppendCommand, CommandOutcome]] = {}
    for index, (client, sequence) in enumerate(requests, 1):
        if (client, sequence) in sent:
            command, first = sent[client, sequence]
            again = partition.apply(1, index, command)
            assert again == first or again.verdict is CommandVerdict.FORGOTTEN
        else:
            command = AppendCommand("list", index, RequestId(client, sequence, index - 1))
            sent[client, sequence] = command, partition.apply(1, index, command)
            assert sent[client, sequence][1].verdict is CommandVerdict.DONE
    assert value_of(partition, "list") in (None, tuple(c.value for c, _ in sent.values()))


def test_the_digest_tells_contents_apart() -> None:
    one = [("a", encode_cell(Cell(1, 1))), ("b", encode_cell(Cell(2, 2)))]
    other = [one[0], ("b", encode_cell(Cell(2, 3)))]
    assert digest(one) == digest(list(one))
    assert digest(one) != digest(one[:1])
    assert digest(one) != digest(other)


def test_each_applied_write_counts_one_and_what_changes_nothing_counts_none() -> None:
    partition, _ = fresh()
    partition.skip(1, 1, configuration=True)
    partition.apply(1, 2, SetCommand("k", 1, request_id=RequestId("c", 1)))
    partition.apply(1, 3, SetCommand("k", 1, request_id=RequestId("c", 1)))
    partition.apply(1, 4, CasCommand("k", 7, 8))
    partition.apply(1, 5, AppendCommand("k", 8))
    partition.apply(1, 6, AppendCommand("list", 8))
    assert (partition.state.lwm, partition.state.hwm, partition.state.ranges) == (2, 2, ())


def test_the_counter_of_a_stored_state_goes_on_where_it_was() -> None:
    state = AppliedState(index=9, lwm=3, hwm=8, ranges=((5, 1),))
    partition = StateMachine(
        MemoryCells(), clients=ClientTable(), transactions=TransactionTable(), state=state
    )
    partition.apply(1, 10, SetCommand("k", 1))
    assert (partition.state.lwm, partition.state.hwm) == (3, 9)
    assert partition.state.ranges == ((5, 1), (8, 1))


@given(
    st.lists(st.tuples(st.sampled_from("wxyz"), st.integers(1, 3), st.integers(0, 50)), max_size=50)
)
def test_no_request_is_applied_twice_whatever_its_client_saw_of_a_lineage_that_was_given_up(
    requests: list[tuple[str, int, int]],
) -> None:
    """Indexes begin again behind a reset: any of them may have been seen before it."""
    partition, _ = fresh()
    sent: dict[tuple[str, int], AppendCommand] = {}
    for index, (client, sequence, since) in enumerate(requests, 1):
        name = RequestId(client, sequence, since)
        command = sent.setdefault((client, sequence), AppendCommand("list", index, name))
        partition.apply(1, index, command)
    value = value_of(partition, "list") or ()
    assert isinstance(value, tuple)
    assert len(set(value)) == len(value)


def test_a_request_of_a_lineage_that_was_given_up_begins_again_in_this_one() -> None:
    partition, _ = fresh()
    partition.apply(1, 1, SetCommand("k", 1))
    for since in (2, 9):
        name = RequestId("c", 1, since)
        refused = partition.apply(1, partition.index + 1, AppendCommand("list", 1, name))
        assert refused.verdict is CommandVerdict.FORGOTTEN
    again = AppendCommand("list", 1, RequestId("c", 1, refused.index))
    assert partition.apply(1, refused.index + 1, again).verdict is CommandVerdict.DONE
