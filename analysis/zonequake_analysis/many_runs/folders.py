"""Reads run folders: those below a folder, and the numbers of one. Needs no Spark.

No other module here reads files of runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zonequake_analysis.errors import NO_JSON, RunFolderError
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.inputs.shapes import OutcomeCode, RoleCode
from zonequake_analysis.judgement.verdict_json import VERDICT_FILE, read_document
from zonequake_analysis.many_runs.measured_run import (
    LoadOperations,
    MeasuredMetric,
    MeasuredRun,
    measured,
)
from zonequake_analysis.measures.tally import FUNCTIONS, TRANSACTION
from zonequake_analysis.storage.location import Location
from zonequake_analysis.storage.upload_mark import MARK_FILE, check_whole
from zonequake_analysis.text.strange_bytes import without_mark

_ASKED_AT_ONCE = 16
"""Folders that are looked at together: each question to a store waits for its answer."""

_METRICS = ("span_kind", "metric", "measure", "unit", "before", "during", "score")

DEEPEST = 3
"""Most levels below the named folder in which runs are searched for."""

_STEP = "step"
_COLUMNS = ("role", "f", "outcome", "sched", "fin", _STEP, "copy")
_PHASE = b'"run.phase"'


def run_folders(folder: Path | Location) -> list[Location]:
    """Returns the folders below `folder`, or itself, that hold a run, in order of their names; also
    those without a verdict, which `read_run` refuses.

    Does not follow links, and does not search for runs within a run. Raises OSError, LocationError.
    """
    found: list[Location] = []
    level = [Location.of(folder)]
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        for _ in range(DEEPEST + 1):
            looked_at = list(pool.map(_is_run_and_folders, level))
            found += [
                location for location, (is_run, _) in zip(level, looked_at, strict=True) if is_run
            ]
            level = [one for is_run, inner in looked_at if not is_run for one in inner]
    return sorted(found)


def has_verdict(location: Location) -> bool:
    """Returns whether a folder was judged. Raises LocationError."""
    return (location / VERDICT_FILE).exists()


def _is_run_and_folders(location: Location) -> tuple[bool, list[Location]]:
    """Returns whether a folder holds a run, and the folders in it; lists it once, and its history
    only if there is nothing else to tell by.
    """
    names, folders = location.names_and_folders()
    is_run = not names.isdisjoint((VERDICT_FILE, "run.yaml", MARK_FILE)) or (
        "history" in names and bool((location / "history").listed(".jsonl"))
    )
    return is_run, folders


def read_run(folder: Path | Location) -> MeasuredRun:
    """Returns the numbers of a run folder.

    Raises:
        RunFolderError: it has no verdict or is not whole, or one of its files can't be read.
    """
    run = Location.of(folder)
    if not has_verdict(run):
        check_whole(run)
        raise RunFolderError(
            f"{run}: found no {VERDICT_FILE}, expected a run that was judged: run "
            f"`zonequake analyze {run}` first"
        )
    document = read_document(run)
    operations = read_load(run)
    return measured(
        str(run),
        run.resolve().name,
        document,
        operations,
        read_phases(run) if operations is not None else {},
        read_metrics(run),
    )


def read_load(run: Location) -> LoadOperations | None:
    """Returns the answered operations of the load; None without `tables/ops`.

    An operation of a partition that was reset is there only once, and a transaction by its first
    step. Raises RunFolderError.
    """
    files = (run / "tables" / "ops").listed(".parquet")
    if not files:
        return None
    try:
        table = pa.concat_tables(_read_operations(file) for file in files)
    except (OSError, pa.ArrowException) as error:
        raise RunFolderError(
            f"{run / 'tables' / 'ops'}: {error}; expected what `zonequake analyze` writes: run it "
            "again"
        ) from error
    role, f, outcome = (table.column(name).to_numpy() for name in ("role", "f", "outcome"))
    step = table.column(_STEP).fill_null(-1).to_numpy()
    f = np.where(step < 0, f, FUNCTIONS.index(TRANSACTION))
    wanted = (role == RoleCode.LOAD.value) & (outcome == OutcomeCode.OK.value) & (step <= 0)
    wanted &= ~table.column("copy").fill_null(False).to_numpy()
    load = table.filter(pa.array(wanted))
    due_ns = load.column("sched").to_numpy()
    return LoadOperations(
        due_ns=due_ns,
        took_ns=np.maximum(load.column("fin").to_numpy() - due_ns, 1),
        kind=np.array(FUNCTIONS)[f[wanted]],
    )


def _read_operations(file: Location) -> pa.Table:
    """Returns `_COLUMNS`; `step` is null in a table of an analysis that knew no transactions."""
    with file.open() as stream:
        known = pq.read_schema(stream).names
        stream.seek(0)
        there = [name for name in _COLUMNS if name != _STEP or name in known]
        table = pq.read_table(stream, columns=there)
    if _STEP not in known:
        table = table.append_column(_STEP, pa.nulls(table.num_rows, pa.int8()))
    return table.select(_COLUMNS)


def _read_table(file: Location, columns: Sequence[str]) -> pa.Table:
    with file.open() as stream:
        return pq.read_table(stream, columns=list(columns))


def _columns_of(file: Location) -> list[str]:
    with file.open() as stream:
        return list(pq.read_schema(stream).names)


def read_metrics(run: Location) -> tuple[MeasuredMetric, ...]:
    """Returns how metrics moved with the faults, of each metric the series that moved most; none
    without `tables/metric_changes`, or if it has other columns. Raises RunFolderError."""
    files = (run / "tables" / "metric_changes").listed(".parquet")
    try:
        if not files or not set(_METRICS) <= set(_columns_of(files[0])):
            return ()
        strongest: dict[tuple[str, str], MeasuredMetric] = {}
        for file in files:  # one by one: together they may have a million rows
            for row in _read_table(file, _METRICS).to_pylist():
                if row.pop("span_kind") != "fault" or None in row.values():
                    continue
                found = MeasuredMetric(name=row.pop("metric"), **row)
                known = strongest.get((found.name, found.measure))
                if known is None or found.score > known.score:
                    strongest[found.name, found.measure] = found
    except (OSError, pa.ArrowException) as error:
        raise RunFolderError(
            f"{run / 'tables' / 'metric_changes'}: {error}; expected what `zonequake analyze` "
            "writes: run it again"
        ) from error
    return tuple(strongest.values())


def read_phases(run: Location) -> dict[str, int]:
    """Returns when each phase began by the events, in ns; skips lines that can't be read."""
    file = run / "events.jsonl"
    if not file.exists():
        return {}
    decode = msgspec.json.Decoder(RecordedEvent).decode
    found: dict[str, int] = {}
    for line in without_mark(file.read_bytes()).splitlines():
        if _PHASE not in line:
            continue
        try:
            event = decode(line)
        except NO_JSON:
            continue
        if event.kind == "run.phase":
            found[event.text("phase")] = event.time
    return found
