"""Runs every shipped scenario as it is shipped, as often as it must pass, and says what came of it.

    python -m benchmarks.scenarios.sweep --folder FOLDER [NAME[=RUNS] ...] [--seconds N] [--table]

as root, on an embedded cluster, which it starts and installs if there is none. Without names all
scenarios are run: those of `OFTEN` ten times, every other one five times, in rounds, so that a
sweep that is broken off has seen them all as far as possible. What FOLDER/results.jsonl has is not
done again: the same command goes on. `--seconds`: no further run begins after so long; `--table`:
only print what there is. Ends with 0 if each run that was asked for was made and ended as it must.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from zonequake_chaos.scenario import manifest

OFTEN = ("rolling-restart", "ha-rolling-restart", "ha-majority-lost", "ha-five-of-seven-lost")
RUNS_OFTEN, RUNS = 10, 5

AGAINST_ETCD = ("local-reads",)
"""Their reads claim more than they keep, which is etcd's word for them, and must be found."""

MUST_END = {"local-reads": 1}
"""Exit codes of those that are not to pass."""

ON_LIMITED_VOLUMES = {
    "disk-full": (),
    "power-loss": ("pools=[{name: default, replicas: 0}, {name: limited, replicas: 3}]",),
}
"""Scenarios for volumes that are file systems of their own, with what puts all nodes on them."""

INSTALL = (
    "nodePools[0].name=default",
    "nodePools[0].replicas=3",
    "nodePools[1].name=limited",
    "nodePools[1].replicas=0",
    "nodePools[1].storage.className=limited",
    "nodePools[1].storage.size=128Mi",
)
"""The chart's values, and the pool that those scenarios need (docs/faults.md)."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One run. Times in ms, None where nothing was measured."""

    scenario: str
    seed: int
    exit_code: int
    verdict: str
    headline: str
    took_s: float
    load_before: float
    longest_window_ms: float | None = None
    p99_before_ms: float | None = None
    p99_control_ms: float | None = None
    p99_during_ms: float | None = None

    @property
    def as_it_must(self) -> bool:
        return self.exit_code == MUST_END.get(self.scenario, 0)


def wanted(names: Iterable[str], shipped: Sequence[str]) -> dict[str, int]:
    """How often each scenario is to be run. `names`: `NAME` or `NAME=RUNS`; none: all.

    Raises ValueError for a name that isn't shipped or a number that is none.
    """
    runs = {name: RUNS_OFTEN if name in OFTEN else RUNS for name in shipped}
    given = list(names)
    if not given:
        return runs
    asked = {}
    for text in given:
        name, _, number = text.partition("=")
        if name not in runs:
            raise ValueError(f"{name!r} is no shipped scenario: {', '.join(shipped)}")
        asked[name] = int(number) if number else runs[name]
    return asked


def remaining(runs: Mapping[str, int], done: Sequence[Result]) -> Iterator[tuple[str, int]]:
    """What is left to do, as (scenario, seed), round by round."""
    made = {(result.scenario, result.seed) for result in done}
    for seed in range(1, max(runs.values(), default=0) + 1):
        for name, number in runs.items():
            if seed <= number and (name, seed) not in made:
                yield name, seed


def table(runs: Mapping[str, int], done: Sequence[Result]) -> str:
    """Markdown: a row for each scenario, and below it each run that did not end as it must."""
    lines = [
        "| scenario | ended as it must | longest window ms | p99 ms before; control; during | s |",
        "| --- | --- | --- | --- | --- |",
    ]
    wrong = []
    for name, number in runs.items():
        own = [result for result in done if result.scenario == name]
        if not own:
            lines.append(f"| `{name}` | 0 of 0, {number} asked for |  |  |  |")
            continue
        good = sum(result.as_it_must for result in own)
        left = f", {number - len(own)} not made" if len(own) < number else ""
        p99s = [
            _spread([getattr(result, field) for result in own])
            for field in ("p99_before_ms", "p99_control_ms", "p99_during_ms")
        ]
        lines.append(
            f"| `{name}` | {good} of {len(own)}{left} | "
            f"{_spread([result.longest_window_ms for result in own])} | {'; '.join(p99s)} | "
            f"{statistics.median(result.took_s for result in own):.0f} |"
        )
        wrong += [
            f"- `{name}`, seed {result.seed}, load {result.load_before:.1f} before: "
            f"{result.verdict} ({result.exit_code}): {result.headline}"
            for result in own
            if not result.as_it_must
        ]
    return "\n".join([*lines, *([""] if wrong else []), *wrong])


