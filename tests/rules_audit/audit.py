"""Breaks each rule of docs/rules.md and docs/verdict-rules.md on purpose, and asks whether the
tests of its row notice it.

    python -m tests.rules_audit.audit [WORD...]

Looks at all rows, or at those whose rule or mutation has a WORD.

A mutation is applied to a copy of its package, never to the working tree, and the tests of the rows
that name it run against that copy. Ends with 1 if no test of a row notices one of its mutations, if
a test of a row notices none, if a mutation doesn't apply, or if a test fails without any.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.rules_audit.mutations import Mutation, apply, load, problems
from tests.rules_audit.rules_table import ROOT, TESTS, Row, all_rows, place, unit_tests

TEST_LIMIT_S = 60
"""Of one test: a mutation may make it run forever."""
PRELOADED = (
    *("hypothesis", "lmdb", "kubernetes.aio", "lark", "numpy", "pyarrow.parquet", "pyspark.sql"),
    *("re2", "yaml"),
)
"""What takes time to import, and nothing of ours: each mutation's process begins with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How the tests ran: those that failed, those that passed, and why they are no evidence."""

    failed: frozenset[str] = frozenset()
    passed: frozenset[str] = frozenset()
    problem: str = ""
    took_s: float = 0.0


def run_tests(tests: Collection[str], mutation: Mutation | None) -> Run:
    """Run tests, as `file::name`, against a copy of the sources with the mutation.

    Only in a process of its own, which has imported nothing of ours yet.
    """
    start_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rules-audit-") as folder:
        results = Path(folder) / "results.xml"
        if mutation is not None:
            _write_copy(mutation, Path(folder))
            os.environ["PYTHONPATH"] = folder  # for programs that tests start
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = f"{folder}/hypothesis"
        said = StringIO()
        with redirect_stdout(said):
            code = pytest.main(
                [
                    *(
                        "-q",
                        "--tb=native",
                        "--assert=plain",
                        f"-c{ROOT}/pyproject.toml",
                        f"-opythonpath={folder} {ROOT}",  # the copy before the sources
                        f"--junitxml={results}",
                    ),
                    *(f"--confcutdir={TESTS}", f"--timeout={TEST_LIMIT_S}"),
                    *("-p", "no:cacheprovider", "-p", "no:zonequake"),
                    *tests,
                ]
            )
        took_s = time.monotonic() - start_s
        if code not in (0, 1) or not results.exists():
            last = said.getvalue().strip().splitlines()[-1:]
            return Run(problem=f"pytest ended with {code}: {''.join(last)}", took_s=took_s)
        failed, passed, problem = _read(results)
    return Run(failed=failed, passed=passed - failed, problem=problem, took_s=took_s)


def _write_copy(mutation: Mutation, copy: Path) -> None:
    """The mutation's whole package: a folder on PYTHONPATH goes before the installed one."""
    where = place(mutation.function)
    package = next(folder for folder in where.path.parents if folder.name == where.package)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, copy / where.package, ignore=ignored)
    (copy / where.package / where.path.relative_to(package)).write_text(apply(mutation))


def _read(results: Path) -> tuple[frozenset[str], frozenset[str], str]:
    """Tests that failed and that passed, without parameters; and a name that nothing defines."""
    failed: set[str] = set()
    passed: set[str] = set()
    problem = ""
    for case in ElementTree.parse(results).iter("testcase"):
        name = case.get("name", "").partition("[")[0]
        ends = [*case.findall("failure"), *case.findall("error")]
        if case.find("skipped") is None:
            (failed if ends else passed).add(name)
        for end in ends:
            if end.get("message", "").startswith(("NameError", "ImportError", "UnboundLocalError")):
                problem = f"the mutated code is broken: {end.get('message')}"
    return frozenset(failed), frozenset(passed), problem


# ------------------------------------------------------------------------------------- The rows


def processes(jobs: int) -> ProcessPoolExecutor:
    """So many processes side by side, each for one mutation."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=1)


def unmutated(
    chosen: Sequence[Row], files: Mapping[str, Path], pool: ProcessPoolExecutor
) -> list[str]:
    """What is wrong with the rows' tests, which `files` has, while no rule is broken."""
    names = {name for row in chosen for name in row.tests}
    found = pool.submit(run_tests, _located(names, files), None).result()
    missing = names - found.passed - found.failed
    return [
        *([found.problem] if found.problem else []),
        *(f"{name} fails without a mutation" for name in sorted(found.failed)),
        *(f"{name} didn't run" for name in sorted(missing) if not found.problem),
    ]


def audit(
    chosen: Sequence[Row],
    mutations: Mapping[str, Mutation],
    files: Mapping[str, Path],
    pool: ProcessPoolExecutor,
) -> Iterator[tuple[Row, dict[str, Run]]]:
    """Each row with what its tests made of its mutations. A mutation of several rows runs once."""
    tests: dict[str, set[str]] = {}
    for row in chosen:
        for name in row.mutations:
            tests.setdefault(name, set()).update(row.tests)
    runs = {
        name: pool.submit(run_tests, _located(names, files), mutations[name])
        for name, names in tests.items()
    }
    for row in chosen:
        yield row, {name: runs[name].result() for name in row.mutations}


def _located(names: Collection[str], files: Mapping[str, Path]) -> list[str]:
    return sorted(f"{files[name]}::{name}" for name in names)


def verdicts(row: Row, runs: Mapping[str, Run]) -> list[str]:
    """What is wrong with a row whose mutations ran."""
    found = []
    for name, run in runs.items():
        if run.problem:
            found.append(f"{row.rule}: {name}: {run.problem}")
        elif not run.failed & set(row.tests):
            found.append(f"{row.rule}: no test notices {name}")
    noticed = frozenset[str]().union(*(run.failed for run in runs.values()))
    found += [
        f"{row.rule}: {test} notices none of its mutations"
        for test in row.tests
        if test not in noticed
    ]
    return found


def lines(row: Row, runs: Mapping[str, Run]) -> Iterator[str]:
    """One line for each mutation of a row: which tests noticed it, and how long they took."""
    for name, run in runs.items():
        by = ", ".join(sorted(run.failed & set(row.tests))) or run.problem or "UNNOTICED"
        yield f"{row.rule[:60]:<60} | {name:<44} | {run.took_s:>5.1f} s | {by}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", metavar="WORD", help="of rules or mutations; else all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs side by side")
    asked = parser.parse_args(arguments)
    table, mutations = all_rows(), load()
    chosen = [
        row
        for row in table
        if not asked.words or any(word in text for word in asked.words for text in _texts(row))
    ]
    found = problems(table, mutations)
    if not chosen:
        found.append("no row of docs/rules.md or docs/verdict-rules.md has any of these words")
    with processes(asked.jobs) as pool:
        found = found or unmutated(chosen, unit_tests(), pool)
        if not found:
            for row, runs in audit(chosen, mutations, unit_tests(), pool):
                print("\n".join(lines(row, runs)), flush=True)
                found += verdicts(row, runs)
    count = len({name for row in chosen for name in row.mutations})
    print(f"\n{len(chosen)} rows, {count} mutations: {len(found) or 'no'} problems")
    print("".join(f"- {problem}\n" for problem in found), end="")
    return 1 if found else 0


def _texts(row: Row) -> tuple[str, ...]:
    return (row.rule, *row.mutations)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
