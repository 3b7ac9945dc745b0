"""The program that alters a value of a data node: what it leaves is a whole store, and another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from zonequake_chaos.conformance.alteration import altered
from zonequake_store.state.partition import AppliedState, Cell
from zonequake_store.storage.data_store import DataStore, Flush
from zonequake_target_store.alteration import CELLS

VALUE = 100_000_000_000_001
MAP_BYTES = 1 << 20


def store_with(folder: Path, cells: dict[str, Cell]) -> None:
    store = DataStore(folder / "data", map_bytes=MAP_BYTES)
    flush = Flush(
        number=1,
        state=AppliedState(index=9),
        cells=cells,
        sessions={},
        evicted=frozenset(),
    )
    store.flush([flush])
    store.close()


def changed(folder: Path) -> str:
    words = ["", str(folder), str(VALUE), str(altered(VALUE)), *CELLS.words]
    done = subprocess.run(
        [sys.executable, "-c", CELLS.program, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_value_alone_is_another_and_its_cell_is_sound(tmp_path: Path) -> None:
    kept = Cell(value=7, index=4)
    store_with(tmp_path, {"r": Cell(value=VALUE, index=5, filler=b"x"), "other": kept})
    assert changed(tmp_path) == "1"
    store = DataStore(tmp_path / "data", map_bytes=MAP_BYTES)
    try:
        assert store.cell(1, "r") == Cell(value=altered(VALUE), index=5, filler=b"x")
        assert store.cell(1, "other") == kept
        assert store.state(1).index == 9
    finally:
        store.close()


def test_a_value_that_is_not_on_disk_yet_is_looked_for_again(tmp_path: Path) -> None:
    store_with(tmp_path, {"other": Cell(value=7, index=4)})
    assert changed(tmp_path) == "0"
