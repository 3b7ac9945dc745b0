"""The run folder (docs/interfaces.md), which holds all files of one run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from zonequake_analysis.harness_report import HarnessReport
from zonequake_analysis.inputs.prometheus.server_metrics import ServerMetric
from zonequake_analysis.judgement import verdict_json
from zonequake_analysis.judgement.harness_checks import harness_checks
from zonequake_analysis.judgement.write_reports import write_alone
from zonequake_analysis.storage.location import Location
from zonequake_analysis.storage.streaming import Sent
from zonequake_analysis.verdict import Kind, Verdict, worst
from zonequake_chaos.record.system_description import SystemDescription
from zonequake_chaos.scenario.control import CONTROL
from zonequake_chaos.scenario.faults import AnyFault, ReachedSpec
from zonequake_chaos.scenario.run import ChaosRun
from zonequake_cluster.machine.locks import lock_folder
from zonequake_kube.errors import UsageError
from zonequake_kube.yaml_text import read_yaml

_JUDGED = (
    "events.jsonl",
    "history/*.jsonl",
    "dumps/*.jsonl",
    "metrics/*.parquet",
    "metrics/alert_rules.json",
)
RECORDED = (*_JUDGED, "columns/*.arrows", "logs/*")
"""The files that a run writes while it goes on."""

_FOLDERS = ("history", "dumps", "metrics", "tables", "logs")


class RunFolderInUse(UsageError):
    """Raised when another process uses the run folder."""


class ClusterPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The run's way to its cluster, so that `clean` can use it again."""

    kubeconfig: str | None
    context: str | None
    namespace: str
    release: str
    version: str


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `run.yaml`. The analysis judges by `expectations`; `plan` is the resolved
    scenario; `replay` is the command that repeats the run; `target` is the system under test,
    and `server_metrics` what its members tell of their own load;
    `files` are the files that the analysis reads, with their sizes in bytes when the run ended;
    `store` is the location that the folder is to be uploaded to, empty if there is none.
    """

    run: str
    scenario: str
    seed: int
    started_wall_ns: int
    versions: dict[str, str]
    cluster: ClusterPlace
    expectations: dict[str, Any]
    plan: ChaosRun
    target: SystemDescription
    server_metrics: list[ServerMetric]
    replay: str = ""
    schema: int = 1
    harness: HarnessReport = msgspec.field(default_factory=HarnessReport)
    files: dict[str, int] = msgspec.field(default_factory=dict)
    store: str = ""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run's folder. `sent`: its files that this process has put into the run's store."""

    path: Path
    sent: Sent = field(default_factory=dict, compare=False)

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """Creates the folder. Raises UsageError if it exists and holds a run."""
        if path.parts and path.parts[0].endswith(":"):
            raise UsageError(
                f"found Path('{path}'), expected a folder of this machine: a Path has no // of a "
                "URI"
            )
        if (path / "run.yaml").exists():
            raise UsageError(
                f"{path} holds another run, expected a new or empty folder: give another --out"
            )
        for name in _FOLDERS:
            (path / name).mkdir(parents=True, exist_ok=True)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Opens an existing run's folder. Raises UsageError."""
        if not (path / "run.yaml").is_file():
            raise UsageError(f"{path} is no run folder: it has no run.yaml")
        return cls(path)

    @contextmanager
    def held(self, *, wait_s: float) -> Iterator[None]:
        """Locks the folder for this process, a run or a cleanup. Raises UsageError."""
        with lock_folder(self.path, wait_s=wait_s) as held:
            if not held:
                raise RunFolderInUse(
                    f"{self.path} is in use by another process: a run (zonequake abort "
                    f"{self.path}) or a cleanup"
                )
            yield

    def folder(self, name: str) -> Path:
        return self.path / name

    def write(self, record: RunRecord) -> None:
        """Writes `run.yaml`, replacing it as a whole."""
        text = yaml.safe_dump(msgspec.to_builtins(record), sort_keys=False, allow_unicode=True)
        fresh = self.path / "run.yaml.new"
        fresh.write_text(text)
        fresh.replace(self.path / "run.yaml")

    def cluster(self) -> ClusterPlace:
        """Returns the cluster of the run. Raises UsageError."""
        raw = self._raw()
        try:
            return msgspec.convert(raw["cluster"], ClusterPlace)
        except (KeyError, TypeError, msgspec.ValidationError) as error:
            raise UsageError(
                f"{self.path}/run.yaml: expected the cluster of the run under `cluster`: {error}"
            ) from error

    def run_id(self) -> str:
        """Returns the name of the run. Raises UsageError."""
        raw = self._raw()
        if not isinstance(raw, dict) or not isinstance(raw.get("run"), str):
            raise UsageError(
                f"{self.path}/run.yaml: found no name of a run, expected a text under `run`"
            )
        return str(raw["run"])

    def store(self) -> str:
        """Returns where the folder is to be uploaded to, empty if nowhere. Raises UsageError."""
        raw = self._raw()
        found = raw.get("store") if isinstance(raw, dict) else None
        return found if isinstance(found, str) else ""

    def _raw(self) -> Any:  # noqa: ANN401 - whatever the file holds
        file = self.path / "run.yaml"
        try:
            return read_yaml(file.read_text())
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise UsageError(f"{file} can't be read: {error}") from error

    def has_history(self) -> bool:
        """Returns whether there is a history: a load pod that began no operation writes no file."""
        return any((self.path / "history").glob("*.jsonl"))

    def files(self) -> dict[str, int]:
        """Returns the files that the analysis reads, with their sizes in bytes."""
        found = sorted(file for pattern in _JUDGED for file in self.path.glob(pattern))
        return {file.relative_to(self.path).as_posix(): file.stat().st_size for file in found}

    def conclude(
        self, judged: Verdict, harness: HarnessReport, *, why: str, location: Location | None = None
    ) -> Verdict:
        """Writes the reports of a run without an analysis, and returns its verdict.

        `judged` stands in for the analysis's verdict, and `why` gives the reason. `location`: where
        the run is, if not in the folder. Raises LocationError.
        """
        location = location or Location.of(self.path)
        missing = verdict_json.CheckEntry(
            name="analysis",
            kind=Kind.COVERAGE,
            verdict=judged,
            summary=why,
            checked=1,
        )
        told = verdict_json.ReportedRun(
            document=verdict_json.without_analysis(
                [*map(verdict_json.entry, harness_checks(harness)), missing],
                verdict_json.read_facts(location),
                verdict=worst([judged, harness.verdict]),
            ),
            folder=str(location),
        )
        write_alone(told, location)
        return worst([judged, harness.verdict])


def expectations(run: ChaosRun) -> dict[str, Any]:
    """Returns the expectations that the analysis judges the run by, with the faults that must be
    shown to have landed.
    """
    wanted: dict[str, Any] = msgspec.structs.asdict(run.spec.expectations)
    control = [CONTROL] if run.spec.control is not None else []
    wanted["faults"] = control + [fault.name for fault in run.spec.faults if must_land(fault)]
    return wanted


def must_land(fault: AnyFault) -> bool:
    """Returns whether a run can pass only if it shows this fault."""
    return fault.disturbs or isinstance(fault, ReachedSpec)
