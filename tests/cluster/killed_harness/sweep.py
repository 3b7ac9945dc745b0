"""Kills the harness at each of its steps, cleans, and looks whether anything is left.

    python tests/cluster/killed_harness/sweep.py --kubeconfig FILE --results FILE [--seconds N]

needs a cluster that is up with the release installed, three data nodes, and nothing going on. Each
line of the results is one kill. Steps that stand there already are left out, so that the sweep can
be done in pieces; `--seconds` ends a piece. Ends with 1 if anything was left.

    record a whole run ─► its steps ─► for each, twice: run, killed there ─► clean ─► inspect
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from inspection import Inspector

HERE = Path(__file__).parent
SCENARIOS = tuple(sorted((HERE / "scenarios").glob("*.yaml")))
ENTRY = ("-c", "from zonequake_chaos.cli import main; main()")
RUN_S = 240.0
AS_BEFORE_S = 90.0
"""How long the cluster may take to be as before: pods that were killed start again."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """The `number`-th step of `kind` in a run of `scenario`, whose phase it was in."""

    scenario: str
    phase: str
    kind: str
    number: int


@dataclass(frozen=True, kw_only=True)
class Kill:
    """One round. `hit`: the run came to the step; `left`: what the inspection found afterwards."""

    step: Step | None
    way: str
    hit: bool
    clean_exit: int
    clean_s: float
    left: list[str]
    said: str

    @property
    def problem(self) -> bool:
        return bool(self.left) or self.clean_exit != 0


@dataclass(kw_only=True)
class Sweep:
    """Kills on one cluster, in a folder of its own."""

    kubeconfig: Path
    inspector: Inspector
    folder: Path

    def __post_init__(self) -> None:
        self.kinds = self.inspector.kinds()
        self.before = self.inspector.look(self.kinds)

    def record(self, scenario: Path) -> list[Step]:
        """The steps of a whole run."""
        notes, _, ended = self.run(scenario, ())
        found = [line.split("\t") for line in notes.read_text().splitlines()]
        # What a run of so few operations is worth doesn't matter, only that it was walked through.
        assert ended.returncode in (0, 2), ended.stdout[-2000:] + ended.stderr[-2000:]
        left = self.inspector.until_as(self.before, self.kinds, within_s=AS_BEFORE_S)
        assert not left, f"a run that nobody killed left {left}"
        return [
            Step(scenario=scenario.stem, phase=phase, kind=kind, number=int(number))
            for phase, kind, number in found
        ]

    def kill(self, step: Step, way: str) -> Kill:
        """A run that is killed at the step."""
        return self.kill_at(step.scenario, (re.escape(step.kind), str(step.number), way), step)

    def kill_at(self, name: str, moment: Sequence[str], step: Step | None = None) -> Kill:
        """A run that is killed at the moment (pattern, number, way), then `zonequake clean` in a
        new process, then a look."""
        notes, run, _ = self.run(HERE / "scenarios" / f"{name}.yaml", moment)
        started_s = time.monotonic()
        cleaned = self.clean(run if (run / "run.yaml").is_file() else None)
        clean_s = time.monotonic() - started_s
        left = self.inspector.until_as(self.before, self.kinds, within_s=AS_BEFORE_S)
        return Kill(
            step=step,
            way=moment[2],
            hit=notes.exists() and notes.read_text().endswith("died\n"),
            clean_exit=cleaned.returncode,
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
    ) -> tuple[Path, Path, subprocess.CompletedProcess[str]]:
        """A run that dies at the moment (pattern, number, way): its steps, folder and end."""
        run = self.folder / f"{scenario.stem}-{time.time_ns()}"
        notes = run.with_suffix(".steps")
        words = [*entry, str(notes), *moment, "--", "run", str(scenario)]
        words += ["--kubeconfig", str(self.kubeconfig), "--seed", "1", "--no-analyze"]
        return notes, run, self.command([*words, "--out", str(run)])

    def command(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """A Python process with these words."""
        return subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_S,
            env={**os.environ, "COLUMNS": "200"},
        )


def moments(steps: Sequence[Step], *, later: bool) -> Iterator[tuple[Step, str]]:
    """Each step in both ways. `later`: only what comes after the load began, since every scenario
    begins alike."""
    for step in steps:
        if not later or step.phase not in ("start", "setup", "preload"):
            yield step, "before"
            yield step, "after"


def sweep(kills: Sweep, results: Path, *, until_s: float) -> int:
    """All moments that the results don't hold yet; how many of all left something."""
    steps_file = results.with_suffix(".steps.json")
    if not steps_file.exists():
        recorded = [asdict(step) for scenario in SCENARIOS for step in kills.record(scenario)]
        steps_file.write_text(json.dumps(recorded, indent=1))
    steps = [Step(**found) for found in json.loads(steps_file.read_text())]
    lines = results.read_text().splitlines() if results.exists() else []
    done = {
        (found["step"]["scenario"], found["step"]["kind"], found["step"]["number"], found["way"])
        for found in map(json.loads, lines)
    }
    problems = sum(bool(f["left"]) or f["clean_exit"] != 0 for f in map(json.loads, lines))
    for number, scenario in enumerate(SCENARIOS):
        of_scenario = [step for step in steps if step.scenario == scenario.stem]
        for step, way in moments(of_scenario, later=number > 0):
            if (step.scenario, step.kind, step.number, way) in done:
                continue
            if time.monotonic() >= until_s:
                return problems
            kill = kills.kill(step, way)
            problems += kill.problem
            with results.open("a") as file:
                file.write(json.dumps(asdict(kill)) + "\n")
            if kill.left:  # else everything after it would be found to differ, too
                print(f"{kill.step} {way}: left {kill.left}", flush=True)
                kills.clean(None)
                kills.before = kills.inspector.look(kills.kinds)
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--kubectl", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=1e9)
    words = parser.parse_args()
    until_s = time.monotonic() + words.seconds
    folder = words.results.parent / f"{words.results.stem}-runs"
    folder.mkdir(parents=True, exist_ok=True)
    inspector = Inspector(
        kubectl=words.kubectl, kubeconfig=words.kubeconfig.resolve(), namespace="zonequake"
    )
    kills = Sweep(kubeconfig=words.kubeconfig.resolve(), inspector=inspector, folder=folder)
    problems = sweep(kills, words.results, until_s=until_s)
    lines = [json.loads(line) for line in words.results.read_text().splitlines()]
    hit = sum(line["hit"] for line in lines)
    print(f"{len(lines)} kills, {hit} of them hit, {problems} left something or were not proven")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
