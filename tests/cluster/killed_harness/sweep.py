"""Kills the harness at each of its steps, cleans, and looks whether anything is left.

    python -m tests.cluster.killed_harness.sweep --kubeconfig FILE --results FILE
        [--account FILE] [--seconds N] [--only PATTERN]

needs a cluster that is up with the release installed, three data nodes, one volume of limited size
that a pool `limited` has a claim on, and nothing going on. Each line of the results is one kill.
Steps that stand there already are left out, so that the sweep can be done in pieces; `--seconds`
ends a piece. With `--account` runs and cleaners use that kubeconfig, and only the inspection
the administrator's. Ends with 1 if anything was left.

    record a whole run ─► its steps ─► for each, in four ways: run, killed there ─► clean ─► inspect
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.killed_harness.inspection import Inspector

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SCENARIOS = tuple(sorted((HERE / "scenarios").glob("*.yaml")))
PLANTED = ("-m", "tests.cluster.killed_harness.planted")
ENTRY = ("-c", "from zonequake_chaos.commands.cli import main; main()")
RUN_S = 240.0
AS_BEFORE_S = 90.0
"""How long the cluster may take to be as before: pods that were killed start again."""


BEGINNING = ("start", "setup", "preload", "before")


@dataclass(frozen=True, kw_only=True)
class Step:
    """The `number`-th step of `kind` within a phase of a run of `scenario`."""

    scenario: str
    phase: str
    kind: str
    number: int

    @property
    def in_words(self) -> str:
        return f"{self.phase}: {self.kind}"


@dataclass(frozen=True, kw_only=True)
class Kill:
    """One round. `hit`: the run came to the step; `left`: what the inspection found afterwards.

    `way`: `before` the step, `during` it, `after` it, or after it with the run's folder `lost`.
    """

    step: Step | None
    way: str
    hit: bool
    clean_exit: int
    run_s: float
    clean_s: float
    left: list[str]
    said: str

    @property
    def problem(self) -> bool:
        return bool(self.left) or self.clean_exit != 0


@dataclass(kw_only=True)
class Sweep:
    """Kills on one cluster, in a folder of its own; runs and cleaners use `kubeconfig`."""

    kubeconfig: Path
    inspector: Inspector
    folder: Path

    def __post_init__(self) -> None:
        self.kinds = self.inspector.kinds()
        self.before = self.inspector.look(self.kinds)
        while (now := self.inspector.look(self.kinds)) != self.before:
            self.before = now  # something is going on still

    def record(self, scenario: Path) -> list[Step]:
        """The steps of a whole run."""
        notes, run, ended = self.run(scenario, ())
        found = [line.split("\t") for line in notes.read_text().splitlines()]
        # What a run of so few operations is worth doesn't matter, only that it was walked through.
        assert ended.returncode in (0, 2), ended.stdout[-2000:] + ended.stderr[-2000:]
        events = (run / "events.jsonl").read_text()
        assert '"fault.missed"' not in events, "a fault that wasn't done has steps that are unknown"
        left = self.inspector.until_as(self.before, self.kinds, within_s=AS_BEFORE_S)
        assert not left, f"a run that was not killed left {left}"
        return [
            Step(scenario=scenario.stem, phase=phase, kind=kind, number=int(number))
            for phase, kind, number in found
        ]

    def kill(self, step: Step, way: str) -> Kill:
        """A run that is killed at the step; it does no faults but the one that the step is of."""
        moment = (re.escape(step.in_words), str(step.number), way)
        return self.kill_at(step.scenario, moment, step, only=_needed(step))

    def kill_at(
        self,
        name: str,
        moment: tuple[str, str, str],
        step: Step | None = None,
        *,
        only: Sequence[dict[str, Any]] = (),
    ) -> Kill:
        """A run that is killed at the moment (pattern, number, way), then `zonequake clean` in a
        new process, then a look. `only`: its faults, instead of all of the scenario's."""
        pattern, number, way = moment
        dies = "after" if way == "lost" else way
        started_s = time.monotonic()
        notes, run, _ = self.run(scenario_file(name), (pattern, number, dies), only=only)
        died_s = time.monotonic()
        if way == "lost":
            shutil.rmtree(run)
        cleaned = self.clean(run if (run / "run.yaml").is_file() else None)
        clean_s = time.monotonic() - died_s
        left = self.inspector.until_as(self.before, self.kinds, within_s=AS_BEFORE_S)
        return Kill(
            step=step,
            way=way,
            hit=notes.exists() and notes.read_text().endswith("died\n"),
            clean_exit=cleaned.returncode,
            run_s=round(died_s - started_s, 1),
            clean_s=round(clean_s, 1),
            left=left,
            said=(cleaned.stdout + cleaned.stderr)[-600:],
        )

    def clean(self, run: Path | None) -> subprocess.CompletedProcess[str]:
        """`zonequake clean` of the folder; of everything, where the run had no time to make one."""
        which = [str(run)] if run is not None else ["--all", "--kubeconfig", str(self.kubeconfig)]
        return self.command([*ENTRY, "clean", *which])

    def run(
        self,
        scenario: Path,
        moment: Sequence[str],
        *,
        entry: Sequence[str] = (str(HERE / "mortal.py"),),
        only: Sequence[dict[str, Any]] = (),
    ) -> tuple[Path, Path, subprocess.CompletedProcess[str]]:
        """A run that dies at the moment (pattern, number, way): its steps, folder and end."""
        run = self.folder / f"{scenario.stem}-{time.time_ns()}"
        notes = run.with_suffix(".steps")
        words = [*entry, str(notes), *moment, "--", "run", str(scenario)]
        words += ["--kubeconfig", str(self.kubeconfig), "--seed", "1", "--no-analyze"]
        words += ["--set", f"faults={json.dumps(only)}"] if only else []
        return notes, run, self.command([*words, "--out", str(run)])

    def command(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """A Python process with these words."""
        return subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_S,
            cwd=ROOT,
            env={**os.environ, "COLUMNS": "200"},
        )


