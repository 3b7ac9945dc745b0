"""docs/faults.md says of every fault what it is, and says nothing of faults that there aren't."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import get_args

import pytest

from zonequake_chaos.scenario import manifest
from zonequake_chaos.scenario.faults import AnyFault

PAGE = Path(__file__).parents[3] / "docs" / "faults.md"
ROWS = ["what", "how", "needs", "can't", "proof", "undone by", "scenarios", "targets"]
FAULTS = {str(each.__struct_config__.tag): each for each in get_args(AnyFault)}


def entries() -> dict[str, dict[str, str]]:
    """The rows of each fault's table, by the fault's type."""
    sections = re.split(r"^## `(\w+)`$", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {
        name: dict(re.findall(r"^\| ([a-z' ]+) \| (.+) \|$", text, flags=re.MULTILINE))
        for name, text in zip(sections[::2], sections[1::2], strict=True)
    }


@functools.cache
def users() -> dict[str, set[str]]:
    """The shipped scenarios that use each fault."""
    found: dict[str, set[str]] = {name: set() for name in FAULTS}
    for name in manifest.shipped():
        for fault in manifest.load(name).spec.faults:
            found[str(fault.__struct_config__.tag)].add(name)
    return found


def test_every_fault_has_an_entry_and_every_entry_is_a_fault() -> None:
    assert sorted(entries()) == sorted(FAULTS)


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_an_entry_answers_every_question(fault: str) -> None:
    found = entries()[fault]
    assert list(found) == ROWS
    assert all(answer.strip() for answer in found.values())


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_an_entry_names_scenarios_that_use_its_fault(fault: str) -> None:
    named = set(re.findall(r"`([a-z0-9-]+)`", entries()[fault]["scenarios"]))
    assert named <= users()[fault], "named, and without such a fault"
    assert bool(named) == bool(users()[fault]), f"there are {sorted(users()[fault])}"
