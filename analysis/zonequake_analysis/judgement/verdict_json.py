"""`verdict.json`: everything that programs, a pull request and a test report show of a run.

`junit.xml` and `summary.md` are drawn from it alone, so that they exist for every run, even if it
broke off before there was anything to judge, and so that several runs make one report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from zonequake_analysis.errors import NO_JSON, RunFolderError
from zonequake_analysis.inputs.run_folder import target_of
from zonequake_analysis.inputs.run_yaml import read_run_yaml
from zonequake_analysis.storage.location import Location
from zonequake_analysis.text.first_few import first_few
from zonequake_analysis.text.strange_bytes import strange_bytes, without_mark
from zonequake_analysis.text.untrusted_text import visible
from zonequake_analysis.verdict import EXIT_CODES, Check, Kind, Verdict, most_severe_first, worst

HARNESS = "zonequake"
"""The harness's own key in a run's `versions`."""

SCHEMA = 1
VERDICT_FILE, JUNIT_FILE, SUMMARY_FILE = "verdict.json", "junit.xml", "summary.md"
REPORT_FILE = "report.html"
MOST_TOLD = 3
"""Most checks of one verdict whose summaries make a headline; the rest is counted."""

_LAST_WALL_NS = 4_000_000_000_000_000_000
"""A time in the year 2096."""


class CheckEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A check, with `witnesses`: each is a few operations, in text, that are a violation alone."""

    name: str
    verdict: Verdict
    summary: str
    violations: int = 0
    checked: int = 0
    excluded: int = 0
    kind: Kind = Kind.SAFETY
    witnesses: list[str] = []

    @property
    def judged(self) -> bool:
        """Whether there was anything to judge; a pass without it says nothing."""
        return self.verdict is not Verdict.PASSED or self.checked > 0


class WindowEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The longest unavailability of a partition; `cause` is empty if nothing explains it."""

    zone: str
    partition: int
    function: str
    certain_ms: float
    possible_ms: float
    cause: str = ""


class FaultEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A fault: the requested stage, and where it landed or why it didn't; `effective`: whether an
    effect of it was proven; `times`: how often it began."""

    name: str
    times: int = 1
    asked: str = ""
    landed: str = ""
    missed: str = ""
    effective: bool = False
    progress: float | None = None


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The run's facts from `run.yaml`; `replay` is the command that repeats it."""

    run: str
    scenario: str
    seed: str = ""
    target: str = ""
    versions: dict[str, str] = {}
    cluster: str = ""
    replay: str = ""
    started_wall_ns: int = 0

    @property
    def tests_itself(self) -> bool:
        """Whether the target is a part of the harness: `versions` has its name."""
        return self.target.partition(" ")[0] in self.versions


class ExecutorEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A Spark executor that ran tasks of the analysis."""

    name: str
    address: str
    tasks: int


class AnalysisPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The place where the analysis ran: the only part of a verdict that depends on it."""

    master: str
    application: str
    executors: list[ExecutorEntry]


class _Schema(msgspec.Struct):
    schema: int = SCHEMA


class VerdictDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file. `resets` are rows for the summary's table, under `reset_columns`."""

    schema: int = SCHEMA
    verdict: Verdict
    exit_code: int
    checks: list[CheckEntry]
    headline: str = ""
    numbers: dict[str, float | int | None] = {}
    run: RunFacts | None = None
    windows: list[WindowEntry] = []
    faults: list[FaultEntry] = []
    reset_columns: list[str] = []
    resets: list[list[str]] = []
    analyzed: AnalysisPlace | None = None

    @property
    def duration_s(self) -> float:
        """The duration of the history in seconds; 0 if nothing was judged."""
        return float(self.numbers.get("duration_s") or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRun:
    """A run as a report shows it: its document, and the folder of its other files."""

    document: VerdictDocument
    folder: str = ""

    @property
    def name(self) -> str:
        run = self.document.run
        return (run.scenario if run is not None else "") or Path(self.folder).name or "zonequake"

    @property
    def title(self) -> str:
        """The run's name, and its target if that isn't a part of the harness."""
        run = self.document.run
        if run is None or not run.target or run.tests_itself:
            return self.name
        return f"{self.name} against {run.target}"

    @property
    def seed(self) -> str:
        return self.document.run.seed if self.document.run is not None else ""


def entry(check: Check, witnesses: Sequence[str] = ()) -> CheckEntry:
    """Returns a check as the document holds it."""
    return CheckEntry(
        name=check.name,
        verdict=check.verdict,
        summary=check.summary,
        violations=check.violations,
        checked=check.checked,
        excluded=check.excluded,
        kind=check.kind,
        witnesses=list(witnesses),
    )


def without_analysis(
    checks: Sequence[CheckEntry], run: RunFacts | None = None, *, verdict: Verdict | None = None
) -> VerdictDocument:
    """Returns the document of a run without analysis. `verdict`: if it isn't the worst check's."""
    ended = worst(check.verdict for check in checks) if verdict is None else verdict
    told = [check.summary for check in checks if check.verdict is ended]
    return VerdictDocument(
        verdict=ended,
        exit_code=EXIT_CODES[ended],
        checks=most_severe_first(checks),
        headline=first_few(told, MOST_TOLD),
        run=run,
    )


def with_exit_code(document: VerdictDocument, code: int) -> VerdictDocument:
    """Returns the same with another exit code: a usage error has one and is no verdict."""
    return msgspec.structs.replace(document, exit_code=code)


def read_facts(run: Path | Location) -> RunFacts | None:
    """Returns which run a folder holds; None without `run.yaml`. Raises RunFolderError."""
    document = read_run_yaml(run)
    if document is None:
        return None
    cluster = document.part("cluster")
    return RunFacts(
        run=document.text("run") or run.resolve().name,
        scenario=document.text("scenario") or document.text("name") or run.resolve().name,
        seed=document.text("seed"),
        target=target_of(document),
        versions=document.texts("versions"),
        cluster="" if cluster is None else cluster.text("version"),
        replay=document.text("replay"),
        started_wall_ns=document.whole("started_wall_ns", most=_LAST_WALL_NS),
    )


def read_document(run: Path | Location) -> VerdictDocument:
    """Returns a folder's `verdict.json`. Raises RunFolderError."""
    file = run / VERDICT_FILE
    try:
        content = without_mark(file.read_bytes())
        if (strange := strange_bytes(content)) is not None:
            line, words = strange
            raise RunFolderError(f"{file}:{line}: {words}, or run `zonequake analyze` again")
        decoded = msgspec.json.decode(content)
        found = msgspec.convert(decoded, type=_Schema).schema
        if found != SCHEMA:
            raise RunFolderError(
                f"{file}: found schema {found}, expected {SCHEMA}, which this version of zonequake "
                "reads and writes: run `zonequake analyze` over the run again"
            )
        return msgspec.convert(decoded, type=VerdictDocument)
    except (OSError, *NO_JSON) as error:
        raise RunFolderError(
            f"{file}: {error}; expected what `zonequake analyze` writes: run it again"
        ) from error


def write_document(run: Path | Location, document: VerdictDocument) -> None:
    """Writes `verdict.json`."""
    try:
        encoded = msgspec.json.encode(document)
    except UnicodeEncodeError:  # half a character, for instance in a file's name
        encoded = msgspec.json.encode(_encodable(msgspec.to_builtins(document)))
    Location.of(run / VERDICT_FILE).write(msgspec.json.format(encoded, indent=2) + b"\n")


def _encodable(value: object) -> object:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {_encodable(name): _encodable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_encodable(inner) for inner in value]
    return value


def started(facts: RunFacts | None) -> str:
    """Returns when a run began, in UTC to the second; empty if it is unknown."""
    if facts is None or not 0 < facts.started_wall_ns <= _LAST_WALL_NS:
        return ""
    return datetime.fromtimestamp(facts.started_wall_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
