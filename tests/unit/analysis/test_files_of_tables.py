"""A file of a table is the same kind of file, written at once or batch by batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zonequake_analysis.metrics import stored_tables
from zonequake_analysis.metrics.stored_tables import Part
from zonequake_analysis.metrics.table import write_table
from zonequake_analysis.storage.location import Location

ROWS = pa.table({"name": ["a", "b", "a", "c", "d"], "at": [1, 2, 3, None, 5]})


def kind_of(file: Path) -> tuple[str, set[bytes]]:
    """How it is compressed, and what it says beside its rows: Spark's own say nothing of Arrow."""
    footer = pq.ParquetFile(file).metadata
    return footer.row_group(0).column(0).compression, set(footer.metadata or ())


@pytest.mark.parametrize("rows", [ROWS, ROWS.slice(0, 0)], ids=["rows", "none"])
def test_a_table_is_read_as_it_was_written(tmp_path: Path, rows: pa.Table) -> None:
    write_table(Location.of(tmp_path / "all.parquet"), rows)
    assert pq.read_table(tmp_path / "all.parquet") == rows


def test_both_ways_write_files_as_sparks_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_tables, "_ROWS_TO_A_GROUP", 2)
    part = Part(ROWS.schema)
    for batch in ROWS.to_batches(max_chunksize=1):
        part.add(batch)
    (tmp_path / "part.parquet").write_bytes(part.content())
    write_table(Location.of(tmp_path / "all.parquet"), ROWS)
    assert part.rows == 5
    assert pq.ParquetFile(tmp_path / "part.parquet").num_row_groups == 3
    for name in ("part", "all"):
        assert pq.read_table(tmp_path / f"{name}.parquet") == ROWS
        assert kind_of(tmp_path / f"{name}.parquet") == ("SNAPPY", set())
