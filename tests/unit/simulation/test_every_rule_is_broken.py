"""Every rule of the simulation is broken by something, so that none is there in vain."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.unit.simulation import facts_of_answers, facts_of_groups, facts_of_keys
from tests.unit.simulation.broken_rules import BROKEN
from zonequake_simulation.violation import Violation

ROOT = Path(__file__).parents[3]
SIMULATION = ROOT / "chaos" / "zonequake_simulation"
FILES = (facts_of_groups, facts_of_answers, facts_of_keys)
"""They fill `BROKEN` as they are imported."""

NOT_WRITTEN_OUT = {
    "a process never goes back",
    "configuration_token of a partition never falls",
    "change_trigger_revision of a partition never falls",
    "everything comes to rest without faults",
    "final operations end",
    "histories are linearizable",
    "one entry acknowledges one write",
    "reset_revision of a partition never falls",
    "the order that the store claims explains its answers",
}
"""Rules whose texts the code puts together, or hands on."""

OTHERS = {
    "all of a transaction is there, or nothing": "test_serializability.py",
    "a list that was read is a prefix of the list": "test_serializability.py",
    "one order explains all answers and real time": "test_serializability.py",
}
"""Rules that another file beside this one breaks."""


def rules_of_the_code() -> set[str]:
    """Returns the text of every rule."""
    calls = [
        call
        for path in SIMULATION.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("require", "Violation")
    ]
    written = {
        argument.value
        for call in calls
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }
    return written | NOT_WRITTEN_OUT


def found_in_detection() -> set[str]:
    """Returns the rules that broke under planted faults, as docs/detection.md says it."""
    rows = re.findall(r"^\| `.*\|$", (ROOT / "docs" / "detection.md").read_text(), re.MULTILINE)
    return {row.split(" | ")[3].strip() for row in rows}


CASES = [
    pytest.param(facts, rule, id=f"{rule} {number}")
    for rule, every in BROKEN.items()
    for number, facts in enumerate(every, 1)
]


@pytest.mark.parametrize(("facts", "rule"), CASES)
def test_a_rule_is_broken_by_wrong_facts_and_not_by_right_ones(facts: object, rule: str) -> None:
    assert callable(facts)
    facts(False)
    with pytest.raises(Violation) as broken:
        facts(True)
    assert broken.value.rule == rule


def test_every_rule_is_broken_by_a_planted_fault_or_by_made_up_facts() -> None:
    rules = rules_of_the_code()
    unbroken = rules - found_in_detection() - BROKEN.keys() - OTHERS.keys()
    assert unbroken == set()
    assert BROKEN.keys() | OTHERS.keys() <= rules, "of a rule that there is no more"


def test_rules_of_another_file_are_named_there() -> None:
    for rule, file in OTHERS.items():
        assert rule in (Path(__file__).parent / file).read_text()


def test_the_readme_counts_the_rules() -> None:
    assert f"checks {len(rules_of_the_code())} rules" in (ROOT / "README.md").read_text()
