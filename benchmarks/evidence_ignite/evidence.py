"""Puts Apache Ignite and our own store through the same scenarios; takes hours.

    python -m benchmarks.evidence_ignite.evidence [NAME ...] [--seconds N] [--page]

as root, on an embedded cluster, which it starts and installs if there is none. Each run that was
judged is a line of docs/evidence/ignite-3.1.jsonl at once: the same command goes on where it was
broken off. It then writes docs/evidence/ignite-3.1.md, with a picture of each row whose runs on
both systems are still here. `--page`: only that. `--seconds`: no further run begins after so long.
Ends with 0 if nothing is left to do, 2 if something is, and why it can't be run is printed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks.evidence_ignite.altering import altering_beside
from benchmarks.evidence_ignite.control import build_control
from benchmarks.evidence_ignite.page import RELEASE, page
from benchmarks.evidence_ignite.picture import picture
from benchmarks.evidence_ignite.rows import Done, Next, Row, System, done_of, first_of, read_rows
from benchmarks.evidence_ignite.rules_table import MappedRules, Stated, read_rules
from benchmarks.evidence_ignite.seen import seen
from benchmarks.record.loop import Work, asked, run_all
from benchmarks.record.runs import EVIDENCE, ROOT, Asked, judged, read_lines, zonequake
from tests.rules_audit import rules_table
from zonequake_chaos.kit.registry import find_target
from zonequake_chaos.kit.target_suitability import check_suited
from zonequake_chaos.scenario import manifest
from zonequake_chaos.scenario.alive_floor import check_plan
from zonequake_chaos.scenario.run import ChaosRun, with_target
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_kube.errors import ChaosError

LIST = Path(__file__).with_name("rows.yaml")
RULES = Path(__file__).with_name("rules.yaml")
SCENARIOS = Path(__file__).with_name("scenarios")
RESULTS = EVIDENCE / "ignite-3.1.jsonl"
PAGE = EVIDENCE / "ignite-3.1.md"
RUNS = ROOT / ".zonequake" / "evidence-ignite"
VOLUME_MIB = 1536
INSTALL = (
    "nodePools[0].name=default",
    "nodePools[0].replicas=3",
    "nodePools[1].name=limited",
    "nodePools[1].replicas=0",
    "nodePools[1].storage.className=limited",
    "nodePools[1].storage.size=448Mi",
)
"""The chart's values, and the pool whose volumes are file systems of their own (docs/faults.md)."""


RATES = (
    *("load.registerRate=40", "load.listRate=20", "load.processes=16", "load.probeRate=80"),
    "times.beforeSeconds=20",
)
"""What three Ignite nodes serve on two processors; both systems are given the same."""


def scenario_of(row: Row) -> str:
    """Returns the file of a scenario that only this list has, or the name of a shipped one."""
    own = SCENARIOS / f"{row.scenario}.yaml"
    return str(own) if own.is_file() else row.scenario


def overrides_of(row: Row, system: System) -> list[str]:
    """Returns the overrides of a row's runs on one system."""
    return [*RATES, *row.given(system)]


def planned(row: Row, system: System) -> ChaosRun:
    """Returns the run of a row. Raises ChaosError if the system can't be put through it."""
    run = manifest.load(scenario_of(row), overrides_of(row, system))
    check_plan(run)
    check_suited(find_target(system.target), run)
    return with_target(run, name=system.target)


def obstacle(row: Row) -> str | None:
    """Returns why a row can't be run by this version, or None."""
    for system in row.systems:
        try:
            planned(row, system)
        except ChaosError as error:
            return f"{system}: {error}"
    return None


def folder_of(row: Row, system: System, seed: int) -> Path:
    return RUNS / f"{row.name}-{system}-{seed}"


def run_one(row: Row, run: Next) -> Done:
    """Makes one run. Raises ChaosError, also if it could not be judged."""
    if row.volumes:
        volumes = ("--count", str(row.volumes), "--mebibytes", str(VOLUME_MIB))
        zonequake("cluster", "limited-volumes", *volumes)
    out = folder_of(row, run.system, run.seed)
    wanted = Asked(
        scenario=scenario_of(row),
        seed=run.seed,
        out=out,
        target=run.system.target,
        image=_control_image() if run.system is System.CONTROL else "",
        overrides=overrides_of(row, run.system),
    )
    document, took_s = judged(wanted, _beside(row, run, out))
    version = str(document["run"].get("target") or run.system)
    return done_of(row, run, document, version=version, took_s=took_s)


def _control_image() -> str:
    """Builds the control and loads it into the embedded cluster, unless that has it."""
    built = build_control(print)
    cluster = EmbeddedCluster(None, say=print)
    if built.ref not in cluster.images():
        cluster.load_image(built.archive)
    return built.ref


def _beside(row: Row, run: Next, out: Path) -> AbstractContextManager[None] | None:
    if row.beside is None:
        return None
    (zone,) = planned(row, run.system).spec.zones
    kubeconfig = EmbeddedCluster(None, say=print).kubeconfig
    return altering_beside(row.beside, run.system, zone=zone.name, out=out, kubeconfig=kubeconfig)


def rules_of(rows: Sequence[Row]) -> MappedRules:
    """Reads which rows show which rules of docs/rules.md. Raises ValueError."""
    stated = [
        Stated(each.section, each.rule) for each in rules_table.rows(rules_table.PAGE.read_text())
    ]
    return read_rules(RULES.read_text(), rows, stated)


def write_page(rows: Sequence[Row], drawn: Sequence[Row], rules: MappedRules) -> None:
    """Writes the page, and the pictures of the rows `drawn` whose runs are here; others stay."""
    for row in drawn:
        if (content := _drawn(row)) is not None:
            _picture(row).write_text(content)
    PAGE.write_text(page(rows, read_lines(RESULTS, Done), pictures(rows), rules))


def pictures(rows: Sequence[Row], folder: Path = EVIDENCE) -> dict[str, str]:
    """Returns the file names of the pictures that are in the folder, by the names of their rows."""
    found = {row.name: _picture(row).name for row in rows}
    return {name: file for name, file in found.items() if (folder / file).exists()}


def _picture(row: Row) -> Path:
    return EVIDENCE / f"ignite-3.1-{row.name}.svg"


def _drawn(row: Row) -> str | None:
    """Returns a picture of the first seed whose runs on both systems are here."""
    if not row.with_ours:
        return None
    for seed in range(1, row.runs + 1):
        ignite = seen(folder_of(row, System.IGNITE, seed))
        ours = seen(folder_of(row, System.OURS, seed))
        if ignite is not None and ours is not None:
            title = f"{row.scenario}, seed {seed}"
            return picture(title, {f"Ignite {RELEASE}": ignite, "our store": ours})
    return None


def begin() -> None:
    zonequake("cluster", "up")
    zonequake("install", *(word for each in INSTALL for word in ("--set", each)))


def main() -> int:
    rows = read_rows(LIST.read_text())
    rules = rules_of(rows)
    given = asked(None, __doc__, rows, LIST)
    work = Work(
        results=RESULTS,
        obstacle=obstacle,
        first=lambda to_run: first_of(to_run, read_lines(RESULTS, Done)),
        begin=begin,
        run_one=run_one,
        write=lambda row: write_page(rows, [row], rules),
        label=lambda run: f"{run.system}, seed {run.seed}",
        goes_on=True,
    )
    left = run_all(work, rows, given)
    write_page(rows, rows if given.page else [], rules)
    return 2 if left else 0


if __name__ == "__main__":
    sys.exit(main())
