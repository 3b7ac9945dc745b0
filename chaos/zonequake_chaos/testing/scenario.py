"""A scenario that a test builds in Python: the value of the fixture `zonequake` (docs/ci.md).

It becomes a manifest like that of any other scenario, kept in the run folder, and the same runner
runs it, with the same checks and the same cleanup.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop
import yaml
from rich.console import Console

from zonequake_analysis.judgement.verdict_json import CheckEntry, VerdictDocument, read_document
from zonequake_analysis.storage.location import Location
from zonequake_analysis.verdict import Verdict
from zonequake_chaos.commands.clean import clean_run, find_run
from zonequake_chaos.commands.run import (
    RUNS,
    RunOptions,
    judge_run,
    location_to_look,
    planned,
    run_once,
)
from zonequake_chaos.commands.upload import chosen_location
from zonequake_chaos.errors import ManifestError
from zonequake_chaos.record.cleanup_journal import CleanupJournal
from zonequake_chaos.scenario import manifest
from zonequake_chaos.scenario.fields import file_name
from zonequake_cluster.machine.locks import lock_folder
from zonequake_ctl.context import ReleasePlace, find_place
from zonequake_kube.errors import HarnessError

_MARKED = ("zones", "scenario", "seed", "pools", "set", "target", "image")
_TURN_S = 3600.0
"""Time that a run waits for other runs of this machine in the same release: they take turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a run: `folder` holds all its files, `report` is the page to read.

    With a URI in `--zonequake-out` both are locations in the store; `read_bytes` reads a file.
    """

    document: VerdictDocument
    folder: Path | Location
    seed: int
    replay: str

    @property
    def verdict(self) -> str:
        return self.document.verdict.value

    @property
    def passed(self) -> bool:
        return self.verdict == Verdict.PASSED.value

    @property
    def checks(self) -> dict[str, CheckEntry]:
        """The checks by name, as in `verdict.json`."""
        return {check.name: check for check in self.document.checks}

    @property
    def numbers(self) -> Mapping[str, float | int | None]:
        """Numbers as in `verdict.json`: operations, longest_window_certain_ms, p99_during_ms, …"""
        return self.document.numbers

    @property
    def report(self) -> Path | Location:
        return self.folder / "report.html"

    @property
    def properties(self) -> list[tuple[str, object]]:
        """The properties for the test's case in a JUnit file."""
        return [
            ("zonequake.verdict", self.verdict),
            ("zonequake.seed", self.seed),
            ("zonequake.folder", str(self.folder)),
            ("zonequake.replay", self.replay),
        ]

    def in_words(self) -> str:
        """Returns the verdict's sentences, a witness of each violation, and the report's path."""
        lines = [f"{self.verdict} (exit code {self.document.exit_code}): {self.document.headline}"]
        for check in self.document.checks:
            if check.verdict.value != Verdict.PASSED.value:
                lines.append(f"{check.verdict}: {check.name}: {check.summary}")
                lines += check.witnesses[:1]
        where = location_to_look(self.folder)
        return "\n".join([*lines, f"report: {where}", f"again: {self.replay}"])

    def __repr__(self) -> str:
        return f"<{self.verdict}: {self.document.headline}; {self.folder}>"


