"""The content of a run folder besides its histories: `run.yaml` and `events.jsonl`, both
optional.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median_low
from typing import Annotated

import msgspec

from zonequake_analysis.errors import NO_JSON, RunFolderError
from zonequake_analysis.harness_report import HarnessReport
from zonequake_analysis.inputs.event_shapes import check_data
from zonequake_analysis.inputs.prometheus.server_metrics import ServerMetric
from zonequake_analysis.inputs.run_yaml import RunYaml, load_run_yaml
from zonequake_analysis.limits import MOST_NS
from zonequake_analysis.storage.location import Location
from zonequake_analysis.text.strange_bytes import strange_bytes, without_mark

_Moment = Annotated[int, msgspec.Meta(gt=-MOST_NS, lt=MOST_NS)]


class RecordedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `events.jsonl` (docs/interfaces.md, "Events"). Times in ns."""

    kind: str
    time: _Moment
    wall: int = 0
    clock: str = ""
    source: str = ""
    zone: str | None = None
    partition: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None
    node: str | None = None
    data: dict[str, object] = {}

    def text(self, name: str) -> str:
        """Returns a field of `data` as text, empty if it is absent or null."""
        value = self.data.get(name)
        return "" if value is None else str(value)

    def number(self, name: str) -> float | None:
        """Returns a field of `data` as a number, None if it isn't one, or beyond 64 bits."""
        value = self.data.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if -(2**63) < value < 2**63 else None


_Count = Annotated[int, msgspec.Meta(ge=0)]
_Limit = Annotated[float, msgspec.Meta(ge=0)]


