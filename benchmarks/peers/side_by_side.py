"""All comparisons with peers in one run, ratios first, into docs/performance.md.

    python -m benchmarks.peers.side_by_side [--write docs/performance.md]

Takes about 13 minutes, as root on an otherwise idle machine. `--write` replaces what stands between
the two marks in that file; without it the text is only printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- side by side: begin -->", "<!-- side by side: end -->"
ANALYZED = 1_000_000

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One comparison. `more_is_better`: of a rate; else of a time or a cost."""

    what: str
    ours: float | None
    peer: str
    theirs: float | None
    more_is_better: bool = False

    def cells(self) -> list[str]:
        """Ratio, verdict, and the two figures."""
        if self.ours is None or self.theirs is None:
            return ["", self.what, _text(self.ours), f"{self.peer}: {_text(self.theirs)}", ""]
        ratio = self.ours / self.theirs if self.theirs else None
        winner = "alike"
        if ratio is None or not 0.95 <= ratio <= 1.05:
            is_ours = (self.ours > self.theirs) == self.more_is_better
            winner = "**ours**" if is_ours else self.peer
        return [
            _text(ratio),
            self.what,
            _text(self.ours),
            f"{self.peer}: {_text(self.theirs)}",
            winner,
        ]


def _text(value: float | None) -> str:
    if value is None:
        return "none"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def figures_of(program: str, folder: Path) -> Document:
    """What one of the programs beside this one found; it prints its own table too."""
    print(f"=== {program}", flush=True)
    found = folder / f"{program}.json"
    module = f"benchmarks.peers.{program}"
    subprocess.run([sys.executable, "-m", module, "--json", str(found)], cwd=ROOT, check=True)
    document: Document = json.loads(found.read_text())
    return document


def beside_etcd(document: Document) -> Iterator[Line]:
    for row in document["rows"]:
        yield Line(
            what=row["what"],
            ours=row["zonequake"],
            peer="etcd",
            theirs=row["etcd"],
            more_is_better=row["what"].endswith("writes/s"),
        )


def beside_porcupine(document: Document) -> Iterator[Line]:
    """Seconds to a verdict; the whole analysis does more than a verdict on one property."""
    theirs: dict[str, Document] = {}
    for row in document["rows"]:
        if row["engine"] == "Porcupine":
            theirs[row["history"]] = row
        if not row["engine"].startswith("ours"):
            continue
        peer = theirs[row["history"]]
        said = "Porcupine" if peer["verdict"] != "unknown" else "Porcupine, undecided"
        yield Line(
            what=f"{row['history']}: s, {row['engine']}",
            ours=row["s"] if row["verdict"] != "unknown" else None,
            peer=said,
            theirs=peer["s"],
        )


def beside_duckdb(folder: Path) -> Iterator[Line]:
    module = "benchmarks.analysis.bench_analysis"
    print(f"=== {module}", flush=True)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            module,
            f"--operations={ANALYZED}",
            f"--folder={folder / 'analysis'}",
        ],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        check=True,
    )
    engines = {
        row["engine"]: row for row in map(json.loads, done.stdout.splitlines()) if "engine" in row
    }
    for key, text in (("seconds", "s"), ("cpu_seconds", "CPU s"), ("peak_gib", "GiB at most")):
        yield Line(
            what=f"analysis of {ANALYZED:,} operations, all checks: {text}",
            ours=engines["spark"][key],
            peer="DuckDB, fewer",
            theirs=engines["duckdb"][key],
        )


def beside_bare_control_plane(document: Document) -> Iterator[Line]:
    for row in document["rows"]:
        yield Line(
            what=f"start of a cluster: {row['what']}",
            ours=row["embedded cluster"],
            peer="etcd and API server alone",
            theirs=row["bare control plane"],
        )


def section(folder: Path) -> str:
    """The Markdown between the marks."""
    load = os.getloadavg()[0]
    lines = [
        *beside_etcd(figures_of("writes", folder)),
        *beside_etcd(figures_of("failover", folder)),
        *beside_porcupine(figures_of("linearizability", folder)),
        *beside_duckdb(folder),
        *beside_bare_control_plane(figures_of("cluster_start", folder)),
    ]
    table = ["| ours / peer | what | ours | peer | better |", "| --- | --- | --- | --- | --- |"]
    table += ["| " + " | ".join(line.cells()) + " |" for line in lines]
    said = f"{datetime.now(UTC):%Y-%m-%d}, load average {load:.2f} before."
    return "\n".join([said, "", *table]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", type=Path, help="replace the section in this file")
    file: Path | None = parser.parse_args().write
    if file is not None and not {BEGIN, END} <= set(file.read_text().splitlines()):
        sys.exit(f"found no lines {BEGIN!r} and {END!r} in {file}: add them where it shall stand")
    with tempfile.TemporaryDirectory() as folder:
        text = section(Path(folder))
    print(text)
    if file is not None:
        before, _, rest = file.read_text().partition(f"{BEGIN}\n")
        _, _, after = rest.partition(f"{END}\n")
        file.write_text(f"{before}{BEGIN}\n{text}{END}\n{after}")


if __name__ == "__main__":
    main()
