"""What a planted fault is, and where they all are.

Each module of this folder has a list PLANTED. A fault is planted into the shipped code by patches
that only tests apply; nothing in the shipped packages knows of it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import pytest

AREAS = ("raft", "reconfiguration", "storage", "counters", "transactions", "catch_up", "operator")
MODULES = (*AREAS, "resets", "commits", "operator_availability")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One fault. `what`: one line for docs/detection.md, what the faulty code does.

    `scenario`: the one of `zonequake simulate` whose random schedules look for it.
    """

    name: str
    area: str
    scenario: str
    what: str
    apply: Callable[[pytest.MonkeyPatch], None]


def all_planted() -> list[Planted]:
    """Every fault, by area, in the order of the files. Raises ValueError for a name used twice."""
    found: list[Planted] = []
    for module in MODULES:
        found += importlib.import_module(f"tests.simulation.planted.{module}").PLANTED
    found.sort(key=lambda fault: AREAS.index(fault.area))
    names = [fault.name for fault in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"planted faults need different names; used twice: {sorted(twice)}")
    return found