class Expectations(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits that the run is judged by; a limit that is None is not judged.

    `lost`, `stale`: how many are allowed. `max_window_ms`: certain length of the longest
    unavailability window of any partition. `max_p99_ms`: p99 latency from the first fault to the
    end of recovery; `p99_ratio`: the same over the larger p99 of the quiet time before and of the
    control, judged if it is above `p99_ratio_above_ms`. `all_rebalances_end`: none may still run at
    the end. `faults`: names of faults that must have hit; None takes those of the plan. `resets`:
    the exact number of forced resets of all partitions together. `sacrificed_…`, `restored_…`:
    acknowledged writes that resets took, and that an unwind brought back. If a reset ended the
    window, `max_reset_window_ms` and `max_reset_after_proof_ms` replace `max_window_ms`; the second
    counts from when the API server showed the last loss.
    """

    lost: _Count = 0
    stale: _Count = 0
    resets: _Count | None = None
    sacrificed_at_most: _Count | None = None
    sacrificed_at_least: _Count = 0
    restored_at_least: _Count = 0
    max_reset_window_ms: _Limit | None = None
    max_reset_after_proof_ms: _Limit | None = None
    max_window_ms: _Limit | None = None
    max_p99_ms: _Limit | None = None
    p99_ratio: _Limit | None = None
    p99_ratio_above_ms: _Limit = 0.0
    all_rebalances_end: bool = True
    faults: list[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFault:
    """A fault that must land, `times` times."""

    name: str
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDescription:
    """The content of `run.yaml`, or the defaults if there is none."""

    name: str
    description: str
    seed: str
    expectations: Expectations
    planned_faults: tuple[PlannedFault, ...]
    clock_offset_ns: int
    harness: HarnessReport | None  # None if no harness made the folder
    text: str  # the file itself, for the report
    has_control: bool = False  # whether the plan has one
    files: Mapping[str, int] = field(default_factory=dict)  # sizes in bytes at the run's end
    target: str = ""  # the store under test, with its version; empty if unknown
    load_per_s: float | None = None  # operations that the plan asks for, of all zones together
    load_is_closed: bool = False  # whether that is a ceiling
    has_pressure: bool = False  # whether the load also writes what no history has
    asked_per_s: Mapping[str, float] = field(default_factory=dict)  # the same by function
    volatile_zones: frozenset[str] = frozenset()
    server_metrics: tuple[ServerMetric, ...] | None = None  # None if no target's package says it

    @property
    def title(self) -> str:
        """The run's name and the store that it tested."""
        return f"{self.name} against {self.target}" if self.target else self.name


_FILE_NAMES = {
    "maxWindowMilliseconds": "max_window_ms",
    "maxResetWindowMilliseconds": "max_reset_window_ms",
    "maxResetAfterProofMilliseconds": "max_reset_after_proof_ms",
    "sacrificedAtMost": "sacrificed_at_most",
    "sacrificedAtLeast": "sacrificed_at_least",
    "restoredAtLeast": "restored_at_least",
    "maxP99Milliseconds": "max_p99_ms",
    "p99Ratio": "p99_ratio",
    "p99RatioAboveMilliseconds": "p99_ratio_above_ms",
    "allRebalancesEnd": "all_rebalances_end",
}


_RATES = ("registerRate", "listRate", "register_rate", "list_rate")


def read_description(run: Path | Location) -> RunDescription:
    """Reads `run.yaml`. Fields may be at the top or, as in a manifest, under `plan.spec`.

    Raises RunFolderError if the file exists and can't be understood.
    """
    loaded = load_run_yaml(run)
    if loaded is None:
        return RunDescription(
            name=run.resolve().name,
            description="",
            seed="",
            expectations=Expectations(),
            planned_faults=(),
            clock_offset_ns=0,
            harness=None,
            text="",
        )
    document, text = loaded
    plan = document.part("plan") or document
    spec = plan.part("spec") or plan
    metadata = plan.part("metadata") or document
    faults = spec.parts("faults")
    times: dict[str, int] = {}
    for fault in faults:
        name = fault.text("name")
        if not name:
            fault.refuse("name", "nothing", "the fault's name")
        if name in times:
            fault.refuse("name", f"{name} again", "a name that no other fault has")
        times[name] = fault.whole("times", least=1, absent=1)
    expectations = _expectations(document if "expectations" in document else spec)
    named = tuple(times) if expectations.faults is None else tuple(expectations.faults)
    harness = document.part("harness")
    load = spec.part("load")
    return RunDescription(
        name=document.text("name") or metadata.text("name") or run.resolve().name,
        description=document.text("description") or metadata.text("description"),
        seed=document.text("seed"),
        expectations=expectations,
        planned_faults=tuple(PlannedFault(name=name, times=times.get(name, 1)) for name in named),
        clock_offset_ns=document.whole("clock_offset_ns", most=MOST_NS),
        harness=None if harness is None else harness.typed(HarnessReport),
        text=text,
        has_control="control" in spec,
        files=document.wholes("files"),
        target=target_of(document),
        load_per_s=_load_per_s(spec),
        load_is_closed=load is not None and load.text("loop") == "closed",
        has_pressure=load is not None and load.part("pressure") is not None,
        asked_per_s=_asked_per_s(spec),
        volatile_zones=frozenset(
            zone.text("name") for zone in spec.parts("zones") if zone.text("storage") == "Volatile"
        ),
        server_metrics=tuple(one.typed(ServerMetric) for one in document.parts("server_metrics"))
        if "server_metrics" in document
        else None,
    )


def _load_per_s(spec: RunYaml) -> float | None:
    """Returns the rate of the load of each zone, times the zones; None if the plan has none."""
    load = spec.part("load")
    if load is None:
        return None
    rates = [load.number(name) for name in _RATES if name in load]
    together = load.part("transactions")
    if together is not None:
        rates.append(together.number("rate"))
    return sum(rates) * max(1, len(spec.parts("zones"))) if rates else None


def _asked_per_s(spec: RunYaml) -> dict[str, float]:
    """Returns the rates of all zones together by function, without reads, which registers and lists
    share; a function whose share the plan doesn't say is left out.
    """
    load = spec.part("load")
    if load is None:
        return {}
    rates: dict[str, float] = {}
    if "registerRate" in load and "registerReads" in load and "registerCas" in load:
        rate, cas = load.number("registerRate"), load.number("registerCas")
        rates |= {"cas": rate * cas, "write": rate * (1 - load.number("registerReads") - cas)}
    if "listRate" in load and "listReads" in load:
        rates["append"] = load.number("listRate") * (1 - load.number("listReads"))
    if (together := load.part("transactions")) is not None:
        rates["transaction"] = together.number("rate")
    return {f: rate * max(1, len(spec.parts("zones"))) for f, rate in rates.items()}


def _expectations(holder: RunYaml) -> Expectations:
    part = holder.part("expectations")
    if part is None:
        return Expectations()
    found = part.typed(Expectations, names=_FILE_NAMES)
    for name, value in msgspec.structs.asdict(found).items():
        if isinstance(value, float) and not math.isfinite(value):
            part.refuse(name, value, "a number")
    return found


def target_of(document: RunYaml) -> str:
    """Returns the store under test by `run.yaml`, as its name and version; without the version
    if it never ran.
    """
    if "target" not in document:
        return ""
    try:
        described = document.part("target")
    except RunFolderError:
        return document.text("target")
    if described is None:
        return ""
    return " ".join(word for part in ("name", "version") if (word := described.text(part)))


def read_events(run: Path | Location) -> tuple[list[RecordedEvent], list[str]]:
    """Returns the events of a run ordered by time, and a sentence for each unreadable line.

    Those of several clocks are ordered by the time of day.

    Raises RunFolderError if `events.jsonl` exists and is no file.
    """
    decode = msgspec.json.Decoder(RecordedEvent).decode
    events, bad = [], []
    for number, line in _lines(run / "events.jsonl"):
        try:
            event = decode(line)
        except NO_JSON as error:
            bad.append(_told("events.jsonl", number, error, line=line))
            continue
        try:
            check_data(event.kind, event.data)
        except msgspec.ValidationError as error:
            bad.append(_told("events.jsonl", number, error, within="data."))
            continue
        events.append(event)
    behind_ns = _behind_the_wall_ns(events)
    events.sort(key=lambda event: event.time + behind_ns.get(event.clock, 0))
    return events, bad


def _behind_the_wall_ns(events: Iterable[RecordedEvent]) -> dict[str, int]:
    """Returns by how much each clock is behind the time of day, by the median of its events; empty
    if one of the events doesn't say what its clock or the time of day was.

    A clock began with its machine. Machines agree on the time of day to within milliseconds at
    best, so nothing is judged by it.
    """
    apart: dict[str, list[int]] = defaultdict(list)
    for event in events:
        if not event.wall or not event.clock:
            return {}
        apart[event.clock].append(event.wall - event.time)
    return {clock: median_low(ns) for clock, ns in apart.items()}


def _lines(file: Path | Location) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of a file that aren't blank, with their numbers; none if there is no
    file.
    """
    try:
        content = without_mark(file.read_bytes())
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunFolderError(f"{file}: {error.strerror}; expected a file of JSON lines") from error
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            yield number, line


def _told(
    file: object, number: int, error: Exception, *, within: str = "", line: bytes = b""
) -> str:
    """Returns an error in words: `events.jsonl:3, field `time`: Expected `int`, got `str``."""
    if isinstance(error, RecursionError):
        return f"{file}:{number}: JSON that nests too deep"
    if (strange := strange_bytes(line)) is not None:
        return f"{file}:{number}: {strange[1]}"
    words, _, path = str(error).partition(" - at `$.")
    field = f", field `{within}{path.rstrip('`')}`" if path else ""
    return f"{file}:{number}{field}: {words}"


_GROUP = r"^.+\..+\.[0-9]{1,9}$"


class DumpHeader(msgspec.Struct, frozen=True, kw_only=True):
    """First line of a replica dump. `log_index`: None if `applied` is the index in the log."""

    group: Annotated[str, msgspec.Meta(pattern=_GROUP)]
    node: str
    applied: int
    digest: str
    keys: int
    term: int = 0
    lineage: int = 0
    incarnation: str = ""
    log_index: int | None = None


class DumpEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a replica dump."""

    key: str
    value: int | str | list[int] | None
    index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """The content of one replica after the quiet time."""

    file: str
    header: DumpHeader
    entries: dict[str, DumpEntry]

    @property
    def zone(self) -> str:
        """Zone of the replica's group, the first part of its name."""
        return self.header.group.rsplit(".", 2)[0]

    @property
    def partition(self) -> int:
        """Partition of the replica's group, the last part of its name."""
        return int(self.header.group.rpartition(".")[2])


def read_dumps(run: Path | Location) -> list[Dump]:
    """Returns all replica dumps of a run.

    Raises RunFolderError for one that can't be read, and if `dumps` is no folder to list.
    """
    folder = Location.of(run) / "dumps"
    try:
        folder.check_listable()
    except OSError as error:
        raise RunFolderError(f"{folder}: {error.strerror}; expected a folder") from error
    return [_dump(file) for file in folder.listed(".jsonl")]


def _dump(file: Location) -> Dump:
    header: DumpHeader | None = None
    entries: dict[str, DumpEntry] = {}
    for number, line in _lines(file):
        try:
            if header is None:
                header = msgspec.json.decode(line, type=DumpHeader)
                continue
            entry = msgspec.json.decode(line, type=DumpEntry)
        except NO_JSON as error:
            kind = "a DumpHeader" if header is None else "a DumpEntry"
            raise RunFolderError(
                f"{_told(file, number, error, line=line)}; expected {kind} line"
            ) from error
        if entry.key in entries:
            raise RunFolderError(
                f"{file}:{number}, field `key`: found {entry.key!r} again, expected each key once"
            )
        entries[entry.key] = entry
    if header is None:
        raise RunFolderError(f"{file}: found nothing, expected a DumpHeader line")
    if header.keys != len(entries):
        raise RunFolderError(
            f"{file}: found {len(entries)} entries, expected {header.keys}, as field `keys` of its "
            "first line says; was it copied as a whole?"
        )
    return Dump(file=file.name, header=header, entries=entries)
