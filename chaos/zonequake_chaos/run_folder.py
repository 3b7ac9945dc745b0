"""The run folder (docs/interfaces.md): where everything of one run lies."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from zonequake_chaos.errors import UsageError
from zonequake_chaos.outcome import EXIT_CODES, Verdict, worst
from zonequake_chaos.scenario import ChaosRun
from zonequake_chaos.scenario_faults import Fault, Reached

_FOLDERS = ("history", "dumps", "metrics", "tables", "logs")


class ClusterPlace(msgspec.Struct, frozen=True, kw_only=True):
    """How the run reached its cluster, so that `clean` can again."""

    kubeconfig: str | None
    context: str | None
    namespace: str
    release: str
    version: str


INTERRUPTED = "interrupted"
"""The problem of a run that SIGINT or SIGTERM ended."""


class HarnessReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the harness says of itself: `verdict` is `passed` if nothing stood in its way."""

    verdict: Verdict = Verdict.UNKNOWN
    problems: list[str] = []

    @property
    def interrupted(self) -> bool:
        """The user ended the run with a signal: no further one is wanted."""
        return INTERRUPTED in self.problems


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`run.yaml`. `expectations` is what the analysis judges by; `plan` is the resolved file."""

    run: str
    scenario: str
    seed: int
    started_wall_ns: int
    versions: dict[str, str]
    cluster: ClusterPlace
    expectations: dict[str, Any]
    plan: ChaosRun
    schema: int = 1
    harness: HarnessReport = msgspec.field(default_factory=HarnessReport)


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run's folder."""

    path: Path

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """Makes the folder. Raises UsageError if one with a run in it is there."""
        if (path / "run.yaml").exists():
            raise UsageError(f"{path} holds another run; give another --out")
        for name in _FOLDERS:
            (path / name).mkdir(parents=True, exist_ok=True)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run's folder. Raises UsageError."""
        if not (path / "run.yaml").is_file():
            raise UsageError(f"{path} is no run folder: it has no run.yaml")
        return cls(path)

    def folder(self, name: str) -> Path:
        return self.path / name

    def write(self, record: RunRecord) -> None:
        """Writes `run.yaml`, replacing it as a whole."""
        text = yaml.safe_dump(msgspec.to_builtins(record), sort_keys=False, allow_unicode=True)
        fresh = self.path / "run.yaml.new"
        fresh.write_text(text)
        fresh.replace(self.path / "run.yaml")

    def cluster(self) -> ClusterPlace:
        """Where the run was. Raises UsageError."""
        raw = yaml.safe_load((self.path / "run.yaml").read_text())
        try:
            return msgspec.convert(raw["cluster"], ClusterPlace)
        except (KeyError, TypeError, msgspec.ValidationError) as error:
            raise UsageError(f"{self.path}/run.yaml does not say where the run was") from error

    def has_history(self) -> bool:
        """Whether any load pod did anything: one that never began an operation writes no file."""
        return any((self.path / "history").glob("*.jsonl"))

    def conclude(self, judged: Verdict, harness: HarnessReport) -> Verdict:
        """Joins the analysis's verdict and the harness's in `verdict.json`; returns the worst."""
        verdict = worst([judged, harness.verdict])
        path = self.path / "verdict.json"
        document: dict[str, Any] = {"schema": 1, "checks": []}
        if path.exists():
            document = json.loads(path.read_text())
        document["verdict"] = verdict.value
        document["exit_code"] = EXIT_CODES[verdict]
        document["checks"] = [
            *(check for check in document["checks"] if check["name"] != "harness"),
            {
                "name": "harness",
                "verdict": harness.verdict.value,
                "summary": "; ".join(harness.problems) or "Every planned step was done.",
                "violations": 0,
                "checked": 1,
                "excluded": 0,
            },
        ]
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        return verdict


def expectations(run: ChaosRun) -> dict[str, Any]:
    """What the analysis judges the run by, with the faults that must be shown to have landed."""
    wanted: dict[str, Any] = msgspec.structs.asdict(run.spec.expectations)
    wanted["faults"] = [fault.name for fault in run.spec.faults if must_land(fault)]
    return wanted


def must_land(fault: Fault) -> bool:
    """Whether a run that doesn't show this fault can't pass."""
    return fault.disturbs or isinstance(fault, Reached)
