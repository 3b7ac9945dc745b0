"""A flush is one commit, however often its thread gives way while it is written."""

from __future__ import annotations

from pathlib import Path

from zonequake_protocol.client import RequestId
from zonequake_store.state.client_table import ClientTable
from zonequake_store.state.commands import SetCommand
from zonequake_store.state.partition import AppliedState, StateMachine
from zonequake_store.state.transactions import TransactionTable
from zonequake_store.storage.cells import Overlay
from zonequake_store.storage.data_store import DataStore

WRITES = 200


def applied(store: DataStore) -> tuple[Overlay, StateMachine]:
    """A partition to which as many clients have written once each."""
    cells = Overlay(store, 7)
    partition = StateMachine(
        cells,
        clients=ClientTable(),
        transactions=TransactionTable(),
        state=AppliedState(),
    )
    for index in range(1, WRITES + 1):
        write(partition, index)
    return cells, partition


def write(partition: StateMachine, index: int) -> None:
    name = f"c{index % WRITES}"
    partition.apply(1, index, SetCommand(f"k{index % WRITES}", index, b"", RequestId(name, index)))


def test_nothing_of_a_flush_is_seen_before_all_of_it_is_stored(tmp_path: Path) -> None:
    store = DataStore(tmp_path, map_bytes=16 << 20)
    cells, partition = applied(store)
    seen: list[int] = []
    store.flush([cells.begin_flush(partition)], pause=lambda: seen.append(store.state(7).index))
    assert len(seen) > 2 * WRITES / 20, "it gives way often"
    assert set(seen) == {0}
    assert store.state(7) == partition.state
    store.close()


def test_what_is_applied_while_a_flush_is_written_stays_out_of_it(tmp_path: Path) -> None:
    store = DataStore(tmp_path, map_bytes=16 << 20)
    cells, partition = applied(store)
    flush = cells.begin_flush(partition)
    state, index = partition.state, iter(range(WRITES + 1, 100 * WRITES))
    store.flush([flush], pause=lambda: write(partition, next(index)))
    cells.end_flush()
    assert partition.index > WRITES
    assert store.state(7) == state
    stored = store.clients(7)
    assert all(list(each.results) == [each.last_index] for each in stored.sessions.values())
    cell = cells.get("k1")
    assert cell is not None
    assert cell.index == WRITES + 1
    store.flush([cells.begin_flush(partition)])
    assert store.state(7) == partition.state
    assert store.clients(7).sessions == partition.clients.sessions
    store.close()