def _spread(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    least, most = f"{min(known):,.0f}", f"{max(known):,.0f}"
    return least if least == most else f"{least} to {most}"


def read_results(folder: Path) -> list[Result]:
    """What was done so far; a line that a crash cut short counts as not done."""
    file = folder / "results.jsonl"
    results = []
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            results.append(Result(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return results


def run_one(name: str, seed: int, folder: Path) -> Result:
    """One run in a folder of its own. What a broken-off one left there is put aside and undone."""
    out = folder / f"{name}-{seed}"
    if out.exists():
        _zonequake("clean", "--all")
        shutil.move(out, out.with_name(f"{out.name}-broken-off-{time.time_ns()}"))
    if name in ON_LIMITED_VOLUMES:
        _limit_volumes()
    target = ["--target", "etcd"] if name in AGAINST_ETCD else []
    changed = [word for each in ON_LIMITED_VOLUMES.get(name, ()) for word in ("--set", each)]
    load_before, begun_s = os.getloadavg()[0], time.monotonic()
    log = folder / f"{name}-{seed}.log"
    with log.open("w") as file:
        code = subprocess.run(
            [*_command(), "run", name, "--seed", str(seed), "--out", str(out), *target, *changed],
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "COLUMNS": "180"},
            check=False,
        ).returncode
    took_s = time.monotonic() - begun_s
    said = _document(out)
    numbers = said.get("numbers", {})
    return Result(
        scenario=name,
        seed=seed,
        exit_code=code,
        verdict=str(said.get("verdict", "not begun")),
        headline=str(said.get("headline") or log.read_text().strip()[-300:]),
        took_s=round(took_s, 1),
        load_before=load_before,
        longest_window_ms=numbers.get("longest_window_certain_ms"),
        p99_before_ms=numbers.get("p99_before_ms"),
        p99_control_ms=numbers.get("p99_control_ms"),
        p99_during_ms=numbers.get("p99_during_ms"),
    )


def _document(out: Path) -> dict[str, Any]:
    try:
        found = json.loads((out / "verdict.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _command() -> list[str]:
    return [str(Path(sys.executable).parent / "zonequake")]


def _zonequake(*arguments: str) -> None:
    subprocess.run([*_command(), *arguments], check=True)


def _limit_volumes() -> None:
    """Makes volumes of limited size free, also those that a run before has used."""
    _zonequake("cluster", "limited-volumes", "--count", "3", "--mebibytes", "192")


def prepare(names: Iterable[str]) -> None:
    """Starts the embedded cluster and installs the release, with what the scenarios need."""
    _zonequake("cluster", "up")
    if ON_LIMITED_VOLUMES.keys() & set(names):
        _limit_volumes()
        _zonequake("install", *(word for value in INSTALL for word in ("--set", value)))
    else:
        _zonequake("install")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME[=RUNS]")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    try:
        runs = wanted(given.names, sorted(manifest.shipped()))
    except ValueError as error:
        parser.error(str(error))
    given.folder.mkdir(parents=True, exist_ok=True)
    left = list(remaining(runs, read_results(given.folder)))
    if left and not given.table:
        prepare(runs)
        end_s = time.monotonic() + given.seconds
        for number, (name, seed) in enumerate(left, 1):
            if time.monotonic() >= end_s:
                break
            result = run_one(name, seed, given.folder)
            with (given.folder / "results.jsonl").open("a") as file:
                file.write(json.dumps(asdict(result)) + "\n")
            mark = "as it must" if result.as_it_must else "NOT AS IT MUST"
            print(
                f"{number} of {len(left)}: {name}, seed {seed}: {result.verdict}, {mark} "
                f"({result.took_s:.0f} s): {result.headline}",
                flush=True,
            )
    done = [result for result in read_results(given.folder) if result.scenario in runs]
    print(f"\n{table(runs, done)}")
    complete = not list(remaining(runs, done))
    return 0 if complete and all(result.as_it_must for result in done) else 1


if __name__ == "__main__":
    sys.exit(main())