def scenario_file(name: str) -> Path:
    return HERE / "scenarios" / f"{name}.yaml"


def faults_of(scenario: str, name: str | None = None) -> list[dict[str, Any]]:
    """The scenario's faults, or the one of that name."""
    faults = yaml.safe_load(scenario_file(scenario).read_text())["spec"]["faults"]
    return [fault for fault in faults if name in (None, fault["name"])]


def _needed(step: Step) -> list[dict[str, Any]]:
    """The fault that the step is of; behind them one is enough, and none will be done before."""
    if step.phase in BEGINNING:
        return []
    name = step.phase.removeprefix("faults/")
    return faults_of(step.scenario, name) or faults_of(step.scenario)[:1]


def _key(step: Step) -> tuple[str, str, int]:
    """What is the same in all scenarios."""
    return step.phase, step.kind, step.number


def moments(recorded: Sequence[Step]) -> Iterator[tuple[Step, str]]:
    """Each step in its ways, what differs most first.

    Scenarios begin and end alike: what an earlier one did in the same phase is left out. Last come
    what a phase does again and again, and syncs of the journal: a line that was written is there
    for the next process, synced or not.
    """
    steps: dict[tuple[str, str, int], Step] = {}
    for step in recorded:
        steps.setdefault(_key(step), step)
    chief = [
        step
        for step in steps.values()
        if step.kind == "journal write" or (step.number == 1 and step.kind != "journal fsync")
    ]
    rest = [step for step in steps.values() if step not in chief]
    deeds: dict[str, Step] = {}
    for step in chief:
        if step.phase.startswith("faults/") and step.kind != "journal write":
            deeds.setdefault(step.phase, step)
    yield from ((step, "after") for step in chief)
    yield from ((s, "during") for s in chief if s.kind.startswith(("command", "exec")))
    yield from ((step, "before") for step in chief)
    yield from ((step, "lost") for step in deeds.values())
    yield from ((step, way) for step in rest for way in ("after", "before"))


def sweep(kills: Sweep, results: Path, *, until_s: float, only: str) -> None:
    """All moments that the results don't hold yet."""
    steps_file = results.with_suffix(".steps.json")
    recorded = json.loads(steps_file.read_text()) if steps_file.exists() else {}
    for scenario in SCENARIOS:
        if scenario.stem not in recorded:
            recorded[scenario.stem] = [asdict(step) for step in kills.record(scenario)]
            steps_file.write_text(json.dumps(recorded, indent=1))
    steps = [Step(**found) for name in sorted(recorded) for found in recorded[name]]
    lines = results.read_text().splitlines() if results.exists() else []
    done = {(*_key(Step(**found["step"])), found["way"]) for found in map(json.loads, lines)}
    for step, way in moments(steps):
        if (*_key(step), way) in done or not re.search(only, f"{step.in_words} {way}"):
            continue
        if time.monotonic() >= until_s:
            break
        kill = kills.kill(step, way)
        with results.open("a") as file:
            file.write(json.dumps(asdict(kill)) + "\n")
        if kill.problem:
            print(f"{step} {way}: {kill.clean_exit} {kill.said} left {kill.left}", flush=True)
        if kill.left:  # else everything after it would be found to differ, too
            kills.clean(None)
            kills.before = kills.inspector.look(kills.kinds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--kubectl", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--account", type=Path)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--only", default="", help="a pattern that the step and its way must match")
    words = parser.parse_args()
    until_s = time.monotonic() + words.seconds
    folder = words.results.parent / f"{words.results.stem}-runs"
    folder.mkdir(parents=True, exist_ok=True)
    inspector = Inspector(
        kubectl=words.kubectl, kubeconfig=words.kubeconfig.resolve(), namespace="zonequake"
    )
    account = (words.account or words.kubeconfig).resolve()
    kills = Sweep(kubeconfig=account, inspector=inspector, folder=folder)
    sweep(kills, words.results, until_s=until_s, only=words.only)
    lines = [json.loads(line) for line in words.results.read_text().splitlines()]
    hit = sum(line["hit"] for line in lines)
    problems = sum(bool(line["left"]) or line["clean_exit"] != 0 for line in lines)
    print(f"{len(lines)} kills, {hit} of them hit, {problems} left something or were not proven")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
