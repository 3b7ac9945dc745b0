"""The rules audit, of docs/rules.md, finds what it is there to find."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.rules_audit.audit import audit, lines, main, processes, unmutated, verdicts
from tests.rules_audit.mutations import Mutation, apply, load, problems
from tests.rules_audit.rules_table import Row, rows, unit_tests

ROW = Row(
    section="distribution-zones",
    rule="An up timer restarts",
    functions=("zonequake_operator.nodes.data_nodes._rearm",),
    tests=("test_it_restarts",),
    mutations=("keeps-its-start",),
)
KEEPS_ITS_START = Mutation(
    function=ROW.functions[0],
    replace="armed_ms=now_ms",
    by="armed_ms=timer.armed_ms if timer else now_ms",
)
TESTS = """
import pytest
from zonequake_operator.nodes.data_nodes import _rearm
from zonequake_operator.resources.model import Timer

def rearmed():
    return _rearm(Timer(nodes=frozenset("A"), armed_ms=1), frozenset("B"), 2)

def test_it_restarts():
    assert rearmed().armed_ms == 2

def test_it_holds_both():
    assert rearmed().nodes == frozenset("AB")

def test_it_cannot_fail():
    assert rearmed().armed_ms >= 0

def test_it_always_fails():
    assert rearmed().armed_ms == 3

@pytest.mark.skip(reason="tried out")
def test_it_is_skipped():
    assert rearmed().armed_ms == 2
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    path = tmp_path / "test_timers.py"
    path.write_text(TESTS)
    names = [line[4:-3] for line in TESTS.splitlines() if line.startswith("def test_")]
    return dict.fromkeys(names, path)


def audited(files: dict[str, Path], row: Row, **mutations: Mutation) -> list[str]:
    """What the rules audit has against one row."""
    named = {name.replace("_", "-"): mutation for name, mutation in mutations.items()}
    with processes(1) as pool:
        found = unmutated([row], files, pool)
        for one, runs in audit([row], named, files, pool):
            print("\n".join(lines(one, runs)))
            found += verdicts(one, runs)
    return found


def test_a_mutation_that_a_test_notices_is_no_problem(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert audited(files, ROW, keeps_its_start=KEEPS_ITS_START) == []
    assert "| test_it_restarts" in capsys.readouterr().out


def test_a_test_that_cannot_fail_is_reported(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    row = replace(ROW, tests=("test_it_cannot_fail",))
    assert audited(files, row, keeps_its_start=KEEPS_ITS_START) == [
        "An up timer restarts: no test notices keeps-its-start",
        "An up timer restarts: test_it_cannot_fail notices none of its mutations",
    ]
    assert "| UNNOTICED" in capsys.readouterr().out


def test_a_test_that_notices_nothing_is_reported_beside_one_that_does(
    files: dict[str, Path],
) -> None:
    row = replace(ROW, tests=("test_it_restarts", "test_it_holds_both"))
    assert audited(files, row, keeps_its_start=KEEPS_ITS_START) == [
        "An up timer restarts: test_it_holds_both notices none of its mutations"
    ]


def test_a_test_that_fails_or_does_not_run_without_a_mutation_is_no_evidence(
    files: dict[str, Path],
) -> None:
    row = replace(ROW, tests=("test_it_always_fails", "test_it_is_skipped"))
    with processes(1) as pool:
        assert unmutated([row], files, pool) == [
            "test_it_always_fails fails without a mutation",
            "test_it_is_skipped didn't run",
        ]


def test_a_mutation_that_only_breaks_the_code_is_no_evidence(files: dict[str, Path]) -> None:
    misspelled = Mutation(function=ROW.functions[0], replace="now_ms)", by="nom_ms)")
    (problem,) = audited(files, ROW, keeps_its_start=misspelled)
    assert "nom_ms" in problem


@pytest.mark.parametrize(
    ("mutation", "problem"),
    [
        (Mutation(function=ROW.functions[0], replace="armed_s", by=""), "found 0 times"),
        (Mutation(function=ROW.functions[0], replace="nodes", by=""), "found 5 times"),
        (Mutation(function=ROW.functions[0], replace="armed_ms=now_ms", by="=="), "invalid syntax"),
        (
            Mutation(function="zonequake_operator.nodes.data_nodes.arm", returns="None"),
            "defines arm 0 times",
        ),
    ],
)
def test_a_mutation_that_does_not_apply_is_a_problem(mutation: Mutation, problem: str) -> None:
    row = replace(ROW, tests=(next(iter(unit_tests())),))
    found = problems([row], {"keeps-its-start": mutation})
    assert any("keeps-its-start doesn't apply" in one and problem in one for one in found)


def test_a_row_that_names_what_does_not_exist_is_a_problem() -> None:
    nowhere = "zonequake_operator.nodes.data_nodes.arm"
    row = replace(ROW, functions=(nowhere,), tests=("test_of_nobody",), mutations=("a-word",))
    found = problems([row], {"keeps-its-start": KEEPS_ITS_START})
    assert [one for one in found if nowhere in one]
    assert [one for one in found if "no mutation a-word" in one]
    assert [one for one in found if "not one unit test is called test_of_nobody" in one]
    assert "no row names the mutation keeps-its-start" in found


def test_a_row_without_its_fourth_cell_is_refused() -> None:
    with pytest.raises(ValueError, match="found 3 cells"):
        rows("\n## `rebalance`\n| a rule | `plan.plan` | `test_it` |\n")


def test_a_mutation_of_several_lines_keeps_their_indentation() -> None:
    mutation = Mutation(
        function=ROW.functions[0],
        replace="if not nodes:\n    return timer",
        by="if nodes:\n    pass\nelse:\n    return None",
    )
    expected = "    if nodes:\n        pass\n    else:\n        return None\n    return Timer("
    assert expected in apply(mutation)


def test_what_always_returns_something_keeps_its_docstring() -> None:
    mutation = Mutation(
        function="zonequake_operator.rebalance.key_changes.must_reduce", returns="False"
    )
    text = apply(mutation).partition("def must_reduce")[2]
    assert text.index('"""') < text.index("    return False\n    if keys.bootstrap is None")


def test_words_that_no_row_has_end_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no such word"]) == 1
    assert "no row of docs/rules.md or docs/verdict-rules.md has any of" in capsys.readouterr().out


def test_a_mutation_that_stands_there_twice_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "mutations.yaml"
    one = "a-wrong-idea:\n  function: a.b\n  returns: 'True'\n"
    table.write_text(one)
    assert list(load(table)) == ["a-wrong-idea"]
    table.write_text(one + one)
    with pytest.raises(ValueError, match="a-wrong-idea twice, expected each name once"):
        load(table)
