"""The content of a run folder beside its histories: `run.yaml` and `events.jsonl`, both
optional.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml

from zonequake_analysis.errors import RunFolderError
from zonequake_analysis.harness_report import HarnessReport


class RecordedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `events.jsonl` (docs/interfaces.md, "Events"). Times in ns."""

    kind: str
    time: int
    wall: int = 0
    clock: str = ""
    source: str = ""
    zone: str | None = None
    partition: int | None = None
    node: str | None = None
    data: dict[str, object] = {}

    def text(self, name: str) -> str:
        """A field of `data` as text, empty if it is absent or null."""
        value = self.data.get(name)
        return "" if value is None else str(value)

    def number(self, name: str) -> float | None:
        """A field of `data` as a number, None if it isn't one."""
        value = self.data.get(name)
        return float(value) if isinstance(value, int | float) else None


class Expectations(msgspec.Struct, frozen=True, kw_only=True):
    """The limits that the run is judged by; a limit that is None is not judged.

    `lost`, `stale`: how many are allowed. `max_window_ms`: certain length of the longest
    unavailability window of any partition. `max_p99_ms`: p99 latency from the first fault to the
    end of recovery; `p99_ratio`: the same over the larger one of before and of the control, judged
    where it is above `p99_ratio_above_ms`. `all_rebalances_end`: none may still run at the end.
    `faults`: names of faults that must have hit; None takes those of the plan. `resets`: exactly so
    many forced resets of all partitions together. `sacrificed_…`, `restored_…`: acknowledged writes
    that resets took, and that an unwind brought back. Where a reset ended the window,
    `max_reset_window_ms` and `max_reset_after_proof_ms` stand in for `max_window_ms`; the second
    counts from when the API server showed the last loss.
    """

    lost: int = 0
    stale: int = 0
    resets: int | None = None
    sacrificed_at_most: int | None = None
    sacrificed_at_least: int = 0
    restored_at_least: int = 0
    max_reset_window_ms: float | None = None
    max_reset_after_proof_ms: float | None = None
    max_window_ms: float | None = None
    max_p99_ms: float | None = None
    p99_ratio: float | None = None
    p99_ratio_above_ms: float = 0.0
    all_rebalances_end: bool = True
    faults: list[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDescription:
    """The content of `run.yaml`, or the defaults where there is none."""

    name: str
    description: str
    seed: str
    expectations: Expectations
    planned_faults: tuple[str, ...]
    clock_offset_ns: int
    harness: HarnessReport | None  # None where no harness made the folder
    text: str  # the file itself, for the report
    has_control: bool = False  # whether the plan has one
    target: str = ""  # what was under test, with its version; empty where the file doesn't say

    @property
    def title(self) -> str:
        """The run's name and what it was against."""
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


def read_description(run: Path) -> RunDescription:
    """Reads `run.yaml`. Fields may stand at the top or, as in a manifest, under `plan.spec`.

    Raises RunFolderError if the file is there and can't be understood.
    """
    file = run / "run.yaml"
    if not file.exists():
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
    text = file.read_text()
    try:
        document = yaml.safe_load(text) or {}
        plan = _mapping(document, "plan") or document
        spec = _mapping(plan, "spec") or plan
        given = _mapping(document, "expectations") or _mapping(spec, "expectations") or {}
        named = {_FILE_NAMES.get(str(name), str(name)): value for name, value in given.items()}
        expectations = msgspec.convert(named, Expectations)
        harness = document.get("harness")
        harness = None if harness is None else msgspec.convert(harness, HarnessReport)
        faults = spec.get("faults")
        faults = faults if isinstance(faults, list) else []
        names = tuple(str(fault["name"]) for fault in faults)
    except (
        yaml.YAMLError,
        RecursionError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
    ) as error:
        raise RunFolderError(
            f"{file}: {type(error).__name__}: {error}; expected a mapping with plan, seed and "
            "expectations (docs/analysis.md)"
        ) from error
    metadata = _mapping(plan, "metadata") or {}
    return RunDescription(
        name=str(document.get("name") or metadata.get("name") or run.resolve().name),
        description=str(document.get("description") or metadata.get("description") or ""),
        seed=str(document.get("seed", "")),
        expectations=expectations,
        planned_faults=tuple(expectations.faults) if expectations.faults is not None else names,
        clock_offset_ns=int(document.get("clock_offset_ns") or 0),
        harness=harness,
        text=text,
        has_control=spec.get("control") is not None,
        target=target_in_words(document.get("target")),
    )


def target_in_words(described: object) -> str:
    """Returns the store under test by `run.yaml`, as `etcd 3.6.4`; without the version if it never
    ran.
    """
    if not isinstance(described, dict):
        return str(described or "")
    return " ".join(str(described[part]) for part in ("name", "version") if described.get(part))


def _mapping(document: dict[str, object], name: str) -> dict[str, object] | None:
    value = document.get(name)
    return value if isinstance(value, dict) else None


def read_events(run: Path) -> tuple[list[RecordedEvent], int]:
    """The events of a run in the order of their times, and the number of unreadable lines."""
    file = run / "events.jsonl"
    if not file.exists():
        return [], 0
    decode = msgspec.json.Decoder(RecordedEvent).decode
    events, bad = [], 0
    for line in file.read_bytes().splitlines():
        if not line.strip():
            continue
        try:
            events.append(decode(line))
        except msgspec.DecodeError:
            bad += 1
    events.sort(key=lambda event: event.time)
    return events, bad


class DumpHeader(msgspec.Struct, frozen=True, kw_only=True):
    """First line of a replica dump."""

    group: str
    node: str
    applied: int
    digest: str
    keys: int
    term: int = 0
    lineage: int = 0
    incarnation: str = ""


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


def read_dumps(run: Path) -> list[Dump]:
    """All replica dumps of a run. Raises RunFolderError for one that can't be read."""
    header, entry = msgspec.json.Decoder(DumpHeader), msgspec.json.Decoder(DumpEntry)
    dumps = []
    for file in sorted((run / "dumps").glob("*.jsonl")):
        first, *rest = file.read_bytes().splitlines() or [b""]
        try:
            entries = [entry.decode(line) for line in rest]
            dumps.append(
                Dump(
                    file=file.name,
                    header=header.decode(first),
                    entries={found.key: found for found in entries},
                )
            )
        except msgspec.DecodeError as error:
            raise RunFolderError(
                f"{file}: {error}; expected a DumpHeader line and then DumpEntry lines"
            ) from error
    return dumps
