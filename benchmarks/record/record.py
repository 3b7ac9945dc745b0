"""Repeats published faults of other systems, each beside the release that mends it; takes hours.

    python -m benchmarks.record.record [NAME ...] [--seconds N] [--page]

as root, on an embedded cluster, which it starts and installs if there is none. Each run that was
judged is a line of docs/evidence/record.jsonl at once: the same command goes on where it was broken
off. It then writes docs/evidence/record.md and the pictures of witnesses. `--page`: only that.
Ends with 0 if nothing is left to do, 2 if something is, and why it can't be run is printed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.record.beside import working_beside
from benchmarks.record.entries import Done, Entry, Next, first_of, read_done, read_entries
from benchmarks.record.loop import Work, asked, run_all
from benchmarks.record.page import page, witnesses
from benchmarks.record.runs import EVIDENCE, ROOT, Asked, judged, zonequake
from benchmarks.record.systems import prepared
from zonequake_chaos.scenario import manifest
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_kube.errors import ChaosError

LIST = Path(__file__).with_name("record.yaml")
SCENARIOS = Path(__file__).with_name("scenarios")
RESULTS = EVIDENCE / "record.jsonl"
RUNS = ROOT / ".zonequake" / "record"
VOLUME_MIB = 512


def obstacle(entry: Entry) -> str | None:
    """Returns why an entry can't be run by this version, or None."""
    try:
        manifest.load(scenario_of(entry), entry.overrides)
    except ChaosError as error:
        return str(error)
    return None


def scenario_of(entry: Entry) -> str:
    """Returns the file of a scenario that only the record has, or the name of a shipped one."""
    own = SCENARIOS / f"{entry.scenario}.yaml"
    return str(own) if own.is_file() else entry.scenario


def done_of(entry: Entry, run: Next, document: dict[str, Any], took_s: float) -> Done:
    """Returns what is kept of a run; `document` is its verdict.json."""
    bad = {c["name"]: c for c in document["checks"] if c["verdict"] == "violated"}
    told = [c for name in entry.checks for c in bad.get(name, {}).get("witnesses", [])]
    return Done(
        name=entry.name,
        release=run.release,
        seed=run.seed,
        verdict=document["verdict"],
        headline=document["headline"],
        violated=list(bad),
        witness=told[0] if told else "",
        took_s=round(took_s, 1),
    )


def run_one(entry: Entry, run: Next) -> Done:
    """Makes one run. Raises ChaosError, also if it could not be judged."""
    needed = prepared(entry, run.release)
    if entry.volumes:
        volumes = ("--count", str(entry.volumes), "--mebibytes", str(VOLUME_MIB))
        zonequake("cluster", "limited-volumes", *volumes)
    wanted = Asked(
        scenario=scenario_of(entry),
        seed=run.seed,
        out=RUNS / f"{entry.name}-{run.release}-{run.seed}",
        target=entry.system,
        image=needed.image,
        python_path=needed.python_path,
        overrides=entry.overrides,
    )
    document, took_s = judged(
        wanted, working_beside(entry.beside, EmbeddedCluster(None, say=print).kubeconfig)
    )
    return done_of(entry, run, document, took_s)


def write_page(entries: Sequence[Entry], done: Sequence[Done], folder: Path = EVIDENCE) -> None:
    """Writes the page and its pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "record.md").write_text(page(entries, done))
    for name, content in witnesses(entries, done).items():
        (folder / name).write_text(content)


def begin() -> None:
    zonequake("cluster", "up")
    zonequake("install")


def main() -> int:
    entries = read_entries(LIST.read_text())
    given = asked(None, __doc__, entries, LIST)
    work = Work(
        results=RESULTS,
        obstacle=obstacle,
        first=lambda to_run: first_of(to_run, read_done(RESULTS)),
        begin=begin,
        run_one=run_one,
        write=lambda _: write_page(entries, read_done(RESULTS)),
        label=lambda run: f"{run.release}, seed {run.seed}",
        goes_on=False,
    )
    left = run_all(work, entries, given)
    write_page(entries, read_done(RESULTS))
    return 2 if left else 0


if __name__ == "__main__":
    sys.exit(main())
