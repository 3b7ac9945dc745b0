"""What `make check` chooses to run."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check import QUICK, ROOT, chosen_tests, imports, module_of

VOTES = "tests/unit/raft/test_votes.py"
UNIT_TESTS = [ROOT / VOTES, ROOT / "tests/unit/repository/test_check.py"]


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("workloads/zonequake_store/raft/core.py", "zonequake_store.raft.core"),
        ("analysis/zonequake_analysis/__init__.py", "zonequake_analysis"),
        ("tests/unit/raft/small_cluster.py", "tests.unit.raft.small_cluster"),
        ("docs/testing.md", None),
    ],
)
def test_a_file_has_the_name_by_which_it_is_imported(path: str, module: str | None) -> None:
    assert module_of(path) == module


@pytest.mark.parametrize(
    ("line", "does"),
    [
        ("from a.b.c import x", True),
        ("import a.b.c", True),
        ("    from a.b import c", True),
        ("from a.b import d, c as e", True),
        ("from a.b import cc", False),
        ("from a.b.cc import x", False),
        ("# import a.b.c", False),
    ],
)
def test_an_import_is_seen(line: str, does: bool) -> None:
    assert imports(f"x = 1\n{line}\n", "a.b.c") is does


def test_the_tests_that_import_what_changed_are_chosen() -> None:
    chosen = chosen_tests(["tests/unit/raft/small_cluster.py"], UNIT_TESTS)
    assert chosen == [VOTES]


def test_a_test_that_changed_is_chosen() -> None:
    assert chosen_tests([VOTES, "README.md"], UNIT_TESTS) == [VOTES]


def test_if_nothing_changed_the_quick_ones_are_chosen_and_they_are_there() -> None:
    assert chosen_tests([], UNIT_TESTS) == list(QUICK)
    assert all(Path(ROOT / folder).is_dir() for folder in QUICK)
