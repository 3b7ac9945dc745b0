"""docs/rules.md and docs/verdict-rules.md name code, tests and mutations that exist; the first one
every document and every hole.
"""

from __future__ import annotations

from tests.rules_audit.mutations import load, problems
from tests.rules_audit.rules_table import PAGE, all_rows, rows

ROWS = rows(PAGE.read_text())


def test_each_rule_has_functions_tests_and_a_mutation_of_each_function_that_applies() -> None:
    assert problems(all_rows(), load()) == []


def test_every_document_has_a_section() -> None:
    documents = {
        "distribution-zones",
        "rebalance",
        "in-memory-reconfiguration",
        "high-availability",
        "update-counters",
    }
    assert documents < {row.section for row in ROWS}


def test_every_hole_has_a_row() -> None:
    numbers = {row.rule.partition(" ")[0] for row in ROWS}
    assert {int(number) for number in numbers if number.isdigit()} == set(range(1, 16))
