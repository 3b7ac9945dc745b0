"""Faults in the update counters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import msgspec
import pytest

from tests.simulation.planted.registry import Planted
from zonequake_store.state import encoding
from zonequake_store.state.client_table import ClientTable
from zonequake_store.state.commands import CommandOutcome, CommandVerdict
from zonequake_store.state.counters import PartitionUpdateCounter
from zonequake_store.state.encoding import EncodedPair
from zonequake_store.state.partition import AppliedState, Cells, StateMachine
from zonequake_store.state.transactions import PrepareCommand, TransactionId, TransactionTable
from zonequake_store.storage.cells import Overlay
from zonequake_store.storage.data_store import DataView, Flush


def counted_before_storage(patch: pytest.MonkeyPatch) -> None:
    begin = Overlay.begin_flush

    def ahead(cells: Overlay, partition: StateMachine) -> Flush:
        found = begin(cells, partition)
        state = msgspec.structs.replace(
            found.state, lwm=found.state.lwm + 1, hwm=found.state.hwm + 1
        )
        return dataclasses.replace(found, state=state)

    patch.setattr(Overlay, "begin_flush", ahead)


def counter_lost_at_start(patch: pytest.MonkeyPatch) -> None:
    start = StateMachine.__init__

    def from_nothing(
        partition: StateMachine,
        cells: Cells,
        *,
        clients: ClientTable,
        transactions: TransactionTable,
        state: AppliedState,
        deduplicate: bool = True,
    ) -> None:
        start(
            partition,
            cells,
            clients=clients,
            transactions=transactions,
            state=state,
            deduplicate=deduplicate,
        )
        partition.counter = PartitionUpdateCounter()

    patch.setattr(StateMachine, "__init__", from_nothing)


def counter_left_out_of_a_snapshot(patch: pytest.MonkeyPatch) -> None:
    pairs = DataView.pairs

    def from_zero(view: DataView, after: bytes = b"") -> Iterator[EncodedPair]:
        for key, value in pairs(view, after):
            if key == encoding.APPLIED:
                state = msgspec.msgpack.decode(value, type=AppliedState)
                state = msgspec.structs.replace(state, lwm=0, hwm=0, ranges=())
                yield key, msgspec.msgpack.encode(state)
            else:
                yield key, value

    patch.setattr(DataView, "pairs", from_zero)


def stored(patch: pytest.MonkeyPatch, change: Callable[[AppliedState], AppliedState]) -> None:
    """A flush that stores another counter than the one of its cells."""
    begin = Overlay.begin_flush

    def changed(cells: Overlay, partition: StateMachine) -> Flush:
        found = begin(cells, partition)
        return dataclasses.replace(found, state=change(found.state))

    patch.setattr(Overlay, "begin_flush", changed)


def ranges_not_stored(patch: pytest.MonkeyPatch) -> None:
    stored(patch, lambda state: msgspec.structs.replace(state, ranges=()))


def reservations_not_stored(patch: pytest.MonkeyPatch) -> None:
    def as_applied(state: AppliedState) -> AppliedState:
        end = sum(state.ranges[-1]) if state.ranges else state.lwm
        return msgspec.structs.replace(state, hwm=end)

    stored(patch, as_applied)


def commit_counts_at_the_end(patch: pytest.MonkeyPatch) -> None:
    commit = StateMachine._commit

    def again(partition: StateMachine, term: int, index: int, transaction: TransactionId) -> None:
        table = partition.transactions
        part = table.prepared.get(transaction)
        if part is not None and part.delta:
            start = partition.counter.reserve(part.delta)
            table.prepared[transaction] = msgspec.structs.replace(part, start=start)
        commit(partition, term, index, transaction)

    patch.setattr(StateMachine, "_commit", again)


def prepare_applies_its_range(patch: pytest.MonkeyPatch) -> None:
    prepare = StateMachine._prepare

    def and_count(
        partition: StateMachine, term: int, index: int, command: PrepareCommand
    ) -> CommandOutcome:
        is_new = command.transaction not in partition.transactions.prepared
        outcome = prepare(partition, term, index, command)
        part = partition.transactions.prepared.get(command.transaction)
        if is_new and part is not None and part.delta:
            partition.counter.update(part.start, part.delta)
        return outcome

    patch.setattr(StateMachine, "_prepare", and_count)


def failed_cas_counts(patch: pytest.MonkeyPatch) -> None:
    execute = StateMachine._execute

    def and_count(partition: StateMachine, *given: object) -> CommandOutcome:
        outcome = execute(partition, *given)  # type: ignore[arg-type]
        if outcome.verdict is CommandVerdict.UNEQUAL:
            partition.counter.count()
        return outcome

    patch.setattr(StateMachine, "_execute", and_count)


def ranges_stay_apart(patch: pytest.MonkeyPatch) -> None:
    update = PartitionUpdateCounter.update

    def keep_what_follows(counter: PartitionUpdateCounter, start: int, delta: int) -> bool:
        behind = [found for found in counter.ranges if found[0] == start + delta]
        done = update(counter, start, delta)
        if done and behind and not counter.ranges and start + delta + behind[0][1] == counter.lwm:
            counter._lwm = start + delta
            counter._ranges[:] = behind
        return done

    patch.setattr(PartitionUpdateCounter, "update", keep_what_follows)


def _planted(
    name: str,
    what: str,
    apply: Callable[[pytest.MonkeyPatch], None],
    scenario: str = "transactions",
) -> Planted:
    return Planted(name=name, area="counters", scenario=scenario, what=what, apply=apply)


PLANTED = [
    _planted(
        "counter-advanced-before-storage",
        "the stored counter is one update ahead of the cells stored with it",
        counted_before_storage,
        "storage",
    ),
    _planted(
        "counter-lost-at-start",
        "a replica starts with its counter at zero",
        counter_lost_at_start,
        "storage",
    ),
    _planted(
        "counter-left-out-of-snapshot",
        "a full supply carries the cells, but counters of zero",
        counter_left_out_of_a_snapshot,
        "catch-up",
    ),
    _planted(
        "failed-cas-counted",
        "a cas that finds another value counts as an update",
        failed_cas_counts,
        "raft",
    ),
    _planted(
        "ranges-not-stored",
        "what is applied above the low watermark is not stored with it",
        ranges_not_stored,
    ),
    _planted(
        "reservations-not-stored",
        "the stored high watermark leaves out what prepared transactions have reserved",
        reservations_not_stored,
    ),
    _planted(
        "commit-counts-at-the-end",
        "a commit takes numbers of its own instead of those that its Prepare reserved",
        commit_counts_at_the_end,
    ),
    _planted(
        "prepare-applies-its-range",
        "a Prepare counts as applied what it only reserves",
        prepare_applies_its_range,
    ),
    _planted(
        "ranges-not-joined",
        "the low watermark stops before a range that is applied already",
        ranges_stay_apart,
    ),
]