class OwnScenario:
    """Builds a scenario and runs it. Names of fields are those of docs/scenarios.md, as written
    there (`holdSeconds`) or in Python's form (`hold_s`)."""

    def __init__(
        self,
        *,
        document: dict[str, Any],
        overrides: Sequence[str],
        place: ReleasePlace,
        target: str | None,
        image: str | None,
        seed: int,
        out: Path,
        store: Location | None,
        replay: str,
    ) -> None:
        self._target = target
        self._image = image
        self._document = document
        self._overrides = overrides
        self._place = place
        self._seed = seed
        self._out = out
        self._store = store
        self._replay = replay
        self._folders: list[Path] = []
        self.results: list[Result] = []

    @classmethod
    def of(
        cls,
        args: Sequence[object],
        marked: Mapping[str, Any],
        *,
        test: str,
        replay: str,
        seed: int | None,
        out: str,
        kubeconfig: Path | None,
        context: str | None,
        namespace: str,
        release: str,
    ) -> OwnScenario:
        """Builds a scenario from the marker and the session's options. Raises UsageError."""
        unknown = [str(arg) for arg in args] + [name for name in marked if name not in _MARKED]
        if unknown:
            raise ManifestError(
                f"@pytest.mark.zonequake: unknown {', '.join(unknown)}; allowed by name are "
                f"{', '.join(_MARKED)}"
            )
        name = re.sub(r"[^a-z0-9]+", "-", test.lower()).strip("-")[:60].strip("-")
        folder, store = chosen_location(out, "--zonequake-out")
        called = f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        given = seed if seed is not None else marked.get("seed")
        drawn = secrets.randbelow(2**31) if given is None else int(given)
        place = find_place(
            kubeconfig=kubeconfig, context=context, namespace=namespace, release=release
        )
        return cls(
            document=_begin(name, marked),
            overrides=list(marked.get("set", ())),
            place=place,
            target=marked.get("target"),
            image=marked.get("image"),
            seed=drawn,
            out=(folder or RUNS) / called,
            store=None if store is None else store / called,
            replay=replay,
        )

    def load(self, **fields: object) -> None:
        """Sets the work of the load, as in `spec.load`."""
        self._spec.setdefault("load", {}).update(_named(fields))

    def times(self, **fields: object) -> None:
        """Sets the durations of phases, as in `spec.times`."""
        self._spec.setdefault("times", {}).update(_named(fields))

    def expect(self, **fields: object) -> None:
        """Sets the limits to judge the run by, as in `spec.expectations`."""
        self._spec.setdefault("expectations", {}).update(_named(fields))

    def inject(
        self,
        kind: str,
        *,
        role: str | None = None,
        when: str | Mapping[str, object] = "settled",
        name: str | None = None,
        target: Mapping[str, object] | None = None,
        **fields: object,
    ) -> str:
        """Adds a fault of type `kind` after the earlier ones; returns its name.

        `role` or `target`: the nodes to hit. `when`: its trigger's name, or the whole trigger.
        """
        faults = self._spec.setdefault("faults", [])
        called = name or f"{kind.replace('_', '-')}-{len(faults) + 1}"
        trigger = {"when": when} if isinstance(when, str) else _named(when)
        fault = {"name": called, "type": kind, "trigger": trigger, **_named(fields)}
        if role is not None or target is not None:
            own = {} if role is None else {"role": role}
            fault["target"] = {**own, **_named(target or {})}
        faults.append(fault)
        return called

    def run(self) -> Result:
        """Runs and judges the scenario as built so far; each further call uses seed + 1.

        Raises ChaosError if the run can't begin, isn't in the store that it was to be in, or its
        verdict can't be written there, KeyboardInterrupt once an interrupted run is cleaned up.
        """
        number = len(self._folders)
        seed = self._seed + number
        folder = self._out if number == 0 else self._out.with_name(f"{self._out.name}-{number + 1}")
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "scenario.yaml"
        file.write_text(yaml.safe_dump(self._document, sort_keys=False, allow_unicode=True))
        options = RunOptions(
            scenario=str(file),
            overrides=self._overrides,
            seed=seed,
            out=folder,
            store=None if self._store is None else self._store.parent / folder.name,
            analyze=True,
            target=self._target,
            image=self._image,
        )
        planned(options)
        self._folders.append(folder)
        console = Console(file=sys.stdout, width=160)
        with lock_folder(_turn(self._place), wait_s=_TURN_S) as ours:
            if not ours:
                raise HarnessError(
                    f"another run has been going on in this release for {_TURN_S:g} s; runs of one "
                    "release take turns"
                )
            ran, report = uvloop.run(run_once(options, self._place, console))
        if report.interrupted:
            undone = "and cleaned up"
            if report.unclean:
                undone = f"and not proven to be undone ({'; '.join(report.unclean)})"
            if options.store is not None:
                undone += f", to be uploaded with: zonequake upload {folder}"
            raise KeyboardInterrupt(f"zonequake: interrupted {undone}, {folder}")
        ended = judge_run(options, ran, report, console)
        if ended.not_told:
            raise HarnessError(ended.not_told)
        result = Result(
            document=read_document(ended.folder),
            folder=ended.folder,
            seed=seed,
            replay=f"{self._replay} --zonequake-seed {seed}",
        )
        self.results.append(result)
        if ended.not_stored:
            raise HarnessError(ended.not_stored)
        return result

    def close(self) -> list[str]:
        """Undoes what an aborted run left; returns what could not be undone."""
        owing = [folder for folder in self._folders if CleanupJournal(folder).debts]
        runs = [find_run(str(folder), lambda: self._place) for folder in owing]
        return [problem for run in runs for problem in uvloop.run(clean_run(run)).problems]

    @property
    def _spec(self) -> dict[str, Any]:
        spec = self._document["spec"]
        assert isinstance(spec, dict)
        return spec


def _begin(name: str, marked: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the manifest to begin with: that of the scenario, or one with only the zones."""
    scenario, zones = marked.get("scenario"), marked.get("zones")
    if (scenario is None) == (zones is None):
        raise ManifestError("@pytest.mark.zonequake: expected either zones=... or scenario=...")
    pools = marked.get("pools")
    if scenario is not None:
        shipped = manifest.shipped()
        manifest.load(str(scenario))
        document = yaml.safe_load(shipped.get(str(scenario)) or Path(scenario).read_text())
        assert isinstance(document, dict)
    else:
        assert zones is not None
        document = {
            "apiVersion": "zonequake.io/v1alpha1",
            "kind": "ChaosRun",
            "metadata": {"name": name},
            "spec": {
                "pools": [],
                "zones": [{"name": zone, **_named(fields)} for zone, fields in zones.items()],
            },
        }
        pools = pools or {"default": 3}
    if pools:
        document["spec"]["pools"] = [
            {"name": pool, "replicas": replicas} for pool, replicas in pools.items()
        ]
    return document


def _named(fields: Mapping[str, object]) -> dict[str, object]:
    """Returns the fields with their names in a file."""
    return {file_name(name): value for name, value in fields.items()}


def _turn(place: ReleasePlace) -> Path:
    """Returns a folder that stands for the release, to lock among runs of this machine."""
    where = f"{place.kubeconfig} {place.context} {place.namespace} {place.release}"
    return (
        Path(tempfile.gettempdir()) / f"zonequake-{hashlib.sha256(where.encode()).hexdigest()[:12]}"
    )
