"""Checks a change in less than a minute: what CI would refuse first, and the unit tests beside it.

    scripts/check.py [TEST...]     these tests instead of those that it would choose

Format, lint, types, layers, words, and the unit tests that import a module which differs from
`main`, or that differ themselves; if nothing differs, those of `QUICK`. It doesn't replace
`make test`. Prints what failed, and ends with 1 if anything did.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
UNIT = "tests/unit"
QUICK = ("tests/unit/raft", "tests/unit/what_if")
"""Raft, and the operator's rules as what-if shows them: much in a few seconds."""
ROOTS = ("operator", "chaos", "workloads", "analysis")


def changed_files() -> list[str]:
    """What differs from `main` here, and what git doesn't know yet; paths from the root."""
    base = _git("merge-base", "HEAD", "main")
    differ = _git("diff", "--name-only", "--diff-filter=d", base[0] if base else "HEAD")
    return [*differ, *_git("ls-files", "--others", "--exclude-standard")]


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def module_of(path: str) -> str | None:
    """The name by which a file is imported; None if it isn't a module."""
    if not path.endswith(".py"):
        return None
    parts = Path(path).with_suffix("").parts
    parts = parts[1:] if parts[0] in ROOTS else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(source: str, module: str) -> bool:
    """Whether a file's text imports a module, by its full name or out of its package."""
    package, _, name = module.rpartition(".")
    whole, last = re.escape(module), re.escape(name)
    return bool(
        re.search(rf"^\s*(from|import) {whole}\b", source, re.MULTILINE)
        or re.search(rf"^\s*from {re.escape(package)} import .*\b{last}\b", source, re.MULTILINE)
    )


def chosen_tests(changed: Iterable[str], unit_tests: Iterable[Path]) -> list[str]:
    """The unit tests that changed, and those that import what changed; `QUICK` if none does."""
    changed = set(changed)
    modules = [module for path in changed if (module := module_of(path)) is not None]
    chosen = []
    for test in unit_tests:
        path = str(test.relative_to(ROOT))
        if path in changed or any(imports(test.read_text(), module) for module in modules):
            chosen.append(path)
    return sorted(chosen) or list(QUICK)


def run(words: Sequence[str]) -> tuple[str, float, subprocess.CompletedProcess[str]]:
    """Runs one program of the environment; what it was, how long it took, and how it ended."""
    start_s = time.monotonic()
    command = [str(BIN / words[0]), *words[1:]]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return words[0], time.monotonic() - start_s, done


def main(tests: list[str]) -> int:
    """Runs all checks, two at a time; the exit code."""
    tests = tests or chosen_tests(changed_files(), sorted((ROOT / UNIT).rglob("test_*.py")))
    print(f"unit tests: {', '.join(tests[:6])}{f' and {len(tests) - 6} more' * (len(tests) > 6)}")
    checks = (
        ("mypy",),
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        ("lint-imports",),
        ("python", "scripts/words.py"),
        ("pytest", "-q", "-n", "2", *tests),
    )
    failed = 0
    with ThreadPoolExecutor(2) as pool:
        for name, took_s, done in pool.map(run, checks):
            print(f"{name:<14} {took_s:5.1f} s  {'ok' if done.returncode == 0 else 'FAILED'}")
            if done.returncode != 0:
                failed = 1
                print(done.stdout)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
