"""One file of pure tests needs nothing but the packages that it tests."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[3]
LARGE = {"aiohttp", "hypothesis", "kopf", "kubernetes", "lmdb", "numpy", "pandas", "pyspark"}


def loaded_by(test: str) -> set[str]:
    """The top-level modules in a process that ran this test file."""
    code = (
        f"import pytest, sys; assert pytest.main(['-q', {test!r}]) == 0;"
        "print(*(name for name in sys.modules if '.' not in name))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_a_file_of_pure_tests_loads_nothing_large() -> None:
    assert loaded_by("tests/unit/raft/test_votes.py") & LARGE == set()


def test_a_file_that_loads_something_large_is_noticed() -> None:
    assert "hypothesis" in loaded_by("tests/unit/operator/test_operator_affinity.py")


@given(st.just(0.3))
@settings(max_examples=1)
def test_an_example_that_takes_long_on_a_busy_machine_is_no_failure(rest_s: float) -> None:
    time.sleep(rest_s)
    assert settings().deadline is None
