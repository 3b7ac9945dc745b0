"""Runs the groups of checks in order, each to its end, and prints what failed and how long it took.

    scripts/run_tests.py [GROUP...]     all groups, or those named

Ends with 1 if any group failed. With CI=true in the environment a skipped test counts as a failure,
unless its reason stands in the table "Tests that may be skipped" of docs/testing.md: a check that
silently doesn't run is worse than none.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
ALLOWED_SKIPS_PAGE = ROOT / "docs" / "testing.md"
ALLOWED_SKIPS_HEADING = "## Tests that may be skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group: its commands run until the first that fails; `folder` makes it a pytest group."""

    name: str
    commands: tuple[tuple[str, ...], ...] = ()
    folder: str | None = None
    options: tuple[str, ...] = ()
    limit_s: int = 600


GROUPS = (
    Group(
        name="lint",
        commands=(
            ("ruff", "check", "."),
            ("ruff", "format", "--check", "."),
            ("mypy",),
            ("lint-imports",),
        ),
    ),
    Group(
        name="programs",  # compiled once, for the groups below; minutes on a fresh machine
        commands=(
            ("python", "-c", "from zonequake_chaos.cluster import tools; tools.helm_path()"),
        ),
        limit_s=1500,
    ),
    Group(name="unit", folder="tests/unit", options=("-n", "2")),
    Group(name="simulation", folder="tests/simulation", options=("-n", "2"), limit_s=900),
    Group(name="processes", folder="tests/processes", options=("-n", "2"), limit_s=1800),
    Group(name="chart", folder="tests/chart", limit_s=900),
    # By files: the tests of one share a zone, which takes a while to begin.
    Group(
        name="kube", folder="tests/kube", options=("-n", "2", "--dist", "loadfile"), limit_s=1200
    ),
    Group(name="spark", folder="tests/spark"),
    Group(name="foreign", folder="tests/foreign", limit_s=1200),  # compiles, the first time
    Group(name="model", folder="tests/model", limit_s=1200),
    Group(name="cluster", folder="tests/cluster", limit_s=2700),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a group ended; `problem` is empty if it passed."""

    name: str
    duration_s: float
    tests: int
    problem: str


def main(names: list[str]) -> int:
    """Runs the groups with these names, all if there are none."""
    known = {group.name: group for group in GROUPS}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no such group: {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 254
    outcomes = [run_group(known[name]) for name in (names or list(known))]
    print(f"\n{'group':<12} {'tests':>6} {'time':>8}  result")
    for outcome in outcomes:
        tests = str(outcome.tests) if outcome.tests else ""
        result = outcome.problem or "passed"
        print(f"{outcome.name:<12} {tests:>6} {outcome.duration_s:>6.1f} s  {result}")
    print(f"{'all':<12} {'':>6} {sum(outcome.duration_s for outcome in outcomes):>6.1f} s")
    return 1 if any(outcome.problem for outcome in outcomes) else 0


def run_group(group: Group) -> Outcome:
    """Runs one group to its end or its limit."""
    print(f"\n=== {group.name}", flush=True)
    start_s = time.monotonic()
    tests, problem = _pytest(group) if group.folder else (0, _commands(group))
    return Outcome(
        name=group.name, duration_s=time.monotonic() - start_s, tests=tests, problem=problem
    )


def _commands(group: Group) -> str:
    failed = [" ".join(command) for command in group.commands if _run(command, group.limit_s) != 0]
    return f"FAILED: {', '.join(failed)}" if failed else ""


def _pytest(group: Group) -> tuple[int, str]:
    assert group.folder
    if not (ROOT / group.folder).is_dir():
        return 0, f"FAILED: there is no folder {group.folder}"
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "junit.xml"
        command = ("pytest", "-q", *group.options, f"--junitxml={results}", group.folder)
        code = _run(command, group.limit_s)
        tests, skips = read_results(results) if results.exists() else (0, [])
    if code != 0:
        return tests, f"FAILED: pytest ended with {code}"
    if tests == len(skips):
        return tests, "FAILED: no test ran"
    refused = [skip for skip in skips if skip not in allowed_skips(ALLOWED_SKIPS_PAGE.read_text())]
    if refused and os.environ.get("CI") == "true":
        return tests, f"FAILED: {len(refused)} skipped, for instance: {refused[0]}"
    return tests, ""


def read_results(path: Path) -> tuple[int, list[str]]:
    """The number of tests in a JUnit file, and the reason of each that was skipped."""
    cases = list(ElementTree.parse(path).iter("testcase"))  # noqa: S314  pytest wrote it just now
    skipped = [skip for case in cases for skip in case.findall("skipped")]
    return len(cases), [skip.get("message", "") for skip in skipped]


def allowed_skips(page: str) -> set[str]:
    """The reasons in the table below the heading, the first column of each row."""
    section = page.partition(ALLOWED_SKIPS_HEADING)[2].partition("\n## ")[0]
    cells = re.findall(r"^\| `([^`]+)` \|", section, flags=re.MULTILINE)
    return set(cells)


def _run(command: tuple[str, ...], limit_s: int) -> int:
    print(f"--- {' '.join(command)}", flush=True)
    process = subprocess.Popen(
        [str(BIN / command[0]), *command[1:]],
        cwd=ROOT,
        start_new_session=True,  # so that a group over its limit ends with all its processes
        # A shell's background job ignores SIGINT, and its children with it; ours must not.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        return process.wait(timeout=limit_s)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            print(f"--- over its limit of {limit_s} s", flush=True)
            return 124
        raise


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
